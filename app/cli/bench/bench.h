/* psgd bench: what is measured, what the machine could do at best, and how both are printed. */
#ifndef PSGD_CLI_BENCH_BENCH_H
#define PSGD_CLI_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/psgd.h>

enum { BENCH_MAX_SAMPLES = 64, BENCH_OPS = 3 };

typedef enum bench_op { BENCH_UPDATE, BENCH_APPLY, BENCH_STEP } bench_op;

/* Times of repeated runs, in seconds. */
typedef struct bench_samples {
    double value[BENCH_MAX_SAMPLES];
    int count;
} bench_samples;

double bench_now(void);
void bench_use_processor_time(void); /* the clock counts what this process runs, not what it waits */
void bench_add(bench_samples *samples, double value);
double bench_quantile(const bench_samples *samples, double q); /* 0.5: the median */

/* What an op must move or compute, from the formulas of docs/benchmarks/performance.md. */
typedef struct bench_work {
    double read, written, in_place; /* bytes of passes that only read, that write an array of their own, and that write
                                       what they have read */
    double flops;                   /* where this is not 0 it is what counts */
    int64_t side;    /* of the largest triangle, and the fibres that it meets: the shape of the product that */
    int64_t fibres;  /* flops are compared with */
    double resident; /* bytes that an op goes through: below 64 MB a cache may hold them */
} bench_work;

/* The shapes that a spec is measured on, a space between them; --quick takes those with a star only. A rule of NULL is
 * the default of preconditioners. */
typedef struct bench_case {
    const char *spec, *shapes, *rule;
} bench_case;

extern const bench_case bench_cases[]; /* ends with a NULL spec */

/* false where nothing is counted for this spec. */
bool bench_work_of(const char *spec, const char *rule, int ndim, const int64_t *shape, psgd_dtype dtype, bench_op op,
                   bench_work *work);

/* What the machine does now, over memory that no cache holds: bytes per second of bare loops that read an array, that
 * write one from two others (z <- x + c y, the better of stores through and past the caches) and that read two and
 * write one of them (y <- y + c x); flops per second of a product rows x side by side x side. */
typedef struct bench_probe {
    float *memory; /* three arrays */
    int64_t count; /* elements of one */
} bench_probe;

typedef struct bench_limits {
    double read, triad, in_place, product; /* 0 where not measured */
} bench_limits;

bool bench_probe_create(bench_probe *probe);
void bench_probe_free(bench_probe *probe);
void bench_clean_caches(const bench_probe *probe); /* so that no measurement pays for what the one before it wrote */
void bench_memory_limits(const bench_probe *probe, bench_limits *limits);
double bench_write_rate(const bench_probe *probe);                       /* x <- c x: as many bytes written as read */
double bench_product_rate(psgd_dtype dtype, int64_t rows, int64_t side); /* 0 where there is no memory for it */

typedef struct bench_settings {
    bool quick, json;
    psgd_dtype dtype;
    const char *spec, *shape, *rule; /* only this one, where not NULL */
} bench_settings;

/* Fails where spec or shape are wrong or nothing is to be measured. */
psgd_status bench_groups_check(const bench_settings *settings);
psgd_status bench_groups(const bench_settings *settings); /* of settings that passed that check */
psgd_status bench_optim(const bench_settings *settings);  /* of the settings only quick counts */
psgd_status bench_images(const char *folder);

#endif
