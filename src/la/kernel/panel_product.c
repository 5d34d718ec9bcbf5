/* Products with a panel: a tile of ROWS x COLUMNS vectors of C stays in registers while all of the depth passes by, A
 * number by number from where it lies, B in whole vectors. Nothing is packed, so that a caller with one B for many A
 * lays out B once. */
#include "la/kernel/panel_product.h"
#include "la/kernel/exp.h"
#include "la/kernel/vec.h"

/* Sums, a row of B and one broadcast number fill the registers. */
#if defined(__AVX512F__)
enum { ROWS = 12 };
#else
enum { ROWS = 6 };
#endif
enum { COLUMNS = 2, FEW = 4 };

typedef vec tile[ROWS][COLUMNS];

/* sum <- sum + A B, A_ik = A[i row + k step]. Three rows share a pointer, since an address may have one index that is
 * doubled: twelve pointers would not fit the registers. */
ALWAYS_INLINE void add_product(int rows, int columns, int64_t depth, const real *A, int64_t row, int64_t step,
                               const real *B, tile sum)
{
    const real *third[ROWS / 3];
    for (int g = 0; g < (rows + 2) / 3; g++) third[g] = A + 3 * g * row;
    for (int64_t k = 0; k < depth; k++) {
        vec b[COLUMNS];
        for (int c = 0; c < columns; c++) b[c] = vec_load(B + k * LA_PANEL + c * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            real a = third[i / 3][i % 3 * row + k * step];
            for (int c = 0; c < columns; c++) sum[i][c] += a * b[c];
        }
    }
}

ALWAYS_INLINE void add_term(la_order order, int rows, int columns, int64_t depth, const real *A, int64_t ld,
                            int64_t row, const real *B, tile sum)
{
    switch (order) {
    case LA_BY_ROWS:
        add_product(rows, columns, depth, A + row * ld, ld, 1, B, sum);
        break;
    case LA_BY_COLUMNS:
        add_product(rows, columns, depth, A + row, 1, ld, B, sum);
        break;
    case LA_BY_PANELS:
        for (int64_t k = 0; k < depth; k += LA_PANEL) {
            int64_t count = depth - k < LA_PANEL ? depth - k : LA_PANEL;
            add_product(rows, columns, count, A + k / LA_PANEL * ld + row * LA_PANEL, LA_PANEL, 1, B + k * LA_PANEL,
                        sum);
        }
        break;
    }
}

/* width: numbers that a row of C has from here on */
ALWAYS_INLINE void put_row(int columns, bool add, int64_t width, const vec *sum, real *C)
{
    for (int c = 0; c < columns; c++) {
        real *to = C + c * LANES;
        int64_t some = width - c * LANES;
        vec v = sum[c];
        if (some >= LANES) {
            if (add) v += vec_load(to);
            vec_store(to, v);
        } else {
            if (add) v += vec_load_some(to, some);
            vec_store_some(to, v, some);
        }
    }
}

ALWAYS_INLINE void one_tile(la_order order, int rows, int columns, const la_tiles *t, int64_t row, int64_t column,
                            real *C)
{
    tile sum = {{{0}}};
    for (int e = 0; e < t->terms; e++) {
        add_term(order, rows, columns, t->depth[e], t->A[e], t->a_ld, row, t->B[e] + column, sum);
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        put_row(columns, t->add, t->columns - column, sum[i], C + (row + i) * t->c_ld + column);
    }
}

/* As much of what is read next as these rows are of all. */
ALWAYS_INLINE void ask_ahead(const la_tiles *t, int64_t row, int64_t rows)
{
    int64_t from = t->ahead_count * row / t->rows, to = t->ahead_count * (row + rows) / t->rows;
    for (int e = 0; e < 2 && t->ahead[e]; e++) {
        for (int64_t i = from; i < to; i += STREAM_LINE / (int64_t)sizeof(real)) {
            __builtin_prefetch(t->ahead[e] + i, 0, 2);
        }
    }
}

ALWAYS_INLINE void all_rows(la_order order, int columns, const la_tiles *t, int64_t column, real *C)
{
    int64_t row = 0;
    for (; row + ROWS <= t->rows; row += ROWS) {
        ask_ahead(t, row, ROWS);
        one_tile(order, ROWS, columns, t, row, column, C);
    }
    for (; row + FEW <= t->rows; row += FEW) one_tile(order, FEW, columns, t, row, column, C);
    for (; row < t->rows; row++) one_tile(order, 1, columns, t, row, column, C);
}

ALWAYS_INLINE void all_columns(la_order order, const la_tiles *t, real *C)
{
    for (int64_t column = 0; column < t->columns; column += COLUMNS * LANES) {
        if (t->columns - column > LANES) {
            all_rows(order, COLUMNS, t, column, C);
        } else {
            all_rows(order, 1, t, column, C);
        }
    }
}

void KERNEL(tiles)(const la_tiles *tiles, real *C)
{
    switch (tiles->order) {
    case LA_BY_ROWS:
        all_columns(LA_BY_ROWS, tiles, C);
        break;
    case LA_BY_COLUMNS:
        all_columns(LA_BY_COLUMNS, tiles, C);
        break;
    case LA_BY_PANELS:
        all_columns(LA_BY_PANELS, tiles, C);
        break;
    }
}

ALWAYS_INLINE void stream_row(const real *x, real *to)
{
    for (int j = 0; j < LA_PANEL; j += LANES) vec_stream(to + j, vec_load(x + j));
}

void KERNEL(panel_exp)(int64_t rows, const real *restrict Z, real *restrict max, real *restrict sum, real *restrict E)
{
    real m[LA_PANEL], s[LA_PANEL] = {0}, e[LA_PANEL];
    for (int j = 0; j < LA_PANEL; j++) m[j] = Z[j];
    for (int64_t i = 1; i < rows; i++) {
        const real *z = Z + i * LA_PANEL;
        for (int j = 0; j < LA_PANEL; j++) m[j] = z[j] > m[j] ? z[j] : m[j];
    }
    for (int64_t i = 0; i < rows; i++) {
        const real *z = Z + i * LA_PANEL;
#pragma omp simd
        for (int j = 0; j < LA_PANEL; j++) {
            e[j] = exp_real(z[j] - m[j]);
            s[j] += e[j];
        }
        stream_row(e, E + i * LA_PANEL);
    }
    stream_done();
    for (int j = 0; j < LA_PANEL; j++) {
        max[j] = m[j];
        sum[j] = s[j];
    }
}

void KERNEL(panel_spread)(int64_t rows, const real *restrict Z, const real *restrict E, real *restrict spread,
                          real *restrict T)
{
    real s[LA_PANEL] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const real *z = Z + i * LA_PANEL, *e = E + i * LA_PANEL;
        for (int j = 0; j < LA_PANEL; j++) s[j] += e[j] * z[j];
        stream_row(z, T + i * LA_PANEL);
    }
    stream_done();
    for (int j = 0; j < LA_PANEL; j++) spread[j] = s[j];
}

void KERNEL(panel_weigh)(int64_t rows, const real *restrict factor, const real *restrict E, real *restrict D)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < LA_PANEL; j++) D[i * LA_PANEL + j] = factor[j] * E[i * LA_PANEL + j];
    }
}

void KERNEL(panel_weigh_both)(int64_t rows, const la_weights *by, const real *restrict E, const real *restrict T,
                              real *restrict D, real *restrict tD)
{
    const real *restrict factor = by->factor, *restrict shift = by->shift, *restrict mean = by->mean;
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < LA_PANEL; j++) {
            real e = E[i * LA_PANEL + j], d = factor[j] * e;
            D[i * LA_PANEL + j] = d;
            tD[i * LA_PANEL + j] = d * (T[i * LA_PANEL + j] - mean[j]) + shift[j] * e;
        }
    }
}
