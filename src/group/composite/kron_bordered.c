#include "group/composite/kron_bordered.h"
#include "la/fused/fused.h"

#include <math.h>

void kron_bordered_reserve(const group *self, workspace *work, kron_bordered *bordered)
{
    *bordered = (kron_bordered){0};
    if (self->child_count != 2) return;
    const group *left = self->child[0], *right = self->child[1];
    if (!left->ops->pattern || !right->ops->pattern || left->ops->pattern(left, NULL, NULL) != SIDE_NONE) return;

    int64_t rows = left->n, columns = right->n;
    bordered->possible = true;
    bordered->factors = psgd__work_reserve(work, la_bordered_ld(rows) + 2 * la_bordered_ld(columns), sizeof(real));
    bordered->scratch = psgd__work_reserve(work, 2 * la_bordered_ld(columns), sizeof(real));
    bordered->sums = psgd__work_reserve(work, la_bordered_ld(rows + 2 * columns) + la_bordered_sums(rows, columns),
                                        sizeof(double));
}

static la_bordered factors(const group *self, const kron_bordered *bordered)
{
    const group *left = self->child[0], *right = self->child[1];
    real *row = psgd__work_at(self->work, bordered->factors);
    real *diagonal = row + la_bordered_ld(left->n), *side = diagonal + la_bordered_ld(right->n);
    left->ops->pattern(left, row, NULL);
    group_side which = right->ops->pattern(right, diagonal, side);
    return (la_bordered){.rows = left->n,
                         .columns = right->n,
                         .row = row,
                         .diagonal = diagonal,
                         .side = which == SIDE_NONE ? NULL : side,
                         .side_is_row = which == SIDE_ROW,
                         .scratch = psgd__work_at(self->work, bordered->scratch)};
}

void kron_bordered_fused(const group *self, const kron_bordered *bordered, const group_raw *raw, real *R,
                         group_fused *units)
{
    la_bordered t = factors(self, bordered);
    double *row_sums = psgd__work_at(self->work, bordered->sums), *column_sums = row_sums + t.rows,
           *side_sums = column_sums + t.columns;
    t.sums = row_sums + la_bordered_ld(t.rows + 2 * t.columns);
    la_bordered_fused(&t, raw->h, raw->v, raw->damping, raw->sign, row_sums, column_sums, side_sums);

    for (int i = 0; i < 2; i++) {
        const group *factor = self->child[i];
        factor->ops->pattern_r(factor, i ? column_sums : row_sums, side_sums, R);
        units[i] = (group_fused){.R = R, .largest = (double)factor->ops->r_max(factor, R), .spectral = HUGE_VAL};
        R += factor->ops->r_size(factor);
    }
}

void kron_bordered_apply(const group *self, const kron_bordered *bordered, real alpha, const real *x, bool add, real *y)
{
    la_bordered t = factors(self, bordered);
    la_bordered_apply(&t, alpha, x, add, y);
}
