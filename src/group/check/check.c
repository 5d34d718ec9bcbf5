/* Trying the laws of a group on random elements, through nothing but its ops.
 *
 * Elements are made the way an update makes them: from a multiple of I by a few retractions. Since they act as
 * Q <- (I - cR)Q, the algebra is closed under products, and a matrix M is in the group when M - I is in the algebra,
 * that is when M - I is orthogonal to S - Pi(S) for every S. Products are tried by repeating the retractions that made
 * one element on top of another. Small parts are multiplied out and compared in double; of larger ones only products
 * with vectors are looked at. */
#include "group/check/check_unit.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { DENSE_LIMIT = 192, MAX_FIBRES = 8 };

static void try_reset(check *k)
{
    int64_t n = k->n;
    double max = 0;
    k->unit->ops->reset(k->unit, 1.25);
    psgd__check_multiply_out(k, ACT_MUL, k->Q);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double x = k->Q[i * n + j];
            psgd__check_worst(&max, i == j ? fmin(fabs(x - 1.25), fabs(x - 1)) : fabs(x));
        }
    }
    psgd__check_law(k, "reset", "Q starts as a multiple of I", max, k->tolerance);
}

static void try_inverse(check *k)
{
    int64_t n = k->n;
    double away = 0, mul = 0, solve = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_multiply_out(k, ACT_MUL, k->Q);
        psgd__check_multiply_out(k, ACT_SOLVE, k->inverse);
        psgd__check_product(n, k->inverse, k->Q, k->work);
        memset(k->other, 0, (size_t)(n * n) * sizeof(double));
        for (int64_t i = 0; i < n; i++) k->other[i * n + i] = 1;
        psgd__check_worst(&away, psgd__check_distance(n, k->work, k->other));
        psgd__check_multiply_out(k, ACT_MUL_T, k->work);
        psgd__check_worst(&mul, psgd__check_distance_transposed(n, k->work, k->Q));
        psgd__check_multiply_out(k, ACT_SOLVE_T, k->work);
        psgd__check_worst(&solve, psgd__check_distance_transposed(n, k->work, k->inverse));
    }
    psgd__check_law(k, "inverse", "solve undoes mul", away, k->tolerance);
    psgd__check_law(k, "transpose", "mul_t is the transpose of mul", mul, k->tolerance);
    psgd__check_law(k, "transpose", "solve_t is the transpose of solve", solve, k->tolerance);
}

/* A view with every kind of stride gives what fibre after fibre gives. */
static void try_fibres(check *k)
{
    enum { INNER = 3, OUTER = 2 };
    const group_ops *ops = k->unit->ops;
    int64_t n = k->n, ld = n * INNER + 5;
    double max = 0;
    real *x = psgd__alloc(k->context, OUTER * ld + n, sizeof(real)), *y = x + OUTER * ld;
    real *before = psgd__alloc(k->context, OUTER * ld, sizeof(real));
    for (int which = 0; x && before && which < 2; which++) {
        group_act act = which ? ACT_SOLVE_T : ACT_MUL;
        view X = {.x = x, .n = n, .inner = INNER, .outer = OUTER, .ld = ld, .blocks = 1};
        psgd__check_random_element(k);
        psgd__check_fill(k, OUTER * ld, x);
        memcpy(before, x, (size_t)(OUTER * ld) * sizeof(real));
        ops->act(k->unit, act, X);
        for (int64_t f = 0; f < OUTER * INNER; f++) {
            int64_t at = f / INNER * ld + f % INNER;
            double size = 1;
            for (int64_t i = 0; i < n; i++) y[i] = before[at + i * INNER];
            ops->act(k->unit, act, view_rows(y, n, 1));
            for (int64_t i = 0; i < n; i++) size = fmax(size, fabs((double)y[i]));
            for (int64_t i = 0; i < n; i++)
                psgd__check_worst(&max, fabs((double)y[i] - (double)x[at + i * INNER]) / size);
        }
        for (int64_t o = 0; o < OUTER; o++) {
            for (int64_t i = n * INNER; i < ld; i++)
                psgd__check_worst(&max, x[o * ld + i] != before[o * ld + i] ? 9 : 0);
        }
    }
    if (x && before)
        psgd__check_law(k, "fibres", "strided fibres are treated alike, and nothing between them changes", max,
                        k->tolerance);
    psgd__free(k->context, x);
    psgd__free(k->context, before);
}

/* other <- (I - cR) Q, multiplied out. */
static void expected(check *k, double c, const real *R)
{
    psgd__check_multiply_out_r(k, R, false, k->algebra);
    psgd__check_product(k->n, k->algebra, k->Q, k->other);
    for (int64_t i = 0; i < k->n * k->n; i++) k->other[i] = k->Q[i] - c * k->other[i];
}

static void try_retract(check *k)
{
    const group_ops *ops = k->unit->ops;
    double away = 0, off = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_multiply_out(k, ACT_MUL, k->Q);
        psgd__check_random_r(k, k->R);
        double c = psgd__check_step_for(k, k->R, 0.5);
        if (!ops->inside(k->unit, (real)c, k->R)) continue;
        c = (double)(real)c;
        expected(k, c, k->R);
        psgd__check_retract(k, c, k->R);
        psgd__check_multiply_out(k, ACT_MUL, k->work);
        psgd__check_worst(&away, psgd__check_distance(k->n, k->work, k->other));
        psgd__check_multiply_out(k, ACT_SOLVE, k->inverse);
        psgd__check_product(k->n, k->inverse, k->work, k->other);
        for (int64_t i = 0; i < k->n; i++) k->other[i * k->n + i] -= 1;
        psgd__check_worst(&off, sqrt(psgd__check_inner(k->n, k->other, k->other) / (double)k->n));
    }
    psgd__check_law(k, "retract", "Q <- (I - cR)Q stays inside and is exactly that", away, k->tolerance);
    psgd__check_law(k, "retract", "and its inverse follows", off, k->tolerance);
}

/* What made Q1 from 1.25 I, applied to Q2, makes Q1 Q2 / 1.25 where the group has multiples of I. Entries that the
 * group fixes are 1 in the start, so the start itself is multiplied out. */
static void try_product(check *k)
{
    int64_t n = k->n;
    double away = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_keep(k, k->kept);
        psgd__check_multiply_out(k, ACT_MUL, k->Q); /* Q2 */
        psgd__check_random_element(k);
        psgd__check_multiply_out(k, ACT_MUL, k->other); /* Q1 */
        k->unit->ops->reset(k->unit, 1.25);
        psgd__check_multiply_out(k, ACT_SOLVE, k->inverse);
        psgd__check_product(n, k->other, k->inverse, k->work);
        psgd__check_product(n, k->work, k->Q, k->other); /* Q1 start^-1 Q2 */
        psgd__check_put_back(k, k->kept);
        for (int s = 0; s < CHECK_STEPS; s++) {
            if (k->step_size[s] != 0) psgd__check_retract(k, k->step_size[s], k->steps + s * k->r);
        }
        psgd__check_multiply_out(k, ACT_MUL, k->work);
        psgd__check_worst(&away, psgd__check_distance(n, k->work, k->other));
    }
    psgd__check_law(k, "product", "the product of two elements stays inside", away, 4 * k->tolerance);
}

/* <M - I, S - Pi(S)> / (|M - I| |S|) for random S. */
static double outside(check *k, double *M)
{
    int64_t n = k->n;
    double max = 0;
    for (int64_t i = 0; i < n; i++) M[i * n + i] -= 1;
    double size = sqrt(psgd__check_inner(n, M, M));
    for (int t = 0; t < 2 * CHECK_TRIALS; t++) {
        psgd__check_fill(k, n * k->fibres, k->A);
        psgd__check_project(k, k->A, NULL, 1, false, k->R);
        psgd__check_symmetric(k, k->A, NULL, 1, k->work);
        psgd__check_multiply_out_r(k, k->R, false, k->algebra);
        double S = sqrt(psgd__check_inner(n, k->work, k->work)),
               away = psgd__check_inner(n, M, k->work) - psgd__check_inner(n, M, k->algebra);
        if (size > 0) psgd__check_worst(&max, fabs(away) / (S * size));
    }
    return max;
}

static void try_members(check *k)
{
    double member = 0, inverse = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_multiply_out(k, ACT_MUL, k->Q);
        psgd__check_multiply_out(k, ACT_SOLVE, k->inverse);
        psgd__check_worst(&member, outside(k, k->Q));
        psgd__check_worst(&inverse, outside(k, k->inverse));
    }
    psgd__check_law(k, "product", "an element less I is in the algebra", member, k->tolerance);
    psgd__check_law(k, "inverse", "the inverse stays inside", inverse, k->tolerance);
}

static void try_rescale(check *k)
{
    if (!psgd__group_can_rescale(k->unit)) return;
    psgd__check_random_element(k);
    psgd__check_multiply_out(k, ACT_MUL, k->Q);
    k->unit->ops->rescale(k->unit, (real)0.5);
    psgd__check_multiply_out(k, ACT_MUL, k->work);
    for (int64_t i = 0; i < k->n * k->n; i++) k->Q[i] *= 0.5;
    psgd__check_law(k, "rescale", "Q <- cQ", psgd__check_distance(k->n, k->work, k->Q), k->tolerance);
}

/* <Qx, Q^-T y> = <x, y>, and Q^-1 Q x = x: needs no more than vectors. */
static void try_pairing(check *k, group *self)
{
    int64_t n = self->n;
    real *x = psgd__alloc(k->context, 3 * n, sizeof(real)), *y = x + n, *z = y + n;
    double pairing = 0, undone = 0;
    for (int t = 0; x && t < CHECK_TRIALS; t++) {
        psgd__check_fill(k, 2 * n, x);
        memcpy(z, x, (size_t)n * sizeof(real));
        double direct = la_dot(n, x, y), size = sqrt(la_dot(n, x, x) * la_dot(n, y, y));
        self->ops->act(self, ACT_MUL, view_rows(x, n, 1));
        self->ops->act(self, ACT_SOLVE_T, view_rows(y, n, 1));
        psgd__check_worst(&pairing, fabs(la_dot(n, x, y) - direct) / size);
        self->ops->act(self, ACT_SOLVE, view_rows(x, n, 1));
        la_axpy(n, -1, z, x);
        psgd__check_worst(&undone, sqrt(la_dot(n, x, x) / la_dot(n, z, z)));
    }
    group *unit = k->unit;
    k->unit = self;
    if (x) psgd__check_law(k, "pairing", "<Qx, Q^-T y> = <x, y>", pairing, k->tolerance);
    if (x) psgd__check_law(k, "inverse", "solve undoes mul", undone, k->tolerance);
    k->unit = unit;
    psgd__free(k->context, x);
}

static void count_state(void *data, real *x, int64_t count)
{
    (void)x;
    *(int64_t *)data += count;
}

static void try_dense_laws(check *k)
{
    try_reset(k);
    try_inverse(k);
    try_fibres(k);
    try_retract(k);
    try_product(k);
    try_members(k);
    psgd__check_algebra(k);
    try_rescale(k);
    try_pairing(k, k->unit);
}

/* One allocation for everything that the laws of a unit need. */
static psgd_status try_unit(check *k, group *unit)
{
    k->unit = unit;
    k->n = unit->n;
    k->r = unit->ops->r_size(unit);
    int64_t columns = unit->fibres * unit->pairs;
    k->fibres = columns < MAX_FIBRES ? columns : MAX_FIBRES;
    k->state = 0;
    psgd__group_visit(unit, count_state, &k->state);
    k->tolerance = 1000 * (1 + (double)k->n / 16) * (double)REAL_EPSILON;

    int64_t square = k->n * k->n, panel = k->n * k->fibres;
    double *doubles = psgd__alloc(k->context, 5 * square, sizeof(double));
    real *reals = psgd__alloc(k->context, square + 2 * panel + (2 + CHECK_STEPS) * k->r + 2 * k->state, sizeof(real));
    if (doubles && reals) {
        k->Q = doubles;
        k->inverse = k->Q + square;
        k->other = k->inverse + square;
        k->work = k->other + square;
        k->algebra = k->work + square;
        k->columns = reals;
        k->A = k->columns + square;
        k->B = k->A + panel;
        k->R = k->B + panel;
        k->R2 = k->R + k->r;
        k->steps = k->R2 + k->r;
        k->kept = k->steps + CHECK_STEPS * k->r;
        k->kept2 = k->kept + k->state;
        k->laws(k);
    }
    psgd__free(k->context, reals);
    psgd__free(k->context, doubles);
    return doubles && reals ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to check %s", unit->ops->kind.name);
}

static psgd_status visit_unit(group *unit, const group_pair *pair, void *data)
{
    (void)pair;
    check *k = data;
    if (unit->ops->project && unit->n <= DENSE_LIMIT) return try_unit(k, unit);
    psgd__text_add(k->to->lines, "       %-11s %s:%lld  of this part only products with vectors are tried: %s\n", "",
                   unit->ops->kind.name, (long long)unit->n,
                   unit->ops->project ? "it is large; a smaller shape tries all laws" : "it is a family, not a group");
    return PSGD_OK;
}

static psgd_status visit_self_adjoint(group *unit, const group_pair *pair, void *data)
{
    (void)pair;
    bool declared = unit->ops->kind.self_adjoint && unit->ops->project;
    return declared && unit->n <= DENSE_LIMIT ? try_unit(data, unit) : PSGD_OK;
}

/* Builds the group and visits its units, and in the end perhaps the whole. */
static psgd_status try_group(check *k, const spec_tree *tree, bool inverse_free, group_unit visit)
{
    workspace work = {.context = k->context};
    group_args args = {.context = k->context, .pairs = 1, .inverse_free = inverse_free, .work = &work};
    group *root;
    PSGD_TRY(psgd__group_create(&args, tree, &root));
    psgd_status status = psgd__work_commit(&work);
    if (status == PSGD_OK) {
        root->ops->reset(root, 1.25);
        group_pair empty = {.A = view_rows(NULL, root->n, 1)};
        empty.B = empty.h = empty.v = empty.A;
        status = psgd__group_units(root, &empty, visit, k);
    }
    if (status == PSGD_OK && !inverse_free) {
        k->tolerance = 1000 * sqrt((double)root->n) * (double)REAL_EPSILON;
        try_pairing(k, root);
    }
    psgd__group_free(root);
    psgd__work_free(&work);
    return status;
}

psgd_status PSGD_TYPED(psgd__group_check)(const psgd_context *context, const spec_tree *tree, uint64_t seed,
                                          check_result *to)
{
    check k = {.context = context, .to = to, .stream = psgd__rng_stream(seed, RNG_DATA, 0, 0)};
    k.laws = try_dense_laws;
    PSGD_TRY(try_group(&k, tree, false, visit_unit));
    k.laws = psgd__check_rules;
    return try_group(&k, tree, true, visit_self_adjoint);
}
