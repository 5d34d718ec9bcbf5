#include "optim/search.h"

#include <math.h>

typedef struct point {
    double a, value, slope;
} point;

/* The minimum of the cubic through both points and slopes, kept away from the ends of the interval. */
static double interpolate(const point *p, const point *q)
{
    double low = fmin(p->a, q->a), high = fmax(p->a, q->a), width = high - low;
    double d1 = p->slope + q->slope - 3 * (p->value - q->value) / (p->a - q->a);
    double under = d1 * d1 - p->slope * q->slope;
    double a = low + 0.5 * width;
    if (isfinite(q->value) && isfinite(q->slope) && under >= 0) {
        double d2 = copysign(sqrt(under), q->a - p->a);
        double cubic = q->a - (q->a - p->a) * ((q->slope + d2 - d1) / (q->slope - p->slope + 2 * d2));
        if (isfinite(cubic)) a = cubic;
    } else if (!isfinite(q->value) || !isfinite(q->slope)) {
        a = p->a + 0.1 * (q->a - p->a);
    }
    return fmin(fmax(a, low + 0.05 * width), high - 0.05 * width);
}

static psgd_status evaluate(line_search *s, search_function function, void *data, double a, point *to)
{
    s->evaluations++;
    to->a = s->length = a;
    PSGD_TRY(function(data, a, &to->value, &to->slope));
    if (!isfinite(to->value) || !isfinite(to->slope)) to->value = HUGE_VAL;
    s->reached = to->value;
    return PSGD_OK;
}

/* Too high for the first condition. Near a minimum values differ by rounding only; there the slope decides (Hager and
 * Zhang's approximate Wolfe condition). */
static bool too_high(const line_search *s, const point *p)
{
    if (p->value <= s->value + s->decrease * p->a * s->slope) return false;
    bool close = p->value <= s->value + s->noise;
    return !(close && p->slope <= (2 * s->decrease - 1) * s->slope);
}

static bool flat_enough(const line_search *s, const point *p)
{
    return fabs(p->slope) <= -s->curvature * s->slope;
}

/* low is the best point so far and its slope points towards high. */
static psgd_status zoom(line_search *s, search_function function, void *data, point low, point high)
{
    while (s->evaluations < s->max && fabs(high.a - low.a) > 1e-15 * fmax(high.a, low.a)) {
        point p;
        PSGD_TRY(evaluate(s, function, data, interpolate(&low, &high), &p));
        if (too_high(s, &p) || p.value > low.value + s->noise) {
            high = p;
            continue;
        }
        if (flat_enough(s, &p)) {
            s->found = true;
            return PSGD_OK;
        }
        if (p.slope * (high.a - low.a) >= 0) high = low;
        low = p;
    }
    if (low.a == 0) return PSGD_OK;
    s->found = true;
    if (s->length == low.a) return PSGD_OK;
    point again;
    return evaluate(s, function, data, low.a, &again);
}

psgd_status psgd__line_search(line_search *s, search_function function, void *data)
{
    point before = {.a = 0, .value = s->value, .slope = s->slope}, p;
    s->found = false;
    s->evaluations = 0;
    for (double a = fmin(s->first, s->longest);; a = fmin(4 * a, s->longest)) {
        PSGD_TRY(evaluate(s, function, data, a, &p));
        if (too_high(s, &p) || (before.a > 0 && p.value >= before.value + s->noise)) {
            return zoom(s, function, data, before, p);
        }
        if (flat_enough(s, &p) || a >= s->longest || s->evaluations >= s->max) break;
        if (p.slope >= 0) return zoom(s, function, data, p, before);
        before = p;
    }
    s->found = true;
    return PSGD_OK;
}
