/* A square matrix and its transpose, tile by tile so that both stay in the first-level cache. */
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

/* Entries (i, j) and (j, i), i <= j. */
static void turn_entry(const turn_job *job, int64_t i, int64_t j)
{
    int64_t at = i * job->n + j, other = j * job->n + i;
    if (job->op == TURN_MIRROR) {
        job->to[other] = job->to[at];
    } else if (job->op == TURN_SYMMETRISE) {
        job->to[at] = job->to[other] = (job->to[at] + job->to[other]) / 2;
    } else {
        real s = job->from[other] - job->from[at];
        job->to[at] = s;
        job->to[other] = -s;
    }
}

/* A stretch of TILE rows, from the diagonal on. */
static void turn_rows(void *data, int64_t part)
{
    const turn_job *job = data;
    int64_t top = part * TILE, bottom = smaller(top + TILE, job->n);
    for (int64_t left = top; left < job->n; left += TILE) {
        int64_t right = smaller(left + TILE, job->n);
        for (int64_t i = top; i < bottom; i++) {
            for (int64_t j = larger(left, i); j < right; j++) turn_entry(job, i, j);
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
