/* What the machine can do: streaming over memory, and a matrix product. Memory is measured with bare loops on f32, the
 * kinds that STREAM has. */
#include "cli/bench/bench.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/sort.h"

#include <psgd/threads.h>

#ifdef PSGD_CBLAS
#include <cblas.h>
#pragma weak openblas_set_num_threads
void openblas_set_num_threads(int threads); /* absent from other CBLAS */
#endif

#include <math.h>
#include <stdlib.h>
#include <time.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    PROBE_COUNT = 1 << 25, /* 128 MB */
    BLAS_SPIN = 30000000   /* nanoseconds that the threads of an OpenMP BLAS spin after a product, on cores we need */
};

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

double bench_quantile(const bench_samples *samples, double q)
{
    bench_samples sorted = *samples;
    if (!sorted.count) return 0;
    psgd__sort(sorted.count, sorted.value);
    return sorted.value[(int)(q * (sorted.count - 1) + 0.5)];
}

/* Bare loops over one chunk of the probe's arrays x, y and z, for the widest vectors of this processor. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

enum { CHUNK = 1 << 14, LANES = 64 };

WIDEST static void read_chunk(void *data, int64_t chunk) /* max x */
{
    const float *x = (const float *)data + chunk * CHUNK;
    float max[LANES] = {0};
    for (int i = 0; i < CHUNK; i += LANES) {
        for (int l = 0; l < LANES; l++) max[l] = x[i + l] > max[l] ? x[i + l] : max[l];
    }
    volatile float used = 0;
    for (int l = 0; l < LANES; l++) used = max[l];
    (void)used;
}

WIDEST static void scale_chunk(void *data, int64_t chunk) /* x <- x */
{
    volatile float one = 1; /* so that the loop is not left out */
    float *x = (float *)data + chunk * CHUNK, c = one;
    for (int i = 0; i < CHUNK; i++) x[i] *= c;
}

WIDEST static void axpy_chunk(void *data, int64_t chunk) /* z <- z + 0 y */
{
    volatile float zero = 0;
    const float *restrict y = (const float *)data + PROBE_COUNT + chunk * CHUNK;
    float *restrict z = (float *)data + 2 * PROBE_COUNT + chunk * CHUNK, c = zero;
    for (int i = 0; i < CHUNK; i++) z[i] += c * y[i];
}

WIDEST static void triad_chunk(void *data, int64_t chunk) /* z <- x + y / 2 */
{
    const float *restrict x = (const float *)data + chunk * CHUNK, *restrict y = x + PROBE_COUNT;
    float *restrict z = (float *)data + 2 * PROBE_COUNT + chunk * CHUNK;
    for (int i = 0; i < CHUNK; i++) z[i] = x[i] + 0.5F * y[i];
}

/* The same with non-temporal stores, which do not read what they overwrite, where there are such. */
static void triad_past_caches_chunk(void *data, int64_t chunk)
{
#ifdef __SSE2__
    const float *x = (const float *)data + chunk * CHUNK, *y = x + PROBE_COUNT;
    float *z = (float *)data + 2 * PROBE_COUNT + chunk * CHUNK;
    const __m128 half = _mm_set1_ps(0.5F);
    for (int i = 0; i < CHUNK; i += 4) {
        _mm_stream_ps(z + i, _mm_add_ps(_mm_loadu_ps(x + i), _mm_mul_ps(half, _mm_loadu_ps(y + i))));
    }
    _mm_sfence();
#else
    triad_chunk(data, chunk);
#endif
}

/* Bytes a second of a loop that moves so many arrays, starting with none of them in a cache. */
static double rate_of(const bench_probe *probe, void (*loop)(void *, int64_t), int arrays)
{
    bench_clean_caches(probe);
    double start = bench_now();
    psgd_parallel(PROBE_COUNT / CHUNK, loop, probe->memory);
    return arrays * (double)PROBE_COUNT * sizeof(float) / (bench_now() - start);
}

bool bench_probe_create(bench_probe *probe)
{
    probe->count = PROBE_COUNT;
    probe->memory = psgd__alloc(NULL, 3 * PROBE_COUNT, sizeof(float));
    if (probe->memory) psgd_parallel(3 * PROBE_COUNT / CHUNK, scale_chunk, probe->memory);
    return probe->memory != NULL;
}

void bench_probe_free(bench_probe *probe)
{
    psgd__free(NULL, probe->memory);
}

void bench_clean_caches(const bench_probe *probe)
{
    psgd_parallel(PROBE_COUNT / CHUNK, read_chunk, probe->memory + PROBE_COUNT);
}

void bench_memory_limits(const bench_probe *probe, bench_limits *limits)
{
    limits->read = rate_of(probe, read_chunk, 1);
    double past = rate_of(probe, triad_past_caches_chunk, 3), through = rate_of(probe, triad_chunk, 3);
    limits->triad = past > through ? past : through;
    limits->in_place = rate_of(probe, axpy_chunk, 3);
}

double bench_write_rate(const bench_probe *probe)
{
    return rate_of(probe, scale_chunk, 2);
}

enum { PRODUCT_SIDE = 1536, PRODUCT_TIMES = 2 };

/* A is m x n, B n x n. */
#ifdef PSGD_CBLAS
static double blas_rate(psgd_dtype dtype, int m, int n)
{
    size_t size = psgd_dtype_size(dtype);
    char *A = psgd__alloc(NULL, ((int64_t)m * 2 + n) * n, size);
    if (!A) return 0;
    char *B = A + (size_t)m * (size_t)n * size, *C = B + (size_t)n * (size_t)n * size;
    double best = 0, flops = 2.0 * m * n * n;
    if (openblas_set_num_threads) openblas_set_num_threads(psgd_threads());
    for (int i = 0; i < PRODUCT_TIMES; i++) {
        double start = bench_now();
        if (dtype == PSGD_F64) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, n, 1, (double *)A, n, (double *)B, n, 0,
                        (double *)C, n);
        } else {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, n, 1, (float *)A, n, (float *)B, n, 0,
                        (float *)C, n);
        }
        best = fmax(best, flops / (bench_now() - start));
    }
    psgd__free(NULL, A);
    nanosleep(&(struct timespec){.tv_nsec = BLAS_SPIN}, NULL);
    return best;
}
#else
static double blas_rate(psgd_dtype dtype, int m, int n)
{
    (void)dtype, (void)m, (void)n;
    return 0;
}
#endif

/* The same product by the library: a dense Q applied to rows. */
static double own_rate(psgd_dtype dtype, int m, int n)
{
    const int64_t shape[] = {m, n};
    psgd_precond *precond = NULL;
    char *X = psgd__alloc(NULL, (int64_t)m * n, psgd_dtype_size(dtype));
    double best = 0, flops = 2.0 * m * n * n;
    if (X && psgd_precond_create(NULL, "kron(identity,dense)", 2, shape, dtype, NULL, &precond) == PSGD_OK) {
        for (int i = 0; i < PRODUCT_TIMES; i++) {
            double start = bench_now();
            if (psgd_precond_apply(precond, PSGD_APPLY_Q, X, X) != PSGD_OK) break;
            best = fmax(best, flops / (bench_now() - start));
        }
    }
    psgd_precond_free(precond);
    psgd__free(NULL, X);
    return best;
}

/* Sides are cut to what takes some tens of milliseconds: the rate is that of a large product from there on. The faster
 * of BLAS and the library counts: an OpenBLAS that does not know the processor is no limit. */
double bench_product_rate(psgd_dtype dtype, int64_t rows, int64_t side)
{
    int m = (int)(rows < PRODUCT_SIDE ? rows : PRODUCT_SIDE), n = (int)(side < PRODUCT_SIDE ? side : PRODUCT_SIDE);
    return fmax(blas_rate(dtype, m, n), own_rate(dtype, m, n));
}
