/* What the machine can do: streaming over memory, and a matrix product. Memory is measured with bare loops on f32, the
 * kinds that STREAM has. */
#define PSGD_TYPED_SOURCE
#include "cli/bench/bench.h"
#include "core/clock.h"
#include "core/memory.h"
#include "la/kernel/stream.h"
#include "la/la.h"

#include <psgd/threads.h>

#include <cblas.h>

#include <stdlib.h>
#include <string.h>

enum { PROBE_COUNT = 1 << 25 }; /* 128 MB */

static double (*read_clock)(void) = psgd__seconds;

void bench_use_processor_time(void)
{
    read_clock = psgd__cpu_seconds;
}

double bench_now(void)
{
    return read_clock();
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
    probe->memory = psgd__alloc(NULL, 3 * probe->count, sizeof(float));
    if (!probe->memory) return false;
    la_scale(3 * probe->count, 1, probe->memory);
    return true;
}

void bench_probe_free(bench_probe *probe)
{
    psgd__free(NULL, probe->memory);
}

enum { CHUNK = 1 << 14 };

typedef struct triad {
    const float *x, *y;
    float *z;
    bool past_caches;
} triad;

/* z <- x + y / 2 in one chunk, line by line. */
static void triad_chunk(void *data, int64_t chunk)
{
    enum { WIDTH = STREAM_LINE / sizeof(float) };
    const triad *t = data;
    for (int64_t i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i += WIDTH) {
        float line[WIDTH];
        for (int l = 0; l < (int)WIDTH; l++) line[l] = t->x[i + l] + 0.5F * t->y[i + l];
        if (t->past_caches) {
            stream_line((char *)(t->z + i), (const char *)line);
        } else {
            memcpy(t->z + i, line, sizeof line);
        }
    }
    stream_done();
}

static double triad_rate(const bench_probe *probe, bool past_caches)
{
    int64_t n = probe->count;
    bench_clean_caches(probe);
    triad t = {probe->memory, probe->memory + n, probe->memory + 2 * n, past_caches};
    double start = bench_now();
    psgd_parallel(n / CHUNK, triad_chunk, &t);
    return 3 * (double)n * sizeof(float) / (bench_now() - start);
}

void bench_clean_caches(const bench_probe *probe)
{
    volatile float max = la_max_abs(probe->count, probe->memory + probe->count);
    (void)max;
}

void bench_memory_limits(const bench_probe *probe, bench_limits *limits)
{
    int64_t n = probe->count;
    bench_clean_caches(probe);
    double start = bench_now();
    volatile float max = la_max_abs(n, probe->memory);
    (void)max;
    limits->read = (double)n * sizeof(float) / (bench_now() - start);
    double past = triad_rate(probe, true), through = triad_rate(probe, false);
    limits->triad = past > through ? past : through;
    bench_clean_caches(probe);
    start = bench_now();
    la_axpy(n, 0, probe->memory + n, probe->memory + 2 * n);
    limits->in_place = 3 * (double)n * sizeof(float) / (bench_now() - start);
}

double bench_write_rate(const bench_probe *probe)
{
    bench_clean_caches(probe);
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
