/* Bounds on the entries of Q. A unit that sees only h = 0 grows by 1 + step every update, without end; one that sees
 * only v = 0 shrinks. Long before either overflows or underflows, the unit is scaled back by a power of two.
 *
 * Computing max |Q| after each step would cost more than the step of a large group. A step multiplies entries by at
 * most 1 + mix c max|R| and diagonals by at least 1 - c max|R|, so bounds of log2 max |Q| are updated with these
 * factors and max |Q| is computed only when they reach a limit. The factors of a kron share the limit. With large steps
 * they drift apart, one up and one down, while their product stays the same, so they are balanced before any of them is
 * judged. */
#include "precond/update/update.h"

#include <math.h>

#ifdef PSGD_REAL_F64
static const double LIMIT = 400;
#else
static const double LIMIT = 60;
#endif

void guard_start(psgd_precond *self)
{
    for (int i = 0; i < self->unit_count; i++) {
        self->units[i].top = HUGE_VAL;
        self->units[i].bottom = -HUGE_VAL;
    }
}

/* No power of two brings back what is infinite, as a product of two loaded halves may be. */
static void bring_back(group *unit, double limit, double log_largest, double init_scale)
{
    if (isfinite(log_largest) && psgd__group_can_rescale(unit)) {
        int shift = (int)(log_largest > 0 ? limit - 2 - log_largest : -limit + 2 - log_largest);
        unit->ops->rescale(unit, (real)ldexp(1, shift));
    } else {
        unit->ops->reset(unit, init_scale);
    }
}

bool guard_after(precond_unit *unit, double c, double largest)
{
    double step = c * largest, limit = LIMIT / unit->share;
    unit->top += log2(1 + (double)((const group *)unit->group)->mix * step);
    unit->bottom += step < 1 ? log2(1 - step) : -limit;
    return !(unit->top <= limit && unit->bottom >= -limit);
}

/* Sets both bounds to log2 max |Q|; true where that is outside. A unit without parameters is never outside. */
static bool measure(precond_unit *unit)
{
    double max = (double)psgd__group_largest(unit->group);
    unit->top = unit->bottom = max == 0 ? 0 : log2(max);
    return !(fabs(unit->top) <= LIMIT / unit->share);
}

/* Measures every unit, and with mend brings back those that are outside. Returns how many were. */
static int settle(psgd_precond *self, bool mend)
{
    int count = 0;
    for (int i = 0; i < self->unit_count; i++) {
        precond_unit *unit = &self->units[i];
        if (!measure(unit)) continue;
        count++;
        if (!mend) continue;
        bring_back(unit->group, LIMIT / unit->share, unit->top, self->settings.init_scale);
        measure(unit);
    }
    return count;
}

int guard_settle(psgd_precond *self)
{
    if (settle(self, false) == 0) return 0;
    psgd__group_balance(self->root, false);
    return settle(self, true);
}
