/* Digits that we draw: strokes of a ten-digit alphabet under a random affine map, with a random pen, blurred edges and
 * noise; [1, 28, 28] from 0 to 1. Any number of them, each a function of the seed and its number. */
#include "core/rng.h"
#include "data/source.h"

#include <psgd/threads.h>

#include <math.h>

enum { SIDE = 28, MAX_POINTS = 24, TEST_SAMPLES = 2000, DEFAULT_SAMPLES = 10000 };

/* Polylines on a 0..10 grid, x right and y down; a negative x lifts the pen. */
typedef struct glyph {
    int count;
    signed char point[MAX_POINTS][2];
} glyph;

static const glyph glyphs[10] = {
    {11, {{5, 0}, {3, 1}, {2, 3}, {2, 7}, {3, 9}, {5, 10}, {7, 9}, {8, 7}, {8, 3}, {7, 1}, {5, 0}}},
    {3, {{3, 2}, {5, 0}, {5, 10}}},
    {8, {{2, 2}, {3, 0}, {6, 0}, {8, 2}, {8, 4}, {5, 7}, {2, 10}, {8, 10}}},
    {11, {{2, 1}, {4, 0}, {7, 1}, {7, 4}, {4, 5}, {7, 6}, {8, 8}, {7, 10}, {4, 10}, {2, 9}, {2, 9}}},
    {5, {{6, 10}, {6, 0}, {1, 7}, {9, 7}, {9, 7}}},
    {9, {{8, 0}, {3, 0}, {2, 5}, {5, 4}, {8, 5}, {8, 8}, {6, 10}, {3, 10}, {2, 9}}},
    {10, {{7, 0}, {4, 2}, {2, 5}, {2, 8}, {4, 10}, {7, 9}, {8, 7}, {7, 5}, {4, 5}, {2, 7}}},
    {4, {{2, 0}, {8, 0}, {5, 5}, {4, 10}}},
    {15,
     {{5, 5},
      {3, 4},
      {2, 2},
      {4, 0},
      {6, 0},
      {8, 2},
      {7, 4},
      {5, 5},
      {3, 6},
      {2, 8},
      {4, 10},
      {6, 10},
      {8, 8},
      {7, 6},
      {5, 5}}},
    {10, {{8, 3}, {7, 5}, {4, 5}, {2, 3}, {3, 1}, {5, 0}, {7, 1}, {8, 3}, {8, 6}, {6, 10}}},
};

typedef struct digit_source {
    source base;
    uint64_t seed, first;
    unsigned char *pixels, *labels; /* [count][SIDE SIDE], [count]: drawn once */
} digit_source;

/* Where the pen is, in pixels. */
typedef struct spot {
    double x, y;
} spot;

static double between(const rng_stream *stream, uint64_t index, double low, double high)
{
    return low + (high - low) * psgd__rng_uniform(stream, index);
}

/* The points of the glyph after rotation, shear, scaling and a shift of its own for every point. */
static void place(const rng_stream *stream, const glyph *g, spot *to)
{
    double angle = between(stream, 0, -0.35, 0.35), shear = between(stream, 1, -0.35, 0.35);
    double sx = between(stream, 2, 1.2, 2.0), sy = between(stream, 3, 1.4, 2.1);
    double dx = between(stream, 4, -2.5, 2.5), dy = between(stream, 5, -2.5, 2.5);
    for (int i = 0; i < g->count; i++) {
        double jitter = 0.45, x = g->point[i][0] - 5.0, y = g->point[i][1] - 5.0;
        x = sx * (x + between(stream, 16 + 2 * (uint64_t)i, -jitter, jitter));
        y = sy * (y + between(stream, 17 + 2 * (uint64_t)i, -jitter, jitter));
        x += shear * y;
        to[i].x = SIDE / 2.0 + dx + cos(angle) * x - sin(angle) * y;
        to[i].y = SIDE / 2.0 + dy + sin(angle) * x + cos(angle) * y;
    }
}

/* The distance of (x, y) from the line from a to b. */
static double distance(double x, double y, spot a, spot b)
{
    double ux = b.x - a.x, uy = b.y - a.y, length = ux * ux + uy * uy;
    double t = length > 0 ? ((x - a.x) * ux + (y - a.y) * uy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    double ex = x - a.x - t * ux, ey = y - a.y - t * uy;
    return sqrt(ex * ex + ey * ey);
}

static void draw(void *data, int64_t number)
{
    digit_source *self = data;
    rng_stream stream = psgd__rng_stream(self->seed, RNG_DATA, 0, self->first + (uint64_t)number);
    uint64_t label = psgd__rng_below(&stream, 1u << 20, 10);
    const glyph *g = &glyphs[label];
    spot points[MAX_POINTS];
    place(&stream, g, points);
    double pen = between(&stream, 6, 0.7, 1.5), edge = between(&stream, 7, 0.5, 1.1);
    double ink = between(&stream, 8, 0.75, 1), noise = between(&stream, 9, 0.02, 0.12);
    for (int row = 0; row < SIDE; row++) {
        for (int column = 0; column < SIDE; column++) {
            double nearest = 1e9;
            for (int i = 0; i + 1 < g->count; i++) {
                nearest = fmin(nearest, distance(column + 0.5, row + 0.5, points[i], points[i + 1]));
            }
            uint64_t pixel = (uint64_t)(row * SIDE + column);
            double value = ink * fmin(1, fmax(0, (pen + edge - nearest) / (2 * edge)));
            value += noise * (2 * psgd__rng_uniform(&stream, 100 + pixel) - 1);
            self->pixels[number * SIDE * SIDE + (int64_t)pixel] = (unsigned char)(255 * fmin(1, fmax(0, value)) + 0.5);
        }
    }
    self->labels[number] = (unsigned char)label;
}

static psgd_status digits_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const digit_source *self = (const digit_source *)base;
    for (int64_t j = 0; j < n; j++) {
        const unsigned char *pixel = self->pixels + index[j] * SIDE * SIDE;
        for (int64_t i = 0; i < SIDE * SIDE; i++) x[i * n + j] = (float)pixel[i] / 255;
        y[j] = (float)self->labels[index[j]];
    }
    return PSGD_OK;
}

static void digits_close(source *base)
{
    digit_source *self = (digit_source *)base;
    psgd__free(base->context, self->pixels);
    psgd__free(base->context, self->labels);
    psgd__free(base->context, self);
}

static psgd_status digits_open(const psgd_context *context, const char *argument, source_split split,
                               const source_settings *settings, source **opened)
{
    if (argument) return psgd__fail(PSGD_ERR_ARGUMENT, "the source digits takes no argument, not '%s'", argument);
    int64_t count = split == SPLIT_TEST ? TEST_SAMPLES : settings->samples ? settings->samples : DEFAULT_SAMPLES;
    digit_source *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source digits");
    self->base = (source){.context = context,
                          .ndim = 3,
                          .sample = {1, SIDE, SIDE},
                          .features = SIDE * SIDE,
                          .classes = 10,
                          .read = digits_read,
                          .close = digits_close};
    self->base.count = count;
    self->first = split == SPLIT_TEST ? (uint64_t)1 << 40 : 0;
    self->seed = settings->seed;
    self->pixels = psgd__alloc(context, self->base.count, SIDE * SIDE);
    self->labels = psgd__alloc(context, self->base.count, 1);
    if (!self->pixels || !self->labels) {
        digits_close(&self->base);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld digits", (long long)count);
    }
    psgd_parallel(self->base.count, draw, self);
    *opened = &self->base;
    return PSGD_OK;
}

const source_kind psgd__source_digits = {
    .name = "digits",
    .summary = "28 x 28 digits that we draw: strokes under random maps and noise",
    .open = digits_open,
};
