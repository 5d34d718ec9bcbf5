#include "paper/rosenbrock.h"
#include "core/sort.h"

#include <math.h>

static const char *const none[] = {NULL};
#define COMMON "defaults", "paper", "norm", "max", "group", "tri", "init-scale", "0.1", NULL
static const char *const fisher[] = {"criterion", "fisher", "damping", "0.1", "step", "0.01", COMMON};
static const char *const newton[] = {"criterion", "newton", "step", "0.2", COMMON};

const rosenbrock_method psgd__rosenbrock_methods[ROSENBROCK_METHODS] = {
    {"gradient descent", "gradient descent", "sgd", 0.002, none},
    {"momentum", "momentum", "momentum", 0.002, none},
    {"nesterov", "Nesterov momentum", "nesterov", 0.001, none},
    {"psgd fisher", "PSGD, Fisher", "psgd", 0.001, fisher},
    {"psgd newton", "PSGD, Newton", "psgd", 0.5, newton},
};

static double value_at(const double *x)
{
    double a = x[1] - x[0] * x[0], b = 1 - x[0];
    return 100 * a * a + b * b;
}

static int gradient_at(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    (void)data;
    const double *x = theta[0];
    double *g = gradient[0], a = x[1] - x[0] * x[0];
    *loss = value_at(x);
    g[0] = -400 * x[0] * a - 2 * (1 - x[0]);
    g[1] = 200 * a;
    return 0;
}

static int product_at(void *data, const void *const *theta, const void *const *direction, double *loss,
                      void *const *gradient, void *const *product)
{
    const double *x = theta[0], *v = direction[0];
    double *h = product[0];
    h[0] = (1200 * x[0] * x[0] - 400 * x[1] + 2) * v[0] - 400 * x[0] * v[1];
    h[1] = -400 * x[0] * v[0] + 200 * v[1];
    return gradient_at(data, theta, loss, gradient);
}

const psgd_objective psgd__rosenbrock_objective = {.gradient = gradient_at, .product = product_at};

static psgd_status make(const rosenbrock_method *method, double lr, double step, int64_t seed, psgd_optimizer **made)
{
    psgd_tensor tensor = {.ndim = 1, .shape = (const int64_t[]){2}};
    psgd_options *options;
    PSGD_TRY(psgd_options_create(NULL, &options));
    psgd_status status = psgd_options_set_number(options, "lr", lr);
    if (status == PSGD_OK) status = psgd_options_set_number(options, "seed", (double)seed);
    for (const char *const *at = method->options; *at && status == PSGD_OK; at += 2) {
        status = psgd_options_set(options, at[0], at[1]);
    }
    if (status == PSGD_OK && step > 0) status = psgd_options_set_number(options, "step", step);
    if (status == PSGD_OK) status = psgd_optimizer_create(NULL, method->method, 1, &tensor, PSGD_F64, options, made);
    psgd_options_free(options);
    if (status != PSGD_OK) return status;
    status = psgd_optimizer_bind(*made, &psgd__rosenbrock_objective);
    if (status != PSGD_OK) psgd_optimizer_free(*made);
    return status;
}

psgd_status psgd__rosenbrock_run(const rosenbrock_method *method, double lr, double step, int64_t seed,
                                 double values[ROSENBROCK_ITERATIONS + 1])
{
    psgd_optimizer *optimizer;
    PSGD_TRY(make(method, lr, step, seed, &optimizer));
    double theta[2] = {-1, 1}, where[2];
    void *list[1] = {theta}, *position[1] = {where};
    psgd_status status = PSGD_OK;
    values[0] = value_at(theta);
    for (int i = 1; i <= ROSENBROCK_ITERATIONS && status == PSGD_OK; i++) {
        values[i] = values[i - 1];
        status = psgd_optimizer_iterate(optimizer, list, NULL);
        if (status == PSGD_ERR_NOT_FINITE) status = PSGD_OK; /* diverged: it stays where it was */
        if (status == PSGD_OK) status = psgd_optimizer_position(optimizer, (const void *const *)list, position);
        if (status == PSGD_OK && isfinite(value_at(where))) values[i] = value_at(where);
    }
    psgd_optimizer_free(optimizer);
    return status;
}

psgd_status psgd__rosenbrock_run_all(rosenbrock_runs *runs)
{
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        const rosenbrock_method *method = &psgd__rosenbrock_methods[m];
        for (int seed = 0; seed < ROSENBROCK_SEEDS; seed++) {
            PSGD_TRY(psgd__rosenbrock_run(method, method->lr, 0, seed, (*runs)[m][seed]));
        }
    }
    return PSGD_OK;
}

void psgd__rosenbrock_quartiles(const rosenbrock_runs *runs, int method, int iteration, double quartiles[3])
{
    double sorted[ROSENBROCK_SEEDS];
    for (int seed = 0; seed < ROSENBROCK_SEEDS; seed++) sorted[seed] = (*runs)[method][seed][iteration];
    psgd__sort(ROSENBROCK_SEEDS, sorted);
    for (int q = 0; q < 3; q++) quartiles[q] = sorted[(q + 1) * (ROSENBROCK_SEEDS - 1) / 4];
}
