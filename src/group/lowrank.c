#include "group/lowrank.h"
#include "la/dispatch.h"

#include <math.h>
#include <string.h>

real *lowrank_fibre(view X, int64_t f)
{
    return view_matrix(&X, f / X.inner) + f % X.inner;
}

void lowrank_load(view X, int64_t f, bool reversed, real *x)
{
    const real *from = lowrank_fibre(X, f);
    for (int64_t i = 0; i < X.n; i++) x[reversed ? X.n - 1 - i : i] = from[i * X.inner];
}

void lowrank_store(view X, int64_t f, bool reversed, const real *x)
{
    real *to = lowrank_fibre(X, f);
    for (int64_t i = 0; i < X.n; i++) to[i * X.inner] = x[reversed ? X.n - 1 - i : i];
}

void lowrank_add(real *R, view X, int sign, bool reversed)
{
    if (!X.x) return;
    for (int64_t f = 0; f < view_fibres(X); f++) {
        int k = lowrank_count(R);
        R[1 + k] = (real)sign;
        lowrank_load(X, f, reversed, R + 1 + LOWRANK_MAX + k * X.n);
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

real lowrank_max(const real *R, int64_t n, real *row)
{
    real most = 0;
    for (int64_t i = 0; i < n; i++) {
        lowrank_row(R, n, i, i, row);
        real here = la_kernel()->max_abs(n - i, row + i);
        if (here > most || here != here) most = here;
    }
    return most;
}
