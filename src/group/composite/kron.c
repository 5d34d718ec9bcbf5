/* Kronecker products of any order, spec "kron(G1,G2,...)" (paper, "Kronecker product preconditioner").
 *
 * Factor i acts on mode i of the tensor, so an op is an op of each factor along its own mode; each factor is normalised
 * on its own. Scaling one factor by c and another by 1/c changes nothing, and rounding would let them drift apart, so
 * factors that can be rescaled are balanced at intervals, by powers of two, which is exact. An op costs what it costs
 * the factors.
 *
 * Where both of two factors are bordered diagonals, the first without a border (as in scan), one pass over (v, h) gives
 * the sums that both R are made of and one pass over x gives Px; A and B are never stored. An update of an m x n matrix
 * reads v and h once and takes O(mn). */
#include "group/group.h"
#include "la/fused/fused.h"

#include <math.h>
#include <string.h>

typedef struct kron {
    group base;
    int64_t factors, scratch, sums; /* in the workspace where the factors are bordered: reals, reals, doubles */
} kron;

static const group_fused bordered_fused;

static bool is_bordered(const group *factor)
{
    return factor->fused && factor->fused->border;
}

/* Whether the factors are bordered diagonals, the first without a border; reserves what the passes need. */
static bool reserve_bordered(kron *self)
{
    if (self->base.child_count != 2) return false;
    const group *left = self->base.child[0], *right = self->base.child[1];
    if (!is_bordered(left) || !is_bordered(right) || left->fused->border(left, NULL, NULL) != BORDER_NONE) return false;

    workspace *work = self->base.work;
    int64_t rows = left->n, columns = right->n;
    self->factors = psgd__work_reserve(work, la_bordered_ld(rows) + 2 * la_bordered_ld(columns), sizeof(real));
    self->scratch = psgd__work_reserve(work, 2 * la_bordered_ld(columns), sizeof(real));
    self->sums = psgd__work_reserve(work, la_bordered_ld(rows + 2 * columns) + la_bordered_sums(rows, columns),
                                    sizeof(double));
    return true;
}

static psgd_status kron_create(const group_args *args, group **created)
{
    kron *self = psgd__group_base(args, &GROUP_OPS(kron), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;
    PSGD_TRY(psgd__group_parts(args, &self->base, args->extra));
    if (reserve_bordered(self)) self->base.fused = &bordered_fused;
    return PSGD_OK;
}

static void kron_reset(group *self, double scale)
{
    double each = pow(scale, 1.0 / self->child_count);
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->reset(self->child[i], each);
}

/* The fibres along mode i of what X has as one mode. The earlier modes of the tensor become outer, and where those of X
 * are not evenly spaced with them, blocks. */
static view mode(const group *self, int i, view X)
{
    int64_t n = self->child[i]->n, after = 1;
    for (int j = i + 1; j < self->child_count; j++) after *= self->child[j]->n;
    int64_t before = X.n / n / after;
    view Y = X;
    Y.n = n;
    Y.inner = after * X.inner;
    if (before == 1) return Y;

    bool even = X.outer == 1 || X.ld == X.n * X.inner;
    Y.outer = even ? X.outer * before : before;
    Y.ld = n * Y.inner;
    return even ? Y : view_repeat(Y, X.outer, X.ld);
}

static void kron_act(const group *self, group_act act, view X)
{
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->act(self->child[i], act, mode(self, i, X));
}

/* The product of ||M_j||_F^2 over the other factors: what v integrated out of the other modes leaves. */
static double other_energy(const group *self, int i, group_image M)
{
    double product = 1;
    for (int j = 0; j < self->child_count; j++) {
        if (j != i) product *= psgd__group_energy(self->child[j], M);
    }
    return product;
}

/* A view has one level of blocks. Several pairs on a kron in a sum need it, and so does a kron in a sum in a factor. */
static bool has_levels(const group *self, const group_pair *pair)
{
    view X = pair->A;
    return X.blocks == 1 || X.outer == 1 || X.ld == X.n * X.inner || self->child[0]->n == X.n;
}

/* All factors are updated from the old values: A and B are given, and the energies are taken before any factor changes.
 */
static psgd_status kron_units(group *self, const group_pair *pair, group_unit visit, void *data)
{
    double gram[SPEC_MAX_DIMS][IMAGE_COUNT];
    if (!has_levels(self, pair)) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "a kron in a sum in a kron in a sum takes one pair an update");
    }
    for (int i = 0; i < self->child_count; i++) {
        for (group_image M = 0; M < IMAGE_COUNT; M++) {
            gram[i][M] = pair->gram[M] != 0 ? pair->gram[M] * other_energy(self, i, M) : 0;
        }
    }
    for (int i = 0; i < self->child_count; i++) {
        group_pair part = {.A = mode(self, i, pair->A),
                           .B = mode(self, i, pair->B),
                           .h = mode(self, i, pair->h),
                           .v = mode(self, i, pair->v)};
        memcpy(part.gram, gram[i], sizeof part.gram);
        PSGD_TRY(psgd__group_units(self->child[i], &part, visit, data));
    }
    return PSGD_OK;
}

static double kron_energy(const group *self, group_image M)
{
    return other_energy(self, -1, M);
}

/* One factor takes it all. */
static void kron_rescale(group *self, real c)
{
    int i = 0;
    while (!psgd__group_can_rescale(self->child[i])) i++;
    self->child[i]->ops->rescale(self->child[i], c);
}

/* Brings the largest entries of the factors to within a factor of two of their geometric mean; the powers of two that
 * do it add up to zero. */
static void balance_by_powers(int count, group **factor)
{
    int exponent[SPEC_MAX_DIMS], total = 0;
    for (int i = 0; i < count; i++) total += exponent[i] = ilogb((double)psgd__group_largest(factor[i]));
    for (int i = 0, left = 0; i < count; i++) {
        int shift = i == count - 1 ? -left : (int)lround((double)total / count) - exponent[i];
        left += shift;
        if (shift) factor[i]->ops->rescale(factor[i], (real)ldexp(1, shift));
    }
}

/* Brings them to the geometric mean itself, to rounding. */
static void balance_to_mean(int count, group **factor)
{
    double largest[SPEC_MAX_DIMS], total = 0;
    for (int i = 0; i < count; i++) total += log(largest[i] = (double)psgd__group_largest(factor[i]));
    for (int i = 0; i < count; i++) factor[i]->ops->rescale(factor[i], (real)(exp(total / count) / largest[i]));
}

void psgd__group_balance(group *self, bool exactly)
{
    group *factor[SPEC_MAX_DIMS];
    int count = 0;
    for (int i = 0; i < self->child_count; i++) psgd__group_balance(self->child[i], exactly);
    if (self->ops->kind.sizes != SIZES_MULTIPLY) return;
    for (int i = 0; i < self->child_count; i++) {
        if (psgd__group_can_rescale(self->child[i])) factor[count++] = self->child[i];
    }
    (exactly ? balance_to_mean : balance_by_powers)(count, factor);
}

static void kron_whiten(const group *self, view A, view B)
{
    for (int i = 0; i < self->child_count; i++) psgd__group_whiten(self->child[i], mode(self, i, A), mode(self, i, B));
}

/* Factors act on different modes, so P is the product of theirs. */
static void kron_square(const group *self, view X)
{
    for (int i = 0; i < self->child_count; i++) psgd__group_square(self->child[i], mode(self, i, X));
}

static la_bordered factors(const group *self)
{
    const kron *k = (const kron *)self;
    const group *left = self->child[0], *right = self->child[1];
    real *row = psgd__work_at(self->work, k->factors);
    real *diagonal = row + la_bordered_ld(left->n), *side = diagonal + la_bordered_ld(right->n);
    left->fused->border(left, row, NULL);
    group_border border = right->fused->border(right, diagonal, side);
    return (la_bordered){.rows = left->n,
                         .columns = right->n,
                         .row = row,
                         .diagonal = diagonal,
                         .side = border == BORDER_NONE ? NULL : side,
                         .side_is_row = border == BORDER_ROW,
                         .scratch = psgd__work_at(self->work, k->scratch)};
}

static void bordered_project(const group *self, const group_raw *raw, real *R, group_r *units)
{
    la_bordered t = factors(self);
    double *row_sums = psgd__work_at(self->work, ((const kron *)self)->sums), *column_sums = row_sums + t.rows,
           *side_sums = column_sums + t.columns;
    t.sums = row_sums + la_bordered_ld(t.rows + 2 * t.columns);
    la_bordered_fused(&t, raw->h, raw->v, raw->damping, raw->sign, row_sums, column_sums, side_sums);

    for (int i = 0; i < 2; i++) {
        const group *factor = self->child[i];
        factor->fused->border_project(factor, i ? column_sums : row_sums, side_sums, R);
        units[i] = (group_r){.R = R, .largest = (double)factor->ops->r_max(factor, R), .spectral = HUGE_VAL};
        R += factor->ops->r_size(factor);
    }
}

static void bordered_apply(const group *self, const real *x, real *y)
{
    la_bordered t = factors(self);
    la_bordered_apply(&t, x, y);
}

static const group_fused kron_fused = {.whiten = kron_whiten, .square = kron_square};
static const group_fused bordered_fused = {
    .whiten = kron_whiten, .square = kron_square, .apply = bordered_apply, .project = bordered_project};

const group_ops GROUP_OPS(kron) = {
    .kind = {.name = "kron",
             .summary = "kron(G1,G2,...): Kronecker product, factor i acts along dimension i",
             .formula = "of the factors",
             .min_children = 1,
             .max_children = SPEC_MAX_DIMS,
             .place = PLACE_TENSOR,
             .sizes = SIZES_MULTIPLY,
             .self_adjoint = true},
    .fused = &kron_fused,
    .create = kron_create,
    .reset = kron_reset,
    .act = kron_act,
    .size = psgd__group_size,
    .cost = psgd__parts_cost,
    .rescale = kron_rescale,
    .units = kron_units,
    .energy = kron_energy,
};
