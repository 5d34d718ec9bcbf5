/* A unit that sees only h = 0 grows by 1 + step every update, without end; one that sees only v = 0 shrinks. Long
 * before either leaves the number type, the unit is scaled back by a power of two.
 *
 * Looking at all of Q after each step would cost more than the step of a large group. A step makes entries grow by at
 * most 1 + mix c max|R| and diagonals shrink by at least 1 - c max|R|, so bounds are carried along and Q is looked at
 * only when they reach a limit. */
#include "precond/guard.h"

#include <math.h>

#ifdef PSGD_REAL_F64
static const double LIMIT = 400;
#else
static const double LIMIT = 60;
#endif

void guard_start(group *root)
{
    root->top = HUGE_VAL;
    root->bottom = -HUGE_VAL;
    for (int i = 0; i < root->child_count; i++) guard_start(root->child[i]);
}

static void bring_back(group *unit, double limit, double log_largest, double init_scale)
{
    if (psgd__group_can_rescale(unit)) {
        int shift = (int)(log_largest > 0 ? limit - 2 - log_largest : -limit + 2 - log_largest);
        unit->ops->rescale(unit, (real)ldexp(1, shift));
    } else {
        unit->ops->reset(unit, init_scale);
    }
}

bool guard_after(group *unit, double c, double largest, double init_scale)
{
    double step = c * largest, limit = LIMIT / unit->share;
    unit->top += log2(1 + (double)unit->mix * step);
    unit->bottom += step < 1 ? log2(1 - step) : -limit;
    if (unit->top <= limit && unit->bottom >= -limit) return false;

    double now = log2((double)psgd__group_largest(unit));
    bool outside = !(fabs(now) <= limit);
    if (outside) {
        bring_back(unit, limit, now, init_scale);
        now = log2((double)psgd__group_largest(unit));
    }
    unit->top = unit->bottom = now;
    return outside;
}
