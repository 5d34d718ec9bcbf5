/* A function for psgd minimize, without a main:
 *
 *   cc -shared -fPIC -o mine.so own_function.c
 *   psgd minimize --function ./mine.so
 *   psgd minimize --function ./mine.so --compare gd:lr=0.01,momentum:lr=0.01,lbfgs,newton-cg,minimize
 *
 * f(x) = sum of (x_i^2 - i)^2 / i + (x_i - x_{i+1})^2. */
#include <stdint.h>
#include <stddef.h>

enum { N = 8 };

int64_t psgd_function_start(int64_t room, double *x);
int psgd_function_evaluate(int64_t n, const double *x, double *value, double *gradient);
int psgd_function_product(int64_t n, const double *x, const double *v, double *h);

int64_t psgd_function_start(int64_t room, double *x)
{
    for (int64_t i = 0; room >= N && i < N; i++) x[i] = 1;
    return N;
}

int psgd_function_evaluate(int64_t n, const double *x, double *value, double *gradient)
{
    *value = 0;
    for (int64_t i = 0; gradient && i < n; i++) gradient[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        double k = (double)(i + 1), a = x[i] * x[i] - k, b = i + 1 < n ? x[i] - x[i + 1] : 0;
        *value += a * a / k + b * b;
        if (!gradient) continue;
        gradient[i] += 4 * a * x[i] / k + 2 * b;
        if (i + 1 < n) gradient[i + 1] -= 2 * b;
    }
    return 0;
}

/* Optional: without it, finite differences of gradients are used. */
int psgd_function_product(int64_t n, const double *x, const double *v, double *h)
{
    for (int64_t i = 0; i < n; i++) h[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        double k = (double)(i + 1), b = i + 1 < n ? v[i] - v[i + 1] : 0;
        h[i] += (12 * x[i] * x[i] - 4 * k) / k * v[i] + 2 * b;
        if (i + 1 < n) h[i + 1] -= 2 * b;
    }
    return 0;
}
