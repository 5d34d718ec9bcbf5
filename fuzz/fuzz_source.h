/* Opens both splits of a source of samples and reads all of each. */
#ifndef PSGD_FUZZ_SOURCE_H
#define PSGD_FUZZ_SOURCE_H

#include "fuzz.h"

#include "data/source.h"

static inline void fuzz_source(const char *kind, const char *argument)
{
    char name[256];
    snprintf(name, sizeof name, "%s:%s", kind, argument);
    for (int split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        source_settings settings = {.seed = 1, .holdout = 0.25};
        source *opened;
        if (psgd__source_open(fuzz_context(true), name, (source_split)split, &settings, &opened) != PSGD_OK) continue;
        FUZZ_ASSERT(opened->count >= 0 && opened->features > 0 && opened->classes > 0);
        float *x = malloc((size_t)opened->features * sizeof *x), y = -1;
        FUZZ_ASSERT(x);
        for (int64_t i = 0; i < opened->count; i++) {
            FUZZ_ASSERT(opened->read(opened, 1, &i, x, &y) == PSGD_OK);
            FUZZ_ASSERT(fuzz_finite(PSGD_F32, opened->features, x) && fuzz_finite(PSGD_F32, 1, &y));
            if (opened->classes > 1) FUZZ_ASSERT(y >= 0 && y < (float)opened->classes);
        }
        free(x);
        psgd__source_close(opened);
    }
}

#endif
