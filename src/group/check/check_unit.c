/* Elements, steps and matrices for check.c. */
#include "group/check/check_unit.h"
#include "la/matrix/blas.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

double psgd__check_noise(check *k)
{
    return 2 * psgd__rng_uniform(&k->stream, k->next++) - 1;
}

void psgd__check_fill(check *k, int64_t count, real *x)
{
    for (int64_t i = 0; i < count; i++) x[i] = (real)(1.7 * psgd__check_noise(k));
}

void psgd__check_law(check *k, const char *name, const char *what, double measured, double allowed)
{
    bool holds = measured <= allowed;
    k->to->tried++;
    if (!holds) k->to->broken++;
    psgd__text_add(k->to->lines, "%-6s %-11s %s:%lld  %.3g, at most %.3g  %s\n", holds ? "holds" : "BREAKS", name,
                   k->unit->ops->kind.name, (long long)k->unit->n, measured, allowed, what);
}

void psgd__check_worst(double *max, double now)
{
    if (!(now <= *max)) *max = now;
}

static view unit_columns(check *k)
{
    int64_t n = k->n;
    memset(k->columns, 0, (size_t)(n * n) * sizeof(real));
    for (int64_t i = 0; i < n; i++) k->columns[i * n + i] = 1;
    return view_columns(k->columns, n, n);
}

void psgd__check_multiply_out(check *k, group_act act, double *M)
{
    k->unit->ops->act(k->unit, act, unit_columns(k));
    for (int64_t i = 0; i < k->n * k->n; i++) M[i] = (double)k->columns[i];
}

void psgd__check_multiply_out_r(check *k, const real *R, bool transpose, double *M)
{
    k->unit->ops->r_mul(k->unit, R, transpose, unit_columns(k));
    for (int64_t i = 0; i < k->n * k->n; i++) M[i] = (double)k->columns[i];
}

void psgd__check_product(int64_t n, const double *X, const double *Y, double *Z)
{
    memset(Z, 0, (size_t)(n * n) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t m = 0; m < n; m++) {
            double x = X[i * n + m];
            for (int64_t j = 0; j < n; j++) Z[i * n + j] += x * Y[m * n + j];
        }
    }
}

double psgd__check_inner(int64_t n, const double *X, const double *Y)
{
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++) sum += X[i] * Y[i];
    return sum;
}

double psgd__check_distance(int64_t n, const double *X, const double *Y)
{
    double max = 0, size = 1;
    for (int64_t i = 0; i < n * n; i++) {
        psgd__check_worst(&max, fabs(X[i] - Y[i]));
        size = fmax(size, fabs(Y[i]));
    }
    return max / size;
}

double psgd__check_distance_transposed(int64_t n, const double *X, const double *Y)
{
    double max = 0, size = 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            psgd__check_worst(&max, fabs(X[i * n + j] - Y[j * n + i]));
            size = fmax(size, fabs(X[i * n + j]));
        }
    }
    return max / size;
}

void psgd__check_symmetric(const check *k, const real *A, const real *B, int sign, double *S)
{
    int64_t n = k->n;
    memset(S, 0, (size_t)(n * n) * sizeof(double));
    for (int64_t f = 0; f < k->fibres; f++) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                if (A) S[i * n + j] += (double)A[f * n + i] * (double)A[f * n + j];
                if (B) S[i * n + j] += sign * (double)B[f * n + i] * (double)B[f * n + j];
            }
        }
    }
}

view psgd__check_fibres_of(const check *k, real *x)
{
    return view_rows(x, k->n, k->fibres);
}

void psgd__check_project(check *k, real *A, real *B, int sign, bool accumulate, real *R)
{
    k->unit->ops->project(k->unit, psgd__check_fibres_of(k, A), psgd__check_fibres_of(k, B), sign, accumulate, R);
}

void psgd__check_random_r(check *k, real *R)
{
    psgd__check_fill(k, k->n * k->fibres, k->A);
    psgd__check_fill(k, k->n * k->fibres, k->B);
    psgd__check_project(k, k->A, k->B, -1, false, R);
}

typedef struct copying {
    real *at;
    bool out;
} copying;

static void copy_state(void *data, real *x, int64_t count)
{
    copying *c = data;
    size_t bytes = (size_t)count * sizeof(real);
    if (c->out) {
        memcpy(c->at, x, bytes);
    } else {
        memcpy(x, c->at, bytes);
    }
    c->at += count;
}

void psgd__check_keep(check *k, real *to)
{
    psgd__group_visit(k->unit, copy_state, &(copying){.at = to, .out = true});
}

void psgd__check_put_back(check *k, real *from)
{
    psgd__group_visit(k->unit, copy_state, &(copying){.at = from});
}

void psgd__check_retract(check *k, double c, const real *R)
{
    memcpy(k->R2, R, (size_t)k->r * sizeof(real));
    k->unit->ops->retract(k->unit, (real)c, k->R2);
}

double psgd__check_step_for(check *k, const real *R, double size)
{
    psgd__check_multiply_out_r(k, R, false, k->algebra);
    double norm = sqrt(psgd__check_inner(k->n, k->algebra, k->algebra));
    return norm > 0 ? size / norm : 0;
}

void psgd__check_random_element(check *k)
{
    double refused = 0;
    k->unit->ops->reset(k->unit, 1.25);
    for (int s = 0; s < CHECK_STEPS; s++) {
        real *R = k->steps + s * k->r;
        psgd__check_random_r(k, R);
        k->step_size[s] = psgd__check_step_for(k, R, 0.4);
        if (k->unit->ops->inside(k->unit, (real)k->step_size[s], R)) {
            psgd__check_retract(k, k->step_size[s], R);
        } else {
            k->step_size[s] = 0;
            refused = 1;
        }
    }
    if (refused > 0) psgd__check_law(k, "inside", "I - cR with ||cR|| = 0.4 is in the group", refused, 0);
}
