/* Convolution with fewer products: the way of Toom and Cook, known as Winograd's.
 *
 * A polynomial of degree T - 1 is known by its values at T points. Of a square of T x T places of x, of the window w
 * and of what comes out, OUTPUTS x OUTPUTS places, la/kernel/winograd.c makes values at T x T points, where convolution
 * is a product: V = B x B', U = G w G', M_k = U_k V_k at each point k, a sum over channels; y = A'M A and backwards dM
 * = A dy A', dV_k = U_k'dM_k, dU_k = dM_k V_k', dx = B'dV B (squares overlap), dw = G'dU G. All maps are linear, so
 * sums over terms are taken at the points. For 16 places that is 36 products instead of 144 with a window of 3 (T = 6),
 * and 64 instead of 400 with a window of 5 (T = 8).
 *
 * Squares go through in blocks, so that V and M stay in the cache. The sum dU is over blocks in order, and one thread
 * makes each product: threads do not change the result. */
#include "la/network/conv.h"
#include "la/matrix/blas.h"
#include "la/array/dispatch.h"
#include "la/pool.h"
#include "la/network/network.h"

#include <string.h>

enum {
    OUTPUTS = 4,
    POINTS = 64,               /* at most */
    LINE = 16,                 /* elements that arrays start at a multiple of */
    BLOCK_SIZE = 3 * (1 << 20) /* of V and M of a block */
};

typedef struct winograd {
    const la_conv *s;
    int64_t side, points, across, squares, block; /* block: squares in it */
    int64_t from, count;                          /* of this block */
    int64_t u_ld, v_ld, m_ld;                     /* from point to point */
    real *zero, *U[2], *dU, *V, *M[2];
} winograd;

/* An odd number of lines, so that the points of one place do not share a set of the cache. */
static int64_t apart(int64_t size)
{
    return ((size + LINE - 1) / LINE / 2 * 2 + 1) * LINE;
}

bool la_winograd_fits(const la_conv *s)
{
    return s->stride == 1 && s->kh == s->kw && (s->kh == 3 || s->kh == 5);
}

/* The next elements of work; NULL while they are only counted. */
static real *take(real *work, int64_t *used, int64_t size)
{
    int64_t at = *used;
    *used += size;
    return work ? work + at : NULL;
}

/* Returns the elements of work that it lays out. */
static int64_t lay_out(winograd *to, const la_conv *s, real *work)
{
    int64_t side = s->kh + OUTPUTS - 1, across = (s->ow + OUTPUTS - 1) / OUTPUTS, used = 0;
    int64_t down = (s->oh + OUTPUTS - 1) / OUTPUTS, points = side * side;
    int64_t block = smaller(across * down, larger(1, BLOCK_SIZE / (points * (s->c + s->out) * s->n)));
    *to = (winograd){.s = s,
                     .side = side,
                     .points = points,
                     .across = across,
                     .squares = across * down,
                     .block = block,
                     .u_ld = apart(s->out * s->c),
                     .v_ld = apart(s->c * block * s->n),
                     .m_ld = apart(s->out * block * s->n)};
    to->zero = take(work, &used, apart(s->n));
    for (int i = 0; i < 2; i++) to->U[i] = take(work, &used, points * to->u_ld);
    to->dU = take(work, &used, points * to->u_ld);
    to->V = take(work, &used, points * to->v_ld);
    for (int i = 0; i < 2; i++) to->M[i] = take(work, &used, points * to->m_ld);
    return used;
}

int64_t la_winograd_work(const la_conv *s)
{
    winograd self;
    return lay_out(&self, s, NULL);
}

static winograd begin(const la_conv *s, real *work)
{
    winograd self;
    lay_out(&self, s, work);
    memset(self.zero, 0, (size_t)s->n * sizeof *self.zero);
    return self;
}

/* The rows of values at all points. */
static void point_rows(const winograd *self, real *first, int64_t ld, real **rows)
{
    for (int64_t k = 0; k < self->points; k++) rows[k] = first + k * ld;
}

/* One map of all channels or weights, to or from the points. */
typedef struct map_job {
    const winograd *self;
    la_point_map kind;
    bool to_points;
    real *image, *values; /* in space; at the points */
    const real *bias;
    int64_t bias_ld;
    bool add;
} map_job;

/* Whether the image is the input; then channels are those of x, else those of y. */
static bool of_input(la_point_map kind)
{
    return kind == LA_POINT_INPUT || kind == LA_POINT_BACK_INPUT;
}

/* The rows of square number i of the block, in a channel of input or output; what lies outside the image has the rows
 * of spare. */
static void place_rows(const map_job *job, int64_t channel, int64_t i, real *const *spare, real **rows)
{
    const winograd *self = job->self;
    const la_conv *s = self->s;
    bool input = of_input(job->kind);
    int64_t h = input ? s->h : s->oh, w = input ? s->w : s->ow, size = input ? self->side : OUTPUTS;
    int64_t at = self->from + i, shift = input ? s->padding : 0;
    int64_t top = at / self->across * OUTPUTS - shift, left = at % self->across * OUTPUTS - shift;
    for (int64_t y = top, k = 0; y < top + size; y++) {
        for (int64_t x = left; x < left + size; x++, k++) {
            bool inside = y >= 0 && y < h && x >= 0 && x < w;
            rows[k] = inside ? job->image + ((channel * h + y) * w + x) * s->n : spare[k];
        }
    }
}

static void run_map(const map_job *job, int64_t n, real *const *places, real *const *values, real start)
{
    real *const *from = job->to_points ? places : values, *const *to = job->to_points ? values : places;
    la_kernel()->points(job->kind, job->self->s->kh, n, (const real *const *)from, start, job->add, to);
}

static void map_channel(void *data, int64_t channel)
{
    const map_job *j = data;
    const winograd *self = j->self;
    int64_t n = self->s->n, ld = of_input(j->kind) ? self->v_ld : self->m_ld;
    real *places[POINTS], *values[POINTS], *zeros[POINTS], bias = j->bias ? j->bias[channel * j->bias_ld] : 0;
    for (int k = 0; k < POINTS; k++) zeros[k] = self->zero;
    for (int64_t i = 0; i < self->count; i++) {
        point_rows(self, j->values + (channel * self->count + i) * n, ld, values);
        place_rows(j, channel, i, j->to_points ? zeros : values, places);
        run_map(j, n, places, values, bias);
    }
}

static void map_channels(const winograd *self, map_job job)
{
    int64_t channels = of_input(job.kind) ? self->s->c : self->s->out;
    job.self = self;
    la_parallel(channels, 4 * (double)(self->points * channels * self->count * self->s->n), map_channel, &job);
}

/* To the points: V from x or dM from dy. */
static void to_points(const winograd *self, la_point_map kind, const real *x, real *V)
{
    map_channels(self, (map_job){.kind = kind, .to_points = true, .image = (real *)x, .values = V});
}

/* U of W, or dW of dU; the channels of a weight are neighbours and take the place of samples. */
static void map_weight(void *data, int64_t o)
{
    const map_job *j = data;
    const winograd *self = j->self;
    int64_t taps = self->s->kh * self->s->kw, c = self->s->c;
    real *places[POINTS], *values[POINTS];
    for (int64_t k = 0; k < taps; k++) places[k] = j->image + o * (taps * c + 1) + k * c;
    point_rows(self, j->values + o * c, self->u_ld, values);
    run_map(j, c, places, values, 0);
}

static void map_weights(map_job job)
{
    la_parallel(job.self->s->out, 4 * (double)(job.self->u_ld * job.self->points), map_weight, &job);
}

static void weights_to_points(const winograd *self, const real *W, real *U)
{
    map_weights((map_job){.self = self, .kind = LA_POINT_WEIGHTS, .to_points = true, .image = (real *)W, .values = U});
}

/* The product of one point: C <- [C +] op(A) op(B). */
typedef struct product_job {
    bool ta, tb, add;
    int64_t m, n, k;
    const real *A, *B;
    real *C;
    int64_t a_next, b_next, c_next; /* from point to point */
} product_job;

static void point_product(void *data, int64_t p)
{
    const product_job *j = data;
    la_gemm(j->ta, j->tb, j->m, j->n, j->k, 1, j->A + p * j->a_next, j->ta ? j->m : j->k, j->B + p * j->b_next,
            j->tb ? j->k : j->n, j->add ? 1 : 0, j->C + p * j->c_next, j->n);
}

static void run_products(const winograd *self, product_job job)
{
    double work = 2 * (double)self->points * (double)job.m * (double)job.n * (double)job.k;
    la_parallel(self->points, work, point_product, &job);
}

/* M <- [M +] U V, dV <- [dV +] U'dM and dU <- [dU +] dM V' at every point. */
static void product(const winograd *self, const real *U, const real *V, bool add, real *M)
{
    int64_t c = self->s->c, out = self->s->out, columns = self->count * self->s->n;
    run_products(self, (product_job){false, false, add, out, columns, c, U, V, M, self->u_ld, self->v_ld, self->m_ld});
}

static void back_product(const winograd *self, const real *U, const real *dM, bool add, real *dV)
{
    int64_t c = self->s->c, out = self->s->out, columns = self->count * self->s->n;
    run_products(self, (product_job){true, false, add, c, columns, out, U, dM, dV, self->u_ld, self->m_ld, self->v_ld});
}

static void outer_product(const winograd *self, const real *dM, const real *V, bool add, real *dU)
{
    int64_t c = self->s->c, out = self->s->out, columns = self->count * self->s->n;
    run_products(self, (product_job){false, true, add, out, c, columns, dM, V, dU, self->m_ld, self->v_ld, self->u_ld});
}

static void next_block(winograd *self)
{
    self->from += self->count;
    self->count = smaller(self->block, self->squares - self->from);
}

void la_winograd_forward(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work)
{
    winograd self = begin(s, work);
    int64_t depth = s->kh * s->kw * s->c;
    for (int i = 0; i < count; i++) weights_to_points(&self, term[i].W, self.U[i]);
    for (next_block(&self); self.count > 0; next_block(&self)) {
        for (int i = 0; i < count; i++) {
            to_points(&self, LA_POINT_INPUT, term[i].x, self.V);
            product(&self, self.U[i], self.V, i > 0, self.M[0]);
        }
        map_channels(&self, (map_job){.kind = LA_POINT_OUTPUT,
                                      .image = y,
                                      .values = self.M[0],
                                      .bias = bias ? term[0].W + depth : NULL,
                                      .bias_ld = depth + 1});
    }
}

/* dx, of which the squares of this block overlap with those of others. What falls outside the image is written over its
 * own input, which is not read again. */
static void back_input(const winograd *self, int count, const la_conv_term *term, real *dx)
{
    bool add = false;
    for (int i = 0; i < count; i++) {
        if (!term[i].W) continue;
        back_product(self, self->U[i], self->M[i], add, self->V);
        add = true;
    }
    map_channels(self, (map_job){.kind = LA_POINT_BACK_INPUT, .image = dx, .values = self->V, .add = true});
}

static void back_weights(const winograd *self, int count, const la_conv_term *term)
{
    bool add = self->from > 0;
    for (int i = 0; i < count; i++) {
        if (!term[i].x) continue;
        to_points(self, LA_POINT_INPUT, term[i].x, self->V);
        outer_product(self, self->M[i], self->V, add, self->dU);
        add = true;
    }
}

void la_winograd_back(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                      real *work)
{
    winograd self = begin(s, work);
    int64_t depth = s->kh * s->kw * s->c;
    for (int i = 0; dx && i < count; i++) {
        if (term[i].W) weights_to_points(&self, term[i].W, self.U[i]);
    }
    if (dx && !add_x) memset(dx, 0, (size_t)(s->c * s->h * s->w * s->n) * sizeof *dx);
    for (next_block(&self); self.count > 0; next_block(&self)) {
        for (int i = 0; i < count; i++) to_points(&self, LA_POINT_BACK_OUTPUT, term[i].dy, self.M[i]);
        if (dx) back_input(&self, count, term, dx);
        if (dW) back_weights(&self, count, term);
    }
    if (!dW) return;
    map_weights((map_job){.self = &self, .kind = LA_POINT_BACK_WEIGHTS, .image = dW, .values = self.dU, .add = add_W});
    la_row_sums(s->out, s->oh * s->ow * s->n, term[0].dy, add_W, dW + depth, depth + 1);
}
