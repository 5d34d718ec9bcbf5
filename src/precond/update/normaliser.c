#include "precond/update/update.h"

#include <float.h>
#include <math.h>

/* max: the largest entry, the paper's choice. */
static double by_max(const unit_measure *m)
{
    return m->step / m->largest;
}

/* spectral: ||R||_2 or an upper bound of it. */
static double by_spectral(const unit_measure *m)
{
    double norm = isfinite(m->spectral) ? m->spectral : (double)m->unit->ops->r_spectral(m->unit, m->R);
    return m->step / norm;
}

static double keep_running(double *running, double now)
{
    now = fmin(now, DBL_MAX);
    *running = fmax(0.9 * *running + 0.1 * now, now);
    return *running;
}

/* second: the same bound of Pi(AA' + BB'), which unlike ||R|| does not vanish at the optimum, with a running maximum
 * L <- max(0.9 L + 0.1 l, l). */
static double by_second(const unit_measure *m)
{
    group *unit = m->unit;
    const group_pair *p = m->pair;
    if (!m->fused) unit->ops->project(unit, p->A, p->B, 1, false, m->spare);
    if (p->gram != 0) psgd__group_gram(unit, false, fabs(p->gram), m->spare);
    if (p->gram_inverse != 0) psgd__group_gram(unit, true, fabs(p->gram_inverse), m->spare);

    double now = m->weight * (double)unit->ops->r_spectral(unit, m->spare);
    return m->step / keep_running(&m->record->running[0], now) * m->weight;
}

/* none: the plain rule, with the paper's factor 2. */
static double by_none(const unit_measure *m)
{
    return 2 * m->step * m->weight;
}

normaliser normaliser_at(norm_choice choice)
{
    static const normaliser all[] = {[NORM_AUTO] = by_max,
                                     [NORM_MAX] = by_max,
                                     [NORM_SPECTRAL] = by_spectral,
                                     [NORM_SECOND] = by_second,
                                     [NORM_NONE] = by_none};
    return all[choice];
}

double normaliser_part(norm_choice choice, const group_part *part, double *running, double weight, double step)
{
    static const group_size sizes[] = {[NORM_AUTO] = SIZE_LARGEST,
                                       [NORM_MAX] = SIZE_LARGEST,
                                       [NORM_SPECTRAL] = SIZE_SPECTRAL,
                                       [NORM_SECOND] = SIZE_SECOND};
    if (choice == NORM_NONE) return 2 * step * weight;
    double size = part->size(part->data, sizes[choice]);
    if (!(size > 0)) return 0;
    if (choice == NORM_SECOND) return step / keep_running(running, weight * size) * weight;
    return step / size;
}
