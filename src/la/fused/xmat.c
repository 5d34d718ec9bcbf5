/* Diagonal plus antidiagonal: rows i and n - 1 - i of a view meet in 2 x 2 matrices. */
#include "la/la.h"
#include "la/array/dispatch.h"

#include <math.h>

/* x, y <- a x + b y, c x + g y over len elements. */
static void rotate(int64_t len, real a, real b, real c, real g, real *restrict x, real *restrict y)
{
    for (int64_t k = 0; k < len; k++) {
        real old = x[k];
        x[k] = a * old + b * y[k];
        y[k] = c * old + g * y[k];
    }
}

static void rotate_pair(view X, int64_t i, real a, real b, real c, real g)
{
    int64_t j = X.n - 1 - i;
    for (int64_t p = 0; p < X.blocks * X.outer; p++) {
        real *x = view_matrix(&X, p);
        rotate(X.inner, a, b, c, g, x + i * X.inner, x + j * X.inner);
    }
}

static void scale_middle(view X, real c)
{
    la_view_scale(view_slice(X, X.n / 2, 1), c);
}

void la_cross_mul(view X, const real *d, const real *e, bool transpose)
{
    for (int64_t i = 0; i < X.n / 2; i++) {
        int64_t j = X.n - 1 - i;
        rotate_pair(X, i, d[i], transpose ? e[j] : e[i], transpose ? e[i] : e[j], d[j]);
    }
    if (X.n % 2) scale_middle(X, d[X.n / 2]);
}

/* The rounding of bc is put back, so that what is left of a difference of like products is right. */
double la_determinant(double a, double b, double c, double d)
{
    double bc = b * c;
    return fma(a, d, -bc) + fma(-b, c, bc);
}

void la_cross_solve(view X, const real *d, const real *e, bool transpose)
{
    for (int64_t i = 0; i < X.n / 2; i++) {
        int64_t j = X.n - 1 - i;
        double det = la_determinant((double)d[i], (double)e[i], (double)e[j], (double)d[j]);
        real a = (real)((double)d[j] / det), g = (real)((double)d[i] / det);
        real b = (real)(-(double)(transpose ? e[j] : e[i]) / det), c = (real)(-(double)(transpose ? e[i] : e[j]) / det);
        rotate_pair(X, i, a, b, c, g);
    }
    if (X.n % 2) scale_middle(X, 1 / d[X.n / 2]);
}

static double mirror_product(const la_kernels *k, view X, int64_t i)
{
    double sum = 0;
    for (int64_t p = 0; X.x && p < X.blocks * X.outer; p++) {
        const real *x = view_matrix(&X, p);
        sum += k->dot(X.inner, x + i * X.inner, x + (X.n - 1 - i) * X.inner);
    }
    return sum;
}

void la_mirror_products(view A, view B, int sign, bool accumulate, real *r)
{
    const la_kernels *k = la_kernel();
    for (int64_t i = 0; i < (A.n + 1) / 2; i++) {
        double sum = mirror_product(k, A, i) + sign * mirror_product(k, B, i);
        int64_t j = A.n - 1 - i;
        r[j] = r[i] = (real)((accumulate ? (double)r[i] : 0) + sum);
    }
}
