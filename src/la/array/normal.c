#include "la/array/normal.h"
#include "la/array/dispatch.h"

#include <string.h>

enum { TILE = LA_NORMAL_TILE, CHUNK = 64 * TILE, PARALLEL = 4 * CHUNK };

/* Entries from .. to - 1 of one tile. */
static void part_of_tile(const la_kernels *k, const rng_stream *stream, int64_t tile, int64_t from, int64_t to, real *x)
{
    real whole[TILE];
    k->normal(stream, tile, 1, whole);
    memcpy(x, whole + from, (size_t)(to - from) * sizeof(real));
}

void la_normal(const rng_stream *stream, int64_t first, int64_t count, real *x)
{
    const la_kernels *k = la_kernel();
    int64_t tile = first / TILE, skip = first % TILE;
    if (skip && count > 0) {
        int64_t to = skip + count < TILE ? skip + count : TILE;
        part_of_tile(k, stream, tile++, skip, to, x);
        x += to - skip;
        count -= to - skip;
    }
    int64_t whole = count / TILE * TILE;
    if (whole && whole < PARALLEL) { /* without a parallel region, which would cost more than a few numbers do */
        k->normal(stream, tile, whole / TILE, x);
    } else if (whole) {
#pragma omp parallel for
        for (int64_t i = 0; i < whole; i += CHUNK) {
            int64_t tiles = (whole - i < CHUNK ? whole - i : CHUNK) / TILE;
            k->normal(stream, tile + i / TILE, tiles, x + i);
        }
    }
    if (whole < count) part_of_tile(k, stream, tile + whole / TILE, 0, count - whole, x + whole);
}
