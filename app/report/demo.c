/* PH and QHQ' have the same eigenvalues, and QHQ' is symmetric. By Sylvester's law as many are positive as H has: a fit
 * moves their sizes towards 1 and cannot change their signs. */
#include "report/demo.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/sort.h"
#include "report/hessian.h"
#include "report/plot.h"
#include <psgd/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = HESSIAN_SIZE, UPDATES = 30000, MOMENTS = 40 };

/* Bands of the figure, as shares of the eigenvalues of one sign. */
enum { MIN, LOW, MEDIAN, HIGH, LARGEST, LEVELS };

static const double levels[LEVELS] = {0, 0.1, 0.5, 0.9, 1};

static const char *const specs[] = {"diag", "scan", "kron(tri,tri)", "tri", "dense"};

enum { GROUPS = sizeof specs / sizeof specs[0] };

/* The spectrum of QHQ' of one group over time, for each sign. */
typedef struct course {
    int64_t stored;
    double size[2][LEVELS][MOMENTS]; /* |eigenvalue|: positive, negative */
    double both[LEVELS][MOMENTS];    /* of either sign */
} course;

typedef struct demo {
    double H[N * N], M[N * N], values[N], v[N], h[N];
    double moments[MOMENTS]; /* update counts, as the figure wants them */
    course courses[GROUPS];
} demo;

/* Update counts from 1 to UPDATES, evenly spaced on a log axis; consecutive integers where that spacing is below 1. */
static void place_moments(demo *d)
{
    int64_t last = 0;
    for (int i = 0; i < MOMENTS; i++) {
        int64_t at = llround(pow(UPDATES, (double)i / (MOMENTS - 1)));
        last = at > last ? at : last + 1;
        d->moments[i] = (double)last;
    }
    d->moments[MOMENTS - 1] = UPDATES;
}

/* M <- Q M', which twice is Q M Q'. */
static psgd_status multiply(const psgd_precond *precond, double *M)
{
    for (int i = 0; i < N; i++) {
        PSGD_TRY(psgd_precond_apply(precond, PSGD_APPLY_Q, M + (int64_t)i * N, M + (int64_t)i * N));
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            double other = M[i * N + j];
            M[i * N + j] = M[j * N + i];
            M[j * N + i] = other;
        }
    }
    return PSGD_OK;
}

static double quantile(const double *sorted, int count, double level)
{
    return count ? sorted[(int)lrint(level * (count - 1))] : NAN;
}

static void keep_levels(double *values, course *to, int moment)
{
    double sizes[N];
    int negative = 0;
    while (negative < N && values[negative] < 0) negative++;
    for (int i = 0; i < negative; i++) sizes[i] = -values[negative - 1 - i];
    for (int k = 0; k < LEVELS; k++) {
        to->size[0][k][moment] = quantile(values + negative, N - negative, levels[k]);
        to->size[1][k][moment] = quantile(sizes, negative, levels[k]);
    }
    for (int i = 0; i < N; i++) sizes[i] = fabs(values[i]);
    psgd__sort(N, sizes);
    for (int k = 0; k < LEVELS; k++) to->both[k][moment] = quantile(sizes, N, levels[k]);
}

static psgd_status measure(demo *d, const psgd_precond *precond, course *to, int moment)
{
    memcpy(d->M, d->H, sizeof d->M);
    PSGD_TRY(multiply(precond, d->M));
    PSGD_TRY(multiply(precond, d->M));
    PSGD_TRY(psgd__hessian_eigenvalues(d->M, d->values));
    keep_levels(d->values, to, moment);
    return PSGD_OK;
}

static void times_hessian(const double *H, const double *v, double *h)
{
    for (int i = 0; i < N; i++) {
        h[i] = 0;
        for (int j = 0; j < N; j++) h[i] += H[i * N + j] * v[j];
    }
}

/* Large steps to get near, small ones to stay. */
static double step_at(int64_t update)
{
    return 0.3 / sqrt(1 + (double)update / 1000);
}

static psgd_status fit(demo *d, psgd_precond *precond, uint64_t seed, course *to)
{
    for (int64_t k = 0, moment = 0; k < UPDATES; k++) {
        PSGD_TRY(psgd_precond_set_step(precond, step_at(k)));
        PSGD_TRY(psgd_normal_fill(PSGD_F64, seed, 0, (uint64_t)k, 0, N, d->v));
        times_hessian(d->H, d->v, d->h);
        PSGD_TRY(psgd_precond_update(precond, d->v, d->h));
        if ((double)(k + 1) == d->moments[moment]) PSGD_TRY(measure(d, precond, to, (int)moment++));
    }
    return PSGD_OK;
}

static psgd_status fit_group(const psgd_context *context, demo *d, const char *spec, uint64_t seed, course *to)
{
    static const int64_t shape[2] = {HESSIAN_OUT, HESSIAN_IN};
    int64_t bytes;
    double unused[4];
    psgd_precond *precond = NULL;
    psgd_options *options = NULL;
    PSGD_TRY(psgd_group_cost(context, spec, 2, shape, PSGD_F64, &to->stored, &bytes, &unused[0], &unused[1], &unused[2],
                             &unused[3]));
    psgd_status status = psgd_options_create(context, &options);
    if (status == PSGD_OK) status = psgd_options_set(options, "init", "first");
    if (status == PSGD_OK) status = psgd_precond_create(context, spec, 2, shape, PSGD_F64, options, &precond);
    if (status == PSGD_OK) status = fit(d, precond, seed, to);
    psgd_precond_free(precond);
    psgd_options_free(options);
    return status;
}

static void add_table(const demo *d, text *to)
{
    static const int shown[] = {0, MOMENTS / 4, MOMENTS / 2, 3 * MOMENTS / 4, MOMENTS - 1};
    psgd__text_add(to, "%-14s %8s %9s    |eigenvalues of PH|\n%-14s %8s %9s %10s %10s %10s %10s %10s %11s\n", "", "",
                   "", "group", "elements", "updates", "min", "10%", "median", "90%", "max", "condition");
    for (int g = 0; g < GROUPS; g++) {
        const course *c = &d->courses[g];
        for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
            int m = shown[i];
            if (i == 0) psgd__text_add(to, "%-14s %8lld", specs[g], (long long)c->stored);
            if (i > 0) psgd__text_add(to, "%-14s %8s", "", "");
            psgd__text_add(to, " %9.0f", d->moments[m]);
            for (int k = 0; k < LEVELS; k++) psgd__text_add(to, " %10.3g", c->both[k][m]);
            psgd__text_add(to, " %11.3g\n", c->both[LARGEST][m] / c->both[MIN][m]);
        }
    }
}

/* Two bands, the median and the target for each group, above for positive and below for negative eigenvalues. */
static psgd_status draw(const psgd_context *context, const demo *d, const char *folder)
{
    enum { SERIES = 4 };
    static const double one = 1;
    plot_series series[2][GROUPS][SERIES];
    plot_panel panels[2][GROUPS];
    for (int sign = 0; sign < 2; sign++) {
        for (int g = 0; g < GROUPS; g++) {
            const double(*size)[MOMENTS] = d->courses[g].size[sign];
            plot_series *s = series[sign][g], base = {.colour = sign, .count = MOMENTS, .x = d->moments};
            s[0] = s[1] = s[2] = s[3] = base;
            s[0].style = s[1].style = PLOT_BAND;
            s[0].opacity = 0.2;
            s[0].y = size[MIN];
            s[0].upper = size[LARGEST];
            s[1].opacity = 0.45;
            s[1].y = size[LOW];
            s[1].upper = size[HIGH];
            s[2].width = 2;
            s[2].y = size[MEDIAN];
            s[3] = (plot_series){.style = PLOT_LEVEL, .colour = 6, .width = 1.2, .count = 1, .y = &one};
            panels[sign][g] = (plot_panel){
                .title = sign ? NULL : specs[g],
                .x = {.label = "updates", .log = true, .min = 1, .max = UPDATES},
                .y = {.label = sign ? "negative eigenvalues of PH" : "positive eigenvalues of PH",
                      .format = sign ? "-10^{%T}" : "10^{%T}",
                      .log = true,
                      .reverse = sign,
                      .min = 1e-4,
                      .max = 30},
                .series = s,
                .series_count = SERIES,
            };
        }
    }
    plot_figure figure = {.title = "Fitting P on five groups: the spectrum of PH closes in on 1 and −1\n"
                                   "line: median; strong colour: the middle 80 %; faint colour: all eigenvalues",
                          .rows = 2,
                          .columns = GROUPS,
                          .panels = panels[0],
                          .shared = true,
                          .width = 1100,
                          .height = 560};
    text stem = {.context = context};
    psgd__text_add(&stem, "%s/spectrum", folder);
    psgd_status status = stem.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the figure")
                                     : psgd__plot_write(context, &figure, stem.chars);
    psgd__text_free(&stem);
    return status;
}

static psgd_status run(const psgd_context *context, demo *d, const char *folder, uint64_t seed, text *table)
{
    psgd__hessian_make(seed, d->H);
    memcpy(d->M, d->H, sizeof d->M);
    PSGD_TRY(psgd__hessian_eigenvalues(d->M, d->values));
    course start;
    keep_levels(d->values, &start, 0);
    int negative = 0;
    for (int i = 0; i < N; i++) negative += d->values[i] < 0;
    psgd__text_add(table,
                   "Hessian of a layer of %d x %d weights: condition %.3g, %d eigenvalues positive, %d negative\n\n",
                   HESSIAN_OUT, HESSIAN_IN, start.both[LARGEST][0] / start.both[MIN][0], N - negative, negative);
    place_moments(d);
    for (int g = 0; g < GROUPS; g++) PSGD_TRY(fit_group(context, d, specs[g], seed, &d->courses[g]));
    add_table(d, table);
    return draw(context, d, folder);
}

psgd_status psgd__demo_run(const psgd_context *context, const char *folder, uint64_t seed, text *table)
{
    int created;
    PSGD_TRY(psgd__folder_create(folder, &created));
    demo *d = psgd__alloc(context, 1, sizeof *d);
    psgd_status status = d ? run(context, d, folder, seed, table) : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to fit");
    psgd__free(context, d);
    if (status != PSGD_OK) psgd__folder_remove(folder, created);
    return status;
}
