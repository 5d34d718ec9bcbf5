/* Option clip-gradient: g <- g min(1, limit / ||g||), the norm jointly over all tensors, before the method sees g.
 *
 * Where the method averages (momentum, adam), this bounds what enters the average, as the training scripts of recurrent
 * networks do; option clip bounds the direction that comes out. The caller's gradients stay as they are: clipped ones
 * are copies. */
#include "group/composite/tiles.h"
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

/* The norm of tile k of a tensor, or of all of it. */
static double norm_of(const part *p, int k, const real *g)
{
    view all = view_rows((real *)g, p->n, 1);
    if (!p->precond || !p->precond->tile_count) return la_view_norm(all, 0);
    const tile_grid *grid = psgd__tiles_grid(p->precond->root);
    tile_place t = tile_at(grid, k);
    view rows = {.x = (real *)g + t.row * grid->columns + t.column,
                 .n = t.columns,
                 .inner = 1,
                 .outer = t.rows,
                 .ld = grid->columns,
                 .blocks = 1};
    return la_view_norm(rows, 0);
}

/* The norm of a tensor: of its tiles, one after the other, whichever rank has which. */
static double norm_of_tiles(const part *p, const real *g)
{
    double norm = 0;
    int count = p->precond && p->precond->tile_count ? p->precond->tile_count : 1;
    for (int k = 0; k < count; k++) norm = hypot(norm, norm_of(p, k, g));
    return norm;
}

/* Over ranks each computes the norms of its own. */
static psgd_status collect_norms(const psgd_optimizer *self, const void *const *gradient)
{
    const optim_ranks *ranks = self->ranks;
    for (int k = 0; k < ranks->piece_count; k++) {
        const rank_piece *piece = &ranks->pieces[k];
        const part *p = &self->parts[piece->tensor];
        const real *g = gradient[piece->tensor];
        if (!g || !ranks->here[k]) {
            ranks->each[k] = 0;
        } else {
            ranks->each[k] = piece->tile < 0 ? norm_of_tiles(p, g) : norm_of(p, piece->tile, g);
        }
    }
    return psgd__ranks_collect(self);
}

/* The norm of all tensors together. */
static psgd_status joint_norm(const psgd_optimizer *self, const void *const *gradient, double *norm)
{
    const optim_ranks *ranks = self->ranks;
    *norm = 0;
    if (ranks) PSGD_TRY(collect_norms(self, gradient));
    for (int i = 0; i < self->part_count; i++) {
        const part *p = &self->parts[i];
        double own = 0;
        if (ranks) {
            for (int k = ranks->first[i]; k < ranks->first[i + 1]; k++) own = hypot(own, ranks->each[k]);
        } else if (gradient[i] && p->n > 0) {
            own = norm_of_tiles(p, gradient[i]);
        }
        if (own != 0) *norm = hypot(*norm, own);
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
