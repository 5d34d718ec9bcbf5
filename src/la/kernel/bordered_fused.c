/* One pass from (v, h) to the sums that R of scan and other bordered krons is made of: see la_bordered_pass.
 *
 * Three rows at a time, so that what runs along the columns is loaded and stored once for three; with four, rows of
 * 4096 elements and their neighbours exceed the eight ways of the first-level cache. The last entry of Y needs a whole
 * row before the others can be used: the dot products of the rows come first and leave them in the second-level cache.
 * The three are every fourth row: the first-level cache predicts the way of a line from some bits of its address, and
 * confuses a row of one matrix with the next row of its neighbour in memory if their size is near a power of two.
 *
 * Six streams that restart with every three rows are more than the hardware prefetches, so lines are prefetched in
 * software: AHEAD in the same rows, at their end the first of the next, into the second-level cache, and those NEAR the
 * current place into the first. Half of the next rows of y are prefetched during the work on these rows, since the dot
 * products mostly wait for memory.
 *
 * Short rows are taken one at a time: what runs along the columns stays in the first-level cache, and the rows are one
 * stream. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

enum {
    GROUP = 3,
    BLOCK = LA_BORDERED_BLOCK,
    STEP = BLOCK / GROUP, /* from one row of a group to the next */
    LINE = STREAM_LINE / sizeof(real),
    AHEAD = 4096 / sizeof(real), /* elements from the current place to the prefetched one */
    NEAR = 1024 / sizeof(real),
    SHORT_ROW = 2048 / sizeof(real),
    STRETCH = 1 << 13,   /* columns that lanes of reals sum up before they are added in double */
    FEW_ROWS = 8 * BLOCK /* rows that are summed as reals before they are added in double */
};

/* What is a constant wherever it is given. */
typedef struct row_kind {
    int rows;
    bool plus, x_damped, y_damped, column;
} row_kind;

typedef struct row_group {
    const real *x, *y; /* the first of these rows */
    int64_t ld;        /* from there to the second, and from that to the third */
    int64_t next;      /* and to the same column of the next group, or 0 */
    real x_row[GROUP], y_row[GROUP], x_last[GROUP], x_side[GROUP], y_side[GROUP];
    double sum[GROUP];
} row_group;

/* Columns from .. to - 1, with lines `ahead` elements further on prefetched. */
typedef struct stretch {
    int64_t from, to, ahead;
} stretch;

/* Cuts the columns where prefetches move on to the next rows, and after what lanes may sum up. */
static stretch next_stretch(int64_t from, int64_t n, int64_t next)
{
    int64_t far = n < AHEAD ? n : AHEAD, turn = (n - far) / LINE * LINE;
    stretch s = {.from = from, .to = from + STRETCH < n ? from + STRETCH : n, .ahead = next ? next - turn : 0};
    if (from < turn) {
        s.to = s.to < turn ? s.to : turn;
        s.ahead = far;
    }
    return s;
}

ALWAYS_INLINE void fetch(const real *x, int64_t ld, int rows, int64_t j, int64_t ahead)
{
    for (int k = 0; k < rows; k++) __builtin_prefetch(x + k * ld + j + ahead, 0, 2);
}

/* All prefetches at column j. */
ALWAYS_INLINE void fetch_beside(const row_group *g, row_kind kind, int64_t j, int64_t ahead)
{
    if (kind.rows == 1 || (LANES < (int)LINE && j % LINE)) return;
    for (int k = 0; k < kind.rows; k++) {
        __builtin_prefetch(g->x + k * g->ld + j + NEAR, 0, 3);
        __builtin_prefetch(g->y + k * g->ld + j + NEAR / 2, 0, 3);
    }
    fetch(g->x, g->ld, kind.rows, j, ahead);
    if (!kind.column) fetch(g->y, g->ld, kind.rows, j, ahead);
    if (kind.column && j % (2 * LINE) == 0) fetch(g->y + g->next, g->ld, kind.rows, j / 2, 0);
}

/* e'(y + damping x) of each row. */
ALWAYS_INLINE void dots(const la_bordered_pass *pass, const row_group *group, row_kind kind, double *dot)
{
    const real *restrict e = pass->e, *restrict x = group->x, *restrict y = group->y, damping = pass->y_damping;
    int64_t n = pass->columns - 1, ld = group->ld;
    for (int k = 0; k < kind.rows; k++) dot[k] = 0;
    for (stretch s = next_stretch(0, n, 0); s.from < n; s = next_stretch(s.to, n, 0)) {
        vec sum[GROUP] = {{0}};
        int64_t j = s.from;
        for (; j + LANES <= s.to; j += LANES) {
            if (kind.rows > 1 && (LANES == (int)LINE || j % LINE == 0)) fetch(y, ld, kind.rows, j, s.ahead);
            vec ahead = vec_load(e + j);
            for (int k = 0; k < kind.rows; k++) {
                vec a = vec_load(y + k * ld + j);
                if (kind.y_damped) a += damping * vec_load(x + k * ld + j);
                sum[k] += ahead * a;
            }
        }
        int64_t rest = s.to - j;
        for (int k = 0; rest && k < kind.rows; k++) {
            vec a = vec_load_some(y + k * ld + j, rest);
            if (kind.y_damped) a += damping * vec_load_some(x + k * ld + j, rest);
            sum[k] += vec_load_some(e + j, rest) * a;
        }
        for (int k = 0; k < kind.rows; k++) dot[k] += (double)vec_sum(sum[k]);
    }
}

ALWAYS_INLINE void fused_lanes(int64_t j, bool whole, int64_t count, const la_bordered_pass *f, const row_group *g,
                               const la_column_sums *sums, row_kind kind, vec *sum)
{
    vec p = vec_load_part(f->p + j, whole, count), r = vec_load_part(f->r + j, whole, count);
    vec d = vec_load_part(sums->few_diagonal + j, whole, count), c = {0}, m = {0};
    if (kind.column) {
        c = vec_load_part(f->c + j, whole, count);
        m = vec_load_part(sums->few_side + j, whole, count);
    }
    for (int k = 0; k < kind.rows; k++) {
        int64_t at = k * g->ld + j;
        vec x = vec_load_part(g->x + at, whole, count), y = vec_load_part(g->y + at, whole, count);
        vec before = x;
        if (kind.x_damped) x += f->x_damping * y;
        if (kind.y_damped) y += f->y_damping * before;
        vec a = g->x_row[k] * (kind.column ? p * x + c * g->x_last[k] : p * x), b = g->y_row[k] * (r * y);
        vec_settle(&a);
        vec_settle(&b);
        vec e = kind.plus ? a * a + b * b : (a - b) * (a + b);
        vec_settle(&e);
        sum[k] += e;
        d += e;
        if (!kind.column) continue;
        m += g->x_side[k] * a;
        m += g->y_side[k] * b;
    }
    vec_store_part(sums->few_diagonal + j, d, whole, count);
    if (kind.column) vec_store_part(sums->few_side + j, m, whole, count);
}

ALWAYS_INLINE void fused_group(const la_bordered_pass *pass, row_group *group, const la_column_sums *own, row_kind kind)
{
    const la_bordered_pass f = *pass;
    const row_group g = *group;
    const la_column_sums sums = *own;
    int64_t n = kind.column ? f.columns - 1 : f.columns;
    for (stretch s = next_stretch(0, n, g.next); s.from < n; s = next_stretch(s.to, n, g.next)) {
        vec sum[GROUP] = {{0}};
        int64_t j = s.from;
        for (; j + LANES <= s.to; j += LANES) {
            fetch_beside(&g, kind, j, s.ahead);
            fused_lanes(j, true, LANES, &f, &g, &sums, kind, sum);
        }
        if (j < s.to) fused_lanes(j, false, s.to - j, &f, &g, &sums, kind, sum);
        for (int k = 0; k < kind.rows; k++) group->sum[k] += (double)vec_sum(sum[k]);
    }
}

/* Which rows a group has: top, top + step, ...; and how many rows further down the next group begins, or 0. */
typedef struct row_choice {
    int64_t top, step, next;
} row_choice;

/* The factors of these rows, and what their last entries are. */
ALWAYS_INLINE void set_group(const la_bordered_pass *s, row_choice rows, row_kind kind, row_group *g, double *diagonal)
{
    int64_t n = s->columns, last = n - 1, ld = rows.step * n;
    g->x = s->x + rows.top * n;
    g->y = s->y + rows.top * n;
    g->ld = ld;
    g->next = rows.next * n;
    for (int k = 0; k < kind.rows; k++) {
        real q = s->row[rows.top + k * rows.step], inverse = 1 / q;
        g->x_row[k] = s->swapped ? inverse : q;
        g->y_row[k] = s->swapped ? q : inverse;
        g->sum[k] = 0;
    }
    if (!kind.column) return;

    double dot[GROUP];
    dots(s, g, kind, dot);
    real sign = kind.plus ? 1 : -1;
    for (int k = 0; k < kind.rows; k++) {
        real x_last = g->x[k * ld + last], y_last = g->y[k * ld + last];
        g->x_last[k] = x_last + s->x_damping * y_last;
        y_last += s->y_damping * x_last;
        real a = g->x_row[k] * (s->p[last] * g->x_last[k]);
        real b = g->y_row[k] * (real)((double)(s->r[last] * y_last) + dot[k]);
        g->x_side[k] = a;
        g->y_side[k] = sign * b;
        g->sum[k] = (double)(a * a + sign * (b * b));
        diagonal[last] += g->sum[k];
    }
}

/* sums <- [sums +] few, few <- 0; in f64 few are the sums themselves. */
static void gather(int64_t n, bool first, real *restrict few, double *restrict sums)
{
    if (sizeof(real) == sizeof(double)) return;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        sums[j] = (first ? 0 : sums[j]) + (double)few[j];
        few[j] = 0;
    }
}

ALWAYS_INLINE void fused_rows(const la_bordered_pass *pass, row_choice rows, double *row_sums,
                              const la_column_sums *sums, row_kind kind)
{
    row_group group;
    set_group(pass, rows, kind, &group, sums->diagonal);
    fused_group(pass, &group, sums, kind);
    for (int k = 0; k < kind.rows; k++) row_sums[rows.top + k * rows.step] = group.sum[k];
}

ALWAYS_INLINE void fused_part(const la_bordered_pass *pass, int64_t from, int64_t to, double *row_sums,
                              const la_column_sums *sums, row_kind kind)
{
    int64_t n = pass->columns, inner = kind.column ? n - 1 : n, top = from;
    row_kind few = kind, one = kind;
    few.rows = GROUP;
    one.rows = 1;
    if (kind.column) sums->diagonal[inner] = sums->side[inner] = 0;
    bool first = true;
    do {
        int64_t stop = to - top < FEW_ROWS ? to : top + FEW_ROWS;
        for (; n > SHORT_ROW && top + BLOCK <= stop; top += BLOCK) {
            bool last = top + 2 * BLOCK > to;
            for (int k = 0; k < STEP; k++) {
                int64_t next = k < STEP - 1 ? 1 : last ? 0 : BLOCK - STEP + 1;
                fused_rows(pass, (row_choice){top + k, STEP, next}, row_sums, sums, few);
            }
        }
        for (; n > SHORT_ROW && top + GROUP <= stop; top += GROUP)
            fused_rows(pass, (row_choice){top, 1, 0}, row_sums, sums, few);
        for (; top < stop; top++) fused_rows(pass, (row_choice){top, 1, 0}, row_sums, sums, one);
        gather(inner, first, sums->few_diagonal, sums->diagonal);
        if (kind.column) gather(inner, first, sums->few_side, sums->side);
        first = false;
    } while (top < to);
}

void KERNEL(bordered_fused)(const la_bordered_pass *pass, int64_t from, int64_t to, double *row_sums,
                            const la_column_sums *sums)
{
    bool x_damped = pass->x_damping != 0, y_damped = pass->y_damping != 0;
    if (pass->plus && pass->c) {
        fused_part(pass, from, to, row_sums, sums,
                   (row_kind){.plus = true, .x_damped = true, .y_damped = true, .column = true});
    } else if (pass->plus) {
        fused_part(pass, from, to, row_sums, sums, (row_kind){.plus = true, .x_damped = true});
    } else if (y_damped) {
        fused_part(pass, from, to, row_sums, sums, (row_kind){.y_damped = true, .column = true});
    } else if (x_damped && pass->c) {
        fused_part(pass, from, to, row_sums, sums, (row_kind){.x_damped = true, .column = true});
    } else if (x_damped) {
        fused_part(pass, from, to, row_sums, sums, (row_kind){.x_damped = true});
    } else if (pass->c) {
        fused_part(pass, from, to, row_sums, sums, (row_kind){.column = true});
    } else {
        fused_part(pass, from, to, row_sums, sums, (row_kind){0});
    }
}
