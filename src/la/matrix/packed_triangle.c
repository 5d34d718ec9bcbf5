/* Threads share the columns of a triangle. Columns are cut at the same places whatever the number of threads. */
#include "la/matrix/blas.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <string.h>

enum {
    BLOCK = 128,     /* rows that are solved before the columns to their right are touched */
    MAX_PARTS = 32,  /* column parts; each has its own partial sums */
    PART = 1024,     /* columns in a part, unless that would make too many */
    PARALLEL = 8000, /* rows below which one thread is faster: cores may be far apart, and rows travel between them */
    STRIP = 512      /* columns that one retraction takes at a time: its sums stay in the first-level cache */
};

/* Rows from .. to - 1 within their own columns: y_i becomes final, dot[i - from] is what the row has there of Qx. */
static void form_corner(const la_kernels *k, int64_t n, const real *Q, int64_t from, int64_t to, const real *x, real *y,
                        double *dot)
{
    for (int64_t i = from; i < to; i++) {
        const real *row = Q + la_packed_start(n, i);
        y[i] /= row[0];
        dot[i - from] = (double)row[0] * (double)x[i];
        k->row_form(to - i - 1, y[i], row + 1, x + i + 1, y + i + 1, &dot[i - from]);
    }
}

/* The same rows within columns left .. right - 1, which are to the right of the corner. */
static void form_panel(const la_kernels *k, int64_t n, const real *Q, int64_t from, int64_t to, int64_t left,
                       int64_t right, const real *x, real *y, double *dot)
{
    int64_t i = from, width = right - left;
    memset(dot, 0, (size_t)(to - from) * sizeof *dot);
    for (; i + 4 <= to; i += 4) {
        const real *rows[4];
        for (int r = 0; r < 4; r++) rows[r] = Q + la_packed_start(n, i + r) + left - i - r;
        k->rows_form(width, y + i, rows, x + left, y + left, dot + i - from);
    }
    for (; i < to; i++) {
        k->row_form(width, y[i], Q + la_packed_start(n, i) + left - i, x + left, y + left, &dot[i - from]);
    }
}

typedef struct form_sums {
    double corner[BLOCK], part[MAX_PARTS][BLOCK];
    int64_t width, parts; /* of the column parts */
} form_sums;

/* x_i <- Q_i x for the rows from .. to - 1, once all their columns have been gone through. */
static void form_finish(const form_sums *sums, int64_t from, int64_t to, real *x)
{
    for (int64_t i = from; i < to; i++) {
        double sum = sums->corner[i - from];
        for (int64_t p = to / sums->width; p < sums->parts; p++) sum += sums->part[p][i - from];
        x[i] = (real)sum;
    }
}

typedef struct panels {
    const la_kernels *k;
    int64_t n;
    const real *Q;
    int64_t from, to; /* rows */
    const real *x;
    real *y;
    form_sums *sums;
} panels;

static void run_panel(void *data, int64_t i)
{
    const panels *j = data;
    int64_t width = j->sums->width, p = j->to / width + i;
    int64_t left = larger(j->to, p * width), right = larger(left, smaller(j->n, (p + 1) * width));
    form_panel(j->k, j->n, j->Q, j->from, j->to, left, right, j->x, j->y, j->sums->part[p]);
}

/* Downward: a_i = Q_i x; y_i <- y_i / Q_ii and then y <- y - y_i Q_i. */
void la_packed_form(int64_t n, const real *Q, real *x, real *y)
{
    const la_kernels *k = la_kernel();
    form_sums sums; /* too large to be cleared for a small triangle */
    sums.width = larger(PART, (n + MAX_PARTS - 1) / MAX_PARTS);
    sums.parts = (n + sums.width - 1) / sums.width;
    if (n <= BLOCK) {
        form_corner(k, n, Q, 0, n, x, y, sums.corner);
        for (int64_t i = 0; i < n; i++) x[i] = (real)sums.corner[i];
        return;
    }
    panels job = {k, n, Q, 0, 0, x, y, &sums};
    for (; job.from < n; job.from += BLOCK) {
        job.to = smaller(n, job.from + BLOCK);
        if (job.from) form_finish(&sums, job.from - BLOCK, job.from, x);
        form_corner(k, n, Q, job.from, job.to, x, y, sums.corner);
        la_parallel(sums.parts - job.to / sums.width, n >= PARALLEL ? 1e9 : 0, run_panel, &job);
    }
    int64_t last = (n - 1) / BLOCK * BLOCK;
    form_finish(&sums, last, n, x);
}

/* Row i of triu(xx')Q is x_i sum_{j >= i} x_j Q_j: upward, with the sums of old rows kept as they grow. */
static void retract_strip(const la_kernels *k, int64_t n, real c, const real *a, const real *b, int64_t left,
                          int64_t right, real *s, real *t, real *Q)
{
    int64_t i = right - 1;
    for (; i >= left; i--) {
        k->row_retract(right - i, c, a[i], b[i], Q + la_packed_start(n, i), s + i - left, t + i - left);
    }
    for (; i >= 3; i -= 4) {
        real *rows[4];
        for (int r = 0; r < 4; r++) rows[r] = Q + la_packed_start(n, i - 3 + r) + left - (i - 3 + r);
        k->rows_retract(right - left, c, a + i - 3, b + i - 3, rows, s, t);
    }
    for (; i >= 0; i--) {
        k->row_retract(right - left, c, a[i], b[i], Q + la_packed_start(n, i) + left - i, s, t);
    }
}

typedef struct retraction {
    const la_kernels *k;
    int64_t n, strips;
    real c;
    const real *a, *b;
    real *sums, *Q;
} retraction;

/* The longest strips first. */
static void run_strip(void *data, int64_t i)
{
    const retraction *j = data;
    int64_t left = (j->strips - 1 - i) * STRIP, right = smaller(j->n, left + STRIP);
    retract_strip(j->k, j->n, j->c, j->a, j->b, left, right, j->sums + left, j->sums + j->n + left, j->Q);
}

void la_packed_retract(int64_t n, real c, const real *a, const real *b, real *sums, real *Q)
{
    retraction job = {la_kernel(), n, (n + STRIP - 1) / STRIP, c, a, b, sums, Q};
    memset(sums, 0, (size_t)(2 * n) * sizeof(real));
    la_parallel(job.strips, n >= PARALLEL ? 1e9 : 0, run_strip, &job);
}
