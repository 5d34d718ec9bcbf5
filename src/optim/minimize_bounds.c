/* Box bounds: which unknowns are free, and how far a direction stays inside. */
#include "optim/minimize.h"

#include <math.h>

bool psgd__minimizer_is_bounded(const minimizer *self)
{
    return self->function->lower || self->function->upper;
}

static double lower(const minimizer *self, int64_t i)
{
    return self->function->lower ? self->function->lower[i] : -HUGE_VAL;
}

static double upper(const minimizer *self, int64_t i)
{
    return self->function->upper ? self->function->upper[i] : HUGE_VAL;
}

static double clamp(const minimizer *self, int64_t i, double x)
{
    return x < lower(self, i) ? lower(self, i) : x > upper(self, i) ? upper(self, i) : x;
}

void psgd__minimizer_project(const minimizer *self, double *x)
{
    if (!self->mask) return;
    for (int64_t i = 0; i < self->n; i++) x[i] = clamp(self, i, x[i]);
}

/* An unknown at a bound stays there while -g points outwards. */
bool psgd__minimizer_find_free(minimizer *self)
{
    bool changed = false;
    for (int64_t i = 0; self->mask && i < self->n; i++) {
        bool fixed = (self->x[i] <= lower(self, i) && self->g[i] >= 0) ||
                     (self->x[i] >= upper(self, i) && self->g[i] <= 0);
        changed = changed || (self->mask[i] == 0) != fixed;
        self->mask[i] = fixed ? 0 : 1;
    }
    return changed;
}

double psgd__minimizer_norm(const minimizer *self, const double *x, const double *g)
{
    if (!self->mask) return sqrt(minimize_dot(self->n, g, g));
    double sum = 0;
    for (int64_t i = 0; i < self->n; i++) {
        double step = x[i] - clamp(self, i, x[i] - g[i]);
        sum += step * step;
    }
    return sqrt(sum);
}

double psgd__minimizer_slope_by_size(const minimizer *self)
{
    double sum = 0;
    for (int64_t i = 0; i < self->n; i++) {
        double g = self->g[i];
        bool fixed = self->mask && self->x[i] == clamp(self, i, self->x[i] - g);
        if (!fixed) sum += fabs(g * self->x[i]);
    }
    return sum;
}

double psgd__minimizer_room(const minimizer *self)
{
    double room = HUGE_VAL;
    for (int64_t i = 0; self->mask && i < self->n; i++) {
        double d = self->d[i];
        if (d < 0) room = fmin(room, (lower(self, i) - self->x[i]) / d);
        if (d > 0) room = fmin(room, (upper(self, i) - self->x[i]) / d);
    }
    return room;
}
