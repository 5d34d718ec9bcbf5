/* One update of Q from pairs (v, h):  A = Qh, B = Q^-T v, R = Pi(AA' - BB'), Q <- (I - (step / ||R||) R) Q
 * (paper, equations R and normalized_Q_learn), for every unit of the group that is normalised on its own.
 *
 * Nothing changes before A and B are known to be finite. They are scaled by a common power of two where their squares
 * would leave the number type; the weight that undoes it goes to the normaliser. */
#include "precond/form.h"
#include "precond/guard.h"
#include "precond/normaliser.h"
#include "la/la.h"

#include <math.h>

enum { BALANCE_EVERY = 128 }; /* updates between balancing the factors of a kron */

typedef struct update {
    psgd_precond *self;
    normaliser measure;
    double weight;
} update;

/* R of one unit into the workspace. */
static void project(const group *unit, const group_pair *pair, real *R)
{
    unit->ops->project(unit, pair->A, pair->B, -1, false, R);
    if (pair->gram != 0) psgd__group_gram(unit, false, pair->gram, R);
    if (pair->gram_inverse != 0) psgd__group_gram(unit, true, pair->gram_inverse, R);
}

static psgd_status update_unit(group *unit, const group_pair *pair, void *data)
{
    update *u = data;
    psgd_precond *self = u->self;
    real *R = psgd__work_at(self->work, self->at_R);
    project(unit, pair, R);

    unit_measure m = {.unit = unit,
                      .pair = pair,
                      .R = R,
                      .spare = R + unit->ops->r_numbers(unit),
                      .largest = (double)unit->ops->r_max(unit, R),
                      .weight = u->weight,
                      .step = self->settings.step};
    if (m.largest == 0) return PSGD_OK;

    double c = u->measure(&m);
    bool sane = isfinite(c) && c * m.largest * (double)unit->mix < 1e9;
    if (!sane || !unit->ops->inside(unit, (real)c, R)) {
        self->skipped++;
        return PSGD_OK;
    }
    unit->ops->retract(unit, (real)c, R);
    if (guard_after(unit, c, m.largest, self->settings.init_scale)) self->skipped++;
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
    update u = {.self = self, .measure = normaliser_at(self->settings.norm), .weight = f.weight / (double)count};
    PSGD_TRY(psgd__group_units(root, &f.pair, update_unit, &u));

    self->updates++;
    if (self->updates % BALANCE_EVERY == 0) {
        psgd__group_balance(root);
        guard_start(root);
    }
    return PSGD_OK;
}
