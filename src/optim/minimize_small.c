/* The fit of minimize_fit.c where Q is triangular and all of H is known, for few unknowns: the same rule on small
 * square arrays, without views, pairs or workspace.
 *
 *   M = QHQ', R = triu(M^2 - I), Q <- (I - cR) Q
 *
 * Near the optimum, M = I + E, an update leaves (1 - 4c) E on the diagonal and (1 - 2c) E off it: c = 1/2 removes
 * the latter, c = 1/4 the former, and in turn they remove all but squares of E. Further away c is 0.6 / (||M||^2 +
 * 1). Everywhere c R_ii < 1, so the diagonal of Q stays positive. An update takes about 1.5 n^3 multiplications. The
 * sizes below 5 are compiled apart, with loops that are known when they are. */
#include "optim/minimize.h"

#include <math.h>

static const double NEAR = 0.1;

/* M <- QHQ', by way of T = QH. */
static inline void transform(int n, const double *H, const double *Q, double *T, double *M)
{
    for (int i = 0; i < n; i++) {
        double *t = T + i * n;
        for (int j = 0; j < n; j++) t[j] = Q[i * n + i] * H[i * n + j];
        for (int k = i + 1; k < n; k++) {
            for (int j = 0; j < n; j++) t[j] += Q[i * n + k] * H[k * n + j];
        }
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = i; k < n; k++) sum += T[j * n + k] * Q[i * n + k];
            M[i * n + j] = M[j * n + i] = sum;
        }
    }
}

/* ||M||_2 of two unknowns; else the smaller of ||M||_F and ||M||_1, which are bounds of it. */
static inline double norm_of(int n, const double *M)
{
    if (n == 2) {
        double mean = (M[0] + M[3]) / 2, half = (M[0] - M[3]) / 2;
        return fabs(mean) + sqrt(half * half + M[1] * M[1]);
    }
    double squares = 0, rows = 0;
    for (int i = 0; i < n; i++) {
        double row = 0;
        for (int j = 0; j < n; j++) {
            squares += M[i * n + j] * M[i * n + j];
            row += fabs(M[i * n + j]);
        }
        if (row > rows) rows = row;
    }
    double all = sqrt(squares);
    return all < rows ? all : rows;
}

/* The upper triangle of S <- M^2 - I; returns its largest entry. */
static inline double square(int n, const double *M, double *S)
{
    double max = 0;
    for (int i = 0; i < n; i++) {
        for (int j = i; j < n; j++) {
            double sum = j == i ? -1 : 0;
            for (int k = 0; k < n; k++) sum += M[i * n + k] * M[j * n + k];
            S[i * n + j] = sum;
            if (!(fabs(sum) <= max)) max = fabs(sum);
        }
    }
    return max;
}

/* Q <- (I - cR) Q, R the upper triangle of S: row i of the new Q needs the old rows from i on. */
static inline void retract(int n, double c, const double *S, double *Q)
{
    for (int i = 0; i < n; i++) {
        double *q = Q + i * n, keep = 1 - c * S[i * n + i];
        for (int k = i; k < n; k++) q[k] *= keep;
        for (int j = i + 1; j < n; j++) {
            double by = c * S[i * n + j];
            for (int k = j; k < n; k++) q[k] -= by * Q[j * n + k];
        }
    }
}

/* What sees only H = 0 would grow without end. */
static inline bool inside(int n, const double *Q)
{
    for (int i = 0; i < n; i++) {
        if (!(Q[i * n + i] > 0x1p-300 && Q[i * n + i] < 0x1p300)) return false;
    }
    return true;
}

double psgd__minimizer_small_step(double norm, int64_t update)
{
    double factor = norm >= 2 ? 0.6 : update % 2 ? 0.5 : 1;
    return factor / (norm * norm + 1);
}

static inline void fit(int n, const small_fit *f, double *restrict Q, double *restrict S, double *restrict M)
{
    for (int64_t k = 0; k < f->updates; k++) {
        transform(n, f->H, Q, S, M);
        double far = square(n, M, S);
        if (far < MINIMIZE_FITTED || !isfinite(far) || !inside(n, Q)) return;
        retract(n, f->caution * psgd__minimizer_small_step(norm_of(n, M), k), S, Q);
        if (far < NEAR && k % 2) return; /* what is left are squares of it */
    }
}

void psgd__minimizer_small_fit(const small_fit *f, double *Q, double *spare)
{
    double *M = spare + f->n * f->n;
    switch (f->n) {
    case 1:
        fit(1, f, Q, spare, M);
        break;
    case 2:
        fit(2, f, Q, spare, M);
        break;
    case 3:
        fit(3, f, Q, spare, M);
        break;
    case 4:
        fit(4, f, Q, spare, M);
        break;
    default:
        fit((int)f->n, f, Q, spare, M);
    }
}
