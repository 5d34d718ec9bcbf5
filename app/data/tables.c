/* Synthetic tables, each sample a function of the seed and its number.
 *
 * logit: features are normal with variance 1 and a correlation of 0.9^|i - j|, times 10^s with s uniform in
 * (-SPREAD, SPREAD) for each; the label is 1 with probability 1 / (1 + exp(-3 w'x / |w|)), x before it is scaled.
 * ratings: a sample is [2, SIZE], the indicators of a row and a column of a SIZE x SIZE matrix of this rank; y is the
 * entry, of variance 1, plus noise of deviation 0.1. oscillator: angular frequency w, damping z and time t, each
 * uniform and scaled to (-1, 1); y is the displacement exp(-z w t) cos(sqrt(1 - z^2) w t). */
#include "core/rng.h"
#include "core/text.h"
#include "data/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEST_SAMPLES = 2000, MAX_FEATURES = 100000, MAX_RANK = 1000 };

typedef struct table_source table_source;

struct table_source {
    source base;
    uint64_t seed, first; /* of the samples in their stream: test samples come after all training samples */
    int64_t rank;
    double *weight, *scale; /* logit: [features] both */
    float *kept;            /* samples and y, [count][features + 1]; NULL: drawn when they are read */
    void (*draw)(const table_source *self, uint64_t number, int64_t n, int64_t j, float *x, float *y);
};

/* Normal deviates by Box and Muller. */
static double normal(const rng_stream *stream, uint64_t index)
{
    double u = psgd__rng_uniform(stream, 2 * index), v = psgd__rng_uniform(stream, 2 * index + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static rng_stream stream_of(const table_source *self, uint64_t what, uint64_t number)
{
    return psgd__rng_stream(self->seed, RNG_DATA, what, number);
}

enum { LOGIT = 10, RATINGS = 20, OSCILLATOR = 30, OWN = 1, LEFT = 2, RIGHT = 3 }; /* streams */

static void draw_logit(const table_source *self, uint64_t number, int64_t n, int64_t j, float *x, float *y)
{
    double rho = 0.9, at = 0, logit = 0, energy = 0;
    rng_stream own = stream_of(self, LOGIT + OWN, number);
    for (int64_t i = 0; i < self->base.features; i++) {
        double fresh = normal(&own, (uint64_t)i);
        at = i ? rho * at + sqrt(1 - rho * rho) * fresh : fresh;
        logit += self->weight[i] * at;
        energy += self->weight[i] * self->weight[i];
        x[i * n + j] = (float)(self->scale[i] * at);
    }
    double p = 1 / (1 + exp(-3 * logit / sqrt(energy)));
    y[j] = psgd__rng_uniform(&own, 1u << 24) < p ? 1 : 0;
}

static void draw_ratings(const table_source *self, uint64_t number, int64_t n, int64_t j, float *x, float *y)
{
    int64_t size = self->base.sample[1];
    rng_stream own = stream_of(self, RATINGS + OWN, number);
    uint64_t row = psgd__rng_below(&own, 1u << 20, (uint64_t)size),
             column = psgd__rng_below(&own, 2u << 20, (uint64_t)size);
    rng_stream left = stream_of(self, RATINGS + LEFT, row), right = stream_of(self, RATINGS + RIGHT, column);
    double sum = 0;
    for (int64_t k = 0; k < self->rank; k++) sum += normal(&left, (uint64_t)k) * normal(&right, (uint64_t)k);
    for (int64_t i = 0; i < 2 * size; i++) x[i * n + j] = 0;
    x[(int64_t)row * n + j] = x[(size + (int64_t)column) * n + j] = 1;
    y[j] = (float)(sum / sqrt((double)self->rank) + 0.1 * normal(&own, 0));
}

static void draw_oscillator(const table_source *self, uint64_t number, int64_t n, int64_t j, float *x, float *y)
{
    rng_stream own = stream_of(self, OSCILLATOR + OWN, number);
    float u[3];
    for (uint64_t i = 0; i < 3; i++) {
        u[i] = (float)(2 * psgd__rng_uniform(&own, i) - 1); /* rounded before y is made of it */
        x[(int64_t)i * n + j] = u[i];
    }
    double w = 2.5 + 1.5 * u[0], z = 0.25 + 0.2 * u[1], t = 1.5 + 1.5 * u[2];
    y[j] = (float)(exp(-z * w * t) * cos(sqrt(1 - z * z) * w * t));
}

/* Tables of up to KEPT values are drawn once. */
enum { KEPT = 1 << 24 };

static psgd_status table_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const table_source *self = (const table_source *)base;
    int64_t features = base->features;
    for (int64_t j = 0; j < n; j++) {
        if (!self->kept) {
            self->draw(self, self->first + (uint64_t)index[j], n, j, x, y);
            continue;
        }
        const float *row = self->kept + index[j] * (features + 1);
        for (int64_t i = 0; i < features; i++) x[i * n + j] = row[i];
        y[j] = row[features];
    }
    return PSGD_OK;
}

static psgd_status draw_once(table_source *self)
{
    source *base = &self->base;
    if (base->count * (base->features + 1) > KEPT) return PSGD_OK;
    self->kept = psgd__alloc(base->context, base->count * (base->features + 1), sizeof *self->kept);
    if (!self->kept) {
        base->close(base);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld samples", (long long)base->count);
    }
    for (int64_t i = 0; i < base->count; i++) {
        float *row = self->kept + i * (base->features + 1);
        self->draw(self, self->first + (uint64_t)i, 1, 0, row, row + base->features);
    }
    return PSGD_OK;
}

static void table_close(source *base)
{
    psgd__free(base->context, ((table_source *)base)->weight);
    psgd__free(base->context, ((table_source *)base)->kept);
    psgd__free(base->context, base);
}

static psgd_status create(const source_request *request, int64_t samples, table_source **created)
{
    bool test = request->split == SPLIT_TEST;
    table_source *self = psgd__alloc(request->context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source %s", request->kind->name);
    self->seed = request->settings->seed;
    self->first = test ? (uint64_t)1 << 40 : 0;
    self->base = (source){.context = request->context, .read = table_read, .close = table_close};
    self->base.count = test ? TEST_SAMPLES : request->settings->samples ? request->settings->samples : samples;
    *created = self;
    return PSGD_OK;
}

static psgd_status logit_open(const source_request *request, source **opened)
{
    long long features = 50;
    double spread = 0;
    const char *argument = request->argument;
    int end = 0, comma = 0;
    bool good = !argument || (sscanf(argument, "%18lld%n", &features, &end) == 1 && !argument[end]) ||
                (sscanf(argument, "%18lld,%n", &features, &comma) == 1 && comma > 0 &&
                 psgd__parse_number(argument + comma, &spread)); /* not by the locale, as %lf is */
    if (!good || features < 1 || features > MAX_FEATURES || !(spread >= 0 && spread <= 10)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "'%s' is not FEATURES,SPREAD with 1 to %d features and a spread of 0 to 10", argument,
                          MAX_FEATURES);
    }
    table_source *self = NULL;
    PSGD_TRY(create(request, 10000, &self));
    self->weight = psgd__alloc(request->context, 2 * (int64_t)features, sizeof *self->weight);
    if (!self->weight) {
        table_close(&self->base);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld features", features);
    }
    self->scale = self->weight + features;
    rng_stream truth = stream_of(self, LOGIT, 0);
    for (int64_t i = 0; i < features; i++) {
        self->weight[i] = normal(&truth, (uint64_t)i);
        self->scale[i] = pow(10, spread * (2 * psgd__rng_uniform(&truth, (1u << 24) + (uint64_t)i) - 1));
    }
    source *base = &self->base;
    base->ndim = 1;
    base->sample[0] = base->features = features;
    base->classes = 2;
    self->draw = draw_logit;
    PSGD_TRY(draw_once(self));
    *opened = base;
    return PSGD_OK;
}

static psgd_status ratings_open(const source_request *request, source **opened)
{
    long long size = 100, rank = 5;
    const char *argument = request->argument;
    int end = 0;
    bool good = !argument || (sscanf(argument, "%18lld%n", &size, &end) == 1 && !argument[end]) ||
                (sscanf(argument, "%18lld,%18lld%n", &size, &rank, &end) == 2 && !argument[end]);
    if (!good || size < 2 || size > MAX_FEATURES || rank < 1 || rank > MAX_RANK) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "'%s' is not SIZE,RANK with a size of 2 to %d and a rank of 1 to %d",
                          argument, MAX_FEATURES, MAX_RANK);
    }
    table_source *self = NULL;
    PSGD_TRY(create(request, 10000, &self));
    source *base = &self->base;
    self->rank = rank;
    base->ndim = 2;
    base->sample[0] = 2;
    base->sample[1] = size;
    base->features = 2 * size;
    base->classes = 1;
    self->draw = draw_ratings;
    PSGD_TRY(draw_once(self));
    *opened = base;
    return PSGD_OK;
}

static psgd_status oscillator_open(const source_request *request, source **opened)
{
    if (request->argument) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the source oscillator takes no argument, not '%s'", request->argument);
    }
    table_source *self = NULL;
    PSGD_TRY(create(request, 4000, &self));
    source *base = &self->base;
    base->ndim = 1;
    base->sample[0] = base->features = 3;
    base->classes = 1;
    self->draw = draw_oscillator;
    PSGD_TRY(draw_once(self));
    *opened = base;
    return PSGD_OK;
}

const source_kind psgd__source_logit = {
    .name = "logit",
    .summary =
        "two classes: logit:FEATURES,SPREAD, correlated normal features, scales from 10^-SPREAD to 10^SPREAD [50,0]",
    .open = logit_open,
};

const source_kind psgd__source_ratings = {
    .name = "ratings",
    .summary = "entries of a matrix of low rank: ratings:SIZE,RANK [100,5]",
    .open = ratings_open,
};

const source_kind psgd__source_oscillator = {
    .name = "oscillator",
    .summary = "the displacement of a damped oscillator by frequency, damping and time",
    .open = oscillator_open,
};
