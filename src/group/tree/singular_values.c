/* The smallest and largest singular value of Q: composites from their parts, leaves in closed form or by SVD while they
 * are small, and by power iteration on Q'Q and its inverse beyond that, which estimates from inside. */
#include "group/group.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <math.h>

enum { SVD_LIMIT = 256, ITERATIONS = 32 };

static psgd_status range_by_svd(const group *self, double *smallest, double *largest)
{
    int64_t n = self->n;
    real *Q = psgd__alloc(self->context, n * n + la_svd_work(n), sizeof(real));
    if (!Q) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the singular values of %s", self->ops->kind.name);
    psgd__group_to_dense(self, Q);
    bool done = la_svd_range(n, Q, Q + n * n, smallest, largest);
    psgd__free(self->context, Q);
    return done ? PSGD_OK
                : psgd__fail(PSGD_ERR_NOT_FINITE, "the singular values of %s did not converge", self->ops->kind.name);
}

/* The largest singular value of Q, or of Q^-1. */
static double power(const group *self, bool inverse, real *x)
{
    int64_t n = self->n;
    view X = view_rows(x, n, 1);
    double gain = 1;
    for (int64_t i = 0; i < n; i++) x[i] = (real)(1 + 0.5 * sin((double)(i + 1)));
    for (int k = 0; k <= ITERATIONS; k++) {
        double norm = sqrt(la_view_energy(X));
        la_scale(n, (real)(1 / norm), x);
        if (k > 0) gain = norm;
        if (inverse) {
            self->ops->act(self, ACT_SOLVE_T, X);
            self->ops->act(self, ACT_SOLVE, X);
        } else {
            self->ops->act(self, ACT_MUL, X);
            self->ops->act(self, ACT_MUL_T, X);
        }
    }
    return sqrt(gain);
}

static psgd_status range_by_power(const group *self, double *smallest, double *largest)
{
    real *x = psgd__alloc(self->context, self->n, sizeof(real));
    if (!x) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the singular values of %s", self->ops->kind.name);
    *largest = power(self, false, x);
    *smallest = 1 / power(self, true, x);
    psgd__free(self->context, x);
    return PSGD_OK;
}

/* A sum has the values of its parts, a kron the products of its factors'. */
static psgd_status range_of_children(const group *self, double *smallest, double *largest)
{
    bool product = self->ops->kind.sizes == SIZES_MULTIPLY;
    *smallest = product ? 1 : HUGE_VAL;
    *largest = product ? 1 : 0;
    for (int i = 0; i < self->child_count; i++) {
        double low, high;
        PSGD_TRY(psgd__group_range(self->child[i], &low, &high));
        *smallest = product ? *smallest * low : fmin(*smallest, low);
        *largest = product ? *largest * high : fmax(*largest, high);
    }
    return PSGD_OK;
}

psgd_status psgd__group_range(const group *self, double *smallest, double *largest)
{
    if (self->ops->range) {
        self->ops->range(self, smallest, largest);
        return PSGD_OK;
    }
    if (self->ops->units) return range_of_children(self, smallest, largest);
    return self->n <= SVD_LIMIT ? range_by_svd(self, smallest, largest) : range_by_power(self, smallest, largest);
}
