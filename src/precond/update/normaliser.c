#include "precond/update/update.h"

#include <float.h>
#include <math.h>

/* max: the largest entry, the paper's choice. */
static double by_max(unit_measure *m)
{
    return m->step / m->largest;
}

/* entry: R has become its sign (entries.c). */
static double by_entry(unit_measure *m)
{
    return m->step;
}

/* spectral: ||R||_2 or an upper bound of it. */
static double by_spectral(unit_measure *m)
{
    double norm = isfinite(m->spectral) ? m->spectral : (double)m->unit->ops->r_spectral(m->unit, m->R);
    return m->step / norm;
}

static double keep_running(double *running, double decay, double now)
{
    now = fmin(now, DBL_MAX);
    *running = fmax(decay * *running + (1 - decay) * now, now);
    return *running;
}

/* The trace of AA' + BB' over the rows that the group fixes. Pi drops them, but what is next to them, like the column
 * of bnorm, moves along them: how far a step may go depends on their size too. */
static double fixed_part(const unit_measure *m)
{
    const group *unit = m->unit;
    if (!unit->ops->fixed || unit->ops->r_size(unit) == 0) return 0;
    double sum = psgd__group_fixed(unit, m->pair->A) + psgd__group_fixed(unit, m->pair->B);
    for (group_image M = 0; M < IMAGE_COUNT; M++) {
        if (m->pair->gram[M] != 0) sum += fabs(m->pair->gram[M]) * psgd__group_fixed_gram(unit, M);
    }
    return sum;
}

/* second: ||Pi(AA' + BB')||, which unlike ||R|| does not vanish at the optimum, with a running maximum L <- max(decay L
 * + (1 - decay) l, l). The norm is exact, estimated from below, or, where a group has no better, the bound of spectral.
 */
static double by_second(unit_measure *m)
{
    double norm = psgd__group_norm(m->unit, m->second, &m->draw) + fixed_part(m);
    if (m->unit->inverse_free) m->spectral = 2 * norm; /* on a self-adjoint group ||R|| <= ||Pi(AA' + BB')|| */
    return m->step / keep_running(&m->record->running[0], m->decay, m->weight * norm) * m->weight;
}

/* none: the plain rule, with the paper's factor 2. */
static double by_none(unit_measure *m)
{
    return 2 * m->step * m->weight;
}

normaliser normaliser_at(norm_choice choice)
{
    static const normaliser all[] = {[NORM_AUTO] = by_max,          [NORM_MAX] = by_max,       [NORM_ENTRY] = by_entry,
                                     [NORM_SPECTRAL] = by_spectral, [NORM_SECOND] = by_second, [NORM_NONE] = by_none};
    return all[choice];
}

double normaliser_part(const precond_settings *set, const group_part *part, double *running, double weight)
{
    double step = set->step;
    norm_choice choice = (norm_choice)set->norm;
    static const group_size sizes[] = {[NORM_AUTO] = SIZE_LARGEST,
                                       [NORM_MAX] = SIZE_LARGEST,
                                       [NORM_SPECTRAL] = SIZE_SPECTRAL,
                                       [NORM_SECOND] = SIZE_SECOND};
    if (choice == NORM_NONE) return 2 * step * weight;
    double size = part->size(part->data, sizes[choice]);
    if (!(size > 0)) return 0;
    if (choice == NORM_SECOND) return step / keep_running(running, set->norm_decay, weight * size) * weight;
    return step / size;
}
