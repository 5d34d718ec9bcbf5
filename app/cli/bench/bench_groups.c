/* Measures update, apply and step (update, apply, theta <- theta - rate Pg) of each case. Between its runs the limits
 * of the machine are measured as well: on a shared machine both change from one second to the next, and only their
 * ratio means something. */
#include "cli/bench/bench.h"
#include "cli/cli.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

static const char *const op_names[BENCH_OPS] = {"update", "apply", "step"};
static const double IN_CACHE = 64e6;

enum { PROBES = 3, ARRAYS = PROBES + 2 };

typedef struct bench_run {
    const bench_settings *settings;
    const char *spec, *rule, *shape_word;
    int ndim;
    int64_t shape[32], n;
    psgd_precond *precond;
    char *probe[PROBES], *direction, *theta;
    int64_t calls; /* so that pairs take turns: (x, y), (y, z), (z, x). Q neither settles nor runs away, and unlike with
                      (x, y), (y, x) no two updates commute, which would spare pro its rotation. */
} bench_run;

typedef struct bench_result {
    bench_samples time[BENCH_OPS];
    bench_samples part[BENCH_OPS]; /* of what the limits measured just before allow */
} bench_result;

enum { CHUNK = 1 << 16 }; /* elements that a thread takes at a time */

/* A chunk of theta <- theta - 1e-9 direction. */
static void descend(void *data, int64_t chunk)
{
    const bench_run *run = data;
    int64_t i = chunk * CHUNK, end = i + CHUNK < run->n ? i + CHUNK : run->n;
    if (run->settings->dtype == PSGD_F64) {
        const double *direction = (const double *)run->direction;
        for (; i < end; i++) ((double *)run->theta)[i] -= 1e-9 * direction[i];
    } else {
        const float *direction = (const float *)run->direction;
        for (; i < end; i++) ((float *)run->theta)[i] -= 1e-9F * direction[i];
    }
}

static psgd_status call(bench_run *run, bench_op op)
{
    const void *v = run->probe[run->calls % PROBES], *h = run->probe[(run->calls + 1) % PROBES];
    run->calls++;
    if (op != BENCH_APPLY) PSGD_TRY(psgd_precond_update(run->precond, v, h));
    if (op != BENCH_UPDATE) PSGD_TRY(psgd_precond_apply(run->precond, PSGD_APPLY_P, h, run->direction));
    if (op == BENCH_STEP) psgd_parallel((run->n + CHUNK - 1) / CHUNK, descend, run);
    return PSGD_OK;
}

/* Seconds for one call, from as many as make the clock exact. */
static psgd_status time_op(bench_run *run, bench_op op, double *seconds)
{
    int64_t times = 1;
    for (;;) {
        double start = bench_now();
        for (int64_t i = 0; i < times; i++) PSGD_TRY(call(run, op));
        double spent = bench_now() - start;
        *seconds = spent / (double)times;
        if (spent > 2e-4 || times > 1000000) return PSGD_OK;
        times = spent > 2e-6 ? (int64_t)(4e-4 / spent * (double)times) + 1 : times * 100;
    }
}

static bool over_memory(const bench_work *work)
{
    return work->flops == 0 && work->resident >= IN_CACHE;
}

/* The limits that this case is compared with: memory, a product, or none where a cache may hold it. */
static bench_limits measure_limits(const bench_run *run, const bench_probe *probe)
{
    bench_work work;
    bench_limits limits = {0};
    if (!bench_work_of(run->spec, run->rule, run->ndim, run->shape, run->settings->dtype, BENCH_UPDATE, &work))
        return limits;
    if (work.flops > 0) {
        limits.product = bench_product_rate(run->settings->dtype, work.fibres, work.side);
    } else if (over_memory(&work)) {
        bench_memory_limits(probe, &limits);
    }
    return limits;
}

/* The min time that the limits allow, or 0 where there is nothing to compare with. */
static double ideal(const bench_work *work, const bench_limits *limits)
{
    if (work->flops > 0) return limits->product > 0 ? work->flops / limits->product : 0;
    if (!over_memory(work) || !(limits->read > 0)) return 0;
    return work->read / limits->read + work->written / limits->triad + work->in_place / limits->in_place;
}

static psgd_status measure_op(bench_run *run, bench_op op, const bench_probe *probe, const bench_limits *limits,
                              bench_result *result)
{
    bench_work work;
    double seconds;
    bool counted = bench_work_of(run->spec, run->rule, run->ndim, run->shape, run->settings->dtype, op, &work);
    if (counted && over_memory(&work)) bench_clean_caches(probe);
    PSGD_TRY(time_op(run, op, &seconds));
    bench_add(&result->time[op], seconds);
    if (!counted) return PSGD_OK;
    double min = ideal(&work, limits);
    if (min > 0) bench_add(&result->part[op], min / seconds);
    return PSGD_OK;
}

static psgd_status measure(bench_run *run, const bench_probe *probe, bench_result *result)
{
    double budget = run->settings->quick ? 0.5 : 3, start = bench_now();
    int min = run->settings->quick ? 3 : 5;
    for (int op = 0; op < BENCH_OPS; op++) PSGD_TRY(call(run, (bench_op)op));
    for (int i = 0; i < BENCH_MAX_SAMPLES; i++) {
        double spent = bench_now() - start;
        if (i > 0 && spent > budget && (i >= min || spent > 20 * budget)) break;
        bench_limits limits = measure_limits(run, probe);
        if (limits.product > 0) PSGD_TRY(call(run, BENCH_UPDATE)); /* the product has evicted the caches */
        for (int op = 0; op < BENCH_OPS; op++) PSGD_TRY(measure_op(run, (bench_op)op, probe, &limits, result));
    }
    return PSGD_OK;
}

static void print_result(const bench_run *run, const bench_result *result)
{
    for (int op = 0; op < BENCH_OPS; op++) {
        bench_work work;
        const bench_samples *t = &result->time[op];
        double time = bench_quantile(t, 0.5), low = bench_quantile(t, 0.1), high = bench_quantile(t, 0.9);
        bool counted = bench_work_of(run->spec, run->rule, run->ndim, run->shape, run->settings->dtype, (bench_op)op,
                                     &work);
        double amount = work.flops > 0 ? work.flops : work.read + work.written + work.in_place;
        double part = bench_quantile(&result->part[op], 0.5);
        const char *unit = work.flops > 0 ? "flops" : "bytes";
        if (run->settings->json) {
            printf("{\"spec\":\"%s\",\"shape\":\"%s\",\"rule\":\"%s\",\"dtype\":\"%s\",\"op\":\"%s\",\"seconds\":%.6g,"
                   "\"p10\":%.6g,\"p90\":%.6g,\"runs\":%d",
                   run->spec, run->shape_word, run->rule ? run->rule : "eq", psgd_dtype_name(run->settings->dtype),
                   op_names[op], time, low, high, t->count);
            if (counted) printf(",\"%s\":%.6g,\"per_second\":%.6g", unit, amount, amount / time);
            if (counted && part > 0) {
                printf(",\"limit_per_second\":%.6g,\"of_limit\":%.3f", amount / time / part, part);
            }
            puts("}");
        } else {
            char share[16] = "";
            if (part > 0) (void)snprintf(share, sizeof share, "%.0f %%", 100 * part);
            char title[80];
            (void)snprintf(title, sizeof title, "%s%s%s", run->spec, run->rule ? " " : "", run->rule ? run->rule : "");
            printf("%-16s %-11s %-7s %11.4f ms (%9.4f .. %9.4f) %9.4g %-5s %8.1f G%s/s %8s\n", title, run->shape_word,
                   op_names[op], 1e3 * time, 1e3 * low, 1e3 * high, amount, unit, amount / time * 1e-9,
                   work.flops > 0 ? "FLOP" : "B", share);
        }
    }
    fflush(stdout);
}

static psgd_status create(bench_run *run)
{
    psgd_options *options;
    PSGD_TRY(psgd_options_create(NULL, &options));
    psgd_status status = run->rule ? psgd_options_set(options, "rule", run->rule) : PSGD_OK;
    if (status == PSGD_OK) {
        status = psgd_precond_create(NULL, run->spec, run->ndim, run->shape, run->settings->dtype, options,
                                     &run->precond);
    }
    psgd_options_free(options);
    return status;
}

static psgd_status run_case(const bench_settings *settings, const bench_probe *probe, const bench_case *c,
                            const char *shape)
{
    bench_run run = {.settings = settings, .spec = c->spec, .rule = c->rule, .shape_word = shape, .n = 1};
    bench_result result = {0};
    PSGD_TRY(cli_shape(shape, &run.ndim, run.shape));
    for (int i = 0; i < run.ndim; i++) run.n *= run.shape[i];
    size_t bytes = (size_t)run.n * psgd_dtype_size(settings->dtype);
    PSGD_TRY(create(&run));
    char **arrays[ARRAYS] = {&run.probe[0], &run.probe[1], &run.probe[2], &run.direction, &run.theta};
    psgd_status status = PSGD_OK;
    for (int i = 0; i < ARRAYS && status == PSGD_OK; i++) {
        *arrays[i] = psgd__alloc(NULL, (int64_t)bytes, 1);
        if (!*arrays[i]) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %s", shape);
        if (i < PROBES && *arrays[i]) psgd_normal_fill(settings->dtype, 1, (uint64_t)i, 0, 0, run.n, *arrays[i]);
        if (i >= PROBES && *arrays[i]) memset(*arrays[i], 0, bytes); /* its pages are there */
    }
    if (status == PSGD_OK) status = measure(&run, probe, &result);
    if (status == PSGD_OK) print_result(&run, &result);
    psgd_precond_free(run.precond);
    for (int i = 0; i < ARRAYS; i++) psgd__free(NULL, *arrays[i]);
    return status;
}

/* Normal deviates: what drawing v costs. */
static void measure_normals(const bench_settings *settings, const bench_probe *probe)
{
    bench_samples rate = {0};
    int64_t count = probe->count / (settings->dtype == PSGD_F64 ? 2 : 1);
    for (int i = 0; i < 9; i++) {
        double start = bench_now();
        psgd_normal_fill(settings->dtype, 1, 0, (uint64_t)i, 0, count, probe->memory);
        bench_add(&rate, (double)count / (bench_now() - start));
    }
    double middle = bench_quantile(&rate, 0.5), low = bench_quantile(&rate, 0.1), high = bench_quantile(&rate, 0.9);
    if (settings->json) {
        printf("{\"normals_per_second\":%.6g,\"p10\":%.6g,\"p90\":%.6g,\"dtype\":\"%s\"}\n", middle, low, high,
               psgd_dtype_name(settings->dtype));
    } else {
        printf("normal deviates, %s: %.0f million a second (%.0f .. %.0f)\n", psgd_dtype_name(settings->dtype),
               middle * 1e-6, low * 1e-6, high * 1e-6);
    }
    memset(probe->memory, 0, (size_t)probe->count * sizeof(float));
}

static void print_limits(const bench_settings *settings, const bench_probe *probe)
{
    bench_samples read = {0}, triad = {0}, in_place = {0}, scale = {0}, product = {0};
    for (int i = 0; i < 7; i++) {
        bench_limits limits = {0};
        bench_memory_limits(probe, &limits);
        bench_add(&read, limits.read);
        bench_add(&triad, limits.triad);
        bench_add(&in_place, limits.in_place);
        bench_add(&scale, bench_write_rate(probe));
        bench_add(&product, bench_product_rate(settings->dtype, 1536, 1536));
    }
    const char *format = settings->json
                             ? "{\"read\":%.6g,\"triad\":%.6g,\"in_place\":%.6g,\"read_write\":%.6g,"
                               "\"product\":%.6g}\n"
                             : "memory, GB/s: %.1f read; %.1f z <- x + c y; %.1f y <- y + c x; %.1f x <- c x; "
                               "product: %.0f GFLOP/s\n";
    double unit = settings->json ? 1 : 1e-9;
    printf(format, unit * bench_quantile(&read, 0.5), unit * bench_quantile(&triad, 0.5),
           unit * bench_quantile(&in_place, 0.5), unit * bench_quantile(&scale, 0.5),
           unit * bench_quantile(&product, 0.5));
}

/* Measures the cases that are asked for, or only counts them where there is no probe. With both a spec and a shape
 * these are the case, listed or not. */
static psgd_status run_cases(const bench_settings *settings, const bench_probe *probe, int *count)
{
    const bench_case own[] = {{settings->spec, settings->shape, settings->rule}, {0}};
    bool is_own = settings->spec && settings->shape;
    for (const bench_case *c = is_own ? own : bench_cases; c->spec; c++) {
        if (settings->spec && strcmp(settings->spec, c->spec) != 0) continue;
        if (settings->rule && strcmp(settings->rule, c->rule ? c->rule : "eq") != 0) continue;
        size_t length;
        for (const char *at = c->shapes; *at; at += length + (at[length] == ' ')) {
            char shape[1024];
            bool quick = *at == '*';
            at += quick;
            length = strcspn(at, " ");
            snprintf(shape, sizeof shape, "%.*s", (int)length, at);
            if (settings->shape && strcmp(settings->shape, shape) != 0) continue;
            if (settings->quick && !quick && !is_own) continue;
            ++*count;
            if (probe) PSGD_TRY(run_case(settings, probe, c, shape));
        }
    }
    return PSGD_OK;
}

psgd_status bench_groups_check(const bench_settings *settings)
{
    int ndim = 0, count = 0;
    int64_t shape[32] = {0};
    if (settings->shape) PSGD_TRY(cli_shape(settings->shape, &ndim, shape));
    if (settings->shape && settings->spec) {
        bench_run run = {.settings = settings, .spec = settings->spec, .rule = settings->rule, .ndim = ndim};
        memcpy(run.shape, shape, sizeof shape);
        psgd_status status = create(&run);
        psgd_precond_free(run.precond);
        return status;
    }
    PSGD_TRY(run_cases(settings, NULL, &count));
    if (count > 0) return PSGD_OK;
    const char *what = settings->spec ? "spec" : settings->shape ? "shape" : "rule";
    return cli_wrong_use("no case%s has the %s '%s'%s; with both --spec and --shape any group is measured",
                         settings->quick ? " of --quick" : "", what,
                         settings->spec    ? settings->spec
                         : settings->shape ? settings->shape
                                           : settings->rule,
                         settings->rule && strcmp(what, "rule") ? " and that rule" : "");
}

psgd_status bench_groups(const bench_settings *settings)
{
    bench_probe probe;
    int count = 0;
    if (!bench_probe_create(&probe)) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to measure the machine with");
    print_limits(settings, &probe);
    measure_normals(settings, &probe);
    psgd_status status = run_cases(settings, &probe, &count);
    bench_probe_free(&probe);
    return status;
}
