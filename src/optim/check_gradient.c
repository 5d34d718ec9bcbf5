/* A gradient and a product compared with central differences.
 *
 * Two step sizes: where the differences themselves disagree, by truncation or rounding, that much error says nothing
 * about the gradient. */
#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "la/array/normal.h"
#include <psgd/minimize.h>

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_ENTRIES = 2000 }; /* of a gradient, evenly spread: each costs four values */

typedef struct checker {
    const psgd_function *function;
    int64_t n;
    const double *x;
    double *at, *v, *h, *near, *far, *below; /* [n] each */
    double value;
} checker;

static double clamp(const checker *c, int64_t i, double x)
{
    if (c->function->lower && x < c->function->lower[i]) return c->function->lower[i];
    if (c->function->upper && x > c->function->upper[i]) return c->function->upper[i];
    return x;
}

static psgd_status evaluate(const checker *c, const double *x, double *value, double *gradient)
{
    int code = c->function->evaluate(c->function->data, c->n, x, value, gradient);
    return code ? psgd__fail(PSGD_ERR_CALLBACK, "the function reported failure %d", code) : PSGD_OK;
}

/* (f(x + e e_i) - f(x - e e_i)) / 2e, within the bounds. */
static psgd_status difference(const checker *c, int64_t i, double e, double *result)
{
    double above, below, high = clamp(c, i, c->x[i] + e), low = clamp(c, i, c->x[i] - e);
    c->at[i] = high;
    psgd_status status = evaluate(c, c->at, &above, NULL);
    c->at[i] = low;
    if (status == PSGD_OK) status = evaluate(c, c->at, &below, NULL);
    c->at[i] = c->x[i];
    *result = high > low ? (above - below) / (high - low) : NAN;
    return status;
}

/* Notes an entry. A difference that is not finite says nothing. */
static void compare(psgd_derivative_check *to, int64_t entry, double given, double near, double far, double noise)
{
    to->compared++;
    if (!isfinite(near) || !isfinite(far)) return;
    double doubt = 2 * fabs(near - far) + noise, distance = fabs(given - near) - doubt;
    double error = distance > 0 ? distance / fmax(fabs(given), fabs(near)) : 0;
    if (!isfinite(given)) error = HUGE_VAL;
    if (error > PSGD_DERIVATIVE_WRONG) to->wrong++;
    if (error <= to->error && to->entry >= 0) return;
    *to = (psgd_derivative_check){to->compared, to->wrong, entry, given, near, error};
}

static psgd_status check_entries(const checker *c, const double *gradient, psgd_derivative_check *to)
{
    int64_t count = c->n < MAX_ENTRIES ? c->n : MAX_ENTRIES;
    memcpy(c->at, c->x, (size_t)c->n * sizeof(double));
    for (int64_t k = 0; k < count; k++) {
        int64_t i = k * (c->n / count);
        double e = cbrt(DBL_EPSILON) * fmax(fabs(c->x[i]), 1e-2), near, far;
        PSGD_TRY(difference(c, i, e, &near));
        PSGD_TRY(difference(c, i, 3 * e, &far));
        compare(to, i, gradient[i], near, far, 4 * DBL_EPSILON * fabs(c->value) / e);
    }
    return PSGD_OK;
}

/* result <- (g(x + e v) - g(x - e v)) / 2e */
static psgd_status difference_of_gradients(const checker *c, double e, double *result)
{
    double value;
    for (int64_t i = 0; i < c->n; i++) c->at[i] = clamp(c, i, c->x[i] + e * c->v[i]);
    PSGD_TRY(evaluate(c, c->at, &value, result));
    for (int64_t i = 0; i < c->n; i++) c->at[i] = clamp(c, i, c->x[i] - e * c->v[i]);
    PSGD_TRY(evaluate(c, c->at, &value, c->below));
    for (int64_t i = 0; i < c->n; i++) result[i] = (result[i] - c->below[i]) / (2 * e);
    return PSGD_OK;
}

/* v has entries of the size of those of x, and is zero at unknowns that a bound is near to. */
static psgd_status check_product(const checker *c, const double *gradient, psgd_derivative_check *to)
{
    double e = cbrt(DBL_EPSILON), largest = 0;
    rng_stream stream = psgd__rng_stream(0, RNG_PROBE, 0, 0);
    psgd__la_normal_f64(&stream, 0, c->n, c->v);
    for (int64_t i = 0; i < c->n; i++) {
        double v = c->v[i] * fmax(fabs(c->x[i]), 1e-2), room = 3 * e * fabs(v);
        bool fits = clamp(c, i, c->x[i] + room) == c->x[i] + room && clamp(c, i, c->x[i] - room) == c->x[i] - room;
        c->v[i] = fits ? v : 0;
    }
    int code = c->function->product(c->function->data, c->n, c->x, c->v, c->h);
    if (code) return psgd__fail(PSGD_ERR_CALLBACK, "the function's product reported failure %d", code);
    PSGD_TRY(difference_of_gradients(c, e, c->near));
    PSGD_TRY(difference_of_gradients(c, 3 * e, c->far));
    for (int64_t i = 0; i < c->n; i++) largest = fmax(largest, fabs(gradient[i]));
    for (int64_t i = 0; i < c->n; i++) {
        compare(to, i, c->h[i], c->near[i], c->far[i], 20 * DBL_EPSILON * largest / e);
    }
    return PSGD_OK;
}

static psgd_status check(checker *c, double *gradient, psgd_derivative_check *of_gradient,
                         psgd_derivative_check *of_product)
{
    PSGD_TRY(evaluate(c, c->x, &c->value, gradient));
    if (!isfinite(c->value)) return psgd__fail(PSGD_ERR_NOT_FINITE, "the function is not finite at this point");
    if (of_gradient) PSGD_TRY(check_entries(c, gradient, of_gradient));
    return of_product && c->function->product ? check_product(c, gradient, of_product) : PSGD_OK;
}

psgd_status psgd_check_gradient(const psgd_context *context, int64_t n, const double *x, const psgd_function *function,
                                psgd_derivative_check *gradient, psgd_derivative_check *product)
{
    const psgd_derivative_check none = {.entry = -1};
    if (gradient) *gradient = none;
    if (product) *product = none;
    if (n < 1 || !x || !function || !function->evaluate) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_check_gradient needs at least one unknown, x and a function");
    }
    int64_t size;
    if (!psgd__mul_fits(n, 7, &size)) size = INT64_MAX;
    double *memory = psgd__alloc(context, size, sizeof(double));
    if (!memory) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to check %lld unknowns", (long long)n);
    checker c = {function, n, x, memory, memory + n, memory + 2 * n, memory + 3 * n, memory + 4 * n, memory + 5 * n, 0};
    psgd_status status = check(&c, memory + 6 * n, gradient, product);
    psgd__free(context, memory);
    return status;
}
