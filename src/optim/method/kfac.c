/* KFAC: d = L^-p G A^-p for a matrix G (out x in), L and A moving averages over outputs and inputs (paper, section 6.3;
 * Martens and Grosse, 2015).
 *
 * From gradients: L = E[GG'], A = E[G'G], each over the root of the common trace, so that L (x) A is the Fisher matrix
 * where G = delta x' with independent delta and x. From activations x and output gradients delta, where the caller
 * gives them: L = E[delta delta'], A = E[xx']. Both factors get the root of the damping added to their diagonal.
 * The powers of L and A are computed at the first inverse-every updates and at every inverse-every one from then on
 * (Martens and Grosse's T3 = 20): an eigendecomposition costs as much as a hundred other steps.
 * Dimensions after the first count as one; a vector has a diagonal: d = g / (E[g^2] + damping)^p.
 *
 * State of a matrix: L, A, L^-p, A^-p, then updates made and rows observed. */
#include "la/matrix/blas.h"
#include "la/la.h"
#include "optim/method/method.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct sides {
    int64_t m, n; /* rows and columns; n = 0: a vector */
} sides;

static sides sides_of(const part *p)
{
    int64_t m = p->shape[0];
    return (sides){.m = m, .n = p->ndim > 1 ? p->n / m : 0};
}

typedef struct factors {
    real *L, *A, *L_power, *A_power, *updates, *observed;
} factors;

static factors factors_of(const part *p)
{
    sides s = sides_of(p);
    real *L = p->state, *A = L + s.m * s.m, *L_power = A + s.n * s.n, *A_power = L_power + s.m * s.m;
    real *updates = A_power + s.n * s.n;
    return (factors){L, A, L_power, A_power, updates, updates + 1};
}

static int64_t kfac_size(const psgd_optimizer *self, const part *p)
{
    (void)self;
    sides s = sides_of(p);
    return s.n ? 2 * (s.m * s.m + s.n * s.n) + 2 : p->n + 2;
}

/* Scratch: a copy of the largest factor, its eigenvalues and their workspace; a matrix of the largest tensor. */
static void kfac_reserve(psgd_optimizer *self)
{
    int64_t side = 1;
    for (int i = 0; i < self->part_count; i++) {
        sides s = sides_of(&self->parts[i]);
        if (s.n && s.m > side) side = s.m;
        if (s.n > side) side = s.n;
    }
    psgd__work_begin(&self->work);
    self->scratch = psgd__work_reserve(&self->work, self->largest + side * side + la_sym_power_work(side),
                                       sizeof(real));
}

/* M <- keep M + gain X'X or XX' for X rows x columns. */
static void add_outer(real *M, double keep, double gain, const real *X, int64_t rows, int64_t columns, bool of_columns)
{
    int64_t side = of_columns ? columns : rows, inner = of_columns ? rows : columns;
    la_gemm(of_columns, !of_columns, side, side, inner, (real)gain, X, columns, X, columns, (real)keep, M, side);
}

/* Whether the sum of so many squares is far from overflow: a factor that is not finite would stay so. */
static bool squares_fit(double max, int64_t count)
{
    return max * max * (double)count < (double)REAL_MAX / 1e6;
}

static double trace(int64_t n, const real *M)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)M[i * n + i];
    return sum;
}

/* to <- (scale M + root of damping I)^-p; left as it is where that has no meaning. */
static void refresh(const psgd_optimizer *self, int64_t n, const real *M, double scale, real *to)
{
    const optim_settings *set = &self->settings;
    real *copy = (real *)psgd__work_at(&self->work, self->scratch) + self->largest;
    double damping = set->fit.damping > 0 ? sqrt(set->fit.damping) : set->epsilon;
    memcpy(copy, M, (size_t)(n * n) * sizeof(real));
    la_scale(n * n, (real)scale, copy);
    for (int64_t i = 0; i < n; i++) copy[i * n + i] += (real)damping;
    la_sym_power(n, copy, -set->power, to, copy + n * n);
}

static void update(psgd_optimizer *self, const part *p, const real *G)
{
    sides s = sides_of(p);
    factors f = factors_of(p);
    double keep = self->settings.beta2;
    if (*f.observed == 0) {
        if (!squares_fit((double)la_max_abs(p->n, G), p->n)) return;
        add_outer(f.L, keep, 1 - keep, G, s.m, s.n, false);
        add_outer(f.A, keep, 1 - keep, G, s.m, s.n, true);
        *f.updates += 1;
    }
    int64_t every = self->settings.inverse_every, made = (int64_t)*f.updates;
    if (made > every && made % every != 0) return;
    double correct = 1 / (1 - pow(keep, fmax(1, (double)*f.updates)));
    double common = *f.observed == 0 ? trace(s.m, f.L) * correct : 1;
    if (!(common > 0)) return;
    refresh(self, s.m, f.L, correct / sqrt(common), f.L_power);
    refresh(self, s.n, f.A, correct / sqrt(common), f.A_power);
}

static void advance_vector(const method_args *a)
{
    const optim_settings *set = &a->self->settings;
    real *s = a->part->state, *updates = s + a->part->n;
    if (a->update) {
        la_root_mean(a->part->n, set->beta2, 1 - set->beta2, a->out, s);
        *updates += 1;
    }
    double correct = 1 / (1 - pow(set->beta2, fmax(1, (double)*updates)));
    double damping = set->fit.damping > 0 ? set->fit.damping : set->epsilon;
    for (int64_t i = 0; i < a->part->n; i++) {
        double square = (double)s[i] * (double)s[i] * correct + damping;
        a->out[i] = (real)((double)a->out[i] / pow(square, set->power));
    }
}

static void kfac_advance(const method_args *a)
{
    sides s = sides_of(a->part);
    la_step(a->part->n, &a->rule, a->g, NULL, NULL, a->x, a->out);
    if (!s.n) {
        advance_vector(a);
        return;
    }
    if (a->update) update(a->self, a->part, a->out);
    factors f = factors_of(a->part);
    real *half = psgd__work_at(&a->self->work, a->self->scratch);
    la_gemm(false, false, s.m, s.n, s.m, 1, f.L_power, s.m, a->out, s.n, 0, half, s.n);
    la_gemm(false, false, s.m, s.n, s.n, 1, half, s.n, f.A_power, s.n, 0, a->out, s.n);
}

static psgd_status kfac_observe(psgd_optimizer *self, part *p, int64_t count, const real *x, const real *delta)
{
    sides s = sides_of(p);
    if (!s.n) return psgd__fail(PSGD_ERR_UNSUPPORTED, "a vector has no inputs and outputs to observe");
    double max = (double)la_max_abs(count * s.n, x) + (double)la_max_abs(count * s.m, delta);
    if (!squares_fit(max, count)) {
        return psgd__fail(PSGD_ERR_NOT_FINITE,
                          "an activation or output gradient, or its square, is not finite; nothing "
                          "has changed");
    }
    factors f = factors_of(p);
    double keep = self->settings.beta2, gain = (1 - keep) / (double)count;
    if (*f.observed == 0) { /* factors from gradients have another scale */
        la_scale(s.m * s.m, 0, f.L);
        la_scale(s.n * s.n, 0, f.A);
        *f.updates = 0;
    }
    add_outer(f.L, keep, gain, delta, count, s.m, true);
    add_outer(f.A, keep, gain, x, count, s.n, true);
    *f.updates += 1;
    *f.observed = 1;
    return PSGD_OK;
}

const method_ops METHOD_OPS(kfac) = {
    .kind = {"kfac", "Kronecker factors of the Fisher matrix, inverted", .observes = true},
    .advance = kfac_advance,
    .size = kfac_size,
    .reserve = kfac_reserve,
    .whole = true,
    .observe = kfac_observe,
};
