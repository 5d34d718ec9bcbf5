/* L-BFGS with a line search, "lbfgs": the two-loop recursion over the last pairs (s, y) = (dtheta, dgradient).
 *
 * State of a tensor: the point and gradient where the last search ended, then rings of s and y. A caller who has moved
 * theta since then costs one more evaluation. */
#include "la/la.h"
#include "optim/method/method.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { KEPT, NEXT, ENDED }; /* pairs in the ring, where the next one goes, whether a search has ended anywhere */

static int64_t lbfgs_size(const psgd_optimizer *self, const part *p)
{
    int64_t size;
    return psgd__mul_fits(p->n, 2 + 2 * self->settings.memory, &size) ? size : INT64_MAX;
}

/* s or y of a slot. */
static real *ring(const part *p, int64_t slot, bool of_s)
{
    return (real *)p->state + (2 + 2 * slot + !of_s) * p->n;
}

/* Over all tensors, s or y of a slot times d; d NULL: times y. */
static double ring_dot(const psgd_optimizer *self, int64_t slot, bool of_s, void *const *d)
{
    double sum = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        sum += la_dot(p->n, ring(p, slot, of_s), d ? d[i] : ring(p, slot, false));
    }
    return sum;
}

static void ring_axpy(const psgd_optimizer *self, double c, int64_t slot, bool of_s, void *const *d)
{
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        la_axpy(p->n, (real)c, ring(p, slot, of_s), d[i]);
    }
}

/* d <- -H g by the two loops; false where d does not descend. */
static bool direction(psgd_optimizer *self, void *const *g, void *const *d)
{
    enum { MAX = 1000 };
    double alpha[MAX];
    int64_t kept = self->now.integer[KEPT], memory = self->settings.memory;
    psgd__parts_copy(self, g, d);
    for (int64_t k = 0; k < kept; k++) {
        int64_t slot = (self->now.integer[NEXT] - 1 - k + 2 * memory) % memory;
        alpha[k] = ring_dot(self, slot, true, d) / ring_dot(self, slot, true, NULL);
        ring_axpy(self, -alpha[k], slot, false, d);
    }
    double scale = 1;
    if (kept) {
        int64_t last = (self->now.integer[NEXT] - 1 + memory) % memory;
        scale = ring_dot(self, last, true, NULL) / ring_dot(self, last, false, NULL);
    }
    psgd__parts_scale(self, -scale, d);
    for (int64_t k = kept - 1; k >= 0; k--) {
        int64_t slot = (self->now.integer[NEXT] - 1 - k + 2 * memory) % memory;
        double beta = ring_dot(self, slot, false, d) / ring_dot(self, slot, true, NULL);
        ring_axpy(self, -alpha[k] - beta, slot, true, d);
    }
    return psgd__parts_dot(self, g, d) < 0;
}

/* s and y of the step from the old point (in v and h by now) to the new one into the ring. */
static void remember(psgd_optimizer *self, void *const *theta, void *const *gradient)
{
    int64_t memory = self->settings.memory, slot = self->now.integer[NEXT] % memory;
    double sy = 0, yy = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        real *x = p->state, *g = x + p->n, *s = ring(p, slot, true), *y = ring(p, slot, false);
        const real *x_new = theta[i], *g_new = gradient[i];
        for (int64_t k = 0; k < p->n; k++) {
            s[k] = x_new[k] - x[k];
            y[k] = g_new[k] - g[k];
        }
        sy += la_dot(p->n, s, y);
        yy += la_dot(p->n, y, y);
    }
    if (!(sy > (double)REAL_EPSILON * yy) || !isfinite(yy)) return;
    self->now.integer[NEXT] = (slot + 1) % memory;
    if (self->now.integer[KEPT] < memory) self->now.integer[KEPT]++;
}

static bool still_there(const psgd_optimizer *self, void *const *theta)
{
    if (!self->now.integer[ENDED]) return false;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (memcmp(p->state, theta[i], (size_t)p->n * sizeof(real)) != 0) return false;
    }
    return true;
}

static void keep_end(psgd_optimizer *self, void *const *theta, void *const *gradient, double loss)
{
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        size_t bytes = (size_t)p->n * sizeof(real);
        memcpy(p->state, theta[i], bytes);
        memcpy((real *)p->state + p->n, gradient[i], bytes);
    }
    self->now.integer[ENDED] = 1;
    self->now.scalar[0] = loss;
}

static psgd_status lbfgs_iterate(psgd_optimizer *self, void *const *theta, double *loss)
{
    if (!still_there(self, theta)) {
        PSGD_TRY(psgd__evaluate(self, theta, loss, self->gradient));
        double max = psgd__parts_max(self, (const void *const *)self->gradient);
        if (!isfinite(*loss) || !isfinite(max)) return psgd__optim_skip(self, "the loss or gradient is not finite");
        keep_end(self, theta, self->gradient, *loss);
    }
    *loss = self->now.scalar[0];
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        memcpy(self->gradient[i], (real *)p->state + p->n, (size_t)p->n * sizeof(real));
    }
    if (!direction(self, self->gradient, self->v)) {
        self->now.integer[KEPT] = 0;
        direction(self, self->gradient, self->v);
    }
    double slope = psgd__parts_dot(self, self->gradient, self->v);
    self->now.step++;
    self->now.skipped_in_row = 0;
    if (!(slope < 0)) return PSGD_OK; /* the gradient is zero */

    double length = sqrt(psgd__parts_dot(self, self->v, self->v));
    line_search s = {.value = *loss, .slope = slope, .first = self->now.integer[KEPT] ? 1 : fmin(1, 1 / length)};
    PSGD_TRY(psgd__search(self, theta, self->v, &s));
    if (!s.found) {
        self->now.integer[KEPT] = 0; /* start again from the gradient */
        return PSGD_OK;
    }
    remember(self, self->spare, self->h);
    keep_end(self, self->spare, self->h, s.reached);
    psgd__parts_copy(self, self->spare, theta);
    return PSGD_OK;
}

const method_ops METHOD_OPS(lbfgs) = {
    .kind = {"lbfgs", "limited memory BFGS with a line search", .searches = true},
    .size = lbfgs_size,
    .iterate = lbfgs_iterate,
};
