#include "group/composite/kron_bordered.h"
#include "la/fused/fused.h"

#include <math.h>

void kron_thin_reserve(const group *self, workspace *work, kron_thin *thin)
{
    *thin = (kron_thin){0};
    if (self->child_count != 2) return;
    const group *left = self->child[0], *right = self->child[1];
    if (!left->ops->pattern || !right->ops->pattern || left->ops->pattern(left, NULL, NULL) != SIDE_NONE) return;

    int64_t rows = left->n, columns = right->n;
    thin->possible = true;
    thin->factors = psgd__work_reserve(work, la_thin_pitch(rows) + 2 * la_thin_pitch(columns), sizeof(real));
    thin->scratch = psgd__work_reserve(work, 2 * la_thin_pitch(columns), sizeof(real));
    thin->sums = psgd__work_reserve(work, la_thin_pitch(rows + 2 * columns) + la_thin_sums(rows, columns),
                                    sizeof(double));
}

static la_thin factors(const group *self, const kron_thin *thin)
{
    const group *left = self->child[0], *right = self->child[1];
    real *row = psgd__work_at(self->work, thin->factors);
    real *diagonal = row + la_thin_pitch(left->n), *side = diagonal + la_thin_pitch(right->n);
    left->ops->pattern(left, row, NULL);
    group_side which = right->ops->pattern(right, diagonal, side);
    return (la_thin){.rows = left->n,
                     .columns = right->n,
                     .row = row,
                     .diagonal = diagonal,
                     .side = which == SIDE_NONE ? NULL : side,
                     .side_is_row = which == SIDE_ROW,
                     .scratch = psgd__work_at(self->work, thin->scratch)};
}

void kron_thin_capture(const group *self, const kron_thin *thin, const group_raw *raw, real *R, group_captured *units)
{
    la_thin t = factors(self, thin);
    double *row_sums = psgd__work_at(self->work, thin->sums), *column_sums = row_sums + t.rows,
           *side_sums = column_sums + t.columns;
    t.sums = row_sums + la_thin_pitch(t.rows + 2 * t.columns);
    la_thin_capture(&t, raw->h, raw->v, raw->damping, raw->sign, row_sums, column_sums, side_sums);

    for (int i = 0; i < 2; i++) {
        const group *factor = self->child[i];
        factor->ops->pattern_r(factor, i ? column_sums : row_sums, side_sums, R);
        units[i] = (group_captured){.R = R, .largest = (double)factor->ops->r_max(factor, R), .spectral = HUGE_VAL};
        R += factor->ops->r_numbers(factor);
    }
}

void kron_thin_apply(const group *self, const kron_thin *thin, real alpha, const real *x, bool add, real *y)
{
    la_thin t = factors(self, thin);
    la_thin_apply(&t, alpha, x, add, y);
}
