/* Sequences that need a memory, drawn by number (Hochreiter and Schmidhuber 1997): features are a value and a mark.
 *
 * xor: values of -1 and +1, one mark in the first tenth and one in the rest of the first half; the label is whether the
 * two marked values differ. adding: values uniform in (-1, 1), marks as before; y is half the sum of the two. */
#include "core/rng.h"
#include "data/source.h"

#include <stdlib.h>

typedef struct sequence_source {
    source base;
    uint64_t seed, first; /* of the samples in their stream: test samples come after all training samples */
    bool adding;
} sequence_source;

enum { TEST_SAMPLES = 1000, DEFAULT_SAMPLES = 12800 };

static void draw(const sequence_source *self, uint64_t number, int64_t n, int64_t j, float *x, float *y)
{
    int64_t times = self->base.sample[0], early = times / 10 > 0 ? times / 10 : 1, late = times / 2;
    rng_stream stream = psgd__rng_stream(self->seed, RNG_DATA, self->adding ? 2 : 1, number);
    if (late <= early) late = early + 1;
    int64_t mark[2] = {(int64_t)psgd__rng_below(&stream, 1u << 20, (uint64_t)early),
                       early + (int64_t)psgd__rng_below(&stream, (1u << 20) + 1, (uint64_t)(late - early))};
    float marked[2] = {0, 0};
    for (int64_t t = 0; t < times; t++) {
        double u = psgd__rng_uniform(&stream, (uint64_t)t);
        float value = self->adding ? (float)(2 * u - 1) : u < 0.5 ? -1 : 1;
        x[(2 * t) * n + j] = value;
        x[(2 * t + 1) * n + j] = t == mark[0] || t == mark[1] ? 1 : 0;
        for (int k = 0; k < 2; k++) marked[k] = t == mark[k] ? value : marked[k];
    }
    y[j] = self->adding ? (marked[0] + marked[1]) / 2 : (float)(marked[0] != marked[1]);
}

static psgd_status sequence_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const sequence_source *self = (const sequence_source *)base;
    for (int64_t j = 0; j < n; j++) draw(self, self->first + (uint64_t)index[j], n, j, x, y);
    return PSGD_OK;
}

static void sequence_close(source *base)
{
    psgd__free(base->context, base);
}

static psgd_status sequence_open(const source_request *request, source **opened)
{
    const char *argument = request->argument;
    char *end = NULL;
    long long times = argument ? strtoll(argument, &end, 10) : 50;
    if (argument && (*end || end == argument || times < 2 || times > 1000000)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the length of sequences must be a number from 2 to 1000000, not '%s'",
                          argument);
    }
    sequence_source *self = psgd__alloc(request->context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a source of sequences");
    bool test = request->split == SPLIT_TEST;
    int64_t samples = request->settings->samples;
    self->seed = request->settings->seed;
    self->first = test ? (uint64_t)1 << 40 : 0;
    self->adding = request->kind == &psgd__source_adding;
    self->base = (source){.context = request->context,
                          .ndim = 2,
                          .sample = {times, 2},
                          .features = 2 * times,
                          .count = test      ? TEST_SAMPLES
                                   : samples ? samples
                                             : DEFAULT_SAMPLES,
                          .classes = self->adding ? 1 : 2,
                          .read = sequence_read,
                          .close = sequence_close};
    *opened = &self->base;
    return PSGD_OK;
}

const source_kind psgd__source_xor = {
    .name = "xor",
    .summary = "delayed XOR: xor:LENGTH, sequences of +-1 with two marks [50]",
    .open = sequence_open,
};

const source_kind psgd__source_adding = {
    .name = "adding",
    .summary = "the adding problem: adding:LENGTH, y is half the sum of two marked values [50]",
    .open = sequence_open,
};
