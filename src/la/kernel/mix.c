/* Small matrix products on rows of samples, without packing: what convolutions and recurrent cells are made of.
 *
 * The rows of B are found through a list of offsets, so that a convolution reads its input where it lies. A tile of
 * TILE_ROWS x TILE_COLUMNS vectors of Y stays in registers while all k pass by; in cross, a tile of R does while all
 * samples pass by. */
#include "la/kernel/kernel.h"
#include "la/kernel/tile.h"

/* One tile: rows row .. of Y, columns vectors of each. */
ALWAYS_INLINE void mix_tile(const la_mix *m, int rows, int columns, int64_t row, const real *A, const real *B, real *Y)
{
    vec sum[TILE_ROWS * TILE_VECS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        tile_fill(1, columns, m->bias ? m->bias[(row + i) * m->bias_ld] : 0, sum + i * columns);
    }
    for (int64_t k = 0; k < m->depth; k++) {
        const real *a = A + row * m->a_ld + m->a_offset[k];
        tile_step(rows, columns, rows, &a, m->a_ld, B + m->b_offset[k], sum);
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            real *to = Y + (row + i) * m->y_ld + c * LANES;
            if (m->add) sum[i * columns + c] += vec_load(to);
            vec_store(to, sum[i * columns + c]);
        }
    }
}

ALWAYS_INLINE void mix_rows(const la_mix *m, int columns, const real *A, const real *B, real *Y)
{
    int64_t row = 0;
    for (; row + TILE_ROWS <= m->rows; row += TILE_ROWS) mix_tile(m, TILE_ROWS, columns, row, A, B, Y);
    switch (m->rows - row) {
    case 5:
        mix_tile(m, 5, columns, row, A, B, Y);
        break;
    case 4:
        mix_tile(m, 4, columns, row, A, B, Y);
        break;
    case 3:
        mix_tile(m, 3, columns, row, A, B, Y);
        break;
    case 2:
        mix_tile(m, 2, columns, row, A, B, Y);
        break;
    case 1:
        mix_tile(m, 1, columns, row, A, B, Y);
        break;
    default:
        break;
    }
}

/* Functions of their own: with all of them in one, addresses do not fit the registers. */
static __attribute__((noinline)) void mix_rows_1(const la_mix *m, const real *A, const real *B, real *Y)
{
    mix_rows(m, 1, A, B, Y);
}

static __attribute__((noinline)) void mix_rows_2(const la_mix *m, const real *A, const real *B, real *Y)
{
    mix_rows(m, 2, A, B, Y);
}

static __attribute__((noinline)) void mix_rows_tile(const la_mix *m, const real *A, const real *B, real *Y)
{
    mix_rows(m, TILE_COLUMNS, A, B, Y);
}

/* The last columns, fewer than a vector. */
static void mix_rest(const la_mix *m, int64_t n, const real *A, const real *B, real *Y)
{
    for (int64_t i = 0; i < m->rows; i++) {
        real sum[LANES], start = m->bias ? m->bias[i * m->bias_ld] : 0, *y = Y + i * m->y_ld;
        for (int64_t j = 0; j < n; j++) sum[j] = m->add ? y[j] + start : start;
        for (int64_t k = 0; k < m->depth; k++) {
            real w = A[i * m->a_ld + m->a_offset[k]];
            const real *b = B + m->b_offset[k];
            for (int64_t j = 0; j < n; j++) sum[j] += w * b[j];
        }
        for (int64_t j = 0; j < n; j++) y[j] = sum[j];
    }
}

void KERNEL(mix)(const la_mix *mix, int64_t n, const real *A, const real *B, real *Y)
{
    int64_t j = 0;
    for (; j + TILE_COLUMNS * LANES <= n; j += TILE_COLUMNS * LANES) mix_rows_tile(mix, A, B + j, Y + j);
    for (; j + 2 * LANES <= n; j += 2 * LANES) mix_rows_2(mix, A, B + j, Y + j);
    for (; j + LANES <= n; j += LANES) mix_rows_1(mix, A, B + j, Y + j);
    if (j < n) mix_rest(mix, n - j, A, B + j, Y + j);
}

static void cross_rest(const la_cross *c, int rows, int columns, int64_t from, int64_t n, const real *A, const real *B,
                       const int64_t *b_offset, real *R)
{
    for (int64_t p = 0; p < c->outer * c->inner; p++) {
        const real *a = A + p / c->inner * c->a_outer + p % c->inner * c->a_inner;
        const real *b = B + p / c->inner * c->b_outer + p % c->inner * c->b_inner;
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < columns; j++) {
                real rest = 0;
                for (int64_t l = from; l < n; l++) rest += a[i * c->a_ld + l] * b[b_offset[j] + l];
                R[i * c->r_ld + j] += rest;
            }
        }
    }
}

/* One tile of R over all places and samples; the last samples, fewer than a vector, one by one. */
ALWAYS_INLINE void cross_tile(const la_cross *c, int rows, int columns, int64_t n, const real *A, const real *B,
                              const int64_t *b_offset, real *R)
{
    vec sum[CROSS_ROWS][CROSS_COLUMNS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 6
        for (int j = 0; j < columns; j++) sum[i][j] = (vec){0};
    }
    int64_t whole = n / LANES * LANES;
    for (int64_t p = 0; p < c->outer; p++) {
        for (int64_t q = 0; q < c->inner; q++) {
            const real *a = A + p * c->a_outer + q * c->a_inner, *b = B + p * c->b_outer + q * c->b_inner;
            for (int64_t l = 0; l < whole; l += LANES) {
                vec x[CROSS_COLUMNS];
                for (int j = 0; j < columns; j++) x[j] = vec_load(b + b_offset[j] + l);
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++) {
                    vec y = vec_load(a + i * c->a_ld + l);
#pragma GCC unroll 6
                    for (int j = 0; j < columns; j++) sum[i][j] += y * x[j];
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) vec_add_sums(columns, sum[i], R + i * c->r_ld);
    if (whole < n) cross_rest(c, rows, columns, whole, n, A, B, b_offset, R);
}

ALWAYS_INLINE void cross_columns(const la_cross *c, int rows, int64_t n, const real *A, const real *B, real *R)
{
    int64_t j = 0;
    for (; j + CROSS_COLUMNS <= c->columns; j += CROSS_COLUMNS) {
        cross_tile(c, rows, CROSS_COLUMNS, n, A, B, c->b_offset + j, R + j);
    }
    for (; j < c->columns; j++) cross_tile(c, rows, 1, n, A, B, c->b_offset + j, R + j);
}

void KERNEL(cross)(const la_cross *cross, int64_t n, const real *A, const real *B, real *R)
{
    int64_t i = 0;
    for (; i + CROSS_ROWS <= cross->rows; i += CROSS_ROWS) {
        cross_columns(cross, CROSS_ROWS, n, A + i * cross->a_ld, B, R + i * cross->r_ld);
    }
    for (; i + 2 <= cross->rows; i += 2) {
        cross_columns(cross, 2, n, A + i * cross->a_ld, B, R + i * cross->r_ld);
    }
    for (; i < cross->rows; i++) cross_columns(cross, 1, n, A + i * cross->a_ld, B, R + i * cross->r_ld);
}
