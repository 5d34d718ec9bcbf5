/* The formulas in complex numbers: the gradient, for the derivatives that its imaginary part holds. */
#define PROBLEM_COMPLEX
#include "problem/mgh_fixed.h"
#include "problem/mgh_scalable.h"
#include "problem/list.h"

void psgd__problem_complex(int number, int n, int m, const double complex *x, double complex *g, int *at,
                           double complex *d)
{
    size s = {.n = n, .m = m};
    row J = {.at = at, .d = d};
    for (int j = 0; j < n; j++) g[j] = 0;
    for (int i = 1; i <= m; i++) {
        J.count = 0;
        double complex r = residuals[number](s, i, x, &J);
        for (int k = 0; k < J.count; k++) g[J.at[k]] += 2 * r * J.d[k];
    }
}
