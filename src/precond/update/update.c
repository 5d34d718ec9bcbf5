/* One update of Q from pairs (v, h):  A = Qh, B = Q^-T v, R = Pi(AA' - BB'), Q <- (I - (step / ||R||) R) Q
 * (paper, equations R and normalized_Q_learn), for every unit of the group that is normalised on its own.
 *
 * Nothing changes before A and B are known to be finite. They are scaled by a common power of two where their squares
 * would leave the number type, and those of a part of a sum once more where they are small beside the other parts; the
 * exponent of that and the weight that undoes it go to the normaliser. */
#include "precond/update/update.h"
#include "precond/update/guard.h"
#include "la/la.h"

#include <math.h>

enum { BALANCE_EVERY = 128 }; /* updates between balancing the factors of a kron */

/* Numbers below SMALL may not be squared without a look at what is lost. VANISHING: see vanishing. */
#ifdef PSGD_REAL_F64
static const double SMALL = 0x1p-400, VANISHING = 0x1p-24;
enum { MAX_MAGNIFIED = 800 };
static const double MIN_CAPTURED = 0x1p-300, MAX_CAPTURED = 0x1p400;
#else
static const double SMALL = 0x1p-40, VANISHING = 0x1p-10;
enum { MAX_MAGNIFIED = 100 };
static const double MIN_CAPTURED = 0x1p-50, MAX_CAPTURED = 0x1p60;
#endif

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
 * an exact fit, where there is nothing to gain either. An entry of R is one of n shares of the energy of A or B. Steps
 * that are small themselves do no harm. What comes before the norms is free and keeps ordinary updates from reading h
 * and v again. All norms are those of the true numbers times 2^-exponent, as A and B are. */
static bool vanishing(const update *u, const unit_measure *m, double c)
{
    const group_pair *p = m->pair;
    if (!p->B.x || c * m->largest < VANISHING) return false;
    int e = m->exponent;
    double h_max = ldexp(u->h_max, -e), v_max = ldexp(u->v_max, -e);
    double R = sqrt((double)m->unit->n * m->largest), max = u->size * (h_max * h_max + v_max * v_max);
    if (R > VANISHING * sqrt(max)) return false;
    double v = VANISHING * la_view_norm(p->v, e);
    double h = VANISHING * la_view_norm(p->h, e) + u->self->settings.damping * v;
    if (la_view_norm(p->A, 0) <= h && la_view_norm(p->B, 0) <= v) return true;
    return (h == 0 || R <= h) && (v == 0 || R <= v);
}

void update_step(update *u, group *unit, const unit_measure *m)
{
    psgd_precond *self = u->self;
    double c = u->measure(m);
    if (m->largest == 0) return;
    if (vanishing(u, m, c)) {
        self->skipped++;
        return;
    }
    bool sane = isfinite(c) && c * m->largest * (double)unit->mix < 1e9;
    bool surely_inside = c * m->spectral < 1; /* then I - tcR is invertible for all t in [0, 1] */
    if (!sane || !(surely_inside || unit->ops->inside(unit, (real)c, m->R))) {
        self->skipped++;
        return;
    }
    if (m->R) {
        unit->ops->retract(unit, (real)c, m->R);
    } else {
        unit->ops->retract_again(unit, (real)c, m->raw);
    }
    u->settle = guard_after(unit, c, m->largest) || u->settle;
}

/* Multiplies A and B by 2^e. */
static void magnify(group_pair *pair, int e)
{
    if (pair->A.x) la_view_scale(pair->A, (real)ldexp(1, e));
    if (pair->B.x) la_view_scale(pair->B, (real)ldexp(1, e));
    pair->gram = ldexp(pair->gram, 2 * e);
    pair->gram_inverse = ldexp(pair->gram_inverse, 2 * e);
}

/* 0, or how much smaller than 1 A and B of this unit are where their squares come near the smallest numbers. */
static int smallness(const group_pair *pair)
{
    double max = fmax((double)la_view_max(pair->A), (double)la_view_max(pair->B));
    max = fmax(max, sqrt(fabs(pair->gram) + fabs(pair->gram_inverse)));
    return max > 0 && max < SMALL ? (int)fmin(-ilogb(max), MAX_MAGNIFIED) : 0;
}

typedef struct part_asked {
    const precond_settings *settings;
    double weight;
} part_asked;

static double part_step(const void *data, const group_part *part)
{
    const part_asked *asked = data;
    return normaliser_part((norm_choice)asked->settings->norm, part, asked->weight, asked->settings->step);
}

/* A family with an update of its own. Its entries grow by less than half at a step, so the guard looks now and then. */
static void fit_unit(update *u, group *unit, group_pair *pair)
{
    psgd_precond *self = u->self;
    part_asked asked = {.settings = &self->settings, .weight = form_weight(u->exponent) / u->count};
    group_fit how = {.step = part_step, .data = &asked, .plain = self->settings.norm == NORM_NONE};
    unit->ops->fit(unit, pair, &how);
    int e = how.moved ? 0 : smallness(pair);
    if (e) {
        magnify(pair, e);
        asked.weight = form_weight(u->exponent - e) / u->count;
        pair->scaled = true;
        unit->ops->fit(unit, pair, &how);
        magnify(pair, -e);
    }
    self->skipped += how.skipped;
    if (how.moved) u->settle = guard_after(unit, 0.5, 1) || u->settle;
}

psgd_status update_unit(group *unit, const group_pair *given, void *data)
{
    update *u = data;
    group_pair pair = *given;
    if (unit->ops->fit) {
        fit_unit(u, unit, &pair);
        return PSGD_OK;
    }
    real *R = psgd__work_at(u->self->work, u->self->at_R);
    unit_measure m = {.unit = unit,
                      .pair = &pair,
                      .R = R,
                      .spare = R + unit->ops->r_size(unit),
                      .spectral = HUGE_VAL,
                      .exponent = u->exponent,
                      .step = u->self->settings.step};
    project(unit, &pair, R);
    m.largest = (double)unit->ops->r_max(unit, R);

    int e = m.largest < SMALL * SMALL ? smallness(&pair) : 0;
    if (e) {
        magnify(&pair, e);
        m.exponent -= e;
        project(unit, &pair, R);
        m.largest = (double)unit->ops->r_max(unit, R);
    }
    m.weight = form_weight(m.exponent) / u->count;
    update_step(u, unit, &m);
    if (e) magnify(&pair, -e);
    return PSGD_OK;
}

void update_start_from(psgd_precond *self, const formed *f)
{
    if (!(f->v_norm > 0) || !(f->h_norm > 0)) return;
    double scale = sqrt(f->v_norm / f->h_norm);
    PSGD_TYPED(psgd__precond_reset)(self, fmin(fmax(scale, 1e-15), 1e15));
    self->waiting = false;
}

void update_count(const update *u)
{
    psgd_precond *self = u->self;
    self->updates++;
    if (u->settle) {
        self->skipped += guard_settle(self->root, self->settings.init_scale);
    } else if (self->updates % BALANCE_EVERY == 0) {
        psgd__group_balance(self->root);
        guard_start(self->root);
    }
}

typedef struct fused_update {
    update common;
    const group_raw *raw;
    group_fused unit[SPEC_MAX_DIMS], second[SPEC_MAX_DIMS];
    int at; /* the next unit */
} fused_update;

static psgd_status step_fused(group *unit, const group_pair *pair, void *data)
{
    fused_update *c = data;
    const group_fused *own = &c->unit[c->at];
    unit_measure m = {.unit = unit,
                      .pair = pair,
                      .R = own->R,
                      .raw = c->raw,
                      .spare = c->second[c->at].R,
                      .largest = own->largest,
                      .spectral = own->spectral,
                      .fused = true,
                      .weight = 1,
                      .step = c->common.self->settings.step};
    c->at++;
    update_step(&c->common, unit, &m);
    return PSGD_OK;
}

static psgd_status count_safe(group *unit, const group_pair *pair, void *data)
{
    fused_update *c = data;
    const group_fused *own = &c->unit[c->at++];
    (void)pair;
    bool none = unit->ops->r_size(unit) == 0;
    bool safe = none || (own->largest >= MIN_CAPTURED && own->largest <= MAX_CAPTURED);
    return safe ? PSGD_OK : PSGD_ERR_NOT_FINITE;
}

/* The whole update from (v, h) as they are, without copies. false, with nothing changed, where any R is outside the
 * numbers that come of squares without loss, not finite or zero: the plain path has the means and the words for that.
 */
static bool update_fused(psgd_precond *self, const real *v, const real *h)
{
    const precond_settings *set = &self->settings;
    group *root = self->root;
    group_pair empty = {.A = view_rows(NULL, self->n, 1)};
    empty.B = empty.h = empty.v = empty.A;
    fused_update c = {.common = {.self = self, .measure = normaliser_at(set->norm), .count = 1}};
    group_raw raw = {.h = h, .v = v, .damping = (real)set->damping, .sign = -1};
    c.raw = &raw;
    real *R = psgd__work_at(self->work, self->at_R);
    /* I - cR is surely in the group, so R is not looked at. */
    bool again = root->ops->retract_again && set->norm == NORM_SPECTRAL && set->step < 0.999;
    root->ops->fused(root, &raw, again ? NULL : R, c.unit);
    if (psgd__group_units(root, &empty, count_safe, &c) != PSGD_OK) return false;
    if (normaliser_needs_spare(set->norm)) {
        raw.sign = 1;
        root->ops->fused(root, &raw, R + self->fused, c.second);
    }
    c.at = 0;
    psgd__group_units(root, &empty, step_fused, &c);
    update_count(&c.common);
    return true;
}

psgd_status PSGD_TYPED(psgd__precond_update)(psgd_precond *self, int64_t count, const void *v, const void *h)
{
    if (self->fused && count == 1 && !self->waiting && !self->plain && update_fused(self, v, h)) {
        return PSGD_OK;
    }
    formed f;
    PSGD_TRY(form_pairs(self, self->n, count, v, h, &f));
    if (self->waiting) {
        form_norms(self->n * count, &f);
        update_start_from(self, &f);
    }
    PSGD_TRY(form_images(self, count, &f));
    form_keep_average(self, h);

    group *root = self->root;
    update u = {.self = self,
                .measure = normaliser_at(self->settings.norm),
                .exponent = f.exponent,
                .count = (double)count,
                .size = (double)count * (double)self->n,
                .h_max = f.h_max,
                .v_max = f.v_max};
    PSGD_TRY(psgd__group_units(root, &f.pair, update_unit, &u));
    update_count(&u);
    return PSGD_OK;
}
