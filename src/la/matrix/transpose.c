/* A square matrix and its transpose, tile by tile. Memory is read and written along rows only: the columns of a matrix
 * whose rows are a power of two apart share one set of the first-level cache. */
#include "la/array/dispatch.h"
#include "la/matrix/blas.h"
#include "la/pool.h"

enum { TILE = 32 };

typedef enum turn_op { TURN_MIRROR, TURN_SYMMETRISE, TURN_SKEW } turn_op;

typedef struct turn_job {
    turn_op op;
    int64_t n;
    const real *from;
    real *to;
} turn_job;

/* The tile whose first entry is (top, left), top <= left, and its mirror image: the image first, then the tile as what
 * that becomes. op is a constant wherever this is called. */
static inline __attribute__((always_inline)) void turn_tile(turn_op op, const turn_job *job, int64_t top, int64_t left)
{
    int64_t n = job->n, rows = smaller(TILE, n - top), columns = smaller(TILE, n - left);
    real image[TILE * TILE];
    la_kernel()->gather(columns, rows, job->from + top * n + left, n, 1, image);
    for (int64_t j = 0; j < columns; j++) {
        const real *above = image + j * rows, *below = job->from + (left + j) * n + top;
        real *to = job->to + (left + j) * n + top;
        int64_t count = op == TURN_MIRROR && left == top ? j + 1 : rows;
        for (int64_t i = 0; i < count; i++) {
            to[i] = op == TURN_MIRROR ? above[i] : op == TURN_SKEW ? above[i] - below[i] : (above[i] + below[i]) / 2;
        }
    }
    if (op == TURN_MIRROR || left == top) return;
    la_kernel()->gather(rows, columns, job->to + left * n + top, n, 1, image);
    for (int64_t i = 0; i < rows; i++) {
        real *to = job->to + (top + i) * n + left;
        for (int64_t j = 0; j < columns; j++)
            to[j] = op == TURN_SKEW ? -image[i * columns + j] : image[i * columns + j];
    }
}

/* A stretch of TILE rows, from the diagonal on. */
static void turn_rows(void *data, int64_t part)
{
    const turn_job *job = data;
    for (int64_t left = part * TILE; left < job->n; left += TILE) {
        switch (job->op) {
        case TURN_MIRROR:
            turn_tile(TURN_MIRROR, job, part * TILE, left);
            break;
        case TURN_SYMMETRISE:
            turn_tile(TURN_SYMMETRISE, job, part * TILE, left);
            break;
        case TURN_SKEW:
            turn_tile(TURN_SKEW, job, part * TILE, left);
            break;
        }
    }
}

static void turn(turn_op op, int64_t n, const real *from, real *to)
{
    turn_job job = {.op = op, .n = n, .from = from, .to = to};
    la_parallel((n + TILE - 1) / TILE, 2 * (double)n * (double)n, turn_rows, &job);
}

void la_mirror(int64_t n, real *M)
{
    turn(TURN_MIRROR, n, M, M);
}

void la_symmetrise(int64_t n, real *M)
{
    turn(TURN_SYMMETRISE, n, M, M);
}

void la_skew(int64_t n, const real *M, real *S)
{
    turn(TURN_SKEW, n, M, S);
}
