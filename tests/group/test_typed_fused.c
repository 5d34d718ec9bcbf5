/* Every fused op of every group against the plain ops that it stands for, on elements that a few updates have made. */
#include "support.h"

#include <float.h>

#include "group/group.h"
#include "precond/precond.h"
#include "specs.h"

/* What instances does not have: families, and sizes around the limits where kernels split their work. */
static const instance more[] = {
    {"lra", "lra(3)", 1, {40}},
    {"splu", "splu(3)", 1, {40}},
    {"diag", "diag", 1, {40001}},
    {"xmat", "xmat", 1, {1}},
    {"xmat", "xmat", 1, {70002}},
    {"scan", "scan", 2, {1, 2}},
    {"scan", "scan", 2, {130, 300}},
    {"scan", "scan", 2, {6, 9000}},
    {"kron", "kron(diag,t(norm))", 2, {70, 601}},
    {"kron", "kron(scale,t(bnorm))", 2, {21, 40}},
    {"kron", "kron(identity,bnorm)", 2, {33, 17}},
    {"kron", "kron(diag,scale)", 2, {40, 11}},
    {"kron", "kron(scale,identity)", 2, {40, 11}},
    {"tri", "tri", 1, {1500}},
    {"tril", "tril", 1, {200}},
    {"kron", "kron(tri,tri)", 2, {70, 130}},
    {"kron", "kron(tril,diag)", 2, {150, 9}},
};

enum { MORE = sizeof more / sizeof more[0] };

typedef struct subject {
    const char *spec;
    group *root;
    int64_t n;
    real *h, *v; /* [n] a pair that no update has seen */
} subject;

static real *reals(int64_t count)
{
    real *x = calloc((size_t)(count ? count : 1), sizeof *x);
    assert_non_null(x);
    return x;
}

static real *normals(uint64_t tensor, uint64_t step, int64_t n)
{
    real *x = reals(n);
    assert_ok(psgd_normal_fill(REAL_DTYPE, 42, tensor, step, 0, n, x));
    return x;
}

static real *copy_of(int64_t n, const real *x)
{
    real *y = reals(n);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* Entries are sums of at most count products. Where these cancel, rounding errors are those of the largest entry of the
 * same sums without cancellation: uncancelled. */
static void assert_near(const subject *s, const group *at, const char *op, int64_t count, int64_t n, const real *got,
                        const real *want, const real *uncancelled)
{
    double max = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, fabs((double)uncancelled[i]));
    double room = 16 * (4 + sqrt((double)count)) * (double)REAL_EPSILON * max;
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - (double)want[i]) <= room) continue;
        print_error("%s, at %s:%lld: entry %lld of %s is %.9g, by the plain ops %.9g\n", s->spec, at->ops->kind.name,
                    (long long)at->n, (long long)i, op, (double)got[i], (double)want[i]);
        fail();
    }
}

/* A <- QA, B <- Q^-T B, and X <- Q'Q X, on the fibres that a group has in its place in the tree. */
static void check_fibres(const subject *s, const group *self)
{
    int64_t size = self->n * self->fibres;
    real *a = normals(2, 0, size), *b = normals(3, 0, size), *want_a = copy_of(size, a), *want_b = copy_of(size, b);
    view A = view_columns(a, self->n, self->fibres), B = view_columns(b, self->n, self->fibres);
    view plain_A = view_over(A, want_a), plain_B = view_over(B, want_b);
    if (self->fused->whiten) {
        self->fused->whiten(self, A, B);
        self->ops->act(self, ACT_MUL, plain_A);
        self->ops->act(self, ACT_SOLVE_T, plain_B);
        assert_near(s, self, "Qh", self->n, size, a, want_a, want_a);
        assert_near(s, self, "Q^-T v", self->n, size, b, want_b, want_b);
    }
    if (self->fused->square) {
        self->fused->square(self, A);
        self->ops->act(self, ACT_MUL, plain_A);
        self->ops->act(self, ACT_MUL_T, plain_A);
        assert_near(s, self, "Q'Qx", self->n, size, a, want_a, want_a);
    }
    free(a);
    free(b);
    free(want_a);
    free(want_b);
}

/* diagonal and side are what Q has, and R from the entries of hh' there is Pi(hh'). */
enum { MAX_BORDERED = 999 }; /* larger ones as dense matrices take too long */

static void check_border(const subject *s, const group *self)
{
    int64_t n = self->n, r = self->ops->r_size(self);
    real *diagonal = reals(n), *side = reals(n), *Q = reals(n * n), *got = reals(r), *want = reals(r);
    group_border border = self->fused->border(self, diagonal, side);
    assert_int_equal(border, self->fused->border(self, NULL, NULL));
    psgd__group_to_dense(self, Q);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            real is = i == j ? diagonal[i] : 0;
            if (border == BORDER_COLUMN && j == n - 1 && i < j) is = side[i];
            if (border == BORDER_ROW && i == n - 1 && j < i) is = side[j];
            assert_true(Q[i * n + j] == is);
        }
    }
    double squares[MAX_BORDERED], products[MAX_BORDERED];
    assert_in_range(n, 1, MAX_BORDERED);
    for (int64_t i = 0; i < n; i++) {
        squares[i] = (double)s->h[i] * (double)s->h[i];
        products[i] = (double)s->h[i] * (double)s->h[n - 1];
    }
    view h = view_rows(s->h, n, 1);
    self->fused->border_project(self, squares, products, got);
    self->ops->project(self, h, view_over(h, NULL), 1, false, want);
    assert_near(s, self, "Pi(hh') from its border", n, r, got, want, want);
    free(diagonal);
    free(side);
    free(Q);
    free(got);
    free(want);
}

static void check_node(const subject *s, const group *self)
{
    if (self->fused) check_fibres(s, self);
    if (self->fused && self->fused->border && self->n <= s->n && self->n <= MAX_BORDERED) check_border(s, self);
    for (int i = 0; i < self->child_count; i++) check_node(s, self->child[i]);
}

static void check_apply(const subject *s)
{
    real *got = reals(s->n), *want = copy_of(s->n, s->h), *in_place = copy_of(s->n, s->h);
    s->root->fused->apply(s->root, s->h, got);
    s->root->fused->apply(s->root, in_place, in_place);
    s->root->ops->act(s->root, ACT_MUL, view_rows(want, s->n, 1));
    s->root->ops->act(s->root, ACT_MUL_T, view_rows(want, s->n, 1));
    assert_near(s, s->root, "Q'Qx", s->n, s->n, got, want, want);
    assert_near(s, s->root, "Q'Qx in place", s->n, s->n, in_place, want, want);
    free(got);
    free(want);
    free(in_place);
}

typedef struct plain_project {
    const subject *subject;
    int sign, next;
    real *R; /* where the fused R of the next unit must be */
    const group_r *units;
} plain_project;

static psgd_status check_unit(group *unit, const group_pair *pair, void *data)
{
    plain_project *p = data;
    const group_r *got = &p->units[p->next++];
    int64_t r = unit->ops->r_size(unit);
    real *want = reals(r), *energy = reals(r);
    unit->ops->project(unit, pair->A, pair->B, p->sign, false, want);
    unit->ops->project(unit, pair->A, pair->B, 1, false, energy);
    assert_ptr_equal(got->R, p->R);
    assert_near(p->subject, unit, "R", unit->fibres, r, got->R, want, energy);
    assert_true(got->largest == (double)unit->ops->r_max(unit, got->R));
    double spectral = (double)unit->ops->r_spectral(unit, got->R);
    assert_true(isinf(got->spectral) || fabs(got->spectral - spectral) <= 16 * (double)REAL_EPSILON * spectral);
    p->R += r;
    free(want);
    free(energy);
    return PSGD_OK;
}

static psgd_status add_r_size(group *unit, const group_pair *pair, void *data)
{
    (void)pair;
    *(int64_t *)data += unit->ops->r_size(unit);
    return PSGD_OK;
}

static void check_project(const subject *s, double damping, int sign)
{
    group_r units[SPEC_MAX_DIMS];
    real *a = reals(s->n), *b = copy_of(s->n, s->v);
    for (int64_t i = 0; i < s->n; i++) a[i] = s->h[i] + (real)damping * s->v[i];
    group_pair pair = {.A = view_rows(a, s->n, 1), .B = view_rows(b, s->n, 1)};
    pair.h = pair.v = view_over(pair.A, NULL);
    s->root->ops->act(s->root, ACT_MUL, pair.A);
    s->root->ops->act(s->root, ACT_SOLVE_T, pair.B);

    int64_t r = 0;
    assert_ok(psgd__group_units(s->root, &pair, add_r_size, &r));
    real *R = reals(r);
    group_raw raw = {.h = s->h, .v = s->v, .damping = (real)damping, .sign = sign};
    s->root->fused->project(s->root, &raw, R, units);
    plain_project p = {.subject = s, .sign = sign, .R = R, .units = units};
    assert_ok(psgd__group_units(s->root, &pair, check_unit, &p));
    free(R);
    free(a);
    free(b);
}

/* Counts the fused ops that were compared, so that none can go missing. */
static int check_instance(const instance *c)
{
    psgd_precond *p;
    assert_ok(psgd_precond_create(NULL, c->spec, c->ndim, c->shape, REAL_DTYPE, NULL, &p));
    subject s = {.spec = c->spec, .root = p->root, .n = psgd_precond_size(p)};
    for (int i = 0; i < 6; i++) {
        real *v = normals(0, (uint64_t)i, s.n), *h = normals(1, (uint64_t)i, s.n);
        for (int64_t j = 0; j < s.n; j++) h[j] *= (real)(1 + (double)(j % 5));
        assert_ok(psgd_precond_update(p, v, h));
        free(v);
        free(h);
    }
    s.h = normals(0, 99, s.n);
    s.v = normals(1, 99, s.n);
    check_node(&s, s.root);
    const group_fused *fused = s.root->fused;
    if (fused && fused->apply) check_apply(&s);
    for (int k = 0; fused && fused->project && k < 4; k++) check_project(&s, k % 2 ? 0.3 : 0, k < 2 ? -1 : 1);
    int compared = fused ? !!fused->whiten + !!fused->square + !!fused->apply + !!fused->project : 0;
    free(s.h);
    free(s.v);
    psgd_precond_free(p);
    return compared;
}

static void every_fused_op_does_what_the_plain_ops_do(void **state)
{
    (void)state;
    int compared = 0;
    for (int i = 0; i < instance_count; i++) compared += check_instance(&instances[i]);
    for (int i = 0; i < MORE; i++) compared += check_instance(&more[i]);
    assert_true(compared > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fused_op_does_what_the_plain_ops_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
