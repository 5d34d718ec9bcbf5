#include "la/array/normal.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

enum { TILE = LA_NORMAL_TILE, CHUNK = 64 * TILE, PARALLEL = 4 * CHUNK };

/* Entries from .. to - 1 of one tile. */
static void part_of_tile(const la_kernels *k, const rng_stream *stream, int64_t tile, int64_t from, int64_t to, real *x)
{
    real whole[TILE];
    k->normal(stream, tile, 1, whole);
    memcpy(x, whole + from, (size_t)(to - from) * sizeof(real));
}

typedef struct drawing {
    const la_kernels *k;
    const rng_stream *stream;
    int64_t tile; /* the first */
    real *x;
} drawing;

static void draw_some(const void *data, int64_t from, int64_t count)
{
    const drawing *d = data;
    d->k->normal(d->stream, d->tile + from / TILE, count / TILE, d->x + from);
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
    if (whole) la_chunks(whole, CHUNK, PARALLEL, draw_some, &(drawing){k, stream, tile, x});
    if (whole < count) part_of_tile(k, stream, tile + whole / TILE, 0, count - whole, x + whole);
}
