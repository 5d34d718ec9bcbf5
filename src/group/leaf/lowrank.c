#include "group/leaf/lowrank.h"
#include "la/array/dispatch.h"

#include <float.h>
#include <math.h>
#include <string.h>

static real *fibre(view X, int64_t f)
{
    return view_matrix(&X, f / X.inner) + f % X.inner;
}

static void load(view X, int64_t f, bool reversed, real *x)
{
    const real *from = fibre(X, f);
    for (int64_t i = 0; i < X.n; i++) x[reversed ? X.n - 1 - i : i] = from[i * X.inner];
}

real *lowrank_borrow(view X, int64_t f, bool reversed, real *scratch)
{
    if (X.inner == 1 && !reversed) return fibre(X, f);
    load(X, f, reversed, scratch);
    return scratch;
}

void lowrank_return(view X, int64_t f, bool reversed, const real *x)
{
    real *to = fibre(X, f);
    for (int64_t i = 0; x != to && i < X.n; i++) to[i * X.inner] = x[reversed ? X.n - 1 - i : i];
}

void lowrank_add(real *R, view X, int sign, bool reversed)
{
    if (!X.x) return;
    for (int64_t f = 0; f < view_fibres(X); f++) {
        int k = lowrank_count(R);
        R[1 + k] = (real)sign;
        load(X, f, reversed, R + 1 + LOWRANK_MAX + k * X.n);
        R[0] = (real)(k + 1);
    }
}

void lowrank_row(const real *R, int64_t n, int64_t i, int64_t from, real *row)
{
    memset(row + from, 0, (size_t)(n - from) * sizeof(real));
    for (int k = 0; k < lowrank_count(R); k++) {
        const real *x = lowrank_vector(R, n, k);
        la_kernel()->axpy(n - from, lowrank_sign(R, k) * x[i], x + from, row + from);
    }
}

/* |R_ij| <= |p_i||p_j| for p_i the entries i of all vectors. With k the largest |p_k|, row k has an entry of size best,
 * and no p_i shorter than best / |p_k| can be part of a larger one. The others are copied together; scratch holds the
 * lengths and then the copies. Returns how many there are. */
static int64_t keep_long(const real *R, int64_t n, real *scratch)
{
    int count = lowrank_count(R);
    int64_t longest = 0, kept = 0;
    real *length = scratch;
    memset(length, 0, (size_t)n * sizeof(real));
    for (int v = 0; v < count; v++) {
        const real *x = lowrank_vector(R, n, v);
        for (int64_t i = 0; i < n; i++) length[i] += x[i] * x[i];
    }
    for (int64_t i = 1; i < n; i++) longest = length[i] > length[longest] ? i : longest;

    real *row = scratch + n;
    lowrank_row(R, n, longest, 0, row);
    double best = (double)la_kernel()->max_abs(n, row), max = (double)length[longest];
    double min = max > 0 ? best * best / max * (1 - 64 * (double)REAL_EPSILON) : 0;
    for (int64_t i = 0; i < n; i++) {
        if ((double)length[i] < min) continue;
        for (int v = 0; v < count; v++) scratch[n + v * n + kept] = lowrank_vector(R, n, v)[i];
        kept++;
    }
    return kept;
}

real lowrank_max(const real *R, int64_t n, real *scratch)
{
    int count = lowrank_count(R);
    if (count == 0) return 0;
    const la_kernels *k = la_kernel();
    int64_t kept = keep_long(R, n, scratch);
    real max = 0, *row = scratch;
    for (int64_t i = 0; i < kept; i++) {
        memset(row, 0, (size_t)(kept - i) * sizeof(real));
        for (int v = 0; v < count; v++) {
            const real *x = scratch + n + v * n;
            k->axpy(kept - i, lowrank_sign(R, v) * x[i], x + i, row);
        }
        real here = k->max_abs(kept - i, row);
        if (here > max || here != here) max = here;
    }
    return max;
}
