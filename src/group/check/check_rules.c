/* The laws of a group that declares itself self-adjoint: its algebra is closed under transposition (products are a law
 * of every group), and the ops that update rules call do what they say. */
#include "group/check/check_unit.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* M <- M' */
static void turn(int64_t n, double *M)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double swap = M[i * n + j];
            M[i * n + j] = M[j * n + i];
            M[j * n + i] = swap;
        }
    }
}

/* Pi(QSQ') = Q Pi(S) Q' and Pi(Q'SQ) = Q' Pi(S) Q: for S = aa' the left sides are projections of Qa and Q'a. This is
 * what rules take for granted; it needs both closures. */
static void try_equivariance(check *k)
{
    int64_t n = k->n;
    size_t bytes = (size_t)(n * k->fibres) * sizeof(real);
    double away = 0;
    for (int t = 0; t < 2 * CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_multiply_out(k, ACT_MUL, k->Q);
        if (t % 2) turn(n, k->Q);
        psgd__check_fill(k, n * k->fibres, k->A);
        psgd__check_project(k, k->A, NULL, 1, false, k->R);
        psgd__check_multiply_out_r(k, k->R, false, k->algebra);
        psgd__check_product(n, k->Q, k->algebra, k->work);
        turn(n, k->Q);
        psgd__check_product(n, k->work, k->Q, k->other); /* Q Pi(S) Q' */
        memcpy(k->B, k->A, bytes);
        k->unit->ops->act(k->unit, t % 2 ? ACT_MUL_T : ACT_MUL, psgd__check_fibres_of(k, k->B));
        psgd__check_project(k, k->B, NULL, 1, false, k->R);
        psgd__check_multiply_out_r(k, k->R, false, k->algebra);
        psgd__check_worst(&away, psgd__check_distance(n, k->algebra, k->other));
    }
    psgd__check_law(k, "adjoint", "Pi(QSQ') = Q Pi(S) Q', and the same with Q'", away, k->tolerance);
}

/* A step that makes ||cR||_F = 0.3; R stays as it is. */
static double next_step(check *k)
{
    psgd__check_random_element(k);
    psgd__check_multiply_out(k, ACT_MUL, k->Q);
    psgd__check_random_r(k, k->R);
    double c = psgd__check_step_for(k, k->R, 0.3);
    return (double)(real)c;
}

/* other <- (I - cR) other or other (I - cR), multiplied out. */
static void expect(check *k, double c, bool right)
{
    psgd__check_multiply_out_r(k, k->R, false, k->algebra);
    psgd__check_product(k->n, right ? k->other : k->algebra, right ? k->algebra : k->other, k->work);
    for (int64_t i = 0; i < k->n * k->n; i++) k->other[i] -= c * k->work[i];
}

static void symmetric_part(int64_t n, double *M)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) M[i * n + j] = M[j * n + i] = (M[i * n + j] + M[j * n + i]) / 2;
    }
}

static double off(check *k)
{
    psgd__check_multiply_out(k, ACT_MUL, k->work);
    return psgd__check_distance(k->n, k->work, k->other);
}

static void try_sides(check *k)
{
    size_t bytes = (size_t)(k->n * k->n) * sizeof(double);
    double left = 0, right = 0, both = 0, symmetric = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        double c = next_step(k);
        memcpy(k->other, k->Q, bytes);
        expect(k, c, false);
        k->unit->ops->retract(k->unit, (real)c, k->R);
        psgd__check_worst(&left, off(k));
        expect(k, c, true); /* with the same R: it has not been destroyed */
        psgd__group_retract_right(k->unit, (real)c, k->R);
        psgd__check_worst(&right, off(k));
        psgd__group_symmetrise(k->unit);
        symmetric_part(k->n, k->other);
        psgd__check_worst(&symmetric, off(k));

        psgd__check_random_r(k, k->R);
        c = (double)(real)psgd__check_step_for(k, k->R, 0.3);
        psgd__check_multiply_out(k, ACT_MUL, k->other);
        expect(k, c, false);
        expect(k, c, true);
        psgd__group_retract_both(k->unit, (real)c, k->R);
        psgd__check_worst(&both, off(k));
    }
    psgd__check_law(k, "rules", "Q <- (I - cR)Q leaves R as it is", left, k->tolerance);
    psgd__check_law(k, "rules", "Q <- Q(I - cR)", right, k->tolerance);
    psgd__check_law(k, "rules", "Q <- (Q + Q')/2", symmetric, k->tolerance);
    psgd__check_law(k, "rules", "Q <- (I - cR)Q(I - cR) of a symmetric Q is symmetric", both, k->tolerance);
}

/* ||Q' - Q|| before and after, and by how much ||Q||_F has changed. */
static void try_rotation(check *k)
{
    int64_t n = k->n;
    double longer = 0, farther = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        double c = next_step(k), before = 0, after = 0;
        psgd__group_retract_right(k->unit, (real)c, k->R);
        psgd__check_multiply_out(k, ACT_MUL, k->Q);
        rng_stream draw = psgd__rng_stream(0, RNG_ESTIMATE, 0, (uint64_t)t);
        psgd__group_rotate(k->unit, &draw);
        psgd__check_multiply_out(k, ACT_MUL, k->other);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < i; j++) {
                before += pow(k->Q[i * n + j] - k->Q[j * n + i], 2);
                after += pow(k->other[i * n + j] - k->other[j * n + i], 2);
            }
        }
        double size = psgd__check_inner(n, k->Q, k->Q);
        psgd__check_worst(&longer, fabs(psgd__check_inner(n, k->other, k->other) / size - 1));
        psgd__check_worst(&farther, (sqrt(after) - sqrt(before)) / sqrt(size));
    }
    psgd__check_law(k, "rules", "a rotation keeps ||Q||_F, to the fourth power of its angle", longer, 1e-3);
    psgd__check_law(k, "rules", "and makes Q more symmetric", farther, k->tolerance);
}

/* The norm of Pi(AA' + BB') by power iteration, which is a bound from below as well, and its estimate. */
static void try_estimate(check *k)
{
    int64_t n = k->n;
    double high = 0, low = 0;
    for (int t = 0; t < CHECK_TRIALS; t++) {
        double *x = k->work, *y = k->other, norm = 0;
        psgd__check_random_element(k);
        psgd__check_fill(k, n * k->fibres, k->A);
        psgd__check_fill(k, n * k->fibres, k->B);
        psgd__check_project(k, k->A, k->B, 1, false, k->R);
        psgd__check_multiply_out_r(k, k->R, false, k->Q);
        for (int64_t i = 0; i < n; i++) x[i] = psgd__check_noise(k);
        for (int pass = 0; pass < 500; pass++) {
            double length = 0;
            for (int64_t i = 0; i < n; i++) length += x[i] * x[i];
            norm = 0;
            if (!(length > 0)) break;
            for (int64_t i = 0; i < n; i++) {
                y[i] = 0;
                for (int64_t j = 0; j < n; j++) y[i] += k->Q[i * n + j] * x[j] / sqrt(length);
                norm += y[i] * y[i];
            }
            memcpy(x, y, (size_t)n * sizeof(double));
        }
        rng_stream draw = psgd__rng_stream(0, RNG_ESTIMATE, 1, (uint64_t)t);
        double estimate = psgd__group_norm(k->unit, k->R, &draw);
        norm = sqrt(norm);
        if (!(norm > 0)) continue;
        psgd__check_worst(&high, estimate / norm - 1);
        psgd__check_worst(&low, 1 - estimate / norm);
    }
    psgd__check_law(k, "norms", "the estimate of ||Pi(AA' + BB')||_2 is not above it", high, 1e-3);
    psgd__check_law(k, "norms", "nor far below", low, 0.2);
}

void psgd__check_rules(check *k)
{
    try_equivariance(k);
    try_sides(k);
    try_rotation(k);
    try_estimate(k);
}
