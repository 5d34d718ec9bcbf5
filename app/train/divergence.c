/* Whether a run has left the range from which it can come back. */
#include "train/trainer.h"

#include <math.h>

static bool is_finite(const trainer *self)
{
    bool is_double = self->config.dtype == PSGD_F64, finite = true;
    for (int64_t i = 0; finite && i < self->parameters; i++) {
        finite = is_double ? isfinite(((const double *)(const void *)self->theta)[i])
                           : isfinite(((const float *)(const void *)self->theta)[i]);
    }
    return finite;
}

psgd_status psgd__train_check(trainer *self, double loss, bool weights)
{
    train_progress *now = &self->now;
    if (isnan(now->first)) now->first = loss;
    if (psgd_diverged(now->first, loss)) {
        return psgd__fail(
            PSGD_ERR_NOT_FINITE,
            "the run diverged at step %lld: its loss is %g, and was %g at the first step; a smaller --lr, "
            "or --clip, may help",
            (long long)now->step, loss, now->first);
    }
    if (!weights || is_finite(self)) return PSGD_OK;
    return psgd__fail(
        PSGD_ERR_NOT_FINITE,
        "the run diverged at step %lld: its parameters are not finite; a smaller --lr, or --clip, may help",
        (long long)now->step);
}
