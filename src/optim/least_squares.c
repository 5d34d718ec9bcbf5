/* psgd_least_squares: f = ||r||^2 / 2, g = J'r and the Gauss-Newton product J'Jv as a psgd_function. */
#include "core/memory.h"
#include "core/status.h"
#include <psgd/least_squares.h>

#include <math.h>
#include <float.h>
#include <string.h>

typedef struct squares {
    const psgd_residuals *of;
    int64_t n;
    double *r, *y;  /* [m] */
    double *at, *J; /* [n], [n][m], the transpose of the Jacobian: where J comes from differences */
    double *below;  /* [m], likewise */
    double *known;  /* [n]: where J belongs to */
    bool has_J;
} squares;

static double clamp(const psgd_residuals *of, int64_t i, double x)
{
    if (of->lower && x < of->lower[i]) return of->lower[i];
    if (of->upper && x > of->upper[i]) return of->upper[i];
    return x;
}

/* J by central differences, within the bounds, unless it is known at x. */
static int difference(squares *s, const double *x)
{
    int64_t n = s->n, m = s->of->m;
    if (s->has_J && !memcmp(x, s->known, (size_t)n * sizeof *x)) return 0;
    s->has_J = false;
    memcpy(s->at, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        double e = cbrt(DBL_EPSILON) * fmax(fabs(x[i]), 1e-2), *row = s->J + i * m;
        double high = clamp(s->of, i, x[i] + e), low = clamp(s->of, i, x[i] - e);
        s->at[i] = high;
        int code = s->of->residuals(s->of->data, n, s->at, row);
        s->at[i] = low;
        if (!code) code = s->of->residuals(s->of->data, n, s->at, s->below);
        s->at[i] = x[i];
        if (code) return code;
        double scale = high > low ? 1 / (high - low) : 0; /* an unknown that cannot move */
        for (int64_t k = 0; k < m; k++) row[k] = (row[k] - s->below[k]) * scale;
    }
    memcpy(s->known, x, (size_t)n * sizeof *x);
    s->has_J = true;
    return 0;
}

/* y <- J v */
static int multiply(squares *s, const double *x, const double *v, double *y)
{
    if (s->of->product) return s->of->product(s->of->data, s->n, x, v, y);
    int64_t m = s->of->m;
    int code = difference(s, x);
    memset(y, 0, (size_t)m * sizeof *y);
    for (int64_t i = 0; !code && i < s->n; i++) {
        for (int64_t k = 0; k < m; k++) y[k] += s->J[i * m + k] * v[i];
    }
    return code;
}

/* z <- J'u */
static int multiply_transposed(squares *s, const double *x, const double *u, double *z)
{
    if (s->of->transposed) return s->of->transposed(s->of->data, s->n, x, u, z);
    int64_t m = s->of->m;
    int code = difference(s, x);
    for (int64_t i = 0; !code && i < s->n; i++) {
        z[i] = 0;
        for (int64_t k = 0; k < m; k++) z[i] += s->J[i * m + k] * u[k];
    }
    return code;
}

static int evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    squares *s = data;
    int code = s->of->residuals(s->of->data, n, x, s->r);
    if (code) return code;
    *value = 0;
    for (int64_t k = 0; k < s->of->m; k++) *value += s->r[k] * s->r[k] / 2;
    return gradient && isfinite(*value) ? multiply_transposed(s, x, s->r, gradient) : 0;
}

static int product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    squares *s = data;
    (void)n;
    int code = multiply(s, x, v, s->y);
    return code ? code : multiply_transposed(s, x, s->y, h);
}

static psgd_status create(const psgd_context *context, squares *s, double **memory)
{
    int64_t n = s->n, m = s->of->m, size = 0, own = 0;
    bool stored = !s->of->product;
    bool fits = psgd__mul_fits(m, stored ? 3 : 2, &size);
    if (stored) fits = fits && psgd__mul_fits(n, m, &own) && psgd__add_fits(size, own, &size);
    if (stored) fits = fits && psgd__mul_fits(n, 2, &own) && psgd__add_fits(size, own, &size);
    *memory = psgd__alloc(context, fits ? size : INT64_MAX, sizeof(double));
    if (!*memory) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld residuals of %lld unknowns", (long long)m,
                          (long long)n);
    }
    s->r = *memory;
    s->y = s->r + m;
    if (!stored) return PSGD_OK;
    s->below = s->y + m;
    s->at = s->below + m;
    s->known = s->at + n;
    s->J = s->known + n;
    return PSGD_OK;
}

psgd_status psgd_least_squares(const psgd_context *context, int64_t n, double *x, const psgd_residuals *residuals,
                               const psgd_options *options, psgd_progress progress, void *progress_data,
                               psgd_result *result)
{
    if (result) *result = (psgd_result){.outcome = PSGD_FAILED, .value = NAN, .gradient_norm = NAN};
    if (n < 1 || !x || !residuals || !residuals->residuals || residuals->m < 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_least_squares needs unknowns, x and at least one residual");
    }
    if (!residuals->product != !residuals->transposed) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "of product and transposed, give both or neither");
    }
    squares s = {.of = residuals, .n = n};
    double *memory;
    PSGD_TRY(create(context, &s, &memory));
    psgd_function function = {
        .evaluate = evaluate, .product = product, .data = &s, .lower = residuals->lower, .upper = residuals->upper};
    psgd_status status = psgd_minimize(context, n, x, &function, options, progress, progress_data, result);
    psgd__free(context, memory);
    return status;
}
