/* psgd bench optim: what a step costs beyond the user's function, and steps over many parameters compared with the
 * memory bandwidth, measured between them. */
#include "cli/bench/bench.h"
#include "core/memory.h"
#include "core/status.h"
#include "paper/rosenbrock.h"
#include "core/clock.h"

#include <stdio.h>

enum { SMALL_STEPS = 20000, SMALL_RUNS = 15, SMALL_CALLS = 500 };

static const int64_t many = 62378344; /* AlexNet's */

static int evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    double unwanted[2];
    (void)n;
    return psgd__rosenbrock_objective.gradient(data, (const void *[]){x}, value,
                                               (void *[]){gradient ? gradient : unwanted});
}

static int product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    double value, gradient[2];
    (void)n;
    return psgd__rosenbrock_objective.product(data, (const void *[]){x}, (const void *[]){v}, &value,
                                              (void *[]){gradient}, (void *[]){h});
}

static psgd_status make(const char *method, const psgd_tensor *tensor, psgd_dtype dtype, const char *const *set,
                        psgd_optimizer **optimizer)
{
    psgd_options *options;
    psgd_status status = psgd_options_create(NULL, &options);
    for (; status == PSGD_OK && *set; set += 2) status = psgd_options_set(options, set[0], set[1]);
    if (status == PSGD_OK) status = psgd_optimizer_create(NULL, method, 1, tensor, dtype, options, optimizer);
    psgd_options_free(options);
    return status;
}

/* Nanoseconds of a step on Rosenbrock's function, the function itself taken off. */
static psgd_status bench_small(const char *label, const char *method, const char *const *set)
{
    const int64_t two = 2;
    const psgd_tensor tensor = {.ndim = 1, .shape = &two};
    int (*volatile call)(void *, const void *const *, const void *const *, double *, void *const *,
                         void *const *) = psgd__rosenbrock_objective.product;
    double x[] = {-1, 1}, g[2], h[2], loss;
    psgd_optimizer *optimizer;
    psgd_status status = make(method, &tensor, PSGD_F64, set, &optimizer);
    if (status == PSGD_OK) status = psgd_optimizer_bind(optimizer, &psgd__rosenbrock_objective);
    bench_samples steps = {.count = 0}, calls = {.count = 0};
    for (int run = 0; run < SMALL_RUNS && status == PSGD_OK; run++) {
        double start = psgd__cpu_seconds();
        for (int i = 0; i < SMALL_STEPS && status == PSGD_OK; i++) {
            status = psgd_optimizer_iterate(optimizer, (void *[]){x}, NULL);
        }
        bench_add(&steps, (psgd__cpu_seconds() - start) / SMALL_STEPS);
        start = psgd__cpu_seconds();
        for (int i = 0; i < SMALL_STEPS; i++) {
            call(NULL, (const void *[]){x}, (const void *[]){x}, &loss, (void *[]){g}, (void *[]){h});
        }
        bench_add(&calls, (psgd__cpu_seconds() - start) / SMALL_STEPS);
    }
    psgd_optimizer_free(optimizer);
    if (status != PSGD_OK) return status;
    double step = bench_quantile(&steps, 0.5) * 1e9, call_time = bench_quantile(&calls, 0.5) * 1e9;
    printf("%-34s %9.0f ns a step, %4.0f ns of them the function: overhead %.0f ns\n", label, step, call_time,
           step - call_time);
    return PSGD_OK;
}

/* Nanoseconds of an iteration of psgd_minimize from (-1.2, 1), the function, the start and the end included. */
static psgd_status bench_minimize(void)
{
    const psgd_function function = {.evaluate = evaluate, .product = product};
    psgd_result r = {.iterations = 1};
    bench_samples times = {.count = 0};
    psgd_status status = PSGD_OK;
    for (int run = 0; run < SMALL_RUNS && status == PSGD_OK; run++) {
        double start = psgd__cpu_seconds();
        for (int i = 0; i < SMALL_CALLS && status == PSGD_OK; i++) {
            double x[] = {-1.2, 1};
            status = psgd_minimize(NULL, 2, x, &function, NULL, NULL, NULL, &r);
        }
        bench_add(&times, (psgd__cpu_seconds() - start) / SMALL_CALLS);
    }
    if (status != PSGD_OK) return status;
    double call = bench_quantile(&times, 0.5);
    printf("%-34s %9.0f ns an iteration, %.1f us for all %lld\n", "psgd_minimize, 2 parameters",
           call / (double)r.iterations * 1e9, call * 1e6, (long long)r.iterations);
    return PSGD_OK;
}

typedef struct large {
    const char *method;
    double streams; /* arrays that one pass reads or writes, both counted */
} large;

static psgd_status bench_large(const large *l, bool quick, bool check, float *theta, const float *g)
{
    const char *const set[] = {"lr", "1e-9", "check", check ? "yes" : "no", NULL};
    char label[64];
    snprintf(label, sizeof label, "%s%s", l->method, check ? "" : ", check no");
    const psgd_tensor tensor = {.ndim = 1, .shape = &many};
    psgd_optimizer *optimizer;
    bench_probe probe;
    psgd_status status = make(l->method, &tensor, PSGD_F32, set, &optimizer);
    if (status != PSGD_OK) return status;
    if (!bench_probe_create(&probe)) {
        psgd_optimizer_free(optimizer);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to measure memory with");
    }
    bench_samples times = {.count = 0}, limits = {.count = 0};
    for (int run = 0; run < (quick ? 5 : 15) && status == PSGD_OK; run++) {
        double start = bench_now();
        status = psgd_optimizer_step(optimizer, (void *[]){theta}, (const void *[]){g}, NULL, NULL);
        if (run) bench_add(&times, bench_now() - start); /* the first touches the state */
        bench_add(&limits, bench_write_rate(&probe));
    }
    bench_probe_free(&probe);
    psgd_optimizer_free(optimizer);
    double rate = l->streams * sizeof(float) * (double)many / bench_quantile(&times, 0.5);
    double limit = bench_quantile(&limits, 0.5);
    printf("%-34s %9.1f ms a step [%.1f, %.1f], %5.1f GB/s in one pass, the limit is %.1f: %.0f %%\n", label,
           bench_quantile(&times, 0.5) * 1e3, bench_quantile(&times, 0.1) * 1e3, bench_quantile(&times, 0.9) * 1e3,
           rate / 1e9, limit / 1e9, 100 * rate / limit);
    return status;
}

psgd_status bench_optim(const bench_settings *settings)
{
    static const char *const newton[] = {"group", "tri", "lr", "0.5", "step", "0.2", "init-scale", "0.1", NULL};
    static const char *const fisher[] = {"group", "tri", "criterion", "fisher", "lr", "1e-6", NULL};
    static const char *const none[] = {"lr", "1e-6", NULL};
    static const large methods[] = {{"sgd", 3}, {"momentum", 5}, {"adam", 7}};
    psgd_status status = bench_small("psgd newton, tri, 2 parameters", "psgd", newton);
    if (status == PSGD_OK) status = bench_small("psgd fisher, tri, 2 parameters", "psgd", fisher);
    if (status == PSGD_OK) status = bench_small("adam, 2 parameters", "adam", none);
    if (status == PSGD_OK) status = bench_minimize();
    float *theta = psgd__alloc(NULL, 2 * many, sizeof(float)), *g = theta ? theta + many : NULL;
    if (status == PSGD_OK && !theta)
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld parameters", (long long)many);
    for (int64_t i = 0; theta && i < 2 * many; i++) theta[i] = (float)(i % 97) * 0.01f - 0.5f;
    printf("%lld parameters, f32\n", (long long)many);
    for (int k = 0; k < 6 && status == PSGD_OK; k++) {
        status = bench_large(&methods[k / 2], settings->quick, k % 2 == 0, theta, g);
    }
    psgd__free(NULL, theta);
    return status;
}
