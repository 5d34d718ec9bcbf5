/* psgd_minimize: options, memory and the result; minimize_run.c iterates. */
#include "optim/minimize.h"
#include "core/memory.h"
#include "core/status.h"
#include "precond/precond.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Pairs kept, and pairs of a solve that wait for its end. Together with 13 vectors that is 45 for many
 * unknowns. */
enum { FEW = 8, LARGE = 4096, LARGE_ROOM = 8, LARGE_FRESH = 8, OWN_VECTORS = 9 };

#define FIELD(name) offsetof(minimize_settings, name)

static const char *const products[] = {"auto", "differences", "none", NULL};

static const option_row rows[] = {
    {"group", OPTION_TEXT, FIELD(group), "auto",
     .help = "of the base of P; auto: a multiple of I or of a diagonal, whichever fits better"},
    {"shape", OPTION_TEXT, FIELD(shape), "", .help = "of the unknowns, for a group: 300x300; else one vector"},
    {"tolerance", OPTION_NUMBER, FIELD(tolerance), "1e-8", .min = 0, .max = HUGE_VAL,
     .help = "ends at a gradient of this norm times 1 + |f|"},
    {"max-iterations", OPTION_COUNT, FIELD(max_iterations), "10000", .min = 0, .max = 1e15,
     .help = "max number of iterations"},
    {"max-evaluations", OPTION_COUNT, FIELD(max_evaluations), "1000000", .min = 1, .max = 1e15,
     .help = "max number of calls of the function and its product"},
    {"products", OPTION_CHOICE, FIELD(products), "auto", .choices = products,
     .help = "Hv: auto is the function's own product, else differences of gradients; none: quasi-Newton steps only"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const char *psgd_outcome_text(psgd_outcome outcome)
{
    static const char *const texts[] = {
        [PSGD_CONVERGED] = "converged",
        [PSGD_STALLED] = "no lower point found",
        [PSGD_MAX_ITERATIONS_REACHED] = "out of iterations",
        [PSGD_MAX_EVALUATIONS_REACHED] = "out of evaluations",
        [PSGD_STOPPED] = "stopped by the caller",
        [PSGD_GRADIENT_SUSPECT] = ("no minimum found: the gradient disagrees with differences of the "
                                   "function; psgd_check_gradient, or psgd minimize --check, names the worst "
                                   "entry"),
        [PSGD_FAILED] = "failed",
        [PSGD_UNBOUNDED] = "the function has no minimum: it fell below -1e20 times its size at the start"};
    size_t i = (size_t)outcome;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown";
}

int psgd_minimize_option(int index, psgd_option_info *option)
{
    return psgd__option_at(rows, ROWS, index, option);
}

/* "300x300" as sizes whose product is n. */
static psgd_status read_shape(const char *words, int64_t n, int *ndim, int64_t shape[8])
{
    int64_t product = 1;
    *ndim = 0;
    for (const char *at = words; *at;) {
        char *end;
        long long size = strtoll(at, &end, 10);
        bool sound = isdigit((unsigned char)*at) && size > 0 && *ndim < 8 && psgd__mul_fits(product, size, &product);
        if (!sound || (*end && (*end != 'x' || !end[1]))) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "shape %s must be sizes with an x between them, as in 300x300", words);
        }
        shape[(*ndim)++] = size;
        at = *end ? end + 1 : end;
    }
    if (*ndim == 0) shape[(*ndim)++] = product = n;
    if (product == n) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "shape %s has %lld elements, but there are %lld unknowns", words,
                      (long long)product, (long long)n);
}

/* The user's group, fitted to pairs as they come; the first sets its scale. */
static psgd_status create_group(minimizer *self)
{
    precond_settings settings = {0};
    int64_t shape[8];
    int ndim;
    PSGD_TRY(read_shape(self->settings.shape, self->n, &ndim, shape));
    if (psgd__spec_is_auto(self->settings.group)) return PSGD_OK;
    PSGD_TRY(psgd__precond_read(PSGD_F64, NULL, &settings));
    settings.rule = RULE_AUTO;
    settings.norm = NORM_AUTO;
    settings.init = INIT_FIRST;
    settings.step = 0.1;
    return psgd__precond_create(self->context, self->settings.group, ndim, shape, PSGD_F64, &settings, NULL, NULL,
                                &self->P.group);
}

static psgd_status create(minimizer *self)
{
    int64_t n = self->n, size;
    int room = n < LARGE ? SECANT_MAX : LARGE_ROOM, fresh = n < LARGE ? SECANT_MAX : LARGE_FRESH;
    if (n <= 2) room = fresh = FEW; /* more say nothing new, and cost as much time as all the rest */
    if (self->settings.products == PRODUCTS_NONE) fresh = 1;
    bool bounded = psgd__minimizer_is_bounded(self);
    int64_t vectors = OWN_VECTORS + (bounded ? 1 : 0) + psgd__secant_vectors(n, room, fresh);
    if (!psgd__mul_fits(n, vectors, &size)) size = INT64_MAX;
    self->memory = psgd__alloc(self->context, size, sizeof(double));
    if (!self->memory) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to minimise over %lld unknowns", (long long)n);
    }
    double **one[] = {&self->x, &self->g, &self->d, &self->x_next, &self->g_next,
                      &self->r, &self->y, &self->p, &self->hp};
    double *at = self->memory;
    for (int i = 0; i < OWN_VECTORS; i++, at += n) *one[i] = at;
    if (bounded) {
        self->mask = at;
        for (int64_t i = 0; i < n; i++) self->mask[i] = 1;
        at += n;
    }
    psgd__secant_place(&self->P, n, room, fresh, at);
    self->P.mask = self->mask;
    psgd__schedule_start(&self->plan, psgd__minimizer_has_products(self));
    return create_group(self);
}

static psgd_status check_bounds(const psgd_function *function, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double low = function->lower ? function->lower[i] : -HUGE_VAL;
        double high = function->upper ? function->upper[i] : HUGE_VAL;
        if (low <= high && low < HUGE_VAL && high > -HUGE_VAL) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "the bounds of unknown %lld are %g and %g: no number lies between them",
                          (long long)i, low, high);
    }
    return PSGD_OK;
}

static psgd_status minimize(minimizer *self, double *x, const psgd_options *options, psgd_progress progress,
                            void *progress_data)
{
    if (self->n < 1 || !x || !self->function || !self->function->evaluate) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_minimize needs at least one unknown, x and a function");
    }
    option_table table = {rows, ROWS, &self->settings};
    PSGD_TRY(psgd__options_read(options, &table, 1));
    PSGD_TRY(check_bounds(self->function, self->n));
    PSGD_TRY(create(self));
    memcpy(self->x, x, (size_t)self->n * sizeof(double));
    psgd_status status = psgd__minimizer_run(self, progress, progress_data);
    bool known = isfinite(self->now.value);
    if (known) memcpy(x, self->x, (size_t)self->n * sizeof(double));
    return status;
}

psgd_status psgd_minimize(const psgd_context *context, int64_t n, double *x, const psgd_function *function,
                          const psgd_options *options, psgd_progress progress, void *progress_data, psgd_result *result)
{
    minimizer self = {.context = context,
                      .function = function,
                      .n = n,
                      .now = {.value = NAN, .gradient_norm = NAN},
                      .last_gain = HUGE_VAL};
    psgd_status status = minimize(&self, x, options, progress, progress_data);
    if (status != PSGD_OK) self.now.outcome = PSGD_FAILED;
    if (result) *result = self.now;
    psgd_precond_free(self.P.group);
    psgd__free(context, self.memory);
    return status;
}
