/* Convolution in three ways.
 *
 * Winograd (la/network/winograd.c), with a quarter to a sixth of the products, where it fits and has enough channels.
 * Else direct, while the matrix is small enough to stay in the cache: every place of the output is a small product that
 * reads its input where it lies, through a list of offsets. The lists change only where a window meets the edge.
 * Otherwise im2col: bands of output rows are laid out as a matrix [kh kw c, places n] and go to BLAS.
 *
 * Sums over places are cut into PARTS of fixed size and added in order: threads do not change the result. */
#include "la/network/conv.h"
#include "la/matrix/blas.h"
#include "la/array/dispatch.h"
#include "la/pool.h"
#include "la/network/network.h"

#include <string.h>

enum {
    DIRECT_SIZE = 1 << 15,     /* of a matrix that stays in the cache while places go by */
    LIST = 4096,               /* offsets in a list */
    PARTS = 8,                 /* that the sum over places is cut into */
    BAND_SIZE = 4 * (1 << 20), /* of a matrix of im2col */
    WINOGRAD_PAIRS = 256       /* channels in times channels out */
};

static int64_t depth_of(const la_conv *s)
{
    return s->kh * s->kw * s->c;
}

static bool direct(const la_conv *s)
{
    return s->out * depth_of(s) <= DIRECT_SIZE && depth_of(s) <= LIST && s->out * s->kh * s->kw <= LIST;
}

static int64_t band_rows(const la_conv *s)
{
    return larger(1, smaller(s->oh, BAND_SIZE / larger(1, depth_of(s) * s->ow * s->n)));
}

static int64_t padded_size(const la_conv *s)
{
    return s->padding ? s->c * (s->h + 2 * s->padding) * (s->w + 2 * s->padding) * s->n : 0;
}

/* From 16 channels to 16 on, Winograd was 1.2 to 4 times as fast as the other ways, whatever the batch and the size of
 * the image, forward and back, in memory of huge pages; in that of small ones large layers lose what they gain. Fewer
 * channels gain little, and the plain sum rounds less. */
bool la_conv_winograd(const la_conv *s)
{
    return la_winograd_fits(s) && s->c * s->out >= WINOGRAD_PAIRS;
}

int64_t la_conv_work(const la_conv *s)
{
    if (la_conv_winograd(s)) return la_winograd_work(s);
    if (direct(s)) return PARTS * s->out * depth_of(s) + padded_size(s);
    return depth_of(s) * band_rows(s) * s->ow * s->n;
}

/* The taps of a window at start that lie within size: first .. last - 1. */
typedef struct taps {
    int64_t first, last;
} taps;

static taps inside(int64_t start, int64_t window, int64_t size)
{
    return (taps){larger(0, -start), smaller(window, size - start)};
}

static bool same(taps a, taps b)
{
    return a.first == b.first && a.last == b.last;
}

/* One way through a convolution, for its parts. */
typedef struct conv_job {
    const la_conv *s;
    const real *W, *x, *dy;
    int64_t from, count; /* output rows of a band */
    bool bias, add;
    real *to; /* y, dx, partial sums or a matrix of im2col */
} conv_job;

/* Operations for la_parallel. */
static double flops_of(const la_conv *s)
{
    return 2 * (double)(s->out * depth_of(s)) * (double)(s->oh * s->ow * s->n);
}

typedef struct lists {
    int64_t a[LIST], b[LIST], count;
} lists;

/* y at row oy: b counts from the window's corner in x. */
static void forward_lists(const la_conv *s, taps rows, taps columns, lists *to)
{
    to->count = 0;
    for (int64_t ky = rows.first; ky < rows.last; ky++) {
        for (int64_t kx = columns.first; kx < columns.last; kx++) {
            for (int64_t c = 0; c < s->c; c++) {
                to->a[to->count] = (ky * s->kw + kx) * s->c + c;
                to->b[to->count++] = ((c * s->h + ky) * s->w + kx) * s->n;
            }
        }
    }
}

static void forward_row(void *data, int64_t oy)
{
    const conv_job *j = data;
    const la_conv *s = j->s;
    lists list;
    taps before = {-1, -1};
    int64_t depth = depth_of(s), iy = oy * s->stride - s->padding;
    taps rows = inside(iy, s->kh, s->h);
    la_mix mix = {.rows = s->out,
                  .a_ld = depth + 1,
                  .y_ld = s->oh * s->ow * s->n,
                  .bias = j->bias ? j->W + depth : NULL,
                  .bias_ld = depth + 1,
                  .a_offset = list.a,
                  .b_offset = list.b,
                  .add = j->add};
    for (int64_t ox = 0; ox < s->ow; ox++) {
        int64_t ix = ox * s->stride - s->padding;
        taps columns = inside(ix, s->kw, s->w);
        if (!same(columns, before)) forward_lists(s, rows, columns, &list);
        before = columns;
        mix.depth = list.count;
        la_kernel()->mix(&mix, s->n, j->W, j->x + (iy * s->w + ix) * s->n, j->to + (oy * s->ow + ox) * s->n);
    }
}

/* The windows that see place p of an axis: with the first tap t and then every stride-th, the output is (p + padding -
 * tap) / stride. */
static taps seen_from(int64_t place, int64_t window, int64_t stride, int64_t padding, int64_t outputs)
{
    int64_t at = place + padding;
    int64_t first = larger(at % stride, at - (outputs - 1) * stride);
    return (taps){first, smaller(window, at + 1)};
}

/* dx at row iy: b counts from output (oy0, ox0), the one that the tap (0, 0) would belong to, which may not exist. */
static void back_lists(const la_conv *s, taps rows, taps columns, int64_t iy, int64_t ix, lists *to)
{
    int64_t depth = depth_of(s);
    to->count = 0;
    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t ky = rows.first; ky < rows.last; ky += s->stride) {
            for (int64_t kx = columns.first; kx < columns.last; kx += s->stride) {
                int64_t oy = (iy + s->padding - ky) / s->stride, ox = (ix + s->padding - kx) / s->stride;
                to->a[to->count] = o * (depth + 1) + (ky * s->kw + kx) * s->c;
                to->b[to->count++] = ((o * s->oh + oy) * s->ow + ox) * s->n;
            }
        }
    }
}

static void back_row(void *data, int64_t iy)
{
    const conv_job *j = data;
    const la_conv *s = j->s;
    lists list;
    taps before = {-1, -1}, rows = seen_from(iy, s->kh, s->stride, s->padding, s->oh);
    int64_t origin = 0;
    la_mix mix = {
        .rows = s->c, .a_ld = 1, .y_ld = s->h * s->w * s->n, .a_offset = list.a, .b_offset = list.b, .add = j->add};
    for (int64_t ix = 0; ix < s->w; ix++) {
        taps columns = seen_from(ix, s->kw, s->stride, s->padding, s->ow);
        if (!same(columns, before)) {
            back_lists(s, rows, columns, iy, ix, &list);
            origin = ix;
        }
        before = columns;
        mix.depth = list.count;
        /* Equal taps are whole strides apart. */
        int64_t shift = (ix - origin) / s->stride * s->n;
        la_kernel()->mix(&mix, s->n, j->W, j->dy + shift, j->to + (iy * s->w + ix) * s->n);
    }
}

/* A copy of x with its edges, so that every window lies within it. */
static const real *padded(const la_conv *s, const real *x, real *to)
{
    if (!s->padding) return x;
    int64_t h = s->h + 2 * s->padding, w = s->w + 2 * s->padding, row = s->w * s->n;
    memset(to, 0, (size_t)(s->c * h * w * s->n) * sizeof *to);
    for (int64_t c = 0; c < s->c; c++) {
        for (int64_t i = 0; i < s->h; i++) {
            real *at = to + ((c * h + i + s->padding) * w + s->padding) * s->n;
            memcpy(at, x + (c * s->h + i) * row, (size_t)row * sizeof *to);
        }
    }
    return to;
}

static void weights_part(void *data, int64_t part)
{
    const conv_job *j = data;
    const la_conv *s = j->s;
    real *sum = j->to + part * s->out * depth_of(s);
    int64_t offset[LIST], h = s->h + 2 * s->padding, w = s->w + 2 * s->padding, count = 0;
    int64_t each = (s->oh + PARTS - 1) / PARTS, from = smaller(s->oh, part * each), rows = smaller(each, s->oh - from);
    memset(sum, 0, (size_t)(s->out * depth_of(s)) * sizeof *sum);
    if (rows <= 0) return;
    for (int64_t ky = 0; ky < s->kh; ky++) {
        for (int64_t kx = 0; kx < s->kw; kx++) {
            for (int64_t c = 0; c < s->c; c++) offset[count++] = ((c * h + ky) * w + kx) * s->n;
        }
    }
    la_cross cross = {.rows = s->out,
                      .columns = count,
                      .outer = rows,
                      .inner = s->ow,
                      .a_ld = s->oh * s->ow * s->n,
                      .a_outer = s->ow * s->n,
                      .a_inner = s->n,
                      .b_outer = s->stride * w * s->n,
                      .b_inner = s->stride * s->n,
                      .r_ld = count,
                      .b_offset = offset};
    la_kernel()->cross(&cross, s->n, j->dy + from * s->ow * s->n, j->x + from * s->stride * w * s->n, sum);
}

static void weights_direct(const la_conv *s, const real *x, const real *dy, bool add, real *dW, real *work)
{
    int64_t depth = depth_of(s), size = s->out * depth;
    conv_job job = {.s = s, .x = padded(s, x, work + PARTS * size), .dy = dy, .to = work};
    la_parallel(PARTS, flops_of(s), weights_part, &job);
    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t k = 0; k < depth; k++) {
            real sum = 0;
            for (int64_t p = 0; p < PARTS; p++) sum += work[p * size + o * depth + k];
            real *to = dW + o * (depth + 1) + k;
            *to = add ? *to + sum : sum;
        }
    }
}

/* Row k of the im2col matrix of output rows from .. from + count - 1: one tap of one channel at every place. */
static real *im2col_at(const la_conv *s, const real *x, int64_t k, int64_t oy, int64_t ox)
{
    int64_t c = k % s->c, tap = k / s->c, ky = tap / s->kw, kx = tap % s->kw;
    int64_t iy = oy * s->stride - s->padding + ky, ix = ox * s->stride - s->padding + kx;
    if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) return NULL;
    return (real *)x + ((c * s->h + iy) * s->w + ix) * s->n;
}

static void gather_row(void *data, int64_t k)
{
    const conv_job *j = data;
    const la_conv *s = j->s;
    for (int64_t p = 0; p < j->count * s->ow; p++) {
        const real *at = im2col_at(s, j->x, k, j->from + p / s->ow, p % s->ow);
        real *to = j->to + (k * j->count * s->ow + p) * s->n;
        if (at) memcpy(to, at, (size_t)s->n * sizeof *to);
        if (!at) memset(to, 0, (size_t)s->n * sizeof *to);
    }
}

/* A part is a channel, so that no two threads write to one place. */
static void scatter_channel(void *data, int64_t c)
{
    const conv_job *j = data;
    const la_conv *s = j->s;
    for (int64_t tap = 0; tap < s->kh * s->kw; tap++) {
        int64_t k = tap * s->c + c;
        for (int64_t p = 0; p < j->count * s->ow; p++) {
            real *to = im2col_at(s, j->to, k, j->from + p / s->ow, p % s->ow);
            const real *own = j->x + (k * j->count * s->ow + p) * s->n;
            for (int64_t i = 0; to && i < s->n; i++) to[i] += own[i];
        }
    }
}

/* Goes through the bands of output rows: next returns false after the last. */
typedef struct bands {
    conv_job job;
    int64_t columns; /* of the matrix of this band */
    double work;
} bands;

static bool next_band(bands *b)
{
    const la_conv *s = b->job.s;
    b->job.from += b->job.count;
    b->job.count = smaller(band_rows(s), s->oh - b->job.from);
    b->columns = b->job.count * s->ow * s->n;
    b->work = 2 * (double)depth_of(s) * (double)b->columns;
    return b->job.count > 0;
}

static void forward(const la_conv *s, const real *W, const real *x, bool bias, bool add, real *y, real *work)
{
    if (direct(s)) {
        conv_job job = {.s = s, .W = W, .x = x, .bias = bias, .add = add, .to = y};
        la_parallel(s->oh, flops_of(s), forward_row, &job);
        return;
    }
    int64_t depth = depth_of(s), places = s->oh * s->ow * s->n;
    bands b = {.job = {.s = s, .x = x, .to = work}};
    if (bias) la_spread_bias(s->out, places, W + depth, depth + 1, add, y);
    while (next_band(&b)) {
        la_parallel(depth, b.work, gather_row, &b.job);
        la_gemm(false, false, s->out, b.columns, depth, 1, W, depth + 1, work, b.columns, add || bias ? 1 : 0,
                y + b.job.from * s->ow * s->n, places);
    }
}

static void back_input(const la_conv *s, const real *W, const real *dy, bool add, real *dx, real *work)
{
    if (direct(s)) {
        conv_job job = {.s = s, .W = W, .dy = dy, .add = add, .to = dx};
        la_parallel(s->h, flops_of(s), back_row, &job);
        return;
    }
    int64_t depth = depth_of(s), places = s->oh * s->ow * s->n;
    bands b = {.job = {.s = s, .x = work, .to = dx}};
    if (!add) memset(dx, 0, (size_t)(s->c * s->h * s->w * s->n) * sizeof *dx);
    while (next_band(&b)) {
        la_gemm(true, false, depth, b.columns, s->out, 1, W, depth + 1, dy + b.job.from * s->ow * s->n, places, 0, work,
                b.columns);
        la_parallel(s->c, b.work, scatter_channel, &b.job);
    }
}

static void back_weights(const la_conv *s, const real *x, const real *dy, bool add, real *dW, real *work)
{
    if (direct(s)) {
        weights_direct(s, x, dy, add, dW, work);
        return;
    }
    int64_t depth = depth_of(s), places = s->oh * s->ow * s->n;
    bands b = {.job = {.s = s, .x = x, .to = work}};
    while (next_band(&b)) {
        la_parallel(depth, b.work, gather_row, &b.job);
        la_gemm(false, true, s->out, depth, b.columns, 1, dy + b.job.from * s->ow * s->n, places, work, b.columns,
                add || b.job.from > 0 ? 1 : 0, dW, depth + 1);
    }
}

void la_conv_forward(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work)
{
    if (la_conv_winograd(s)) {
        la_winograd_forward(s, count, term, bias, y, work);
        return;
    }
    for (int i = 0; i < count; i++) forward(s, term[i].W, term[i].x, bias && i == 0, i > 0, y, work);
}

void la_conv_back(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                  real *work)
{
    if (la_conv_winograd(s)) {
        la_winograd_back(s, count, term, add_x, dx, add_W, dW, work);
        return;
    }
    int64_t depth = depth_of(s);
    if (dW) la_row_sums(s->out, s->oh * s->ow * s->n, term[0].dy, add_W, dW + depth, depth + 1);
    for (int i = 0; i < count; i++) {
        const la_conv_term *t = &term[i];
        if (dx && t->W) back_input(s, t->W, t->dy, add_x || i > 0, dx, work);
        if (dW && t->x) back_weights(s, t->x, t->dy, add_W || i > 0, dW, work);
    }
}
