/* One pass from (v, h) to the sums that R of scan and its like is made of: see la_thin_pass.
 *
 * Four rows at a time, so that what runs along the columns is loaded and stored once for four. The last entry of Y
 * needs a whole row before the others can be used: the dot products of four rows come first and leave them in the
 * second-level cache. Eight streams that start anew with every four rows are more than a core fetches ahead by itself,
 * so lines are asked for by hand, at the end of these rows the first of the next. Short rows are taken one at a time:
 * what runs along the columns stays in the first-level cache, and the rows are one stream. */
#include "la/kernel/thin.h"
#include "la/kernel/vec.h"

enum {
    GROUP = 4,
    LINE = STREAM_LINE / sizeof(real),
    AHEAD = 2048 / sizeof(real), /* numbers between what is worked on and what is asked for */
    SHORT_ROW = 2048 / sizeof(real),
    STRETCH = 1 << 13, /* columns that lanes of reals sum up before they are added in double */
    FEW_ROWS = 64      /* rows that are summed in the number type before they are added in double */
};

/* What is a constant wherever it is given. */
typedef struct row_kind {
    int rows;
    bool plus, damped, column;
} row_kind;

typedef struct row_group {
    const real *x, *y; /* the first of these rows */
    int64_t next;      /* from there to the same column of the next rows, or 0 */
    real x_row[GROUP], y_row[GROUP], x_last[GROUP], x_side[GROUP], y_side[GROUP];
    double sum[GROUP];
} row_group;

/* Columns from .. to - 1 of which lines that lie `ahead` further on are asked for. */
typedef struct stretch {
    int64_t from, to, ahead;
} stretch;

/* Cuts the columns where lines of the next rows come in, and into what lanes may sum up. */
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

ALWAYS_INLINE void fetch(const real *x, int64_t pitch, int rows, int64_t j, int64_t ahead)
{
    if (LANES < (int)LINE && j % LINE) return;
    for (int k = 0; k < rows; k++) __builtin_prefetch(x + k * pitch + j + ahead, 0, 2);
}

/* e'(y + damping x) of each row. */
ALWAYS_INLINE void dots(const la_thin_pass *pass, const row_group *group, row_kind kind, double *dot)
{
    const real *restrict e = pass->e, *restrict x = group->x, *restrict y = group->y, damping = pass->y_damping;
    int64_t n = pass->columns - 1, pitch = pass->columns;
    for (int k = 0; k < kind.rows; k++) dot[k] = 0;
    for (stretch s = next_stretch(0, n, 0); s.from < n; s = next_stretch(s.to, n, 0)) {
        vec sum[GROUP] = {{0}};
        int64_t j = s.from;
        for (; j + LANES <= s.to; j += LANES) {
            if (kind.rows > 1) fetch(y, pitch, kind.rows, j, s.ahead);
            vec ahead = vec_load(e + j);
            for (int k = 0; k < kind.rows; k++) {
                vec a = vec_load(y + k * pitch + j);
                if (kind.damped) a += damping * vec_load(x + k * pitch + j);
                sum[k] += ahead * a;
            }
        }
        int64_t rest = s.to - j;
        for (int k = 0; rest && k < kind.rows; k++) {
            vec a = vec_load_some(y + k * pitch + j, rest);
            if (kind.damped) a += damping * vec_load_some(x + k * pitch + j, rest);
            sum[k] += vec_load_some(e + j, rest) * a;
        }
        for (int k = 0; k < kind.rows; k++) dot[k] += (double)vec_sum(sum[k]);
    }
}

ALWAYS_INLINE void capture_lanes(int64_t j, bool whole, int64_t count, const la_thin_pass *f, const row_group *g,
                                 const la_column_sums *sums, row_kind kind, vec *sum)
{
    vec p = vec_load_part(f->p + j, whole, count), r = vec_load_part(f->r + j, whole, count);
    vec d = vec_load_part(sums->few_diagonal + j, whole, count), c = {0}, m = {0};
    if (kind.column) {
        c = vec_load_part(f->c + j, whole, count);
        m = vec_load_part(sums->few_side + j, whole, count);
    }
    for (int k = 0; k < kind.rows; k++) {
        int64_t at = k * f->columns + j;
        vec x = vec_load_part(g->x + at, whole, count), y = vec_load_part(g->y + at, whole, count);
        if (kind.damped) {
            vec before = x;
            x += f->x_damping * y;
            y += f->y_damping * before;
        }
        vec a = g->x_row[k] * (kind.column ? p * x + c * g->x_last[k] : p * x), b = g->y_row[k] * (r * y);
        vec e = kind.plus ? a * a + b * b : (a - b) * (a + b);
        vec_settle(&e);
        sum[k] += e;
        d += e;
        if (kind.column) m += g->x_side[k] * a + g->y_side[k] * b;
    }
    vec_store_part(sums->few_diagonal + j, d, whole, count);
    if (kind.column) vec_store_part(sums->few_side + j, m, whole, count);
}

ALWAYS_INLINE void capture_group(const la_thin_pass *pass, row_group *group, const la_column_sums *own, row_kind kind)
{
    const la_thin_pass f = *pass;
    const row_group g = *group;
    const la_column_sums sums = *own;
    int64_t n = kind.column ? f.columns - 1 : f.columns;
    for (stretch s = next_stretch(0, n, g.next); s.from < n; s = next_stretch(s.to, n, g.next)) {
        vec sum[GROUP] = {{0}};
        int64_t j = s.from;
        bool y_is_near = kind.column && s.ahead == AHEAD;
        for (; j + LANES <= s.to; j += LANES) {
            if (kind.rows > 1) fetch(g.x, f.columns, kind.rows, j, s.ahead);
            if (kind.rows > 1 && !y_is_near) fetch(g.y, f.columns, kind.rows, j, s.ahead);
            capture_lanes(j, true, LANES, &f, &g, &sums, kind, sum);
        }
        if (j < s.to) capture_lanes(j, false, s.to - j, &f, &g, &sums, kind, sum);
        for (int k = 0; k < kind.rows; k++) group->sum[k] += (double)vec_sum(sum[k]);
    }
}

/* Rows top .. top + rows - 1: their factors, and what their last entries are. */
ALWAYS_INLINE void set_group(const la_thin_pass *s, int64_t top, int64_t to, row_kind kind, row_group *g,
                             double *diagonal)
{
    int64_t n = s->columns, last = n - 1;
    g->x = s->x + top * n;
    g->y = s->y + top * n;
    g->next = top + 2 * kind.rows <= to ? kind.rows * n : 0;
    for (int k = 0; k < kind.rows; k++) {
        real q = s->row[top + k], inverse = 1 / q;
        g->x_row[k] = s->swapped ? inverse : q;
        g->y_row[k] = s->swapped ? q : inverse;
        g->sum[k] = 0;
    }
    if (!kind.column) return;

    double dot[GROUP];
    if (kind.damped && s->y_damping != 0) {
        dots(s, g, kind, dot);
    } else {
        dots(s, g, (row_kind){.rows = kind.rows}, dot);
    }
    real sign = kind.plus ? 1 : -1;
    for (int k = 0; k < kind.rows; k++) {
        real x_last = g->x[k * n + last], y_last = g->y[k * n + last];
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

/* sums += few, few = 0. */
static void gather(int64_t n, real *restrict few, double *restrict sums)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        sums[j] += (double)few[j];
        few[j] = 0;
    }
}

ALWAYS_INLINE void capture_rows(const la_thin_pass *pass, int64_t top, int64_t to, double *row_sums,
                                const la_column_sums *sums, row_kind kind)
{
    row_group group;
    set_group(pass, top, to, kind, &group, sums->diagonal);
    capture_group(pass, &group, sums, kind);
    for (int k = 0; k < kind.rows; k++) row_sums[top + k] = group.sum[k];
}

ALWAYS_INLINE void capture_part(const la_thin_pass *pass, int64_t from, int64_t to, double *row_sums,
                                const la_column_sums *sums, row_kind kind)
{
    int64_t n = pass->columns, inner = kind.column ? n - 1 : n, top = from;
    row_kind four = kind, one = kind;
    four.rows = GROUP;
    one.rows = 1;
    for (int64_t stop = from; top < to;) {
        stop = to - stop < FEW_ROWS ? to : stop + FEW_ROWS;
        for (; n > SHORT_ROW && top + GROUP <= stop; top += GROUP) capture_rows(pass, top, to, row_sums, sums, four);
        for (; top < stop; top++) capture_rows(pass, top, to, row_sums, sums, one);
        gather(inner, sums->few_diagonal, sums->diagonal);
        if (kind.column) gather(inner, sums->few_side, sums->side);
    }
}

void KERNEL(thin_capture)(const la_thin_pass *pass, int64_t from, int64_t to, double *row_sums,
                          const la_column_sums *sums)
{
    bool damped = pass->x_damping != 0 || pass->y_damping != 0;
    if (pass->plus && pass->c) {
        capture_part(pass, from, to, row_sums, sums, (row_kind){.plus = true, .damped = true, .column = true});
    } else if (pass->plus) {
        capture_part(pass, from, to, row_sums, sums, (row_kind){.plus = true, .damped = true});
    } else if (damped && pass->c) {
        capture_part(pass, from, to, row_sums, sums, (row_kind){.damped = true, .column = true});
    } else if (damped) {
        capture_part(pass, from, to, row_sums, sums, (row_kind){.damped = true});
    } else if (pass->c) {
        capture_part(pass, from, to, row_sums, sums, (row_kind){.column = true});
    } else {
        capture_part(pass, from, to, row_sums, sums, (row_kind){0});
    }
}
