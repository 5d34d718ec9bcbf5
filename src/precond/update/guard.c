/* A unit that sees only h = 0 grows by 1 + step every update, without end; one that sees only v = 0 shrinks. Long
 * before either leaves the number type, the unit is scaled back by a power of two.
 *
 * Looking at all of Q after each step would cost more than the step of a large group. A step makes entries grow by at
 * most 1 + mix c max|R| and diagonals shrink by at least 1 - c max|R|, so bounds are carried along and Q is looked at
 * only when they reach a limit. The factors of a kron share the limit. With large steps they drift apart, one up and
 * one down, while their product stays where it is, so they are balanced before any of them is judged. */
#include "precond/update/guard.h"

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

bool guard_after(group *unit, double c, double largest)
{
    double step = c * largest, limit = LIMIT / unit->share;
    unit->top += log2(1 + (double)unit->mix * step);
    unit->bottom += step < 1 ? log2(1 - step) : -limit;
    return !(unit->top <= limit && unit->bottom >= -limit);
}

/* Sets the bounds to where the unit is; true where that is outside. A unit without numbers is never outside. */
static bool look(group *unit)
{
    double max = (double)psgd__group_largest(unit);
    unit->top = unit->bottom = max == 0 ? 0 : log2(max);
    return !(fabs(unit->top) <= LIMIT / unit->share);
}

/* Looks at every unit, and where mend is set brings back those that are outside. Returns how many were. */
static int settle(group *self, bool mend, double init_scale)
{
    int count = 0;
    for (int i = 0; self->ops->units && i < self->child_count; i++) count += settle(self->child[i], mend, init_scale);
    if (self->ops->units || !look(self)) return count;
    if (mend) {
        bring_back(self, LIMIT / self->share, self->top, init_scale);
        look(self);
    }
    return 1;
}

int guard_settle(group *root, double init_scale)
{
    if (settle(root, false, init_scale) == 0) return 0;
    psgd__group_balance(root);
    return settle(root, true, init_scale);
}
