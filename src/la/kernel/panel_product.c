/* Products with panels. Nothing is packed, so that a caller with one B for many A lays out B once. */
#include "la/kernel/kernel.h"
#include "la/kernel/tile.h"

enum { SOME_ROWS = 4, VECS = 2 };

/* sum += A B, rows row .. of A and columns column .. of B. */
ALWAYS_INLINE void add_term(int rows, int columns, const la_panel_product *p, int term, int64_t row, int64_t column,
                            vec *sum)
{
    const real *A = p->A[term], *B = p->B[term] + column;
    int64_t depth = p->depth[term];
    if (!p->a_panel) {
        tile_product(rows, columns, depth, A + row * p->row, p->row, p->column, B, p->b_ld, sum);
        return;
    }
    for (int64_t k = 0; k < depth; k += LA_PANEL) {
        int64_t count = depth - k < LA_PANEL ? depth - k : LA_PANEL;
        tile_product(rows, columns, count, A + k / LA_PANEL * p->a_panel + row * LA_PANEL, LA_PANEL, 1, B + k * p->b_ld,
                     p->b_ld, sum);
    }
}

ALWAYS_INLINE void put_vec(const la_panel_product *p, vec v, int64_t width, real *to)
{
    v *= p->alpha;
    if (width >= LANES) {
        if (p->add) v += vec_load(to);
        vec_store(to, v);
    } else if (width > 0) {
        if (p->add) v += vec_load_some(to, width);
        vec_store_some(to, v, width);
    }
}

ALWAYS_INLINE void one_tile(int rows, int columns, const la_panel_product *p, int64_t row, int64_t column)
{
    vec sum[BLOCK_ROWS * VECS];
    tile_fill(rows, columns, 0, sum);
    for (int term = 0; term < p->terms; term++) add_term(rows, columns, p, term, row, column, sum);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++) {
            put_vec(p, sum[i * columns + c], p->columns - column - c * LANES,
                    p->C + (row + i) * p->c_ld + column + c * LANES);
        }
    }
}

/* As much of what is read next as these rows are of all. */
ALWAYS_INLINE void prefetch_ahead(const la_panel_product *p, int64_t row, int64_t rows)
{
    int64_t from = p->ahead_count * row / p->rows, to = p->ahead_count * (row + rows) / p->rows;
    for (int e = 0; e < 2 && p->ahead[e]; e++) {
        for (int64_t i = from; i < to; i += STREAM_LINE / (int64_t)sizeof(real)) {
            __builtin_prefetch(p->ahead[e] + i, 0, 2);
        }
    }
}

ALWAYS_INLINE void all_columns(int rows, const la_panel_product *p, int64_t row)
{
    for (int64_t column = 0; column < p->columns; column += VECS * LANES) {
        if (p->columns - column > LANES) {
            one_tile(rows, VECS, p, row, column);
        } else {
            one_tile(rows, 1, p, row, column);
        }
    }
}

void KERNEL(panel_product)(const la_panel_product *p)
{
    int64_t row = 0;
    for (; row + BLOCK_ROWS <= p->rows; row += BLOCK_ROWS) {
        prefetch_ahead(p, row, BLOCK_ROWS);
        all_columns(BLOCK_ROWS, p, row);
    }
    for (; row + SOME_ROWS <= p->rows; row += SOME_ROWS) all_columns(SOME_ROWS, p, row);
    for (; row < p->rows; row++) all_columns(1, p, row);
}
