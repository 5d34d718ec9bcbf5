/* The registry of sources, and what they share: names, orders, what is held out. */
#include "data/source.h"
#include "core/rng.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static const source_kind *const kinds[] = {
    &psgd__source_digits, &psgd__source_xor,    &psgd__source_adding, &psgd__source_idx,     &psgd__source_csv,
    &psgd__source_npy,    &psgd__source_images, &psgd__source_logit,  &psgd__source_ratings, &psgd__source_oscillator,
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

const source_kind *psgd__source_at(int index)
{
    return index >= 0 && index < KIND_COUNT ? kinds[index] : NULL;
}

/* Option samples: a synthetic source has made that many, of any other the first ones are used. */
static psgd_status limit_samples(const source_request *request, source **opened)
{
    int64_t wanted = request->split == SPLIT_TRAIN ? request->settings->samples : 0, count = (*opened)->count;
    if (wanted > count) {
        psgd__source_close(*opened);
        *opened = NULL;
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s has %lld training samples, not %lld", request->argument,
                          (long long)count, (long long)wanted);
    }
    if (wanted > 0) (*opened)->count = wanted;
    return PSGD_OK;
}

psgd_status psgd__source_open(const psgd_context *context, const char *name, source_split split,
                              const source_settings *settings, source **opened)
{
    const char *names[KIND_COUNT], *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    for (int i = 0; i < KIND_COUNT; i++) {
        names[i] = kinds[i]->name;
        if (strlen(names[i]) != length || strncmp(name, names[i], length)) continue;
        if (kinds[i]->argument && (!colon || !colon[1])) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "the source %s needs an argument: %s:%s", names[i], names[i],
                              kinds[i]->argument);
        }
        source_request request = {context, kinds[i], colon ? colon + 1 : NULL, split, settings};
        PSGD_TRY(kinds[i]->open(&request, opened));
        return limit_samples(&request, opened);
    }
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no data source '%s'%s; psgd train --help lists them", word,
                      psgd__suggest("", word, names, KIND_COUNT).words);
}

void psgd__source_close(source *self)
{
    if (self) self->close(self);
}

void psgd__source_shuffle(uint64_t seed, uint64_t epoch, int64_t count, int64_t *index)
{
    rng_stream stream = psgd__rng_stream(seed, RNG_SHUFFLE, 0, epoch);
    for (int64_t i = 0; i < count; i++) index[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)psgd__rng_below(&stream, (uint64_t)i, (uint64_t)i + 1), held = index[i];
        index[i] = index[j];
        index[j] = held;
    }
}

int64_t psgd__source_hold_out(uint64_t seed, double share, source_split split, int64_t count, int64_t *kept)
{
    int64_t held = (int64_t)(share * (double)count), from = split == SPLIT_TEST ? 0 : held;
    int64_t size = split == SPLIT_TEST ? held : count - held;
    psgd__source_shuffle(seed, UINT64_MAX, count, kept);
    memmove(kept, kept + from, (size_t)size * sizeof *kept);
    return size;
}
