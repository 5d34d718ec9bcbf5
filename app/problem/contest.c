#include "problem/contest.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool psgd__contest_is_minimize(const char *method)
{
    return !strcmp(method, "minimize");
}

static double norm_of(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* A run that has climbed has not converged, however small its gradient is relative to its value, nor has one on the way
 * to minus infinity: there f would change by much of its size if x changed by its own. */
static bool at_minimum(const contest *c, double first, double value, const double *x, const double *gradient)
{
    double size = 1 + fabs(value), norm = norm_of(c->n, gradient), change = 0;
    if (!(value <= first)) return false;
    if (norm <= c->tolerance) return true;
    for (int64_t i = 0; i < c->n; i++) change += fabs(gradient[i] * x[i]);
    return norm <= c->tolerance * size && change <= 1e-4 * size;
}

static bool is_unbounded(double first, double value)
{
    return value < -1e20 * (1 + fabs(first));
}

/* psgd_minimize reports through its own callback. */
typedef struct minimize_watch {
    contest_watch watch;
    void *data;
    double began;
    contest_mark *last;
} minimize_watch;

static int watch_minimize(void *data, const psgd_result *now, int64_t n, const double *x)
{
    (void)n, (void)x;
    minimize_watch *w = data;
    *w->last = (contest_mark){.iteration = now->iterations,
                              .evaluations = now->evaluations,
                              .products = now->products,
                              .value = now->value,
                              .gradient_norm = now->gradient_norm,
                              .seconds = psgd__seconds() - w->began};
    if (w->watch) w->watch(w->data, w->last);
    return 0;
}

static psgd_status run_minimize(const contest *c, psgd_options *options, contest_watch watch, void *data, double *x,
                                contest_mark *last)
{
    minimize_watch w = {.watch = watch, .data = data, .last = last};
    psgd_result result;
    PSGD_TRY(psgd_options_set_number(options, "tolerance", c->tolerance));
    PSGD_TRY(psgd_options_set_number(options, "max-iterations", (double)c->iterations));
    w.began = psgd__seconds();
    PSGD_TRY(psgd_minimize(NULL, c->n, x, c->function, options, watch_minimize, &w, &result));
    last->evaluations = result.evaluations;
    last->products = result.products;
    last->converged = result.outcome == PSGD_CONVERGED;
    last->unbounded = result.outcome == PSGD_UNBOUNDED;
    last->ending = psgd_outcome_text(result.outcome);
    return PSGD_OK;
}

/* A psgd_function as the one-tensor objective of an optimizer. */
static int gradient_of(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    const contest *c = data;
    return c->function->evaluate(c->function->data, c->n, theta[0], loss, gradient[0]);
}

static int product_of(void *data, const void *const *theta, const void *const *v, double *loss, void *const *gradient,
                      void *const *h)
{
    const contest *c = data;
    if (c->hessian) return c->hessian(c->function->data, c->n, theta[0], v[0], loss, gradient[0], h[0]);
    int code = c->function->product(c->function->data, c->n, theta[0], v[0], h[0]);
    return code ? code : gradient_of(data, theta, loss, gradient);
}

static psgd_status run_optimizer(const contest *c, psgd_optimizer *optimizer, contest_watch watch, void *data,
                                 double *x, double *where, double *gradient, contest_mark *last)
{
    void *list[] = {x}, *position[] = {where};
    double first = last->value;
    while (last->iteration < c->iterations && !last->converged && !last->diverged && !last->unbounded) {
        double began = psgd__seconds();
        psgd_status status = psgd_optimizer_iterate(optimizer, list, NULL);
        last->seconds += psgd__seconds() - began;
        last->iteration++;
        last->skipped = psgd_optimizer_skipped(optimizer);
        if (last->skipped) snprintf(last->why, sizeof last->why, "%s", psgd_optimizer_note(optimizer));
        if (status == PSGD_ERR_NOT_FINITE) {
            last->diverged = true;
            return PSGD_OK;
        }
        PSGD_TRY(status);
        PSGD_TRY(psgd_optimizer_position(optimizer, (const void *const *)list, position));
        int code = c->function->evaluate(c->function->data, c->n, where, &last->value, gradient);
        if (code) return psgd__fail(PSGD_ERR_CALLBACK, "the function reported failure %d", code);
        last->gradient_norm = norm_of(c->n, gradient);
        last->evaluations = psgd_optimizer_evaluations(optimizer);
        last->products = psgd_optimizer_products(optimizer);
        last->converged = at_minimum(c, first, last->value, where, gradient);
        last->unbounded = is_unbounded(first, last->value);
        last->diverged = psgd_diverged(first, last->value);
        if (watch) watch(data, last);
    }
    return PSGD_OK;
}

static psgd_status create(const contest *c, const char *method, psgd_options *options, psgd_optimizer **optimizer)
{
    if (!strcmp(method, "gd")) method = "sgd";
    psgd_objective objective = {
        .gradient = gradient_of, .product = c->function->product ? product_of : NULL, .data = (void *)c};
    psgd_tensor tensor = {.ndim = 1, .shape = &c->n};
    PSGD_TRY(psgd_optimizer_create(NULL, method, 1, &tensor, PSGD_F64, options, optimizer));
    psgd_status status = psgd_optimizer_bind(*optimizer, &objective);
    if (status != PSGD_OK) psgd_optimizer_free(*optimizer);
    return status;
}

psgd_status psgd__contest_run(const contest *c, const char *method, psgd_options *options, contest_watch watch,
                              void *data, double *x, contest_mark *last)
{
    double *memory = psgd__alloc(NULL, 3 * c->n, sizeof(double));
    if (!memory) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld unknowns", (long long)c->n);
    double *at = memory, *where = at + c->n, *gradient = where + c->n;
    memcpy(at, c->start, (size_t)c->n * sizeof(double));
    *last = (contest_mark){0};
    int code = c->function->evaluate(c->function->data, c->n, at, &last->value, gradient);
    psgd_status status = code ? psgd__fail(PSGD_ERR_CALLBACK, "the function reported failure %d", code) : PSGD_OK;
    if (status == PSGD_OK) {
        last->gradient_norm = norm_of(c->n, gradient);
        last->converged = at_minimum(c, last->value, last->value, at, gradient);
        if (watch) watch(data, last);
        if (psgd__contest_is_minimize(method)) {
            status = run_minimize(c, options, watch, data, at, last);
        } else {
            psgd_optimizer *optimizer;
            status = create(c, method, options, &optimizer);
            if (status == PSGD_OK) {
                status = run_optimizer(c, optimizer, watch, data, at, where, gradient, last);
                psgd_optimizer_free(optimizer);
            }
        }
    }
    if (x) memcpy(x, at, (size_t)c->n * sizeof(double));
    psgd__free(NULL, memory);
    return status;
}
