/* The formulas in real numbers: value and gradient. */
#include "problem/mgh_fixed.h"
#include "problem/mgh_scalable.h"
#include "problem/list.h"

void psgd__problem_real(int number, int n, int m, const double *x, double *value, double *g, int *at, double *d)
{
    size s = {.n = n, .m = m};
    row J = {.at = at, .d = d};
    *value = 0;
    for (int j = 0; g && j < n; j++) g[j] = 0;
    for (int i = 1; i <= m; i++) {
        J.count = 0;
        double r = residuals[number](s, i, x, &J);
        *value += r * r;
        for (int k = 0; g && k < J.count; k++) g[J.at[k]] += 2 * r * J.d[k];
    }
}
