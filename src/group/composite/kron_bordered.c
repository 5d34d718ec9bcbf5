#include "group/composite/kron_bordered.h"
#include "la/fused/fused.h"

#include <math.h>

static bool is_bordered(const group *factor)
{
    return factor->fused && factor->fused->border;
}

bool kron_bordered_reserve(kron *self)
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

void kron_bordered_project(const group *self, const group_raw *raw, real *R, group_r *units)
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

void kron_bordered_apply(const group *self, const real *x, real *y)
{
    la_bordered t = factors(self);
    la_bordered_apply(&t, 1, x, false, y);
}
