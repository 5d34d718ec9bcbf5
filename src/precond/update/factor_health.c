/* Condition and diagonal of one factor of Q. */
#include "group/group.h"
#include "precond/precond.h"

#include <math.h>
#include <string.h>

enum { WIDEST = 512, PANEL = 16 };

/* Min and max of the diagonal, from Q times the columns of I, a few at a time. */
static psgd_status diagonal(const group *self, double *min, double *max)
{
    int64_t n = self->n;
    real *panel = psgd__alloc(self->context, n * PANEL, sizeof(real));
    if (!panel) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the diagonal of %s", self->ops->kind.name);
    *min = HUGE_VAL;
    *max = -HUGE_VAL;
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t count = n - from < PANEL ? n - from : PANEL;
        memset(panel, 0, (size_t)(n * PANEL) * sizeof(real));
        for (int64_t j = 0; j < count; j++) panel[j * n + from + j] = 1;
        self->ops->act(self, ACT_MUL, view_rows(panel, n, count));
        for (int64_t j = 0; j < count; j++) {
            *min = fmin(*min, (double)panel[j * n + from + j]);
            *max = fmax(*max, (double)panel[j * n + from + j]);
        }
    }
    psgd__free(self->context, panel);
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_factor_health)(const psgd_precond *self, int index, double health[3])
{
    const group *root = self->root, *factor = root->ops->kind.sizes == SIZES_MULTIPLY ? root->child[index] : root;
    double smallest, largest;
    PSGD_TRY(psgd__group_range(factor, &smallest, &largest));
    health[0] = largest / smallest;
    health[1] = health[2] = NAN;
    if (factor->mix <= 1 && factor->ops->range) { /* diagonal, with positive entries */
        health[1] = smallest;
        health[2] = largest;
        return PSGD_OK;
    }
    return factor->n <= WIDEST ? diagonal(factor, &health[1], &health[2]) : PSGD_OK;
}
