/* The registry of problems: sizes, starting points and minima as published. */
#include "problem/problem.h"
#include "core/memory.h"
#include "core/text.h"
#include "problem/evaluate.h"

#include <math.h>
#include <string.h>

struct problem {
    const psgd_context *context;
    int number, n, m;
    double complex *z, *gz, *dz; /* scratch, [n] each */
    double *d;
    int *at;
};

#define FIXED_START(name, ...)                                                                                         \
    static void name##_start(int n, double *x)                                                                         \
    {                                                                                                                  \
        static const double at[] = {__VA_ARGS__};                                                                      \
        for (int j = 0; j < n; j++) x[j] = at[j % (int)(sizeof at / sizeof at[0])];                                    \
    }

FIXED_START(rosenbrock, -1.2, 1)
FIXED_START(freudenstein, 0.5, -2)
FIXED_START(zero_one, 0, 1)
FIXED_START(ones, 1)
FIXED_START(jennrich, 0.3, 0.4)
FIXED_START(helical, -1, 0, 0)
FIXED_START(gaussian, 0.4, 1, 0)
FIXED_START(meyer, 0.02, 4000, 250)
FIXED_START(gulf, 5, 2.5, 0.15)
FIXED_START(box, 0, 10, 20)
FIXED_START(powell, 3, -1, 0, 1)
FIXED_START(wood, -3, -1)
FIXED_START(kowalik, 0.25, 0.39, 0.415, 0.39)
FIXED_START(brown_dennis, 25, 5, -5, -1)
FIXED_START(osborne_1, 0.5, 1.5, -1, 0.01, 0.02)
FIXED_START(biggs, 1, 2, 1, 1, 1, 1)
FIXED_START(osborne_2, 1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5)
FIXED_START(zeros, 0)
FIXED_START(halves, 0.5)
FIXED_START(minus_ones, -1)

static void counting_start(int n, double *x)
{
    for (int j = 0; j < n; j++) x[j] = j + 1;
}

static void falling_start(int n, double *x)
{
    for (int j = 0; j < n; j++) x[j] = 1 - (j + 1.0) / n;
}

static void nth_start(int n, double *x)
{
    for (int j = 0; j < n; j++) x[j] = 1.0 / n;
}

static void parabola_start(int n, double *x)
{
    for (int j = 0; j < n; j++) {
        double t = (j + 1.0) / (n + 1);
        x[j] = t * (t - 1);
    }
}

static void even_start(int n, double *x)
{
    for (int j = 0; j < n; j++) x[j] = (j + 1.0) / (n + 1);
}

enum { BY_FORMULA = -1, ANY_N = -1 };

/* The order is that of residuals.h. */
static const problem_kind kinds[] = {
    {"rosenbrock", "Rosenbrock", 1, 2, .m = 2, .start = rosenbrock_start, .minima = {{ANY_N, 0}}},
    {"freudenstein-roth", "Freudenstein and Roth", 2, 2, .m = 2, .start = freudenstein_start,
     .minima = {{ANY_N, 0}, {ANY_N, 48.984253679}}},
    {"powell-badly-scaled", "Powell badly scaled", 3, 2, .m = 2, .start = zero_one_start, .minima = {{ANY_N, 0}}},
    {"brown-badly-scaled", "Brown badly scaled", 4, 2, .m = 3, .start = ones_start, .minima = {{ANY_N, 0}}},
    {"beale", "Beale", 5, 2, .m = 3, .start = ones_start, .minima = {{ANY_N, 0}}},
    {"jennrich-sampson", "Jennrich and Sampson", 6, 2, .m = 10, .start = jennrich_start,
     .minima = {{ANY_N, 124.36218236}}},
    {"helical-valley", "Helical valley", 7, 3, .m = 3, .start = helical_start, .minima = {{ANY_N, 0}}},
    {"bard", "Bard", 8, 3, .m = 15, .start = ones_start,
     .minima = {{ANY_N, 8.2148773065790e-3}, {ANY_N, 17.428693333}}},
    {"gaussian", "Gaussian", 9, 3, .m = 15, .start = gaussian_start, .minima = {{ANY_N, 1.1279327696189e-8}}},
    {"meyer", "Meyer", 10, 3, .m = 16, .start = meyer_start, .minima = {{ANY_N, 87.945855170}}},
    {"gulf", "Gulf research and development", 11, 3, .m = 99, .start = gulf_start, .minima = {{ANY_N, 0}}},
    {"box-3d", "Box three-dimensional", 12, 3, .m = 10, .start = box_start, .minima = {{ANY_N, 0}}},
    {"powell-singular", "Powell singular", 13, 4, .m = 4, .start = powell_start, .minima = {{ANY_N, 0}}},
    {"wood", "Wood", 14, 4, .m = 6, .start = wood_start, .minima = {{ANY_N, 0}}},
    {"kowalik-osborne", "Kowalik and Osborne", 15, 4, .m = 11, .start = kowalik_start,
     .minima = {{ANY_N, 3.0750560384924e-4}, {ANY_N, 1.0273404e-3}}},
    {"brown-dennis", "Brown and Dennis", 16, 4, .m = 20, .start = brown_dennis_start,
     .minima = {{ANY_N, 85822.201626}}},
    {"osborne-1", "Osborne 1", 17, 5, .m = 33, .start = osborne_1_start, .minima = {{ANY_N, 5.4648946974879e-5}}},
    {"biggs-exp6", "Biggs EXP6", 18, 6, .m = 13, .start = biggs_start,
     .minima = {{ANY_N, 0}, {ANY_N, 5.6556499255e-3}}},
    {"osborne-2", "Osborne 2", 19, 11, .m = 65, .start = osborne_2_start, .minima = {{ANY_N, 4.0137736293548e-2}}},
    {"watson", "Watson", 20, 6, 1, 2, 31, .m = 31, .start = zeros_start,
     .minima = {{6, 2.2876700535524e-3}, {9, 1.3997601e-6}, {12, 4.7223811e-10}}},
    {"extended-rosenbrock", "Extended Rosenbrock", 21, 10, 2, 2, .m_of_n = 1, .start = rosenbrock_start,
     .minima = {{ANY_N, 0}}},
    {"extended-powell", "Extended Powell singular", 22, 12, 4, 4, .m_of_n = 1, .start = powell_start,
     .minima = {{ANY_N, 0}}},
    {"penalty-1", "Penalty I", 23, 10, 1, 1, .m = 1, .m_of_n = 1, .start = counting_start,
     .minima = {{4, 2.2499775008999e-5}, {10, 7.0876515e-5}}},
    {"penalty-2", "Penalty II", 24, 10, 1, 1, .m_of_n = 2, .start = halves_start,
     .minima = {{4, 9.3762931e-6}, {10, 2.9366054e-4}}},
    {"variably-dimensioned", "Variably dimensioned", 25, 10, 1, 1, .m = 2, .m_of_n = 1, .start = falling_start,
     .minima = {{ANY_N, 0}}},
    {"trigonometric", "Trigonometric", 26, 10, 1, 1, .m_of_n = 1, .start = nth_start,
     .minima = {{ANY_N, 0}, {10, 2.7950561219e-5}}},
    {"brown-almost-linear", "Brown almost-linear", 27, 10, 1, 2, .m_of_n = 1, .start = halves_start,
     .minima = {{ANY_N, 0}, {ANY_N, 1}}},
    {"discrete-boundary", "Discrete boundary value", 28, 10, 1, 1, .m_of_n = 1, .start = parabola_start,
     .minima = {{ANY_N, 0}}},
    {"discrete-integral", "Discrete integral equation", 29, 10, 1, 1, .m_of_n = 1, .start = parabola_start,
     .minima = {{ANY_N, 0}}},
    {"broyden-tridiagonal", "Broyden tridiagonal", 30, 10, 1, 1, .m_of_n = 1, .start = minus_ones_start,
     .minima = {{ANY_N, 0}}},
    {"broyden-banded", "Broyden banded", 31, 10, 1, 1, .m_of_n = 1, .start = minus_ones_start, .minima = {{ANY_N, 0}}},
    {"linear-full-rank", "Linear, full rank", 32, 10, 1, 1, .m_of_n = 2, .start = ones_start,
     .minima = {{ANY_N, BY_FORMULA}}},
    {"linear-rank-1", "Linear, rank 1", 33, 10, 1, 1, .m_of_n = 2, .start = ones_start,
     .minima = {{ANY_N, BY_FORMULA}}},
    {"linear-rank-1-zero", "Linear, rank 1 with zero columns and rows", 34, 10, 1, 3, .m_of_n = 2, .start = ones_start,
     .minima = {{ANY_N, BY_FORMULA}}},
    {"chebyquad", "Chebyquad", 35, 8, 1, 1, .m_of_n = 1, .start = even_start,
     .minima = {{8, 3.5168737257e-3}, {10, 6.5039548e-3}, {7, 0}, {9, 0}, {6, 0}}},
    {"chained-rosenbrock", "Rosenbrock in n dimensions", 0, 10, 1, 2, .m = -2, .m_of_n = 2, .start = rosenbrock_start,
     .minima = {{ANY_N, 0}, {10, 3.9865791123}}},
};

int psgd__problem_count(void)
{
    return (int)(sizeof kinds / sizeof kinds[0]);
}

const problem_kind *psgd__problem_kind(int index)
{
    return &kinds[index];
}

static psgd_status find(const char *name, int *number)
{
    const char *names[sizeof kinds / sizeof kinds[0]];
    int count = psgd__problem_count();
    for (*number = 0; *number < count; (*number)++) {
        names[*number] = kinds[*number].name;
        if (!strcmp(name, names[*number])) return PSGD_OK;
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no function %s%s", name,
                      psgd__suggest("", name, names, count).words);
}

enum { MAX_SIZE = 2000000 };

static psgd_status check_size(const problem_kind *kind, int64_t n)
{
    if (n == kind->n) return PSGD_OK;
    if (!kind->multiple) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s has %d unknowns, not %lld", kind->name, kind->n, (long long)n);
    }
    if (n < kind->min || n % kind->multiple || n > (kind->max ? kind->max : MAX_SIZE)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s takes %d to %d unknowns%s, not %lld", kind->name, kind->min,
                          kind->max ? kind->max : MAX_SIZE,
                          kind->multiple == 2   ? ", an even number"
                          : kind->multiple == 4 ? ", a multiple of 4"
                                                : "",
                          (long long)n);
    }
    return PSGD_OK;
}

psgd_status psgd__problem_create(const psgd_context *context, const char *name, int64_t n, problem **created)
{
    int number;
    PSGD_TRY(find(name, &number));
    const problem_kind *kind = &kinds[number];
    if (n == 0) n = kind->n;
    PSGD_TRY(check_size(kind, n));

    problem *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a problem");
    self->context = context;
    self->number = number;
    self->n = (int)n;
    self->m = kind->m + kind->m_of_n * (int)n;
    self->z = psgd__alloc(context, 3 * n, sizeof self->z[0]);
    self->d = psgd__alloc(context, n, sizeof self->d[0]);
    self->at = psgd__alloc(context, n, sizeof self->at[0]);
    if (!self->z || !self->d || !self->at) {
        psgd__problem_free(self);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a problem of %lld unknowns", (long long)n);
    }
    self->gz = self->z + n;
    self->dz = self->gz + n;
    *created = self;
    return PSGD_OK;
}

void psgd__problem_free(problem *self)
{
    if (!self) return;
    psgd__free(self->context, self->z);
    psgd__free(self->context, self->d);
    psgd__free(self->context, self->at);
    psgd__free(self->context, self);
}

int64_t psgd__problem_size(const problem *self)
{
    return self->n;
}

void psgd__problem_start(const problem *self, double *x)
{
    kinds[self->number].start(self->n, x);
}

static double formula(int number, double m, double n)
{
    if (number == 32) return m - n;
    if (number == 33) return m * (m - 1) / (2 * (2 * m + 1));
    return (m * m + 3 * m - 6) / (2 * (2 * m - 3));
}

int psgd__problem_minima(const problem *self, double values[PROBLEM_MINIMA])
{
    const problem_kind *kind = &kinds[self->number];
    int count = 0;
    for (int i = 0; i < PROBLEM_MINIMA && kind->minima[i].n; i++) {
        const problem_minimum *at = &kind->minima[i];
        if (at->n != ANY_N && at->n != self->n) continue;
        values[count++] = at->value < 0 ? formula(kind->number, self->m, self->n) : at->value;
    }
    return count;
}

int psgd__problem_evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    problem *self = data;
    psgd__problem_real(self->number, (int)n, self->m, x, value, gradient, self->at, self->d);
    return 0;
}

/* e v stays far below the digits of x, whatever v: only its first power survives. */
int psgd__problem_hessian(void *data, int64_t n, const double *x, const double *v, double *value, double *gradient,
                          double *h)
{
    const double e = 1e-100;
    problem *self = data;
    double complex f;
    for (int64_t j = 0; j < n; j++) {
        double parts[2] = {x[j], e * v[j]}; /* CMPLX, which clang has not */
        memcpy(&self->z[j], parts, sizeof parts);
    }
    psgd__problem_complex(self->number, (int)n, self->m, self->z, &f, self->gz, self->at, self->dz);
    *value = creal(f);
    for (int64_t j = 0; j < n; j++) {
        gradient[j] = creal(self->gz[j]);
        h[j] = cimag(self->gz[j]) / e;
    }
    return 0;
}

int psgd__problem_product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    problem *self = data;
    double ignored;
    return psgd__problem_hessian(self, n, x, v, &ignored, self->d, h);
}

int64_t psgd__problem_residual_count(const problem *self)
{
    return self->m;
}

static int rows_of(problem *self, const double *x, const problem_rows *rows)
{
    psgd__problem_rows(self->number, self->n, self->m, x, rows, self->at, self->d);
    return 0;
}

int psgd__problem_residuals(void *data, int64_t n, const double *x, double *r)
{
    (void)n;
    return rows_of(data, x, &(problem_rows){.r = r});
}

int psgd__problem_jacobian(void *data, int64_t n, const double *x, const double *v, double *y)
{
    (void)n;
    return rows_of(data, x, &(problem_rows){.v = v, .y = y});
}

int psgd__problem_jacobian_transposed(void *data, int64_t n, const double *x, const double *u, double *z)
{
    (void)n;
    return rows_of(data, x, &(problem_rows){.u = u, .z = z});
}
