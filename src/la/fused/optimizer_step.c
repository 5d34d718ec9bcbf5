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

static void step_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    const la_kernels *k = la_kernel();
    const real *g = t->g + from, *x = t->x + from;
    real *out = t->out + from;
    if (t->u && t->s) {
        k->step_adam(count, t->rule, g, t->u + from, t->s + from, x, out);
    } else if (t->u) {
        k->step_momentum(count, t->rule, g, t->u + from, x, out);
    } else if (t->s) {
        k->step_rms(count, t->rule, g, t->s + from, x, out);
    } else {
        k->step_plain(count, t->rule, g, x, out);
    }
}

void la_step(int64_t n, const step_rule *r, const real *g, real *u, real *s, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, step_some, &(stepping){r, g, x, u, s, out});
}

static void divide_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    step_rule r = *t->rule;
    const real *g = t->g, *x = t->x, *s = t->s;
    for (int64_t i = from; i < from + count; i++) {
        real below = la_divisor(&r, s[i], r.inside);
        real slope = g[i] + r.l2 * x[i];
        t->out[i] = r.keep * x[i] - r.rate * (below > 0 ? r.correct1 * slope / below : 0);
    }
}

void la_step_divide(int64_t n, const step_rule *rule, const real *g, const real *s, const real *x, real *out)
{
    la_chunks(n, CHUNK, PARALLEL, divide_some, &(stepping){.rule = rule, .g = g, .s = (real *)s, .x = x, .out = out});
}

static void average_some(const void *data, int64_t from, int64_t count)
{
    const stepping *t = data;
    double decay = t->rule->decay2, gain = t->rule->gain2;
    for (int64_t i = from; i < from + count; i++) {
        double s = (double)t->s[i], h = (double)t->g[i];
        t->s[i] = (real)sqrt(decay * (s * s) + gain * (h * h));
    }
}

void la_root_mean(int64_t n, double decay, double gain, const real *h, real *s)
{
    step_rule r = {.decay2 = decay, .gain2 = gain};
    la_chunks(n, CHUNK, PARALLEL, average_some, &(stepping){.rule = &r, .g = h, .s = s});
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

typedef struct scaling {
    double c;
    const real *x;
    real *y;
} scaling;

static void scale_some(const void *data, int64_t from, int64_t count)
{
    const scaling *s = data;
    for (int64_t i = from; i < from + count; i++) s->y[i] = (real)(s->c * (double)s->x[i]);
}

void la_scale_to(int64_t n, double c, const real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, scale_some, &(scaling){c, x, y});
}
