/* The residuals in the order of the registry in problem.c, and the sum of their squares. */
#include "problem/mgh_fixed.h"
#include "problem/mgh_scalable.h"

static const residual residuals[] = {
    rosenbrock,
    freudenstein_roth,
    powell_badly_scaled,
    brown_badly_scaled,
    beale,
    jennrich_sampson,
    helical_valley,
    bard,
    gaussian,
    meyer,
    gulf,
    box_3d,
    powell_singular,
    wood,
    kowalik_osborne,
    brown_dennis,
    osborne_1,
    biggs_exp6,
    osborne_2,
    watson,
    extended_rosenbrock,
    powell_singular,
    penalty_1,
    penalty_2,
    variably_dimensioned,
    trigonometric,
    brown_almost_linear,
    discrete_boundary,
    discrete_integral,
    broyden_tridiagonal,
    broyden_banded,
    linear_full_rank,
    linear_rank_1,
    linear_rank_1_zero,
    chebyquad,
    chained_rosenbrock,
};

void EVALUATE(int number, int n, int m, const scalar *x, scalar *value, scalar *g, int *at, scalar *d)
{
    row J = {.n = n, .m = m, .at = at, .d = d};
    *value = 0;
    for (int j = 0; g && j < n; j++) g[j] = 0;
    for (int i = 1; i <= m; i++) {
        J.count = 0;
        scalar r = residuals[number](i, x, &J);
        *value += r * r;
        for (int k = 0; g && k < J.count; k++) g[J.at[k]] += 2 * r * J.d[k];
    }
}

#ifndef PROBLEM_COMPLEX
void psgd__problem_rows(int number, int n, int m, const double *x, const problem_rows *rows, int *at, double *d)
{
    row J = {.n = n, .m = m, .at = at, .d = d};
    for (int j = 0; rows->z && j < n; j++) rows->z[j] = 0;
    for (int i = 1; i <= m; i++) {
        J.count = 0;
        double r = residuals[number](i, x, &J), sum = 0;
        if (rows->r) rows->r[i - 1] = r;
        for (int k = 0; rows->y && k < J.count; k++) sum += J.d[k] * rows->v[J.at[k]];
        if (rows->y) rows->y[i - 1] = sum;
        for (int k = 0; rows->z && k < J.count; k++) rows->z[J.at[k]] += rows->u[i - 1] * J.d[k];
    }
}
#endif
