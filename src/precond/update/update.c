/* One update of Q from pairs (v, h):  A = Qh, B = Q^-T v, R = Pi(AA' - BB'), Q <- (I - (step / ||R||) R) Q
 * (paper, equations R and normalized_Q_learn), for every unit of the group that is normalised on its own.
 *
 * That is the paper's update rule. A rule is images (whiten_images, own_images), the side of the retraction and what
 * follows (move); the normaliser is independent of all three. Nothing changes before A and B are known to be finite.
 * They are scaled by a common power of two where their squares would overflow or underflow, and those of a part of a
 * sum once more where they are small compared with the other parts; the normaliser gets the exponent and the weight
 * that undoes it. */
#include "precond/update/update.h"
#include "la/la.h"
#include "precond/update/tiles.h"

#include <float.h>
#include <math.h>

enum {
    BALANCE_EVERY = 128,
    PROBE_EVERY = 8
}; /* updates between balancing the factors of a kron, and between checks of a family's inverse */

/* Values below SMALL lose bits when squared. VANISHING: see vanishing. An R from the fused path is used where max |R|
 * is within MIN_FUSED and MAX_FUSED: then no square has lost bits. */
#ifdef PSGD_REAL_F64
static const double SMALL = 0x1p-400, VANISHING = 0x1p-24;
enum { MAX_MAGNIFIED = 800 };
static const double MIN_FUSED = 0x1p-300, MAX_FUSED = 0x1p400;
#else
static const double SMALL = 0x1p-40, VANISHING = 0x1p-10;
enum { MAX_MAGNIFIED = 100 };
static const double MIN_FUSED = 0x1p-50, MAX_FUSED = 0x1p60;
#endif

/* R of one unit into the workspace, with what the normaliser needs besides. */
static void project(unit_measure *m)
{
    const group *unit = m->unit;
    const group_pair *pair = m->pair;
    if (m->second) {
        psgd__group_project_both(unit, pair->A, pair->B, m->R, m->second);
    } else {
        unit->ops->project(unit, pair->A, pair->B, -1, false, m->R);
    }
    for (group_image M = 0; M < IMAGE_COUNT; M++) {
        if (pair->gram[M] == 0) continue;
        psgd__group_gram(unit, M, pair->gram[M], m->R);
        if (m->second) psgd__group_gram(unit, M, fabs(pair->gram[M]), m->second);
    }
    m->largest = (double)unit->ops->r_max(unit, m->R);
}

/* |A| <= VANISHING |h| and |B| <= VANISHING |v|: Q nearly annihilates h, and Q^-T nearly annihilates v. Pairs that
 * never change and are zero on one side lead there, and one step further Q is singular. Since A'B = h'v, h and v are
 * then orthogonal to rounding. Where a part of Q is fixed, |A| and |B| do not vanish but R does, as it does at an exact
 * fit, where a step gains nothing either. An entry of R is one of n shares of |A|^2 or |B|^2. Small steps do no harm.
 * The tests before the norms cost nothing and keep ordinary updates from reading h and v again. All norms are those of
 * the true values times 2^-exponent, as A and B are. */
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

/* The step of the rule: I - cR on its side of Q, and what follows. true where Q has come near a limit of guard.c. */
static bool move(const update_rule *rule, const unit_measure *m, double c)
{
    group *unit = m->unit;
    if (rule->side == SIDE_BOTH) {
        psgd__group_retract_both(unit, (real)(c / 2), m->R);
    } else if (rule->side == SIDE_RIGHT) {
        psgd__group_retract_right(unit, (real)c, m->R);
    } else {
        unit->ops->retract(unit, (real)c, m->R);
    }
    if (rule->rotate) psgd__group_rotate(unit, &m->draw);
    if (rule->side != SIDE_BOTH) return guard_after(m->record, c, m->largest);
    bool first = guard_after(m->record, c / 2, m->largest);
    return guard_after(m->record, c / 2, m->largest) || first;
}

void update_step(update *u, group *unit, unit_measure *m)
{
    psgd_precond *self = u->self;
    int index = u->next++;
    m->unit = unit;
    m->record = &self->units[index];
    m->step = self->settings.step;
    m->decay = self->settings.norm_decay;
    m->draw = psgd__rng_stream(0, RNG_ESTIMATE, (uint64_t)index, (uint64_t)self->updates);
    bool by_entry = m->record->norm == NORM_ENTRY;
    if (by_entry) entries_signs(m, VANISHING);
    double c = normaliser_at((norm_choice)m->record->norm)(m);
    if (m->largest == 0) return;
    if (!by_entry && vanishing(u, m, c)) {
        self->skipped++;
        return;
    }
    bool sane = c < (double)REAL_MAX && c * m->largest * (double)unit->mix < 1e9;
    bool surely_inside = c * m->spectral < 1; /* then I - tcR is invertible for all t in [0, 1] */
    if (!sane || !(surely_inside || unit->ops->inside(unit, (real)c, m->R))) {
        self->skipped++;
        return;
    }
    u->settle = move(u->rule, m, c) || u->settle;
}

/* Multiplies A and B by 2^e. */
static void magnify(group_pair *pair, int e)
{
    if (pair->A.x) la_view_scale(pair->A, (real)ldexp(1, e));
    if (pair->B.x) la_view_scale(pair->B, (real)ldexp(1, e));
    for (int M = 0; M < IMAGE_COUNT; M++) pair->gram[M] = ldexp(pair->gram[M], 2 * e);
}

/* The exponent that brings A and B of this unit to about 1 where their squares would underflow, else 0. */
static int smallness(const group_pair *pair)
{
    double max = fmax((double)la_view_max(pair->A), (double)la_view_max(pair->B));
    for (int M = 0; M < IMAGE_COUNT; M++) max = fmax(max, sqrt(fabs(pair->gram[M])));
    return max > 0 && max < SMALL ? (int)fmin(-ilogb(max), MAX_MAGNIFIED) : 0;
}

typedef struct part_asked {
    const precond_settings *settings;
    precond_unit *record;
    double weight;
} part_asked;

static double part_step(void *data, const group_part *part)
{
    part_asked *asked = data;
    return normaliser_part(asked->settings, part, &asked->record->running[part->index], asked->weight);
}

/* As vanishing, for a family, whose R nobody sees: the norms of A and B alone. Small steps do no harm here either. */
static bool family_vanishing(const update *u, const group_pair *p)
{
    const precond_settings *set = &u->self->settings;
    if (!p->B.x || set->step < VANISHING) return false;
    int e = u->exponent;
    double a = la_view_norm(p->A, 0), root = sqrt(u->size);
    double h_max = ldexp(u->h_max, -e), v_max = ldexp(u->v_max, -e);
    if (a > VANISHING * root * (h_max + set->damping * v_max)) return false; /* as nearly always */
    double v = VANISHING * la_view_norm(p->v, e), h = VANISHING * la_view_norm(p->h, e) + set->damping * v;
    return a <= h && la_view_norm(p->B, 0) <= v;
}

/* Whether Q^-1 Q x is x, to a few hundredths, for a vector of signs. The factors of a family can become singular to
 * rounding while their product is not. x is scratch. */
static bool undoes_itself(const group *unit, real *x)
{
    view X = view_rows(x, unit->n, 1);
    for (int64_t i = 0; i < unit->n; i++) x[i] = i * 5 % 3 == 1 ? -1 : 1;
    unit->ops->act(unit, ACT_MUL, X);
    unit->ops->act(unit, ACT_SOLVE, X);
    for (int64_t i = 0; i < unit->n; i++) {
        if (!(fabs((double)x[i] - (i * 5 % 3 == 1 ? -1 : 1)) < 0.03)) return false;
    }
    return true;
}

/* Begins again at the scale of this pair. */
static void restart(const psgd_precond *self, group *unit, const group_pair *pair)
{
    double v = la_view_norm(pair->v, 0), h = la_view_norm(pair->h, 0), scale = sqrt(v / h);
    unit->ops->reset(unit, scale > 1e-15 && scale < 1e15 ? scale : self->settings.init_scale);
}

/* A family with an update of its own. Its entries grow by less than half at a step. As a part of a sum it may see
 * values that are small compared with those of other parts, which the common exponent is for. */
static void fit_unit(update *u, group *unit, group_pair *pair)
{
    psgd_precond *self = u->self;
    part_asked asked = {.settings = &self->settings,
                        .record = &self->units[u->next++],
                        .weight = whiten_weight(u->exponent) / u->count};
    group_fit how = {.step = part_step, .data = &asked, .plain = self->settings.norm == NORM_NONE};
    if (family_vanishing(u, pair)) {
        self->skipped++;
        return;
    }
    int e = self->unit_count > 1 ? smallness(pair) : 0;
    if (!e) {
        unit->ops->fit(unit, pair, &how);
        e = how.moved ? 0 : smallness(pair);
    }
    if (e) {
        magnify(pair, e);
        asked.weight = whiten_weight(u->exponent - e) / u->count;
        pair->scaled = true;
        unit->ops->fit(unit, pair, &how);
        magnify(pair, -e);
    }
    self->skipped += how.skipped;
    if (!how.moved) return;
    u->settle = guard_after(asked.record, 0.5, 1) || u->settle;
    bool probe = self->settings.step > 0.3 || self->updates % PROBE_EVERY == 0;
    if (probe && !undoes_itself(unit, pair->A.x)) {
        restart(self, unit, pair);
        self->skipped++;
    }
}

/* The images under the unit's own Q, in copies: those of the other units are made of the same A and B. Returns the
 * exponent by which they were scaled down where their squares might overflow. */
static int own_images(const psgd_precond *self, const group *unit, group_pair *pair)
{
    const real *A = psgd__work_at(self->work, self->at_A), *B = psgd__work_at(self->work, self->at_B);
    real *own = psgd__work_at(self->work, self->at_own);
    view of_A = view_over(pair->A, own + (pair->A.x - A)), of_B = pair->B;
    la_view_copy(pair->A, of_A);
    unit->ops->act(unit, ACT_MUL, of_A);
    if (of_B.x) {
        of_B.x = own + self->n * self->settings.pairs + (pair->B.x - B);
        la_view_copy(pair->B, of_B);
        unit->ops->act(unit, ACT_MUL, of_B);
    }
    pair->A = of_A;
    pair->B = of_B;
    pair->gram[IMAGE_Q] = pair->gram[IMAGE_IDENTITY];
    pair->gram[IMAGE_QP] = pair->gram[IMAGE_P];
    pair->gram[IMAGE_IDENTITY] = pair->gram[IMAGE_P] = 0;

    double max = fmax((double)la_view_max(of_A), (double)la_view_max(of_B)), q = (double)psgd__group_largest(unit);
    max = fmax(max, fmax(sqrt(fabs(pair->gram[IMAGE_Q])) * q, sqrt(fabs(pair->gram[IMAGE_QP])) * q * q * q));
    int e = max > 1 / sqrt(SMALL) && isfinite(max) ? ilogb(max) : 0;
    if (e) magnify(pair, -e);
    return e;
}

psgd_status update_unit(group *unit, const group_pair *given, void *data)
{
    update *u = data;
    psgd_precond *self = u->self;
    group_pair pair = *given;
    if (unit->ops->fit) {
        fit_unit(u, unit, &pair);
        return PSGD_OK;
    }
    int own = u->rule->images == IMAGES_OWN ? own_images(self, unit, &pair) : 0;
    real *R = psgd__work_at(self->work, self->at_R);
    unit_measure m = {.unit = unit, .pair = &pair, .R = R, .spectral = HUGE_VAL, .exponent = u->exponent + own};
    if (normaliser_needs_second((norm_choice)self->settings.norm)) m.second = R + self->r_size;
    project(&m);

    int e = m.largest < SMALL * SMALL ? smallness(&pair) : 0;
    if (e) {
        magnify(&pair, e);
        m.exponent -= e;
        project(&m);
    }
    m.weight = whiten_weight(m.exponent) / u->count;
    update_step(u, unit, &m);
    if (e) magnify(&pair, -e);
    return PSGD_OK;
}

void update_count(const update *u)
{
    psgd_precond *self = u->self;
    self->updates++;
    if (u->settle) {
        self->skipped += guard_settle(self);
    } else if (self->updates % BALANCE_EVERY == 0 && !u->rule->balance) {
        psgd__group_balance(self->root, false);
        guard_start(self);
    }
    if (!u->rule->balance) return;
    psgd__group_balance(self->root, true);
    guard_start(self);
}

update update_begin(psgd_precond *self, int64_t count, const whitened_pair *w)
{
    return (update){.self = self,
                    .rule = psgd__rule_at(self->settings.rule),
                    .exponent = w->exponent,
                    .count = (double)count,
                    .size = (double)count * (double)self->n,
                    .h_max = w->h_max,
                    .v_max = w->v_max};
}

/* The same for the images Ph and v, which do not show that Q^-T v vanishes: Pv is then large. That is computed only
 * where Ph is small compared with both h and v, as it never is near a fit; the images are recomputed afterwards. */
static psgd_status vanishing_applied(psgd_precond *self, int64_t count, const real *v, const real *h, whitened_pair *w,
                                     bool *vanishes)
{
    double limit = -log2(VANISHING), size = w->pair.v.x ? log2(w->v_max) : 0;
    *vanishes = false;
    if (w->h_max > 0 && w->image > log2(w->h_max) - 2 * limit) return PSGD_OK;
    if (w->image > size - limit) return PSGD_OK;
    if (w->pair.v.x) {
        PSGD_TRY(whiten_load(self, self->n, count, v, v, w));
        PSGD_TRY(whiten_images(self, IMAGES_APPLIED, count, w));
        *vanishes = w->image > size + 2 * limit;
    } else {
        double energy = psgd__group_energy(self->root, IMAGE_P);
        *vanishes = log2(energy / (double)self->n) / 2 > 2 * limit;
    }
    PSGD_TRY(whiten_load(self, self->n, count, v, h, w));
    return whiten_images(self, IMAGES_APPLIED, count, w);
}

typedef struct fused_update {
    update common;
    group_r unit[SPEC_MAX_DIMS], second[SPEC_MAX_DIMS];
} fused_update;

static psgd_status step_fused(group *unit, const group_pair *pair, void *data)
{
    fused_update *f = data;
    const group_r *own = &f->unit[f->common.next];
    unit_measure m = {.pair = pair,
                      .R = own->R,
                      .second = f->second[f->common.next].R,
                      .largest = own->largest,
                      .spectral = own->spectral,
                      .weight = 1};
    update_step(&f->common, unit, &m);
    return PSGD_OK;
}

/* The normaliser second needs rows of A and B that no R contains. */
static bool wants_rows(const psgd_precond *self)
{
    if (!normaliser_needs_second((norm_choice)self->settings.norm)) return false;
    for (int i = 0; i < self->unit_count; i++) {
        const group *unit = self->units[i].group;
        if (unit->ops->fixed && unit->ops->r_size(unit) > 0) return true;
    }
    return false;
}

/* Whether no square that an R is made of has lost bits. */
static bool all_safe(const psgd_precond *self, const group_r *units)
{
    for (int i = 0; i < self->unit_count; i++) {
        const group *unit = self->units[i].group;
        bool safe = units[i].largest >= MIN_FUSED && units[i].largest <= MAX_FUSED;
        if (!safe && unit->ops->r_size(unit) > 0) return false;
    }
    return true;
}

/* The same for a diag whose entries are fitted one by one: one pass, in place, so what is not finite is looked for
 * first. */
static bool update_entries(update *u, const group_raw *raw)
{
    psgd_precond *self = u->self;
    group *root = self->root;
    if (!root->fused->entries) return false;
    if (!self->vouched) {
        if (!isfinite((double)la_max_abs(self->n, raw->h)) || !isfinite((double)la_max_abs(self->n, raw->v)))
            return false;
    }
    root->fused->entries(root, raw, self->settings.step, VANISHING);
    update_count(u);
    return true;
}

/* The whole update straight from (v, h), without copies. false, with nothing changed, where the group has no such path
 * or where squares would lose bits or are not finite: the plain path scales, and says what is wrong. */
static bool update_fused(psgd_precond *self, const real *v, const real *h)
{
    const precond_settings *set = &self->settings;
    group *root = self->root;
    bool whitened = psgd__rule_at(set->rule)->images == IMAGES_WHITENED;
    if (!root->fused || !root->fused->project || !whitened) return false;
    if (set->integrate || set->unbiased || self->waiting || wants_rows(self)) return false;

    fused_update f = {.common = update_begin(self, 1, &(whitened_pair){.exponent = 0})};
    group_raw raw = {.h = h, .v = v, .damping = (real)set->damping, .sign = -1};
    if (self->units[0].norm == NORM_ENTRY) return update_entries(&f.common, &raw);
    real *R = psgd__work_at(self->work, self->at_R);
    root->fused->project(root, &raw, R, f.unit);
    if (!all_safe(self, f.unit)) return false;
    if (normaliser_needs_second((norm_choice)set->norm)) {
        raw.sign = 1;
        root->fused->project(root, &raw, R + self->r_size, f.second);
    }
    group_pair empty = update_empty_pair(self->n);
    psgd__group_units(root, &empty, step_fused, &f);
    update_count(&f.common);
    return true;
}

psgd_status PSGD_TYPED(psgd__precond_update)(psgd_precond *self, int64_t count, const void *v, const void *h)
{
    if (self->tile_count) return tiles_update(self, count, v, h);
    if (count == 1 && update_fused(self, v, h)) return PSGD_OK;

    whitened_pair w;
    PSGD_TRY(whiten_load(self, self->n, count, v, h, &w));
    if (self->waiting) {
        whiten_norms(self->n * count, &w);
        start_from(self, &w);
    }
    const update_rule *rule = psgd__rule_at(self->settings.rule);
    bool vanishes = false;
    PSGD_TRY(whiten_images(self, rule->images, count, &w));
    if (rule->images != IMAGES_WHITENED) PSGD_TRY(vanishing_applied(self, count, v, h, &w, &vanishes));
    whiten_keep_average(self, h);

    update u = update_begin(self, count, &w);
    if (vanishes) {
        self->skipped++;
    } else {
        PSGD_TRY(psgd__group_units(self->root, &w.pair, update_unit, &u));
    }
    update_count(&u);
    return PSGD_OK;
}
