/* Where a fit starts, option init first: Q = s I with the scale of the first pairs.
 *
 * A pair asks for s = sqrt(||v|| / ||h||), which makes ||Ph|| = ||v||; s is the geometric mean over the first
 * START_PAIRS pairs. So one pair whose h is 10^6 times as large as the others', or as small, changes s by a factor of
 * 4, and a pair whose h is zero does not count. Every one of these pairs starts anew from sI; the fit continues from
 * the last. */
#include "precond/update/update.h"

static const double LIMIT = 1e15; /* of s and 1/s */

void start_from(psgd_precond *self, const whitened_pair *w)
{
    if (!(w->v_norm > 0) || !(w->h_norm > 0)) return;
    double part = 1.0 / (double)(START_PAIRS + 1 - self->waiting--);
    double scale = fmin(fmax(sqrt(w->v_norm / w->h_norm), 1 / LIMIT), LIMIT);
    self->start = part == 1 ? scale : pow(scale, part) * pow(self->start, 1 - part);
    PSGD_TYPED(psgd__precond_reset)(self, self->start);
}
