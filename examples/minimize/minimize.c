/* Minimise your own function: it needs only value and gradient. */
#include <psgd/psgd.h>
#include <stdio.h>

static int rosenbrock(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    double a = x[1] - x[0] * x[0], b = 1 - x[0];
    *value = 100 * a * a + b * b;
    if (gradient) gradient[0] = -400 * x[0] * a - 2 * b, gradient[1] = 200 * a;
    return (void)data, n != 2;
}

int main(void)
{
    double x[] = {-1.2, 1};
    psgd_result result;
    if (psgd_minimize(NULL, 2, x, &(psgd_function){.evaluate = rosenbrock}, NULL, NULL, NULL, &result) != PSGD_OK) {
        return fprintf(stderr, "%s\n", psgd_last_error()), 1;
    }
    printf("%s at (%g, %g), value %g\n", psgd_outcome_text(result.outcome), x[0], x[1], result.value);
    return result.outcome != PSGD_CONVERGED;
}
