/* The optimum of the Newton type criterion, P A P = V with A = E[hh'] and V = E[vv'].
 *
 * Section 2.2 of the paper: with gradient noise the inverse Hessian makes perturbations larger than they were,
 * H^-1 A H^-1 >= V, and P does not. Section 3.3: the equation has 2^n symmetric solutions, of which one is positive
 * definite, and the fit ends there from wherever it starts. The expectations are over finite sets, taken whole. */
#include "reference.h"
#include "support.h"

#include <float.h>

enum { N = 4, HESSIANS = 5, VECTORS = 6, PAIRS = HESSIANS * VECTORS, PROBLEMS = 50, STARTS = 12 };

/* All pairs (v, H_z v) of some v and some Hessians, so that H_z and v are independent. */
typedef struct population {
    double H[N * N];                 /* E[H_z] */
    double v[PAIRS][N], h[PAIRS][N]; /* h = H_z v */
    double A[N * N], V[N * N];       /* E[hh'], E[vv'] */
    double E[N * N];                 /* E[ee'], e = h - Hv */
} population;

static void random_symmetric(uint64_t *seed, double *M)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) M[i * N + j] = M[j * N + i] = random_normal(seed);
    }
}

/* H = U diag(e) U' with |e| from 0.05 to 2, and U random. */
static void make_hessian(uint64_t *seed, bool indefinite, double *H)
{
    double M[N * N], U[N * N], unused[N];
    random_symmetric(seed, M);
    ref_eigen(N, M, unused, U);
    memset(H, 0, N * N * sizeof *H);
    for (int k = 0; k < N; k++) {
        double e = 0.05 * pow(40, (double)k / (N - 1)) * (indefinite && k % 2 ? -1 : 1);
        for (int i = 0; i < N * N; i++) H[i] += e * U[i / N * N + k] * U[i % N * N + k];
    }
}

/* H_z = H + noise D_z, E[D_z] = 0; D_z is along one random direction u, D_z = d_z uu', or full. */
static void make_population(population *p, uint64_t seed, double noise, bool one_direction)
{
    double D[HESSIANS][N * N], mean[N * N] = {0}, u[N];
    *p = (population){.H = {0}};
    make_hessian(&seed, seed % 2, p->H);
    for (int i = 0; i < N; i++) u[i] = random_normal(&seed);
    for (int z = 0; z < HESSIANS; z++) {
        random_symmetric(&seed, D[z]);
        double d = D[z][0];
        for (int i = 0; one_direction && i < N * N; i++) D[z][i] = d * u[i / N] * u[i % N];
        for (int i = 0; i < N * N; i++) mean[i] += D[z][i] / HESSIANS;
    }
    for (int k = 0; k < VECTORS; k++) {
        for (int i = 0; i < N; i++) p->v[k][i] = (1 + i) * random_normal(&seed);
    }
    for (int k = 0; k < PAIRS; k++) {
        double Hz[N * N], error[N];
        memcpy(p->v[k], p->v[k % VECTORS], sizeof p->v[k]);
        for (int i = 0; i < N * N; i++) Hz[i] = p->H[i] + noise * (D[k / VECTORS][i] - mean[i]);
        ref_multiply(N, N, 1, Hz, p->v[k], p->h[k]);
        ref_multiply(N, N, 1, p->H, p->v[k], error);
        for (int i = 0; i < N; i++) error[i] = p->h[k][i] - error[i];
        for (int i = 0; i < N * N; i++) {
            p->V[i] += p->v[k][i / N] * p->v[k][i % N] / PAIRS;
            p->A[i] += p->h[k][i / N] * p->h[k][i % N] / PAIRS;
            p->E[i] += error[i / N] * error[i % N] / PAIRS;
        }
    }
}

/* Y <- X M X for symmetric X */
static void sandwich(const double *X, const double *M, double *Y)
{
    double half[N * N];
    ref_multiply(N, N, N, X, M, half);
    ref_multiply(N, N, N, half, X, Y);
}

/* Eigenvalues of V^-1/2 X A X V^-1/2, ascending: how much the preconditioner X amplifies perturbations, squared. */
static void amplification(const population *p, const double *X, double *values)
{
    double root[N * N], M[N * N], U[N * N];
    ref_power(N, p->V, -0.5, root);
    sandwich(X, p->A, M);
    sandwich(root, M, M);
    ref_eigen(N, M, values, U);
}

/* Rounding: H has the condition 40, V one of some hundreds, and each enters twice. */
static const double rounding = 1e7 * DBL_EPSILON;

static void the_inverse_hessian_amplifies_noise_and_p_does_not(void **state)
{
    (void)state;
    double smallest = HUGE_VAL, largest = 0, of_p = 0;
    for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
        population p;
        double inverse[N * N], P[N * N], values[N], D[N * N], expected[N * N], U[N * N];
        make_population(&p, seed, 0.1, false);
        assert_true(ref_invert(N, p.H, inverse));
        amplification(&p, inverse, values);
        smallest = fmin(smallest, values[0]);
        largest = fmax(largest, values[N - 1]);
        ref_matching(N, p.A, p.V, P);
        amplification(&p, P, values);
        for (int i = 0; i < N; i++) of_p = fmax(of_p, fabs(values[i] - 1));

        /* H^-1 A H^-1 - V = H^-1 E[ee'] H^-1: what is added is the noise, and nothing is taken away. */
        sandwich(inverse, p.A, D);
        sandwich(inverse, p.E, expected);
        double size = ref_spectral_norm(N, D);
        for (int i = 0; i < N * N; i++) {
            D[i] -= p.V[i];
            assert_true(fabs(D[i] - expected[i]) < rounding * size);
        }
        ref_eigen(N, D, values, U);
        assert_true(values[0] > -rounding * size);
    }
    print_message("%d problems: H^-1 A H^-1 is between %.3f and %.0f times V, P A P is V to %.1e\n", PROBLEMS, smallest,
                  largest, of_p);
    assert_true(smallest > 1 - rounding && largest > 10 && of_p < rounding);
}

/* Equality without noise; with noise along one direction, in all but one. */
static void without_noise_the_inverse_hessian_amplifies_nothing(void **state)
{
    (void)state;
    double worst = 0, along = HUGE_VAL;
    for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
        population p;
        double inverse[N * N], values[N];
        for (int noisy = 0; noisy < 2; noisy++) {
            make_population(&p, seed, noisy ? 0.1 : 0, true);
            assert_true(ref_invert(N, p.H, inverse));
            amplification(&p, inverse, values);
            for (int i = 0; i < N - noisy; i++) worst = fmax(worst, fabs(values[i] - 1));
            if (noisy) along = fmin(along, values[N - 1]);
        }
    }
    print_message("directions without noise: H^-1 A H^-1 is V to %.1e; along the noise at least %.3f times V\n", worst,
                  along);
    assert_true(worst < rounding && along > 1 + 1e-4);
}

static psgd_precond *make(const char *spec, double scale)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_parse(options, "criterion=newton,norm=second,step=0.5"));
    assert_ok(psgd_options_set_number(options, "pairs", PAIRS));
    assert_ok(psgd_options_set_number(options, "init-scale", scale));
    assert_ok(psgd_precond_create(NULL, spec, 1, (const int64_t[]){N}, PSGD_F64, options, &precond));
    psgd_options_free(options);
    return precond;
}

static void dense_p(const psgd_precond *precond, double *P)
{
    memset(P, 0, N * N * sizeof *P);
    for (int i = 0; i < N; i++) {
        P[i * N + i] = 1;
        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, P + i * N, P + i * N));
    }
}

/* max |X - Y| over max |Y| */
static double relative(const double *X, const double *Y)
{
    double worst = 0, size = 0;
    for (int i = 0; i < N * N; i++) {
        worst = fmax(worst, fabs(X[i] - Y[i]));
        size = fmax(size, fabs(Y[i]));
    }
    return worst / size;
}

/* Fits to the whole population. The Q they start from is what some random pairs have made of a multiple of I. */
static void assert_all_starts_end_at(const population *p, const double *closed, const char *name)
{
    static const char *const specs[] = {"tri", "tril", "dense"};
    double worst = 0, apart = 0;
    for (int s = 0; s < STARTS; s++) {
        uint64_t seed = 100 + (uint64_t)s;
        double P[N * N], v[N], h[N];
        psgd_precond *precond = make(specs[s % 3], pow(10, s % 4 - 1));
        for (int k = 0; k < 30; k++) {
            for (int i = 0; i < N; i++) {
                v[i] = random_normal(&seed);
                h[i] = random_normal(&seed);
            }
            assert_ok(psgd_precond_update(precond, v, h));
        }
        dense_p(precond, P);
        apart = fmax(apart, relative(P, closed));
        for (int k = 0; k < 3000; k++) assert_ok(psgd_precond_update_pairs(precond, PAIRS, p->v, p->h));
        dense_p(precond, P);
        worst = fmax(worst, relative(P, closed));
        psgd_precond_free(precond);
    }
    print_message("%s: %d starts, up to %.0e from the optimum, end at it to %.1e\n", name, STARTS, apart, worst);
    assert_true(worst < 1e-9 && apart > 1);
}

/* The solution with these signs of the roots, V^1/2 U diag(+-d^-1/2) U' V^1/2 with U diag(d) U' = V^1/2 A V^1/2. */
static void solution(const population *p, unsigned minus, double *P)
{
    double root[N * N], M[N * N], d[N], U[N * N], signed_root[N * N] = {0};
    ref_power(N, p->V, 0.5, root);
    sandwich(root, p->A, M);
    ref_eigen(N, M, d, U);
    for (int k = 0; k < N; k++) {
        double x = (minus >> k & 1 ? -1 : 1) / sqrt(d[k]);
        for (int i = 0; i < N * N; i++) signed_root[i] += x * U[i / N * N + k] * U[i % N * N + k];
    }
    sandwich(root, signed_root, P);
}

/* tr(PA + P^-1 V), which the fit minimises over positive definite P. */
static double criterion(const population *p, const double *P)
{
    double inverse[N * N], sum = 0;
    assert_true(ref_invert(N, P, inverse));
    for (int i = 0; i < N * N; i++) sum += P[i] * p->A[i] + inverse[i] * p->V[i];
    return sum;
}

static void one_of_the_solutions_is_positive_definite_and_all_fits_end_there(void **state)
{
    (void)state;
    static population p;
    double closed[N * N];
    uint64_t seed = 77;
    make_population(&p, 3, 0.1, false);
    for (unsigned minus = 0; minus < 1u << N; minus++) {
        double P[N * N], PAP[N * N], values[N], U[N * N];
        int negative = 0, expected = 0;
        solution(&p, minus, P);
        sandwich(P, p.A, PAP);
        assert_true(relative(PAP, p.V) < rounding);
        ref_eigen(N, P, values, U);
        for (int k = 0; k < N; k++) {
            negative += values[k] < 0;
            expected += minus >> k & 1;
        }
        assert_int_equal(negative, expected); /* none: positive definite, only for minus == 0 */
    }
    ref_matching(N, p.A, p.V, closed);
    assert_all_starts_end_at(&p, closed, "distinct eigenvalues");
    for (int k = 0; k < 200; k++) { /* P^1/2 exp(M) P^1/2 for random M is any positive definite matrix */
        double M[N * N], values[N], U[N * N], X[N * N] = {0}, root[N * N];
        random_symmetric(&seed, M);
        ref_eigen(N, M, values, U);
        for (int j = 0; j < N; j++) {
            for (int i = 0; i < N * N; i++) X[i] += exp(0.1 * values[j]) * U[i / N * N + j] * U[i % N * N + j];
        }
        ref_power(N, closed, 0.5, root);
        sandwich(root, X, X);
        assert_true(criterion(&p, X) > criterion(&p, closed));
    }
}

/* H = 2I and V = I: P = I/2. The paper asks for distinct eigenvalues; without them the indefinite
 * solutions are no longer finitely many, for any reflection I - 2uu' over two is one, but P is as unique as before. */
static void equal_eigenvalues_leave_p_unique(void **state)
{
    (void)state;
    static population p;
    const double u[2][N] = {{0.6, 0.8, 0, 0}, {0.5, -0.5, 0.5, 0.5}};
    double half[N * N] = {0};
    for (int k = 0; k < N; k++) { /* the other pairs are zero, and count in the means */
        p.A[k * N + k] = 4;
        p.V[k * N + k] = 1;
        half[k * N + k] = 0.5;
        p.v[k][k] = sqrt(PAIRS);
        p.h[k][k] = 2 * sqrt(PAIRS);
    }
    for (int r = 0; r < 2; r++) {
        double P[N * N], PAP[N * N], values[N], U[N * N];
        for (int i = 0; i < N * N; i++) P[i] = half[i] - u[r][i / N] * u[r][i % N];
        sandwich(P, p.A, PAP);
        ref_eigen(N, P, values, U);
        assert_true(relative(PAP, p.V) < 8 * DBL_EPSILON && values[0] < 0);
    }
    assert_all_starts_end_at(&p, half, "equal eigenvalues");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_inverse_hessian_amplifies_noise_and_p_does_not),
        cmocka_unit_test(without_noise_the_inverse_hessian_amplifies_nothing),
        cmocka_unit_test(one_of_the_solutions_is_positive_definite_and_all_fits_end_there),
        cmocka_unit_test(equal_eigenvalues_leave_p_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
