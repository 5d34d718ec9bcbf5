/* psgd_minimize: fit, direction -Pg, line search, until the gradient is small.
 *
 * The safeguards are a line search, the number of pairs and updates an iteration takes, and the scale of Q: where no
 * lower point is found along -Pg, Q becomes a multiple of I and the fit starts again. */
#include "optim/minimize.h"
#include "core/memory.h"
#include "core/status.h"
#include "optim/search.h"
#include "precond/precond.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_MAX = 256, TRI_MAX = 2048, SMALL_MAX = 64, FEW_PAIRS = 16 };

#define FIELD(name) offsetof(minimize_settings, name)

static const option_row rows[] = {
    {"group", OPTION_TEXT, FIELD(group), "auto", .help = "of Q; auto: tri, or diag above 2048 unknowns"},
    {"tolerance", OPTION_NUMBER, FIELD(tolerance), "1e-8", .min = 0, .max = HUGE_VAL,
     .help = "ends at a gradient of this norm times 1 + |f|"},
    {"max-iterations", OPTION_COUNT, FIELD(max_iterations), "10000", .min = 0, .max = 1e15,
     .help = "max number of iterations"},
    {"max-evaluations", OPTION_COUNT, FIELD(max_evaluations), "1000000", .min = 1, .max = 1e15,
     .help = "max number of evaluations of the function"},
    {"pairs", OPTION_COUNT, FIELD(pairs), "0", .min = 0, .max = 1e6,
     .help = "Hessian-vector products per iteration; 0: as many as unknowns up to 256, else 16"},
    {"updates", OPTION_COUNT, FIELD(updates), "16", .min = 1, .max = 1e6,
     .help = "max number of updates of Q per iteration, where products give all of H"},
    {"noisy", OPTION_FLAG, FIELD(noisy), "no", .help = "no line search: steps of lr, whether f falls or not"},
    {"lr", OPTION_NUMBER, FIELD(lr), "0.1", .min = 0, .max = 1, .above = true, .help = "noisy: the learning rate"},
    {"seed", OPTION_COUNT, FIELD(seed), "0", .min = 0, .max = 9e15, .help = "of v where it is drawn"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const char *psgd_outcome_text(psgd_outcome outcome)
{
    static const char *const texts[] = {[PSGD_CONVERGED] = "converged",
                                        [PSGD_STALLED] = "no lower point found",
                                        [PSGD_MAX_ITERATIONS_REACHED] = "out of iterations",
                                        [PSGD_MAX_EVALUATIONS_REACHED] = "out of evaluations",
                                        [PSGD_STOPPED] = "stopped by the caller"};
    size_t i = (size_t)outcome;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown";
}

int psgd_minimize_option(int index, psgd_option_info *option)
{
    return psgd__option_at(rows, ROWS, index, option);
}

psgd_status psgd__minimizer_evaluate(minimizer *self, const double *x, double *value, double *gradient)
{
    self->now.evaluations++;
    if (gradient) self->now.gradients++;
    int code = self->function->evaluate(self->function->data, self->n, x, value, gradient);
    return code == 0 ? PSGD_OK : psgd__fail(PSGD_ERR_CALLBACK, "the function reported failure %d", code);
}

/* auto is tri, or diag above TRI_MAX unknowns. */
static const char *group_of(const minimizer *self)
{
    if (!psgd__spec_is_auto(self->settings.group)) return self->settings.group;
    return self->n <= TRI_MAX ? "tri" : "diag";
}

static psgd_status create_precond(minimizer *self)
{
    precond_settings settings = {0};
    PSGD_TRY(psgd__precond_read(PSGD_F64, NULL, &settings));
    settings.norm = NORM_NONE;
    settings.pairs = self->pairs;
    return psgd__precond_create(self->context, group_of(self), 1, &self->n, PSGD_F64, &settings, NULL, NULL,
                                &self->precond);
}

static psgd_status is_triangular(const minimizer *self, bool *triangular)
{
    spec_tree tree;
    PSGD_TRY(psgd__spec_read(self->context, group_of(self), 1, &self->n, PSGD_F64, &tree));
    *triangular = tree.root->kind->triangular;
    psgd__spec_free(&tree);
    return PSGD_OK;
}

static psgd_status create(minimizer *self)
{
    int64_t n = self->n, k = self->settings.pairs, size, columns;
    self->pairs = k ? k : n <= WHOLE_MAX ? n : FEW_PAIRS;
    if (self->pairs > n) self->pairs = n;
    self->whole = self->pairs == n;
    bool small;
    PSGD_TRY(is_triangular(self, &small));
    small = small && self->whole && n <= SMALL_MAX;
    columns = 7 + (small ? 4 * n : 4 * self->pairs + (self->whole ? n : 0));
    if (!psgd__mul_fits(n, columns, &size)) size = INT64_MAX;
    self->memory = psgd__alloc(self->context, size, sizeof(double));
    if (!self->memory) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to minimise over %lld unknowns", (long long)n);
    }
    double **one[] = {&self->x, &self->g, &self->d, &self->x_next, &self->g_next, &self->probe, &self->power};
    double **many[] = {&self->v, &self->h, &self->a, &self->b}, *at = self->memory;
    for (int i = 0; i < 7; i++, at += n) *one[i] = at;
    if (small) {
        self->H = at;
        self->Q = at + n * n;
        self->spare = at + 2 * n * n;
        self->h = self->spare; /* one product, to start from */
        return PSGD_OK;
    }
    for (int i = 0; i < 4; i++, at += n * self->pairs) *many[i] = at;
    self->H = self->whole ? at : NULL;
    return create_precond(self);
}

static psgd_status along(void *data, double a, double *value, double *slope)
{
    minimizer *self = data;
    for (int64_t i = 0; i < self->n; i++) self->x_next[i] = self->x[i] + a * self->d[i];
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x_next, value, self->g_next));
    *slope = minimize_dot(self->n, self->g_next, self->d);
    return PSGD_OK;
}

/* d <- -Pg; false where that is not finite or does not descend. */
static psgd_status direction(minimizer *self, double *slope)
{
    int64_t n = self->n;
    if (self->Q) {
        memset(self->d, 0, (size_t)n * sizeof(double));
        for (int64_t i = 0; i < n; i++) {
            const double *q = self->Q + i * n;
            double t = minimize_dot(n - i, q + i, self->g + i);
            for (int64_t j = i; j < n; j++) self->d[j] -= t * q[j];
        }
    } else {
        PSGD_TRY(psgd_precond_apply(self->precond, PSGD_APPLY_P, self->g, self->d));
        for (int64_t i = 0; i < n; i++) self->d[i] = -self->d[i];
    }
    *slope = minimize_dot(self->n, self->g, self->d);
    return PSGD_OK;
}

/* Moves to the point that the search has left in x_next, g_next. */
static void accept(minimizer *self, double value)
{
    memcpy(self->x, self->x_next, (size_t)self->n * sizeof(double));
    memcpy(self->g, self->g_next, (size_t)self->n * sizeof(double));
    self->now.value = value;
    self->now.gradient_norm = sqrt(minimize_dot(self->n, self->g, self->g));
}

static psgd_status search(minimizer *self, bool *moved)
{
    double slope;
    *moved = false;
    PSGD_TRY(direction(self, &slope));
    if (!(slope < 0) || !isfinite(slope)) return PSGD_OK;
    line_search s = {.value = self->now.value,
                     .slope = slope,
                     .first = 1,
                     .decrease = 1e-4,
                     .curvature = 0.9,
                     .longest = 1e10,
                     .max = 60,
                     .noise = 10 * DBL_EPSILON * fabs(self->now.value)};
    PSGD_TRY(psgd__line_search(&s, along, self));
    double norm = sqrt(minimize_dot(self->n, self->g_next, self->g_next));
    bool lower = s.reached < self->now.value || norm < self->now.gradient_norm;
    *moved = s.found && isfinite(s.reached) && isfinite(norm) && lower;
    if (*moved) accept(self, s.reached);
    return PSGD_OK;
}

/* Without a decrease test: a step of lr along -Pg, of at most the length of x or 1. */
static psgd_status noisy_step(minimizer *self, bool *moved)
{
    double slope, value;
    PSGD_TRY(direction(self, &slope));
    double length = sqrt(minimize_dot(self->n, self->d, self->d)),
           room = 1 + sqrt(minimize_dot(self->n, self->x, self->x));
    double a = self->settings.lr * fmin(1, room / length);
    PSGD_TRY(along(self, isfinite(a) ? a : 0, &value, &slope));
    double norm = sqrt(minimize_dot(self->n, self->g_next, self->g_next));
    *moved = isfinite(value) && isfinite(norm);
    if (*moved) accept(self, value);
    return PSGD_OK;
}

static bool ended(minimizer *self)
{
    const minimize_settings *set = &self->settings;
    if (self->now.gradient_norm <= set->tolerance * (1 + fabs(self->now.value))) {
        self->now.outcome = PSGD_CONVERGED;
    } else if (self->now.iterations >= set->max_iterations) {
        self->now.outcome = PSGD_MAX_ITERATIONS_REACHED;
    } else if (self->now.evaluations >= set->max_evaluations) {
        self->now.outcome = PSGD_MAX_EVALUATIONS_REACHED;
    } else {
        return false;
    }
    return true;
}

static psgd_status iterate(minimizer *self, bool *moved)
{
    PSGD_TRY(psgd__minimizer_fit(self));
    if (self->settings.noisy) return noisy_step(self, moved);
    PSGD_TRY(search(self, moved));
    if (*moved) return PSGD_OK;
    PSGD_TRY(psgd__minimizer_start_again(self));
    return search(self, moved);
}

static psgd_status run(minimizer *self, psgd_progress progress, void *progress_data)
{
    PSGD_TRY(psgd__minimizer_evaluate(self, self->x, &self->now.value, self->g));
    self->now.gradient_norm = sqrt(minimize_dot(self->n, self->g, self->g));
    if (!isfinite(self->now.value) || !isfinite(self->now.gradient_norm)) {
        return psgd__fail(PSGD_ERR_NOT_FINITE, "the function or its gradient is not finite at the start");
    }
    while (!ended(self)) {
        bool moved;
        PSGD_TRY(iterate(self, &moved));
        self->now.iterations++;
        if (!moved && !self->settings.noisy) {
            self->now.outcome = PSGD_STALLED;
            return PSGD_OK;
        }
        if (progress && progress(progress_data, &self->now, self->n, self->x)) {
            self->now.outcome = PSGD_STOPPED;
            return PSGD_OK;
        }
    }
    return PSGD_OK;
}

psgd_status psgd_minimize(const psgd_context *context, int64_t n, double *x, const psgd_function *function,
                          const psgd_options *options, psgd_progress progress, void *progress_data, psgd_result *result)
{
    if (n < 1 || !x || !function || !function->evaluate) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_minimize needs at least one unknown, x and a function");
    }
    minimizer self = {.context = context, .function = function, .n = n};
    option_table table = {rows, ROWS, &self.settings};
    PSGD_TRY(psgd__options_read(options, &table, 1));
    psgd_status status = create(&self);
    if (status == PSGD_OK) {
        memcpy(self.x, x, (size_t)n * sizeof(double));
        status = run(&self, progress, progress_data);
        memcpy(x, self.x, (size_t)n * sizeof(double));
    }
    if (result) *result = self.now;
    psgd_precond_free(self.precond);
    psgd__free(context, self.memory);
    return status;
}
