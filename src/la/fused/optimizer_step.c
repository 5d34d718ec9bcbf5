#include "la/fused/optimizer_step.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <math.h>

enum { CHUNK = 1 << 14, PARALLEL = 1 << 16 };

typedef struct stepping {
    const step_rule *rule;
    const real *g, *x;
    real *u, *s, *out;
} stepping;

static void plain_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    la_kernel()->step_plain(count, t->rule, t->g + from, t->x + from, t->out + from);
}

void la_step_plain(int64_t n, const step_rule *r, const real *g, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, plain_some, &(stepping){.rule = r, .g = g, .x = x, .out = out});
}

static void momentum_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    la_kernel()->step_momentum(count, t->rule, t->g + from, t->u + from, t->x + from, t->out + from);
}

void la_step_momentum(int64_t n, const step_rule *r, const real *g, real *u, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, momentum_some, &(stepping){.rule = r, .g = g, .u = u, .x = x, .out = out});
}

static void rms_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    la_kernel()->step_rms(count, t->rule, t->g + from, t->s + from, t->x + from, t->out + from);
}

void la_step_rms(int64_t n, const step_rule *r, const real *g, real *s, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, rms_some, &(stepping){.rule = r, .g = g, .s = s, .x = x, .out = out});
}

static void adam_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    la_kernel()->step_adam(count, t->rule, t->g + from, t->u + from, t->s + from, t->x + from, t->out + from);
}

void la_step_adam(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, adam_some, &(stepping){r, g, x, u, s, out});
}

static void divide_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    step_rule r = *t->rule;
    const real *g = t->g, *x = t->x, *s = t->s;
    for (int64_t i = from; i < from + count; i++) {
        real below = r.correct2 * s[i] + r.epsilon;
        real slope = g[i] + r.l2 * x[i];
        t->out[i] = r.keep * x[i] - r.rate * (below > 0 ? r.correct1 * slope / below : 0);
    }
}

void la_step_divide(int64_t n, const step_rule *rule, const real *g, const real *s, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, divide_some, &(stepping){.rule = rule, .g = g, .s = (real *)s, .x = x, .out = out});
}

typedef struct averaging {
    double decay, gain;
    const real *h;
    real *s;
} averaging;

static void average_some(const void *data, int64_t from, int64_t count)
{
    const averaging *a = data;
    for (int64_t i = from; i < from + count; i++) {
        double s = (double)a->s[i], h = (double)a->h[i];
        a->s[i] = (real)sqrt(a->decay * (s * s) + a->gain * (h * h));
    }
}

void la_root_mean(int64_t n, double decay, double gain, const real *h, real *s)
{
    la_chunks(n, CHUNK, PARALLEL, average_some, &(averaging){decay, gain, h, s});
}

typedef struct clamping {
    real limit, *x;
} clamping;

static void clamp_some(const void *data, int64_t from, int64_t count)
{
    const clamping *c = data;
    real limit = c->limit, *x = c->x;
    for (int64_t i = from; i < from + count; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

void la_clamp(int64_t n, real limit, real *x)
{
    la_chunks(n, CHUNK, PARALLEL, clamp_some, &(clamping){limit, x});
}
