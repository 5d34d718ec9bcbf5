/* The laws of the Lie algebra: what Pi is, that R is the gradient which Q follows, and the norms that divide it. */
#include "group/check/check_unit.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Pi on symmetric S and T: <PS, T> = <S, PT> = <PS, PT>. */
static void try_projection(check *k)
{
    int64_t n = k->n;
    double idempotent = 0, orthogonal = 0, sums = 0;
    psgd__check_random_element(k);
    for (int t = 0; t < CHECK_TRIALS; t++) {
        psgd__check_fill(k, n * k->fibres, k->A);
        psgd__check_fill(k, n * k->fibres, k->B);
        for (int64_t i = 0; i < k->r; i++) k->R[i] = (real)NAN;
        psgd__check_project(k, k->A, NULL, 1, false, k->R);
        psgd__check_multiply_out_r(k, k->R, false, k->Q); /* PS */
        for (int64_t i = 0; i < k->r; i++) k->R2[i] = (real)NAN;
        psgd__check_project(k, NULL, k->B, 1, false, k->R2);
        psgd__check_multiply_out_r(k, k->R2, false, k->inverse); /* PT */
        psgd__check_symmetric(k, k->A, NULL, 1, k->work);        /* S */
        psgd__check_symmetric(k, k->B, NULL, 1, k->other);       /* T */
        double s = psgd__check_inner(n, k->work, k->work), size = sqrt(s * psgd__check_inner(n, k->other, k->other));
        psgd__check_worst(&idempotent,
                          fabs(psgd__check_inner(n, k->Q, k->Q) - psgd__check_inner(n, k->Q, k->work)) / s);
        double both = psgd__check_inner(n, k->Q, k->inverse);
        psgd__check_worst(&orthogonal, fabs(both - psgd__check_inner(n, k->Q, k->other)) / size);
        psgd__check_worst(&orthogonal, fabs(both - psgd__check_inner(n, k->work, k->inverse)) / size);

        psgd__check_project(k, NULL, k->B, -1, true, k->R); /* PS - PT, in two calls and in one */
        psgd__check_multiply_out_r(k, k->R, false, k->work);
        psgd__check_project(k, k->A, k->B, -1, false, k->R2);
        psgd__check_multiply_out_r(k, k->R2, false, k->other);
        psgd__check_worst(&sums, psgd__check_distance(n, k->other, k->work));
        for (int64_t i = 0; i < n * n; i++) k->Q[i] -= k->inverse[i];
        psgd__check_worst(&sums, psgd__check_distance(n, k->Q, k->work));
    }
    psgd__check_law(k, "idempotent", "projecting twice is projecting once", idempotent, k->tolerance);
    psgd__check_law(k, "orthogonal", "what the projection leaves out is orthogonal to the algebra", orthogonal,
                    k->tolerance);
    psgd__check_law(k, "accumulate", "R adds up, with the sign, and starts afresh", sums, k->tolerance);
}

/* sum |Qh|^2 + |Q^-T v|^2 over the fibres; A and B are left as Qh and Q^-T v. */
static double criterion(check *k, const real *h, const real *v)
{
    size_t bytes = (size_t)(k->n * k->fibres) * sizeof(real);
    memcpy(k->A, h, bytes);
    memcpy(k->B, v, bytes);
    view A = psgd__check_fibres_of(k, k->A), B = psgd__check_fibres_of(k, k->B);
    k->unit->ops->act(k->unit, ACT_MUL, A);
    k->unit->ops->act(k->unit, ACT_SOLVE_T, B);
    return la_view_energy(A) + la_view_energy(B);
}

/* d/de of the criterion along Q <- (I - eE)Q is -2 <E, R> for every E of the algebra: by central differences. */
static void try_gradient(check *k)
{
    double size = cbrt((double)REAL_EPSILON), max = 0;
    int64_t count = k->n * k->fibres;
    real *h = psgd__alloc(k->context, 2 * count + k->r, sizeof(real)), *v = h + count, *E = v + count;
    for (int t = 0; h && t < CHECK_TRIALS; t++) {
        psgd__check_random_element(k);
        psgd__check_keep(k, k->kept2);
        psgd__check_random_r(k, E);
        psgd__check_fill(k, count, h);
        psgd__check_fill(k, count, v);
        double start = criterion(k, h, v);
        psgd__check_project(k, k->A, k->B, -1, false, k->R);
        psgd__check_multiply_out_r(k, E, false, k->Q);
        psgd__check_multiply_out_r(k, k->R, false, k->other);
        double slope = psgd__check_inner(k->n, k->Q, k->other), norm = sqrt(psgd__check_inner(k->n, k->Q, k->Q));
        if (!(norm > 0)) continue;
        double c = size / norm;
        psgd__check_retract(k, c, E);
        double after = criterion(k, h, v);
        psgd__check_put_back(k, k->kept2);
        psgd__check_retract(k, -c, E);
        double before = criterion(k, h, v);
        double measured = (before - after) / (4 * c);
        psgd__check_worst(&max, fabs(measured - slope) / (norm * start));
    }
    if (h) psgd__check_law(k, "gradient", "R is the relative gradient of the criterion", max, 200 * size * size);
    psgd__free(k->context, h);
}

static void try_norms(check *k)
{
    const group_ops *ops = k->unit->ops;
    int64_t n = k->n;
    double max = 0, bound = 0, turned = 0;
    psgd__check_random_element(k);
    for (int t = 0; t < CHECK_TRIALS; t++) {
        double entry = 0;
        psgd__check_random_r(k, k->R);
        psgd__check_multiply_out_r(k, k->R, false, k->Q);
        psgd__check_multiply_out_r(k, k->R, true, k->work);
        psgd__check_worst(&turned, psgd__check_distance_transposed(n, k->work, k->Q));
        for (int64_t i = 0; i < n * n; i++) entry = fmax(entry, fabs(k->Q[i]));
        psgd__check_worst(&max, fabs((double)ops->r_max(k->unit, k->R) - entry) / fmax(entry, 1));

        /* ||R||_2 from below, by power iteration on R'R. */
        double *x = k->work, *y = k->other, gain = 0;
        for (int64_t i = 0; i < n; i++) x[i] = psgd__check_noise(k);
        for (int pass = 0; pass < 30; pass++) {
            double norm = 0, image = 0;
            for (int64_t i = 0; i < n; i++) norm += x[i] * x[i];
            if (!(norm > 0)) break;
            for (int64_t i = 0; i < n; i++) {
                y[i] = 0;
                for (int64_t j = 0; j < n; j++) y[i] += k->Q[i * n + j] * x[j] / sqrt(norm);
                image += y[i] * y[i];
            }
            gain = sqrt(image);
            for (int64_t j = 0; j < n; j++) {
                x[j] = 0;
                for (int64_t i = 0; i < n; i++) x[j] += k->Q[i * n + j] * y[i];
            }
        }
        psgd__check_worst(&bound, (gain - (double)ops->r_spectral(k->unit, k->R)) / fmax(gain, 1));
    }
    psgd__check_law(k, "norms", "r_max is the largest entry of R", max, k->tolerance);
    psgd__check_law(k, "norms", "r_spectral is at least ||R||_2", bound, k->tolerance);
    psgd__check_law(k, "transpose", "r_mul_t is the transpose of r_mul", turned, k->tolerance);
}

void psgd__check_algebra(check *k)
{
    try_projection(k);
    try_gradient(k);
    try_norms(k);
}
