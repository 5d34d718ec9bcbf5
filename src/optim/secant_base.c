/* Which base: gamma I, gamma D or gamma Q'Q.
 *
 * D = sqrt(S_v / S_h) with S_v = sum v^2 / |v'h| and S_h = sum h^2 / |v'h| minimises the paper's criterion over
 * diagonals (section 6), old solves counting half as much with each new one. Before D takes a solve's pairs they score
 * it: log sqrt(h'Bh v'B^-1v) / |v'h| is zero where Bh and v are parallel. Rounding and chance give D a small advantage
 * on pairs that it has not seen, hence the margin; where it is used without one, it costs more than it gains. */
#include "optim/secant_base.h"
#include "la/array/vectors.h"

#include <math.h>
#include <string.h>

static const double MARGIN = 0.2, FLOOR = 1e-10;

void psgd__secant_base_reset(secant *s)
{
    memset(s->sum_v, 0, (size_t)s->n * sizeof(double));
    memset(s->sum_h, 0, (size_t)s->n * sizeof(double));
    s->score_plain = s->score_D = 0;
    s->plain_total = s->D_total = 0;
    s->has_D = false;
}

static bool use_D(const secant *s)
{
    return !s->group && s->has_D && s->score_D < s->score_plain - MARGIN;
}

void psgd__secant_base_apply(secant *s, double *x)
{
    if (s->group) psgd_precond_apply(s->group, PSGD_APPLY_P, x, x);
    if (use_D(s)) {
        for (int64_t i = 0; i < s->n; i++) x[i] *= s->gamma * s->D[i];
    } else {
        for (int64_t i = 0; i < s->n; i++) x[i] *= s->gamma;
    }
}

/* log sqrt(h'Dh v'D^-1v) / |v'h| */
static double score_D(secant *s, const double *v, const double *h, double vh)
{
    double vDv, hDh;
    for (int64_t i = 0; i < s->n; i++) s->work[i] = v[i] / s->D[i];
    psgd__la_dots_f64(1, s->n, &v, s->work, &vDv);
    for (int64_t i = 0; i < s->n; i++) s->work[i] = h[i] * s->D[i];
    psgd__la_dots_f64(1, s->n, &h, s->work, &hDh);
    return log(sqrt(hDh) * sqrt(vDv) / vh);
}

void psgd__secant_base_learn(secant *s, const double *v, const double *h, const secant_sizes *sizes)
{
    if (s->group) return;
    double old = s->learned == 0 ? 0.5 : 1, vh = sizes->vh;
    for (int64_t i = 0; i < s->n; i++) s->sum_v[i] = old * s->sum_v[i] + v[i] * v[i] / vh;
    for (int64_t i = 0; i < s->n; i++) s->sum_h[i] = old * s->sum_h[i] + h[i] * h[i] / vh;
    if (s->has_D) s->D_total += score_D(s, v, h, vh);
    s->plain_total += log(sizes->v * sizes->h / vh);
    s->scored++;
}

static double mean(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum / (double)n;
}

static psgd_status commit_group(secant *s)
{
    for (int i = 0; i < s->fresh_count; i++) PSGD_TRY(psgd__secant_base_step(s, s->fresh[i].v, s->fresh[i].h));
    return PSGD_OK;
}

psgd_status psgd__secant_base_commit(secant *s)
{
    if (s->group) return commit_group(s);
    if (s->scored == 0) return PSGD_OK;
    double count = (double)s->scored, plain = s->plain_total / count;
    s->score_plain = s->has_D ? (s->score_plain + plain) / 2 : plain;
    s->score_D = s->has_D ? (s->score_D + s->D_total / count) / 2 : HUGE_VAL;
    double floor_v = FLOOR * mean(s->n, s->sum_v), floor_h = FLOOR * mean(s->n, s->sum_h);
    bool fits = isfinite(floor_v) && isfinite(floor_h) && floor_v > 0 && floor_h > 0;
    for (int64_t i = 0; fits && i < s->n; i++) s->D[i] = sqrt((s->sum_v[i] + floor_v) / (s->sum_h[i] + floor_h));
    if (fits && !s->has_D) s->score_D = s->score_plain; /* not scored yet */
    s->has_D = fits;
    s->plain_total = s->D_total = 0;
    s->scored = 0;
    return PSGD_OK;
}

/* Pairs scaled to v'h = 1 weigh alike, as in the sums of D. A pair that the fit refuses is left out. */
psgd_status psgd__secant_base_step(secant *s, double *v, double *h)
{
    if (!s->group) return PSGD_OK;
    double vh;
    psgd__la_dots_f64(1, s->n, &(const double *){v}, h, &vh);
    double scale = 1 / sqrt(fabs(vh));
    for (int64_t i = 0; i < s->n; i++) v[i] *= scale;
    for (int64_t i = 0; i < s->n; i++) h[i] *= scale;
    psgd_status status = psgd_precond_update(s->group, v, h);
    return status == PSGD_ERR_NOT_FINITE ? PSGD_OK : status;
}

bool psgd__secant_base_scale(secant *s, const secant_pair *pair, double curvature)
{
    double before = s->gamma, sum;
    s->gamma = 1;
    memcpy(s->work, pair->h, (size_t)s->n * sizeof(double));
    if (s->mask) {
        for (int64_t i = 0; i < s->n; i++) s->work[i] *= s->mask[i];
    }
    psgd__secant_base_apply(s, s->work);
    for (int64_t i = 0; s->mask && i < s->n; i++) s->work[i] *= s->mask[i];
    psgd__la_dots_f64(1, s->n, &(const double *){pair->h}, s->work, &sum);
    double gamma = curvature / sum;
    bool fits = isfinite(gamma) && gamma > 0;
    s->gamma = fits ? gamma : before;
    return fits;
}
