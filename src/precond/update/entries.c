/* The normaliser entry. Diagonal matrices are a direct sum of n groups of size 1 (paper: "a Lie group with reducible
 * representation"), and each is normalised by its own |R_i|: Q <- (I - step sign R) Q. The sign is that of
 * |a_i|^2 - |b_i|^2, whatever the size of the other entries.
 *
 * An entry that has h = 0 in every pair grows without end, one that has v = 0 shrinks: where 1 / q_i, or q_i, is as
 * small as what update.c calls vanishing, it stays. No entry leaves [LA_MIN, LA_MAX], so guard.c has nothing to do
 * here. */
#include "la/la.h"
#include "la/pool.h"
#include "precond/update/update.h"

#include <math.h>

enum { CHUNK = 1 << 12, PARALLEL = 1 << 14 };

/* The norm of row i over all fibres, which does not underflow where its square would. */
static double row_norm(const view *X, int64_t i)
{
    double norm = 0;
    for (int64_t p = 0; X->x && p < X->blocks * X->outer; p++) {
        const real *x = view_matrix(X, p) + i * X->inner;
        for (int64_t j = 0; j < X->inner; j++) norm = hypot(norm, (double)x[j]);
    }
    return norm;
}

typedef struct signs {
    const unit_measure *m;
    const real *q;
    double vanishing;
} signs;

static real sign_of(const signs *s, int64_t i)
{
    const group_pair *pair = s->m->pair;
    double r = (double)s->m->R[i], q = (double)s->q[i];
    bool integrated = pair->gram[IMAGE_INVERSE] != 0;
    if (r == 0 && !integrated) r = row_norm(&pair->A, i) - row_norm(&pair->B, i);
    if (r < 0 && q * (1 + s->m->step) > (double)LA_MAX) return 0;
    if (r > 0 && q * (1 - s->m->step) < (double)LA_MIN) return 0;
    if (r < 0 && q * s->vanishing >= 1 && pair->gram[IMAGE_Q] == 0 && row_norm(&pair->A, i) == 0) return 0;
    if (r > 0 && q <= s->vanishing && !integrated && row_norm(&pair->B, i) == 0) return 0;
    return (real)((r > 0) - (r < 0));
}

static void sign_some(const void *data, int64_t from, int64_t count)
{
    const signs *s = data;
    for (int64_t i = from; i < from + count; i++) s->m->R[i] = sign_of(s, i);
}

void entries_signs(unit_measure *m, double vanishing)
{
    signs s = {.m = m, .q = m->unit->q, .vanishing = vanishing};
    la_chunks(m->unit->n, CHUNK, PARALLEL, sign_some, &s);
    m->largest = m->spectral = (double)la_max_abs(m->unit->n, m->R);
}
