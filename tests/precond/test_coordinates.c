/* What preconditioning has to do with coordinates. Sections 2.2 and 5.2 of the paper: preconditioned SGD is SGD on
 * transformed parameters and features. Section 3.2: without damping a Fisher type P follows a change of coordinates,
 * with damping it does not.
 *
 * The problem of the first two is a linear layer y = Theta x with the loss mean_i log cosh(c_i'y_i - t_i). The gradient
 * of a sample is tanh(..) c x', so transformed coordinates are transformed c and x, and SGD there sees nothing of P. */
#include "reference.h"
#include "support.h"

#include <float.h>

enum { OUT = 2, IN = 3, SIZE = OUT * IN, SAMPLES = 12, BATCH = 4, FITS = 200, STEPS = 300 };

typedef struct samples {
    double a[SAMPLES][SIZE]; /* c x' */
    double t[SAMPLES];
} samples;

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Gradient and Hessian-vector product of the batch of a step; v and h may be NULL. */
static void differentiate(const samples *s, int step, const double *theta, double *g, const double *v, double *h)
{
    memset(g, 0, SIZE * sizeof *g);
    if (h) memset(h, 0, SIZE * sizeof *h);
    for (int k = 0; k < BATCH; k++) {
        int sample = (step * BATCH + k) % SAMPLES;
        const double *a = s->a[sample];
        double slope = tanh(dot(SIZE, a, theta) - s->t[sample]);
        for (int i = 0; i < SIZE; i++) {
            g[i] += slope * a[i] / BATCH;
            if (h) h[i] += (1 - slope * slope) * dot(SIZE, a, v) * a[i] / BATCH;
        }
    }
}

static void outer(const double *c, const double *x, double *a)
{
    for (int i = 0; i < SIZE; i++) a[i] = c[i / IN] * x[i % IN];
}

typedef struct layer {
    samples samples;
    double c[SAMPLES][OUT], x[SAMPLES][IN]; /* the last feature is 1 */
} layer;

static void make_layer(layer *l)
{
    uint64_t seed = 17;
    for (int k = 0; k < SAMPLES; k++) {
        for (int i = 0; i < OUT; i++) l->c[k][i] = (0.5 + i) * random_normal(&seed);
        for (int i = 0; i < IN; i++) l->x[k][i] = i < IN - 1 ? 1 + (0.3 + i) * random_normal(&seed) : 1;
        outer(l->c[k], l->x[k], l->samples.a[k]);
        l->samples.t[k] = random_normal(&seed);
    }
}

static psgd_optimizer *make(const char *method, const char *text)
{
    psgd_options *options;
    psgd_optimizer *optimizer;
    psgd_tensor tensor = {.ndim = 2, .shape = (const int64_t[]){OUT, IN}};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "lr", "0.2"));
    if (text) assert_ok(psgd_options_parse(options, text));
    assert_ok(psgd_optimizer_create(NULL, method, 1, &tensor, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

/* A Newton type optimizer after some steps with Hessian-vector products; its P stays as it is in steps without. */
static psgd_optimizer *make_fitted(const char *group, const layer *l, double *theta)
{
    char text[100];
    snprintf(text, sizeof text, "defaults=paper,criterion=newton,step=0.05,group=%s", group);
    psgd_optimizer *optimizer = make("psgd", text);
    for (int i = 0; i < SIZE; i++) theta[i] = 0.3 * i - 0.5;
    for (int k = 0; k < FITS; k++) {
        double g[SIZE], v[SIZE], h[SIZE];
        assert_ok(psgd_optimizer_draw(optimizer, 0, v));
        differentiate(&l->samples, k, theta, g, v, h);
        assert_ok(psgd_optimizer_step(optimizer, (void *[]){theta}, (const void *[]){g}, (const void *[]){v},
                                      (const void *[]){h}));
    }
    return optimizer;
}

static void step_without_product(psgd_optimizer *optimizer, const samples *s, int k, double *theta)
{
    const void *none[] = {NULL};
    double g[SIZE];
    differentiate(s, k, theta, g, NULL, NULL);
    assert_ok(psgd_optimizer_step(optimizer, (void *[]){theta}, (const void *[]){g}, none, none));
}

static void dense_p(const psgd_precond *precond, int64_t n, double *P)
{
    memset(P, 0, (size_t)(n * n) * sizeof *P);
    for (int64_t i = 0; i < n; i++) {
        P[i * n + i] = 1;
        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, P + i * n, P + i * n)); /* P' = P */
    }
}

static double largest_difference(int64_t n, const double *x, const double *y)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(x[i] - y[i]));
    return worst;
}

/* Rounding of 300 steps that each contract: a few hundred units in the last place of numbers around one. */
static const double rounding = 1000 * DBL_EPSILON;

/* A sample's <a, theta> is <P^1/2 a, P^-1/2 theta>. */
static void preconditioned_sgd_is_sgd_on_the_parameters_over_the_root_of_p(void **state)
{
    (void)state;
    static layer l;
    samples turned;
    double theta[SIZE], start[SIZE], other[SIZE], back[SIZE], worst = 0, condition;
    double P[SIZE * SIZE], root[SIZE * SIZE], inverse[SIZE * SIZE];
    make_layer(&l);
    psgd_optimizer *psgd = make_fitted("sum(tri:6)", &l, theta), *sgd = make("sgd", NULL);
    dense_p(psgd_optimizer_precond(psgd, 0), SIZE, P);
    ref_power(SIZE, P, 0.5, root);
    ref_power(SIZE, P, -0.5, inverse);
    turned = l.samples;
    for (int k = 0; k < SAMPLES; k++) ref_multiply(SIZE, SIZE, 1, root, l.samples.a[k], turned.a[k]);
    ref_multiply(SIZE, SIZE, 1, inverse, theta, other);
    memcpy(start, theta, sizeof start);
    for (int k = 0; k < STEPS; k++) {
        step_without_product(psgd, &l.samples, k, theta);
        step_without_product(sgd, &turned, k, other);
        ref_multiply(SIZE, SIZE, 1, root, other, back);
        worst = fmax(worst, largest_difference(SIZE, theta, back));
    }
    assert_ok(psgd_precond_condition(psgd_optimizer_precond(psgd, 0), &condition));
    print_message("%d steps of PSGD against SGD on P^-1/2 theta: %.1e (condition of P %.0f, theta moved by %.2f)\n",
                  STEPS, worst, condition * condition, largest_difference(SIZE, theta, start));
    assert_true(worst < rounding && condition > 2 && largest_difference(SIZE, theta, start) > 0.1);
    psgd_optimizer_free(psgd);
    psgd_optimizer_free(sgd);
}

/* Theta' = Q1^-T Theta Q2^-1, x' = Q2 x and y' = Q1^-T y = Theta'x'. The loss of y' has c'y = (Q1 c)'y'. */
static double layer_difference(const char *group, double *condition)
{
    static layer l;
    samples turned;
    double theta[SIZE], other[SIZE], half[SIZE], back[SIZE], Q1[OUT * OUT], Q2[IN * IN], worst = 0;
    double Q1t[OUT * OUT], Q1t_inverse[OUT * OUT], Q2_inverse[IN * IN];
    make_layer(&l);
    psgd_optimizer *psgd = make_fitted(group, &l, theta), *sgd = make("sgd", NULL);
    const psgd_precond *precond = psgd_optimizer_precond(psgd, 0);
    assert_ok(psgd_precond_condition(precond, condition));
    assert_ok(psgd_precond_factor(precond, 0, Q1));
    assert_ok(psgd_precond_factor(precond, 1, Q2));
    assert_true(largest_difference(1, Q1, Q1 + 3) > 0.1); /* far from a multiple of I */
    ref_transpose(OUT, OUT, Q1, Q1t);
    assert_true(ref_invert(OUT, Q1t, Q1t_inverse) && ref_invert(IN, Q2, Q2_inverse));
    ref_multiply(OUT, OUT, IN, Q1t_inverse, theta, half);
    ref_multiply(OUT, IN, IN, half, Q2_inverse, other);
    turned = l.samples;
    for (int k = 0; k < SAMPLES; k++) {
        double c[OUT], x[IN], y[OUT], y_turned[OUT], expected[OUT];
        ref_multiply(OUT, OUT, 1, Q1, l.c[k], c);
        ref_multiply(IN, IN, 1, Q2, l.x[k], x);
        outer(c, x, turned.a[k]);
        ref_multiply(OUT, IN, 1, theta, l.x[k], y);
        ref_multiply(OUT, IN, 1, other, x, y_turned);
        ref_multiply(OUT, OUT, 1, Q1t_inverse, y, expected);
        worst = fmax(worst, largest_difference(OUT, y_turned, expected));
    }
    for (int k = 0; k < STEPS; k++) {
        step_without_product(psgd, &l.samples, k, theta);
        step_without_product(sgd, &turned, k, other);
        ref_multiply(OUT, OUT, IN, Q1t, other, half);
        ref_multiply(OUT, IN, IN, half, Q2, back);
        worst = fmax(worst, largest_difference(SIZE, theta, back));
    }
    psgd_optimizer_free(psgd);
    psgd_optimizer_free(sgd);
    return worst;
}

static void kron_is_sgd_on_transformed_features(void **state)
{
    (void)state;
    static const char *const groups[] = {"kron(tri,tri)", "kron(dense,tri)", "scan", "scaw"};
    for (int i = 0; i < 4; i++) {
        double condition, worst = layer_difference(groups[i], &condition);
        print_message("%s: %d steps against SGD on x' = Q2 x, y' = Q1^-T y: %.1e (condition of Q %.1f)\n", groups[i],
                      STEPS, worst, condition);
        assert_true(worst < rounding && condition > 1.5);
    }
}

enum { N = 3, GRADIENTS = 4, PAIRS = 2 * N * GRADIENTS };

static const double S[N * N] = {2, 0.5, 0, -0.3, 0.7, 0.2, 0, 0.4, 1.5}; /* theta = S theta~, so g~ = S'g */

typedef struct problem {
    bool turned;         /* gradients are those of theta~ */
    bool v_follows;      /* and v is S^-1 v, as theta is: otherwise E[vv'] = I there, too */
    double loss, lambda; /* the loss is multiplied by the first; damping */
} problem;

/* P of the fit to all pairs of a v = +-sqrt(n) e_k and a gradient, compared with the closed form. */
static void fit(problem of, double *P)
{
    static double v[PAIRS][N], g[PAIRS][N];
    double St[N * N], inverse[N * N], A[N * N] = {0}, V[N * N] = {0}, closed[N * N];
    uint64_t seed = 9;
    ref_transpose(N, N, S, St);
    assert_true(ref_invert(N, S, inverse));
    for (int k = 0; k < GRADIENTS; k++) {
        double x[N];
        for (int i = 0; i < N; i++) x[i] = of.loss * (0.3 + 0.5 * i) * random_normal(&seed);
        for (int j = 0; j < 2 * N; j++) {
            double e[N] = {0};
            e[j / 2] = j % 2 ? sqrt(N) : -sqrt(N);
            memcpy(g[k * 2 * N + j], x, sizeof x);
            memcpy(v[k * 2 * N + j], e, sizeof e);
            if (of.turned) ref_multiply(N, N, 1, St, x, g[k * 2 * N + j]);
            if (of.turned && of.v_follows) ref_multiply(N, N, 1, inverse, e, v[k * 2 * N + j]);
        }
    }
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_parse(options, "criterion=fisher,norm=second,step=0.5"));
    assert_ok(psgd_options_set_number(options, "damping", of.lambda));
    assert_ok(psgd_options_set_number(options, "pairs", PAIRS));
    assert_ok(psgd_precond_create(NULL, "tri", 1, (const int64_t[]){N}, PSGD_F64, options, &precond));
    psgd_options_free(options);
    for (int k = 0; k < 6000; k++) assert_ok(psgd_precond_update_pairs(precond, PAIRS, v, g));
    dense_p(precond, N, P);
    psgd_precond_free(precond);

    for (int k = 0; k < PAIRS; k++) {
        for (int i = 0; i < N * N; i++) {
            double vv = v[k][i / N] * v[k][i % N] / PAIRS;
            V[i] += vv;
            A[i] += g[k][i / N] * g[k][i % N] / PAIRS + of.lambda * of.lambda * vv;
        }
    }
    ref_matching(N, A, V, closed);
    assert_true(largest_difference(N * N, P, closed) < 1e-11 * ref_spectral_norm(N, closed));
}

/* ||X - Y|| / ||Y|| in the largest entry, with X multiplied by scale, or replaced by S X S'. */
static double relative(const double *X, double scale, bool turned, const double *Y)
{
    double T[N * N], St[N * N], half[N * N], size = 0;
    memcpy(T, X, sizeof T);
    if (turned) {
        ref_transpose(N, N, S, St);
        ref_multiply(N, N, N, S, X, half);
        ref_multiply(N, N, N, half, St, T);
    }
    for (int i = 0; i < N * N; i++) {
        T[i] *= scale;
        size = fmax(size, fabs(Y[i]));
    }
    return largest_difference(N * N, T, Y) / size;
}

static void damping_costs_the_fisher_type_its_scale_invariance(void **state)
{
    (void)state;
    const double exact = 1e-10, lambdas[] = {0, 0.3};
    for (int d = 0; d < 2; d++) {
        double P[N * N], P_follows[N * N], P_normal[N * N], P_loss[N * N], square[N * N], normal_square[N * N];
        fit((problem){.loss = 1, .lambda = lambdas[d]}, P);
        fit((problem){.loss = 1, .lambda = lambdas[d], .turned = true, .v_follows = true}, P_follows);
        fit((problem){.loss = 1, .lambda = lambdas[d], .turned = true}, P_normal);
        fit((problem){.loss = 10, .lambda = lambdas[d]}, P_loss);
        ref_multiply(N, N, N, P, P, square);
        ref_multiply(N, N, N, P_normal, P_normal, normal_square);
        double follows = relative(P_follows, 1, true, P), loss = relative(P_loss, 10, false, P);
        double root = relative(P_normal, 1, true, P), whole = relative(normal_square, 1, true, square);
        print_message("damping %.1f: S P~ S' against P, v = S v~: %.1e; v~ ~ N(0, I): %.1e, P^2 there: %.1e; "
                      "Pg with ten times the loss: %.1e\n",
                      lambdas[d], follows, root, whole, loss);
        assert_true(root > 0.1); /* a root cannot follow S without v */
        if (d == 0) assert_true(follows < exact && whole < exact && loss < exact);
        if (d == 1) assert_true(follows > 0.01 && whole > 0.01 && loss > 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preconditioned_sgd_is_sgd_on_the_parameters_over_the_root_of_p),
        cmocka_unit_test(kron_is_sgd_on_transformed_features),
        cmocka_unit_test(damping_costs_the_fisher_type_its_scale_invariance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
