#include "optim/schedule.h"

#include <math.h>

double psgd__schedule_factor(const schedule *s, int64_t step, int64_t total, double plateau)
{
    switch ((schedule_kind)s->kind) {
    case SCHEDULE_CONSTANT:
        return 1;
    case SCHEDULE_STEP:
        return pow(s->factor, (double)(step / s->every));
    case SCHEDULE_COSINE:
        if (step >= total) return s->floor;
        return s->floor + (1 - s->floor) * 0.5 * (1 + cos(M_PI * (double)step / (double)total));
    case SCHEDULE_PLATEAU:
        return plateau;
    }
    return 1;
}

double psgd__warmup_factor(int64_t warmup, int64_t step)
{
    return step < warmup ? (double)(step + 1) / (double)warmup : 1;
}
