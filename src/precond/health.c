/* Looking at a preconditioner: factors, the spectrum of PH, the criterion over time. */
#include "core/rng.h"
#include "la/eigen.h"
#include "precond/precond.h"
#include <psgd/health.h>

#include <math.h>
#include <string.h>

#define TYPED_CALL(self, function, ...) PSGD_PICK((self)->dtype, psgd__precond_##function)(__VA_ARGS__)

enum { MAX_STEPS = 64 };

psgd_status psgd_precond_factor_health(const psgd_precond *self, int factor, double *condition, double *min,
                                       double *max)
{
    double both[3];
    if (!self || factor < 0 || factor >= psgd_precond_factor_count(self)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there is no factor %d to look at", factor);
    }
    PSGD_TRY(TYPED_CALL(self, factor_health, self, factor, both));
    if (condition) *condition = both[0];
    if (min) *min = both[1];
    if (max) *max = both[2];
    return PSGD_OK;
}

/* Vectors of Lanczos in double; H and Q see those of the dtype. */
typedef struct lanczos {
    psgd_precond *precond;
    psgd_hessian hessian;
    void *data;
    int64_t n;
    double *basis, *next; /* [steps][n]; [n] */
    void *x, *y;          /* [n] of the dtype */
} lanczos;

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static void store(const lanczos *l, const double *from, void *to)
{
    for (int64_t i = 0; i < l->n; i++) {
        if (l->precond->dtype == PSGD_F64) {
            ((double *)to)[i] = from[i];
        } else {
            ((float *)to)[i] = (float)from[i];
        }
    }
}

/* next <- Q H Q'q. */
static psgd_status multiply(const lanczos *l, const double *q)
{
    store(l, q, l->x);
    PSGD_TRY(psgd_precond_apply(l->precond, PSGD_APPLY_QT, l->x, l->x));
    if (l->hessian(l->data, l->x, l->y) != PSGD_OK) {
        return psgd__fail(PSGD_ERR_CALLBACK, "the Hessian-vector product of the spectrum failed");
    }
    PSGD_TRY(psgd_precond_apply(l->precond, PSGD_APPLY_Q, l->y, l->y));
    for (int64_t i = 0; i < l->n; i++) {
        l->next[i] = l->precond->dtype == PSGD_F64 ? ((double *)l->y)[i] : (double)((float *)l->y)[i];
        if (!isfinite(l->next[i]))
            return psgd__fail(PSGD_ERR_NOT_FINITE, "QHQ'x is not finite at entry %lld", (long long)i);
    }
    return PSGD_OK;
}

/* Full orthogonalisation, twice: a few steps can afford it. Ends early where nothing new is left. */
static psgd_status iterate(const lanczos *l, int steps, double *diagonal, double *off_diagonal, int *done)
{
    int64_t n = l->n;
    for (*done = 0; *done < steps;) {
        double *q = l->basis + *done * n;
        PSGD_TRY(multiply(l, q));
        double before = sqrt(dot(n, l->next, l->next));
        diagonal[*done] = dot(n, q, l->next);
        ++*done;
        for (int pass = 0; pass < 2; pass++) {
            for (int j = 0; j < *done; j++) {
                const double *other = l->basis + j * n;
                double c = dot(n, other, l->next);
                for (int64_t i = 0; i < n; i++) l->next[i] -= c * other[i];
            }
        }
        double norm = sqrt(dot(n, l->next, l->next));
        double limit = (l->precond->dtype == PSGD_F64 ? 1e-12 : 1e-5) * before;
        if (*done == steps || *done >= n || !(norm > limit)) return PSGD_OK;
        off_diagonal[*done - 1] = norm;
        for (int64_t i = 0; i < n; i++) l->basis[*done * n + i] = l->next[i] / norm;
    }
    return PSGD_OK;
}

/* Eigenvalues of the tridiagonal matrix; weights are the squares of the first entries of its eigenvectors. */
static psgd_status solve(int done, double *diagonal, double *off_diagonal, double *values, double *weights)
{
    double vectors[MAX_STEPS * MAX_STEPS], work[MAX_STEPS];
    if (!psgd__la_tridiagonal(done, diagonal, off_diagonal, vectors, work)) {
        return psgd__fail(PSGD_ERR_NOT_FINITE, "the eigenvalues of the spectrum did not converge");
    }
    for (int i = 0; i < done; i++) {
        values[i] = diagonal[i];
        if (weights) weights[i] = vectors[i * done] * vectors[i * done];
    }
    return PSGD_OK;
}

static psgd_status run(lanczos *l, int steps, uint64_t seed, double *values, double *weights, int *count)
{
    double diagonal[MAX_STEPS], off_diagonal[MAX_STEPS] = {0}, norm;
    rng_stream stream = psgd__rng_stream(seed, RNG_PROBE, 0, 0);
    for (int64_t i = 0; i < l->n; i++) l->basis[i] = 2 * psgd__rng_uniform(&stream, (uint64_t)i) - 1;
    norm = sqrt(dot(l->n, l->basis, l->basis));
    for (int64_t i = 0; i < l->n; i++) l->basis[i] /= norm;
    PSGD_TRY(iterate(l, steps, diagonal, off_diagonal, count));
    return solve(*count, diagonal, off_diagonal, values, weights);
}

psgd_status psgd_precond_spectrum(psgd_precond *precond, psgd_hessian hessian, void *data, int steps, uint64_t seed,
                                  double *values, double *weights, int *count)
{
    if (!precond || !hessian || !values || !count || steps < 1 || steps > MAX_STEPS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a spectrum needs a preconditioner, H, values, count and 1 to %d steps",
                          MAX_STEPS);
    }
    *count = 0;
    int64_t n = precond->n;
    lanczos l = {.precond = precond, .hessian = hessian, .data = data, .n = n};
    l.basis = psgd__alloc(precond->context, (steps + 1) * n, sizeof(double));
    l.x = psgd__alloc(precond->context, 2 * n, psgd_dtype_size(precond->dtype));
    psgd_status status;
    if (l.basis && l.x) {
        l.next = l.basis + steps * n;
        l.y = (char *)l.x + (size_t)n * psgd_dtype_size(precond->dtype);
        status = run(&l, steps, seed, values, weights, count);
    } else {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d steps of Lanczos on %lld elements", steps,
                            (long long)n);
    }
    psgd__free(precond->context, l.basis);
    psgd__free(precond->context, l.x);
    return status;
}

struct psgd_health {
    const psgd_context *context;
    double decay, last, sum, correct; /* correct: decay^t */
};

psgd_status psgd_health_create(const psgd_context *context, double decay, psgd_health **health)
{
    if (health) *health = NULL;
    if (!health || !(decay >= 0 && decay < 1)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a running average needs a place and a decay from 0 to below 1, not %g",
                          decay);
    }
    psgd_health *self = psgd__alloc(context, 1, sizeof *self);
    *health = self;
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a running average");
    *self = (psgd_health){.context = context, .decay = decay, .last = NAN, .correct = 1};
    return PSGD_OK;
}

void psgd_health_free(psgd_health *self)
{
    if (self) psgd__free(self->context, self);
}

psgd_status psgd_health_add(psgd_health *self, double value)
{
    if (!self) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_health_add: health is NULL");
    if (!isfinite(value)) return psgd__fail(PSGD_ERR_NOT_FINITE, "the criterion is not finite");
    self->last = value;
    self->sum = self->decay * self->sum + (1 - self->decay) * value;
    self->correct *= self->decay;
    return PSGD_OK;
}

double psgd_health_last(const psgd_health *self)
{
    return self ? self->last : NAN;
}

double psgd_health_average(const psgd_health *self)
{
    return self && self->correct < 1 ? self->sum / (1 - self->correct) : NAN;
}
