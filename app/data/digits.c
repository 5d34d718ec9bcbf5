/* Digits that we draw: strokes of a ten-digit alphabet under a random affine map, with a random pen, blurred edges and
 * noise; [1, 28, 28] from 0 to 1. Any number of them, each a function of the seed and its number. */
#include "core/rng.h"
#include "data/samples_table.h"

#include <psgd/threads.h>

#include <math.h>
#include <string.h>

enum { SIDE = 28, MAX_POINTS = 24, TEST_SAMPLES = 2000, DEFAULT_SAMPLES = 10000 };

/* Polylines on a grid of 0 to a (10), x right and y down. */
static const char *const glyphs[10] = {
    "50 31 23 27 39 5a 79 87 83 71 50", "32 50 5a",       "22 30 60 82 84 57 2a 8a",
    "21 40 71 74 45 76 88 7a 4a 29 29", "6a 60 17 97 97", "80 30 25 54 85 88 6a 3a 29",
    "70 42 25 28 4a 79 87 75 45 27",    "20 80 55 4a",    "55 34 22 40 60 82 74 55 36 28 4a 6a 88 76 55",
    "83 75 45 23 31 50 71 83 86 6a",
};

typedef struct drawing {
    uint64_t seed, first;
    unsigned char *pixels, *labels; /* [count][SIDE SIDE], [count] */
} drawing;

/* Where the pen is, in pixels. */
typedef struct spot {
    double x, y;
} spot;

static double between(const rng_stream *stream, uint64_t index, double low, double high)
{
    return low + (high - low) * psgd__rng_uniform(stream, index);
}

static double coordinate(char digit)
{
    return digit == 'a' ? 10 : digit - '0';
}

/* The points of the glyph after rotation, shear, scaling and a shift of its own for every point. Returns how many. */
static int place(const rng_stream *stream, const char *glyph, spot *to)
{
    int count = (int)(strlen(glyph) + 1) / 3;
    double angle = between(stream, 0, -0.35, 0.35), shear = between(stream, 1, -0.35, 0.35);
    double sx = between(stream, 2, 1.2, 2.0), sy = between(stream, 3, 1.4, 2.1);
    double dx = between(stream, 4, -2.5, 2.5), dy = between(stream, 5, -2.5, 2.5);
    for (int i = 0; i < count; i++) {
        double jitter = 0.45, x = coordinate(glyph[3 * i]) - 5, y = coordinate(glyph[3 * i + 1]) - 5;
        x = sx * (x + between(stream, 16 + 2 * (uint64_t)i, -jitter, jitter));
        y = sy * (y + between(stream, 17 + 2 * (uint64_t)i, -jitter, jitter));
        x += shear * y;
        to[i].x = SIDE / 2.0 + dx + cos(angle) * x - sin(angle) * y;
        to[i].y = SIDE / 2.0 + dy + sin(angle) * x + cos(angle) * y;
    }
    return count;
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
    const drawing *self = data;
    rng_stream stream = psgd__rng_stream(self->seed, RNG_DATA, 0, self->first + (uint64_t)number);
    uint64_t label = psgd__rng_below(&stream, 1u << 20, 10);
    spot points[MAX_POINTS];
    int count = place(&stream, glyphs[label], points);
    double pen = between(&stream, 6, 0.7, 1.5), edge = between(&stream, 7, 0.5, 1.1);
    double ink = between(&stream, 8, 0.75, 1), noise = between(&stream, 9, 0.02, 0.12);
    for (int row = 0; row < SIDE; row++) {
        for (int column = 0; column < SIDE; column++) {
            double nearest = 1e9;
            for (int i = 0; i + 1 < count; i++) {
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

static psgd_status digits_open(const source_request *request, source **opened)
{
    static const int64_t sample[3] = {1, SIDE, SIDE};
    const psgd_context *context = request->context;
    bool test = request->split == SPLIT_TEST;
    int64_t samples = request->settings->samples, count = test ? TEST_SAMPLES : samples ? samples : DEFAULT_SAMPLES;
    if (request->argument)
        return psgd__fail(PSGD_ERR_ARGUMENT, "the source digits takes no argument, not '%s'", request->argument);
    drawing self = {.seed = request->settings->seed,
                    .first = test ? (uint64_t)1 << 40 : 0,
                    .pixels = psgd__alloc(context, count, SIDE * SIDE),
                    .labels = psgd__alloc(context, count, 1)};
    if (!self.pixels || !self.labels) {
        psgd__free(context, self.pixels);
        psgd__free(context, self.labels);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld digits", (long long)count);
    }
    psgd_parallel(count, draw, &self);
    PSGD_TRY(psgd__samples_open(request, SAMPLES_BYTE, 3, sample, count, self.pixels, self.labels, opened));
    (*opened)->classes = 10; /* also where few samples leave some out */
    return PSGD_OK;
}

const source_kind psgd__source_digits = {
    .name = "digits",
    .summary = "synthetic 28 x 28 digits: strokes under random maps and noise",
    .open = digits_open,
};
