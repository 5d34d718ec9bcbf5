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

/* The norm of all tensors together. Over ranks each computes those of its own. */
static psgd_status joint_norm(const psgd_optimizer *self, const void *const *gradient, double *norm)
{
    double *each = self->ranks ? self->ranks->each : NULL;
    *norm = 0;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        double own = gradient[i] && p->n > 0 && optim_is_mine(self, p)
                         ? la_view_norm(view_rows((real *)gradient[i], p->n, 1), 0)
                         : 0;
        if (each) {
            each[i] = own;
        } else if (own != 0) {
            *norm = hypot(*norm, own);
        }
    }
    if (!each) return PSGD_OK;
    PSGD_TRY(psgd__ranks_collect(self, each));
    for (int i = 0; i < self->part_count; i++) {
        if (each[i] != 0) *norm = hypot(*norm, each[i]);
    }
    return PSGD_OK;
}

psgd_status psgd__clip_gradient(psgd_optimizer *self, const void *const **gradient, double *max)
{
    double norm, limit = self->settings.clip_gradient;
    if (!self->clipped) return PSGD_OK;
    PSGD_TRY(joint_norm(self, *gradient, &norm));
    if (!(norm > limit)) return PSGD_OK;
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        const real *from = (*gradient)[i];
        real *to = (real *)self->clipped + p->from;
        if (from) la_scale_to(p->n, limit / norm, from, to);
        self->clipped_list[i] = from ? to : NULL;
    }
    *max = fmin(*max, limit);
    *gradient = self->clipped_list;
    return PSGD_OK;
}
