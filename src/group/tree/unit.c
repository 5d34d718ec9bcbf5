/* Ops of one unit that update rules call, with their defaults. A group without retract_right is commutative; one
 * without symmetrise and skew_part has symmetric Q only. */
#include "group/group.h"

#include <math.h>

static const double MAX_ANGLE = 0.125; /* of a rotation: I + tS + (t^2/2) SS is then orthogonal to t^4/4 < 1e-4 */

void psgd__group_project_both(const group *self, view A, view B, real *R, real *S)
{
    if (self->fused && self->fused->project_both) {
        self->fused->project_both(self, A, B, R, S);
        return;
    }
    self->ops->project(self, A, B, -1, false, R);
    self->ops->project(self, A, B, 1, false, S);
}

double psgd__group_norm(const group *self, const real *R, const rng_stream *draw)
{
    return self->ops->r_norm ? self->ops->r_norm(self, R, draw) : (double)self->ops->r_spectral(self, R);
}

void psgd__group_retract_right(group *self, real c, real *R)
{
    (self->ops->retract_right ? self->ops->retract_right : self->ops->retract)(self, c, R);
}

void psgd__group_symmetrise(group *self)
{
    if (self->ops->symmetrise) self->ops->symmetrise(self);
}

void psgd__group_retract_both(group *self, real c, real *R)
{
    if (self->fused && self->fused->retract_both) {
        self->fused->retract_both(self, c, R);
        return;
    }
    self->ops->retract(self, c, R);
    psgd__group_retract_right(self, c, R);
    psgd__group_symmetrise(self);
}

/* d/dt tr (I + tS + (t^2/2) SS) Q = x + ty. */
void psgd__group_rotate(group *self, const rng_stream *draw)
{
    double x, y, norm = self->ops->skew_part ? self->ops->skew_part(self, draw, &x, &y) : 0;
    if (norm > 0) self->ops->rotate(self, norm, y < 0 ? fmin(-x / y, MAX_ANGLE) : MAX_ANGLE);
}
