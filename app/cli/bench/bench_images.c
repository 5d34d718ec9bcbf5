/* psgd bench images: from JPEG files to training batches. */
#include "cli/bench/bench.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/source.h"

#include <stdio.h>

enum { BATCH = 50, ROUNDS = 4 };

/* Decoded, resized, cropped, the mean subtracted. The processor time of all threads counts, so that it is per core. */
psgd_status bench_images(const char *folder)
{
    char name[4096];
    source *from;
    snprintf(name, sizeof name, "images:%s", folder);
    source_settings settings = {.height = 227, .width = 227, .resize = 256, .threads = 1, .subtract_mean = true};
    PSGD_TRY(psgd__source_open(NULL, name, SPLIT_TRAIN, &settings, &from));
    int64_t n = from->count < BATCH ? from->count : BATCH, index[BATCH], batches = from->count / n;
    float *x = psgd__alloc(NULL, from->features * n, sizeof *x), y[BATCH];
    psgd_status status = x ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a batch of images");
    bench_samples samples = {.count = 0};
    bench_use_processor_time();
    for (int64_t round = -1; status == PSGD_OK && round < ROUNDS; round++) { /* the first brings files into memory */
        double began = bench_now();
        for (int64_t b = 0; status == PSGD_OK && b < batches; b++) {
            for (int64_t j = 0; j < n; j++) index[j] = b * n + j;
            status = from->read(from, n, index, x, y);
        }
        if (round >= 0) bench_add(&samples, (bench_now() - began) / (double)(batches * n));
    }
    if (status == PSGD_OK) {
        double seconds = bench_quantile(&samples, 0.5);
        printf("%lld images of %s to batches of [3, 227, 227, %lld]: %.2f ms of one core each, %.0f a second per core; "
               "%lld could not be read\n",
               (long long)(batches * n), folder, (long long)n, 1e3 * seconds, 1 / seconds,
               (long long)from->passed_over);
    }
    psgd__free(NULL, x);
    psgd__source_close(from);
    return status;
}
