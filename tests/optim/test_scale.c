/* Newton's steps with default settings do not depend on the units of the loss or of the parameters. */
#include "support.h"

#include <math.h>

enum { N = 12, STEPS = 300 };

/* f(theta) = c F(s phi) of the parameters phi = theta / s, F the chained function of Rosenbrock. */
typedef struct scales {
    double loss, theta;
} scales;

static double value_of(const scales *k, const double *phi)
{
    double sum = 0;
    for (int i = 0; i + 1 < N; i++) {
        double x = k->theta * phi[i], a = k->theta * phi[i + 1] - x * x, b = 1 - x;
        sum += 100 * a * a + b * b;
    }
    return k->loss * sum;
}

static int gradient(void *data, const void *const *theta, double *value, void *const *g)
{
    const scales *k = data;
    const double *phi = theta[0];
    double *to = g[0];
    for (int i = 0; i < N; i++) to[i] = 0;
    for (int i = 0; i + 1 < N; i++) {
        double x = k->theta * phi[i], a = k->theta * phi[i + 1] - x * x;
        to[i] += k->loss * k->theta * (-400 * a * x - 2 * (1 - x));
        to[i + 1] += k->loss * k->theta * 200 * a;
    }
    *value = value_of(k, phi);
    return 0;
}

static int product(void *data, const void *const *theta, const void *const *v, double *value, void *const *g,
                   void *const *h)
{
    gradient(data, theta, value, g);
    const scales *k = data;
    const double *phi = theta[0], *from = v[0];
    double *to = h[0], unit = k->loss * k->theta * k->theta;
    for (int i = 0; i < N; i++) to[i] = 0;
    for (int i = 0; i + 1 < N; i++) {
        double x = k->theta * phi[i], y = k->theta * phi[i + 1];
        to[i] += unit * ((1200 * x * x - 400 * y + 2) * from[i] - 400 * x * from[i + 1]);
        to[i + 1] += unit * (200 * from[i + 1] - 400 * x * from[i]);
    }
    return 0;
}

/* F after every step, whatever the scales. */
static void run(scales k, double curve[STEPS])
{
    const int64_t n = N;
    psgd_tensor tensor = {.ndim = 1, .shape = &n};
    psgd_objective objective = {.gradient = gradient, .product = product, .data = &k};
    psgd_optimizer *optimizer;
    double phi[N];
    for (int i = 0; i < N; i++) phi[i] = (i % 2 ? 1 : -1.2) / k.theta;
    assert_ok(psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, NULL, &optimizer));
    assert_ok(psgd_optimizer_bind(optimizer, &objective));
    for (int t = 0; t < STEPS; t++) {
        assert_ok(psgd_optimizer_iterate(optimizer, (void *[]){phi}, NULL));
        curve[t] = value_of(&k, phi) / k.loss;
    }
    psgd_optimizer_free(optimizer);
}

static void units_do_not_matter(void **state)
{
    (void)state;
    const scales others[] = {{1e6, 1}, {1e-6, 1}, {1, 1e3}, {1, 1e-3}, {1e6, 1e-3}};
    double plain[STEPS], curve[STEPS];
    run((scales){1, 1}, plain);
    assert_true(plain[STEPS - 1] < 0.01 * plain[0]);
    for (int k = 0; k < 5; k++) {
        run(others[k], curve);
        for (int t = 0; t < STEPS; t++) assert_float_equal(curve[t] / plain[t], 1, 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(units_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
