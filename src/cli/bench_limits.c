/* What the machine can do: streaming over memory, and a matrix product. Memory is measured with the library's own
 * simplest loops on f32. */
#define PSGD_TYPED_SOURCE
#include "cli/bench.h"
#include "core/memory.h"
#include "la/la.h"

#include <cblas.h>

#include <stdlib.h>
#include <time.h>

enum { PROBE_COUNT = 1 << 25 }; /* 128 MB */

static clockid_t which_clock = CLOCK_MONOTONIC;

void bench_use_processor_time(void)
{
    which_clock = CLOCK_PROCESS_CPUTIME_ID;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(which_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_add(bench_samples *samples, double value)
{
    if (samples->count < BENCH_MAX_SAMPLES) samples->value[samples->count++] = value;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(const bench_samples *samples, double q)
{
    bench_samples sorted = *samples;
    if (!sorted.count) return 0;
    qsort(sorted.value, (size_t)sorted.count, sizeof sorted.value[0], ascending);
    return sorted.value[(int)(q * (sorted.count - 1) + 0.5)];
}

bool bench_probe_create(bench_probe *probe)
{
    probe->count = PROBE_COUNT;
    probe->memory = psgd__alloc(NULL, probe->count, sizeof(float));
    if (!probe->memory) return false;
    la_scale(probe->count, 1, probe->memory);
    return true;
}

void bench_probe_free(bench_probe *probe)
{
    psgd__free(NULL, probe->memory);
}

double bench_read_rate(const bench_probe *probe)
{
    double start = bench_now();
    volatile float most = la_max_abs(probe->count, probe->memory);
    (void)most;
    return (double)probe->count * sizeof(float) / (bench_now() - start);
}

double bench_write_rate(const bench_probe *probe)
{
    double start = bench_now();
    la_scale(probe->count, 1, probe->memory);
    return 2 * (double)probe->count * sizeof(float) / (bench_now() - start);
}

/* Sides are cut to what takes some tens of milliseconds: the rate is that of a large product from there on. */
double bench_product_rate(psgd_dtype dtype, int64_t rows, int64_t side)
{
    int m = (int)(rows < 1536 ? rows : 1536), n = (int)(side < 1536 ? side : 1536);
    size_t size = psgd_dtype_size(dtype);
    char *A = psgd__alloc(NULL, ((int64_t)m * 2 + n) * n, size);
    if (!A) return 0;
    char *B = A + (size_t)m * (size_t)n * size, *C = B + (size_t)n * (size_t)n * size;
    double best = 0, flops = 2.0 * m * n * n;
    for (int i = 0; i < 2; i++) {
        double start = bench_now();
        if (dtype == PSGD_F64) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, n, 1, (double *)A, n, (double *)B, n, 0,
                        (double *)C, n);
        } else {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, n, 1, (float *)A, n, (float *)B, n, 0,
                        (float *)C, n);
        }
        double rate = flops / (bench_now() - start);
        if (rate > best) best = rate;
    }
    psgd__free(NULL, A);
    return best;
}
