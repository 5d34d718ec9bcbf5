/* Option clip-gradient: g <- g min(1, limit / ||g||), the norm jointly over all tensors, before the method sees g.
 *
 * Where the method averages (momentum, adam), this bounds what enters the average, as the training scripts of recurrent
 * networks do; option clip bounds the direction that comes out. The caller's gradients stay as they are: clipped ones
 * are copies. */
#include "la/la.h"
#include "optim/method/method.h"

#include <math.h>

psgd_status PSGD_TYPED(psgd__optim_build_clip)(psgd_optimizer *self)
{
    if (!(self->settings.clip_gradient > 0) || self->kind->searches) return PSGD_OK;
    self->clipped = psgd__alloc(self->context, self->total, sizeof(real));
    self->clipped_list = psgd__alloc(self->context, self->part_count, sizeof *self->clipped_list);
    if (self->clipped && self->clipped_list) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the clipped gradient of %lld parameters",
                      (long long)self->total);
}

const void *const *psgd__clip_gradient(psgd_optimizer *self, const void *const *gradient, double *max)
{
    double norm = 0, limit = self->settings.clip_gradient;
    if (!self->clipped) return gradient;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        if (gradient[i] && p->n > 0) norm = hypot(norm, la_view_norm(view_rows((real *)gradient[i], p->n, 1), 0));
    }
    if (!(norm > limit)) return gradient;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        real *to = (real *)self->clipped + p->from;
        if (gradient[i]) la_scale_to(p->n, limit / norm, gradient[i], to);
        self->clipped_list[i] = gradient[i] ? to : NULL;
    }
    *max = fmin(*max, limit);
    return self->clipped_list;
}
