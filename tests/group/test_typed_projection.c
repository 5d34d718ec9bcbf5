/* What every group's R obeys, on the ops themselves: the projection is orthogonal, R is the relative gradient of the
 * criterion, and what is said of R without forming it is true of R as a matrix. */
#include "specs.h"
#include "support.h"

#include "group/group.h"
#include "la/la.h"

#include <float.h>

static const double EPSILON = REAL_EPSILON;

typedef struct subject {
    const char *spec;
    workspace work;
    spec_tree tree;
    group *root;
    int64_t n;
    real *h, *v, *A, *B; /* [n] */
    uint64_t seed;
} subject;

static real *reals(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(real));
}

static void fill(uint64_t *seed, int64_t count, real *x)
{
    for (int64_t i = 0; i < count; i++) x[i] = (real)random_normal(seed);
}

/* A = Qh, B = Q^-T v; returns the criterion h'Ph + v'P^-1 v. */
static double form(subject *s)
{
    memcpy(s->A, s->h, (size_t)s->n * sizeof(real));
    memcpy(s->B, s->v, (size_t)s->n * sizeof(real));
    s->root->ops->act(s->root, ACT_MUL, view_rows(s->A, s->n, 1));
    s->root->ops->act(s->root, ACT_SOLVE_T, view_rows(s->B, s->n, 1));
    return la_dot(s->n, s->A, s->A) + la_dot(s->n, s->B, s->B);
}

static void visit_units(subject *s, group_unit visit)
{
    group_pair pair = {.A = view_rows(s->A, s->n, 1), .B = view_rows(s->B, s->n, 1)};
    pair.h = view_rows(s->h, s->n, 1);
    pair.v = view_rows(s->v, s->n, 1);
    assert_ok(psgd__group_units(s->root, &pair, visit, s));
}

static psgd_status move_unit(group *unit, const group_pair *pair, void *data)
{
    (void)data;
    real *R = reals(unit->ops->r_size(unit));
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    double size = (double)unit->ops->r_spectral(unit, R);
    real c = (real)(size > 0 ? 0.2 / size : 0);
    assert_true(unit->ops->inside(unit, c, R));
    unit->ops->retract(unit, c, R);
    free(R);
    return PSGD_OK;
}

static void start(subject *s, const char *source, int ndim, const int64_t *shape, uint64_t seed)
{
    *s = (subject){.spec = source, .seed = seed};
    assert_ok(psgd__spec_parse(NULL, source, &s->tree));
    assert_ok(psgd__spec_fit(&s->tree, ndim, shape));
    psgd__work_begin(&s->work);
    group_args args = {.pairs = 1, .work = &s->work};
    assert_ok(psgd__group_create(&args, &s->tree, &s->root));
    assert_ok(psgd__work_commit(&s->work));
    s->n = s->root->n;
    s->root->ops->reset(s->root, 1);
    s->h = reals(s->n);
    s->v = reals(s->n);
    s->A = reals(s->n);
    s->B = reals(s->n);
    for (int k = 0; k < 5; k++) {
        fill(&s->seed, s->n, s->h);
        fill(&s->seed, s->n, s->v);
        form(s);
        visit_units(s, move_unit);
    }
}

static void stop(subject *s)
{
    psgd__group_free(s->root);
    psgd__spec_free(&s->tree);
    psgd__work_free(&s->work);
    free(s->h);
    free(s->v);
    free(s->A);
    free(s->B);
}

/* R as a matrix, by its product with I. */
static real *dense_r(const group *unit, const real *R, bool transpose)
{
    int64_t n = unit->n;
    real *M = reals(n * n);
    for (int64_t i = 0; i < n; i++) M[i * n + i] = 1;
    unit->ops->r_mul(unit, R, transpose, view_columns(M, n, n));
    return M;
}

/* AA' - BB' over all fibres. */
static double *outer(const group_pair *pair)
{
    int64_t n = pair->A.n;
    double *S = calloc((size_t)(n * n) + 1, sizeof(double));
    for (int side = 0; side < 2; side++) {
        view X = side ? pair->B : pair->A;
        for (int64_t p = 0; p < X.blocks * X.outer; p++) {
            for (int64_t j = 0; j < X.inner; j++) {
                const real *x = view_matrix(&X, p) + j;
                for (int64_t i = 0; i < n * n; i++) {
                    S[i] += (side ? -1 : 1) * (double)x[i / n * X.inner] * (double)x[i % n * X.inner];
                }
            }
        }
    }
    return S;
}

static double product(int64_t n, const double *S, const real *G)
{
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++) sum += S[i] * (double)G[i];
    return sum;
}

/* A tile is copied out of A, and the next tile over it: its group is tested as an instance of its own. */
static bool is_copied(const subject *s, const group_pair *pair)
{
    return pair->A.x < s->A || pair->A.x >= s->A + s->n;
}

/* Another element of the algebra: the projection of random fibres of the same form. */
static real *random_element(subject *s, const group *unit, const group_pair *pair)
{
    real *R = reals(unit->ops->r_size(unit)), *A = reals(s->n), *B = reals(s->n);
    group_pair other = *pair;
    fill(&s->seed, s->n, A);
    fill(&s->seed, s->n, B);
    other.A.x = A + (pair->A.x - s->A);
    other.B.x = B + (pair->B.x - s->B);
    unit->ops->project(unit, other.A, other.B, -1, false, R);
    free(A);
    free(B);
    return R;
}

/* What rounding may do to an entry of R: its terms are no larger than the energy of A and B. */
static double rounding(const group_pair *pair)
{
    return 16 * EPSILON * (la_view_energy(pair->A) + la_view_energy(pair->B));
}

static double frobenius(int64_t n, const real *M)
{
    return sqrt(la_dot(n * n, M, M));
}

static void assert_near(const subject *s, const group *unit, const char *what, double a, double b, double tolerance)
{
    if (fabs(a - b) <= tolerance) return;
    print_error("%s, at %s:%lld: %s: %.17g and %.17g\n", s->spec, unit->ops->kind.name, (long long)unit->n, what, a, b);
    fail();
}

/* <S - R, G> = 0 for R = Pi(S) and every G of the algebra, R itself among them; so Pi is an orthogonal projection, and
 * idempotent. */
static psgd_status check_projection(group *unit, const group_pair *pair, void *data)
{
    subject *s = data;
    if (is_copied(s, pair)) return PSGD_OK;
    int64_t n = unit->n;
    real *R = reals(unit->ops->r_size(unit)), *G = random_element(s, unit, pair);
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    real *Rd = dense_r(unit, R, false), *Rt = dense_r(unit, R, true), *Gd = dense_r(unit, G, false);
    double *S = outer(pair), *wide = calloc((size_t)(n * n) + 1, sizeof(double)), max = 0;
    double tolerance = rounding(pair);
    for (int64_t i = 0; i < n * n; i++) {
        wide[i] = (double)Rd[i];
        max = fmax(max, fabs((double)Rd[i]));
        assert_near(s, unit, "R' by r_mul_t", (double)Rt[i % n * n + i / n], (double)Rd[i], tolerance);
    }
    assert_near(s, unit, "<S, G>", product(n, S, Gd), product(n, wide, Gd), tolerance * (1 + frobenius(n, Gd)));
    assert_near(s, unit, "<S, R>", product(n, S, Rd), product(n, wide, Rd), tolerance * (1 + frobenius(n, Rd)));
    assert_near(s, unit, "max |R|", (double)unit->ops->r_max(unit, R), max, tolerance);
    free(R);
    free(G);
    free(Rd);
    free(Rt);
    free(Gd);
    free(S);
    free(wide);
    return PSGD_OK;
}

/* r_spectral is no smaller than what R does to any vector, and no larger than the Frobenius norm. */
static psgd_status check_spectral(group *unit, const group_pair *pair, void *data)
{
    subject *s = data;
    int64_t n = unit->n;
    real *R = reals(unit->ops->r_size(unit)), *x = reals(n);
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    real *Rd = dense_r(unit, R, false);
    double bound = (double)unit->ops->r_spectral(unit, R), gain = 0;
    fill(&s->seed, n, x);
    for (int k = 0; k < 30; k++) {
        double norm = sqrt(la_dot(n, x, x));
        if (norm == 0) break;
        la_scale(n, (real)(1 / norm), x);
        unit->ops->r_mul(unit, R, false, view_rows(x, n, 1));
        gain = sqrt(la_dot(n, x, x));
        unit->ops->r_mul(unit, R, true, view_rows(x, n, 1));
    }
    double slack = rounding(pair) * (double)n;
    if (gain > bound + slack || bound > frobenius(n, Rd) + slack) {
        print_error("%s, at %s: |Rx| = %g, bound %g, Frobenius %g\n", s->spec, unit->ops->kind.name, gain, bound,
                    frobenius(n, Rd));
        fail();
    }
    free(R);
    free(Rd);
    free(x);
    return PSGD_OK;
}

typedef struct memory {
    real *kept;
    int64_t at;
    bool save;
} memory;

static void copy_state(void *data, real *x, int64_t count)
{
    memory *m = data;
    real *kept = m->kept + m->at;
    memcpy(m->save ? kept : x, m->save ? x : kept, (size_t)count * sizeof(real));
    m->at += count;
}

static void count_state(void *data, real *x, int64_t count)
{
    (void)x;
    *(int64_t *)data += count;
}

static double criterion_at(subject *s, group *unit, real c, const real *G, memory *kept)
{
    int64_t size = unit->ops->r_size(unit);
    real *copy = reals(size), *A = reals(s->n), *B = reals(s->n);
    memcpy(copy, G, (size_t)size * sizeof(real));
    memcpy(A, s->A, (size_t)s->n * sizeof(real));
    memcpy(B, s->B, (size_t)s->n * sizeof(real));
    assert_true(unit->ops->inside(unit, c, copy));
    unit->ops->retract(unit, c, copy);
    double value = form(s);
    *kept = (memory){.kept = kept->kept};
    psgd__group_visit(unit, copy_state, kept);
    memcpy(s->A, A, (size_t)s->n * sizeof(real));
    memcpy(s->B, B, (size_t)s->n * sizeof(real));
    free(copy);
    free(A);
    free(B);
    return value;
}

/* d/dc of the criterion at (I - c G) Q is -2 <R, G>. */
static psgd_status check_gradient(group *unit, const group_pair *pair, void *data)
{
    subject *s = data;
    if (is_copied(s, pair)) return PSGD_OK;
    int64_t count = 0;
    psgd__group_visit(unit, count_state, &count);
    memory kept = {.kept = reals(count), .save = true};
    psgd__group_visit(unit, copy_state, &kept);

    real *R = reals(unit->ops->r_size(unit)), *G = random_element(s, unit, pair);
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    real *Rd = dense_r(unit, R, false), *Gd = dense_r(unit, G, false);
    double size = frobenius(unit->n, Gd), here = la_dot(s->n, s->A, s->A) + la_dot(s->n, s->B, s->B);
    if (size > 0) {
        double step = cbrt(EPSILON) / size;
        double up = criterion_at(s, unit, (real)step, G, &kept), down = criterion_at(s, unit, (real)-step, G, &kept);
        double expected = -2 * la_dot(unit->n * unit->n, Rd, Gd);
        assert_near(s, unit, "slope of the criterion", (up - down) / (2 * step), expected,
                    100 * cbrt(EPSILON) * cbrt(EPSILON) * here * size);
    }
    free(R);
    free(G);
    free(Rd);
    free(Gd);
    free(kept.kept);
    return PSGD_OK;
}

static void for_all(group_unit check)
{
    uint64_t seed = 5;
    char source[SPEC_ROOM];
    int64_t shape[4];
    subject s;
    for (int i = 0; i < instance_count; i++) {
        start(&s, instances[i].spec, instances[i].ndim, instances[i].shape, next_random(&seed));
        form(&s);
        visit_units(&s, check);
        stop(&s);
    }
    for (int k = 0; k < 200; k++) {
        int ndim = random_spec(&seed, 60, source, shape);
        start(&s, source, ndim, shape, next_random(&seed));
        form(&s);
        visit_units(&s, check);
        stop(&s);
    }
}

static void projection_is_orthogonal(void **state)
{
    (void)state;
    for_all(check_projection);
}

static void spectral_is_a_bound(void **state)
{
    (void)state;
    for_all(check_spectral);
}

static void r_is_the_relative_gradient(void **state)
{
    (void)state;
    for_all(check_gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(projection_is_orthogonal),
        cmocka_unit_test(spectral_is_a_bound),
        cmocka_unit_test(r_is_the_relative_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
