/* Options by name: on the first line what takes them, then a line name=value for each. */
#include "fuzz.h"

#include "train/config.h"

#include <math.h>

static int bowl(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    (void)data;
    *value = 0;
    for (int64_t i = 0; i < n; i++) {
        *value += (double)(i + 1) * x[i] * x[i] / 2;
        if (gradient) gradient[i] = (double)(i + 1) * x[i];
    }
    return 0;
}

static int soon(void *data, const psgd_result *now, int64_t n, const double *x)
{
    (void)data, (void)n, (void)x;
    return now->iterations >= 3;
}

static void optimizer(const char *method, const psgd_options *options)
{
    static const int64_t shape[] = {2, 3};
    psgd_tensor tensors[] = {{.ndim = 2, .shape = shape}, {.ndim = 1, .shape = shape}};
    psgd_optimizer *made;
    if (psgd_optimizer_create(fuzz_context(false), method, 2, tensors, PSGD_F64, options, &made) != PSGD_OK) return;
    double a[6] = {1, 2, 3, 4, 5, 6}, b[2] = {1, 2}, g[8 * 64], h[8 * 64];
    void *theta[] = {a, b};
    for (int i = 0; i < 8 * 64; i++) g[i] = h[i] = 1 + i % 3;
    const void *gradient[] = {g, g + 1}, *hs[] = {h, h + 8};
    bool fits = psgd_optimizer_pairs(made) <= 64;
    for (int t = 0; fits && t < 2 && !psgd_optimizer_needs_objective(made); t++) {
        psgd_status status = psgd_optimizer_step(made, theta, gradient, gradient, hs);
        FUZZ_ASSERT(status == PSGD_OK || status == PSGD_ERR_NOT_FINITE || status == PSGD_ERR_ARGUMENT);
        FUZZ_ASSERT(fuzz_finite(PSGD_F64, 6, a) && fuzz_finite(PSGD_F64, 2, b));
    }
    psgd_optimizer_free(made);
}

static void give(const char *to, const psgd_options *options)
{
    const psgd_context *context = fuzz_context(false);
    static const int64_t sizes[] = {3, 4}, *shapes[] = {sizes, sizes};
    static const int ndim[] = {2, 1};
    if (!strcmp(to, "precond")) {
        psgd_precond *precond;
        double v[12] = {1}, h[12] = {0, 1, 2};
        if (psgd_precond_create(context, "kron(tri,dense)", 2, sizes, PSGD_F64, options, &precond) != PSGD_OK) return;
        if (psgd_precond_max_pairs(precond) == 1) (void)psgd_precond_update(precond, v, h);
        psgd_precond_free(precond);
    } else if (!strcmp(to, "plan")) {
        psgd_plan *plan;
        if (psgd_plan_create(context, 2, ndim, shapes, PSGD_F32, options, &plan) != PSGD_OK) return;
        FUZZ_ASSERT(psgd_plan_spec(plan, 0) && psgd_plan_total_bytes(plan) >= 0);
        psgd_plan_free(plan);
    } else if (!strcmp(to, "minimize")) {
        double x[] = {3, -1, 2};
        psgd_function f = {.evaluate = bowl};
        psgd_result result;
        (void)psgd_minimize(context, 3, x, &f, options, soon, NULL, &result);
        FUZZ_ASSERT(fuzz_finite(PSGD_F64, 3, x));
    } else {
        optimizer(to, options);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2000) return 0;
    char *lines = fuzz_text(data, size), *rest = strchr(lines, '\n');
    psgd_options *options;
    train_setting list[TRAIN_MAX_SETTINGS];
    FUZZ_ASSERT(psgd_options_create(fuzz_context(false), &options) == PSGD_OK);
    if (rest) {
        *rest = 0;
        int count = psgd__config_split(rest + 1, list);
        bool set = true;
        for (int i = 0; i < count; i++) set = psgd_options_set(options, list[i].name, list[i].value) == PSGD_OK && set;
        if (!strcmp(lines, "train")) {
            train_config config = {0};
            (void)psgd__config_read(fuzz_context(false), count, list, &config);
            psgd__config_free(&config);
        } else if (set) {
            give(lines, options);
        }
    }
    psgd_options_free(options);
    free(lines);
    return 0;
}
