/* One update of Q from pairs (v, h):  A = Qh, B = Q^-T v, R = Pi(AA' - BB'), Q <- (I - (step / ||R||) R) Q
 * (paper, equations R and normalized_Q_learn), for every unit of the group that is normalised on its own.
 *
 * Nothing changes before A and B are known to be finite. They are scaled by a common power of two where their squares
 * would leave the number type, and those of a part of a sum once more where they are small beside the other parts; the
 * weight that undoes it goes to the normaliser. */
#include "precond/form.h"
#include "precond/guard.h"
#include "precond/normaliser.h"
#include "la/la.h"

#include <math.h>

enum { BALANCE_EVERY = 128 }; /* updates between balancing the factors of a kron */

/* Numbers below SMALL may not be squared without a look at what is lost. VANISHING: see vanishing. */
#ifdef PSGD_REAL_F64
static const double SMALL = 0x1p-400, VANISHING = 0x1p-24;
enum { MOST_MAGNIFIED = 800 };
#else
static const double SMALL = 0x1p-40, VANISHING = 0x1p-10;
enum { MOST_MAGNIFIED = 100 };
#endif

typedef struct update {
    psgd_precond *self;
    normaliser measure;
    double weight;
    double count; /* pairs */
    double most;  /* an upper bound of the energy of h and v */
    bool settle;  /* a unit has come near a limit of the number type */
} update;

/* R of one unit into the workspace. */
static void project(const group *unit, const group_pair *pair, real *R)
{
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    if (pair->gram != 0) psgd__group_gram(unit, false, pair->gram, R);
    if (pair->gram_inverse != 0) psgd__group_gram(unit, true, pair->gram_inverse, R);
}

/* A and B both next to nothing beside h and v: Q takes the one away, its inverse the other. That is where pairs which
 * never change and are zero on one side lead, and a step further Q is singular. As A'B = h'v, it takes h and v that are
 * orthogonal to rounding. Where a part of Q is fixed, A and B keep what it leaves, and only R vanishes; so it does at
 * an exact fit, where there is nothing to gain either. The first line is free and keeps ordinary updates from reading h
 * and v again. */
static bool vanishing(const update *u, const unit_measure *m)
{
    const group_pair *p = m->pair;
    double scale = m->weight * u->count, limit = VANISHING * VANISHING, R = m->largest * scale;
    if (!p->B.x || R > limit * u->most) return false;
    double v = sqrt(la_view_energy(p->v)), h = sqrt(la_view_energy(p->h)) + u->self->settings.damping * v;
    if (scale * la_view_energy(p->A) <= limit * h * h && scale * la_view_energy(p->B) <= limit * v * v) return true;
    return (h == 0 || R <= limit * h * h) && (v == 0 || R <= limit * v * v);
}

static void step_unit(update *u, group *unit, const unit_measure *m)
{
    psgd_precond *self = u->self;
    double c = u->measure(m);
    if (m->largest == 0) return;
    if (vanishing(u, m)) {
        self->skipped++;
        return;
    }
    bool sane = isfinite(c) && c * m->largest * (double)unit->mix < 1e9;
    if (!sane || !unit->ops->inside(unit, (real)c, m->R)) {
        self->skipped++;
        return;
    }
    unit->ops->retract(unit, (real)c, m->R);
    u->settle = guard_after(unit, c, m->largest) || u->settle;
}

/* Multiplies A and B by 2^e; their squares then have the weight 2^-2e. */
static void magnify(group_pair *pair, double *weight, int e)
{
    if (pair->A.x) la_view_scale(pair->A, (real)ldexp(1, e));
    if (pair->B.x) la_view_scale(pair->B, (real)ldexp(1, e));
    pair->gram = ldexp(pair->gram, 2 * e);
    pair->gram_inverse = ldexp(pair->gram_inverse, 2 * e);
    *weight = ldexp(*weight, -2 * e);
}

/* 0, or how much smaller than 1 A and B of this unit are where their squares come near the smallest numbers. */
static int smallness(const group_pair *pair)
{
    double most = fmax((double)la_view_max(pair->A), (double)la_view_max(pair->B));
    most = fmax(most, sqrt(fabs(pair->gram) + fabs(pair->gram_inverse)));
    return most > 0 && most < SMALL ? (int)fmin(-ilogb(most), MOST_MAGNIFIED) : 0;
}

static psgd_status update_unit(group *unit, const group_pair *given, void *data)
{
    update *u = data;
    group_pair pair = *given;
    real *R = psgd__work_at(u->self->work, u->self->at_R);
    unit_measure m = {.unit = unit,
                      .pair = &pair,
                      .R = R,
                      .spare = R + unit->ops->r_numbers(unit),
                      .weight = u->weight,
                      .step = u->self->settings.step};
    project(unit, &pair, R);
    m.largest = (double)unit->ops->r_max(unit, R);

    int e = m.largest < SMALL * SMALL ? smallness(&pair) : 0;
    if (e) {
        magnify(&pair, &m.weight, e);
        project(unit, &pair, R);
        m.largest = (double)unit->ops->r_max(unit, R);
    }
    step_unit(u, unit, &m);
    if (e) magnify(&pair, &m.weight, -e);
    return PSGD_OK;
}

/* The scale of I that would make ||Ph|| = ||v|| for this pair: Q = sqrt(||v|| / ||h||) I. */
static void start_from(psgd_precond *self, const formed *f)
{
    if (!(f->v_norm > 0) || !(f->h_norm > 0)) return;
    double scale = sqrt(f->v_norm / f->h_norm);
    PSGD_TYPED(psgd__precond_reset)(self, fmin(fmax(scale, 1e-15), 1e15));
    self->waiting = false;
}

psgd_status PSGD_TYPED(psgd__precond_update)(psgd_precond *self, int64_t count, const void *v, const void *h)
{
    formed f;
    PSGD_TRY(form_pairs(self, count, v, h, &f));
    if (self->waiting) {
        form_norms(self, count, &f);
        start_from(self, &f);
    }
    PSGD_TRY(form_images(self, count, &f));
    form_keep_average(self, h);

    group *root = self->root;
    update u = {.self = self,
                .measure = normaliser_at(self->settings.norm),
                .weight = f.weight / (double)count,
                .count = (double)count};
    u.most = u.count * (double)self->n * (f.h_most * f.h_most + f.v_most * f.v_most);
    PSGD_TRY(psgd__group_units(root, &f.pair, update_unit, &u));

    self->updates++;
    if (u.settle) {
        self->skipped += guard_settle(root, self->settings.init_scale);
    } else if (self->updates % BALANCE_EVERY == 0) {
        psgd__group_balance(root);
        guard_start(root);
    }
    return PSGD_OK;
}
