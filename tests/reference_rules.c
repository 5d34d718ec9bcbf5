/* Update rules in plain dense float64: Q itself is given, as rules other than the paper's do not multiply it from the
 * left alone. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *matrix(int64_t rows, int64_t columns)
{
    return calloc((size_t)(rows * columns + 1), sizeof(double));
}

static double *product(int64_t m, int64_t k, int64_t n, const double *A, const double *B)
{
    double *C = matrix(m, n);
    ref_multiply(m, k, n, A, B, C);
    return C;
}

static double *transposed(int64_t n, const double *A)
{
    double *T = matrix(n, n);
    ref_transpose(n, n, A, T);
    return T;
}

static void subtract(int64_t n, double c, const double *X, double *Y)
{
    for (int64_t i = 0; i < n * n; i++) Y[i] -= c * X[i];
}

static double trace(int64_t n, const double *A)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += A[i * n + i];
    return sum;
}

static double largest(int64_t n, const double *A)
{
    double max = 0;
    for (int64_t i = 0; i < n * n; i++) max = fmax(max, fabs(A[i]));
    return max;
}

/* S = (Q' - Q)/||Q' - Q||, x = tr SQ, y = tr SSQ; t = min(-x/y, 1/8) if y < 0, else 1/8; Q <- Q + t(SQ + t/2 SSQ) */
static void rotate(const ref_node *node, int unit, const ref_options *o, double *Q)
{
    int64_t n = node->n;
    double *S = transposed(n, Q);
    subtract(n, 1, Q, S);
    if (largest(n, S) > 1e-15 * largest(n, Q)) {
        bool estimated = node->kind == REF_DENSE && o->estimate;
        double norm = estimated ? o->estimate(o->data, node, unit, true, S) : ref_spectral_norm(n, S);
        for (int64_t i = 0; i < n * n; i++) S[i] /= norm;
        double *SQ = product(n, n, n, S, Q), *SSQ = product(n, n, n, S, SQ);
        double x = trace(n, SQ), y = trace(n, SSQ), t = y < 0 ? fmin(-x / y, 0.125) : 0.125;
        subtract(n, -t, SQ, Q);
        subtract(n, -t * t / 2, SSQ, Q);
        free(SQ);
        free(SSQ);
    }
    free(S);
}

/* Q <- (I - cR)Q or Q(I - cR) */
static void retract(int64_t n, const double *cR, double by, bool right, double *Q)
{
    double *M = right ? product(n, n, n, Q, cR) : product(n, n, n, cR, Q);
    subtract(n, by, M, Q);
    free(M);
}

static void move_unit(ref_node *node, const double *Q, const double *A, int64_t ka, const double *B, int64_t kb,
                      ref_options *o, double *after)
{
    int64_t n = node->n;
    int unit = o->unit;
    bool own = o->rule == REF_QEP;
    double *cR = matrix(n, n), *QA = own ? product(n, n, ka, Q, A) : NULL, *QB = own ? product(n, n, kb, Q, B) : NULL;
    ref_unit_step(node, own ? QA : A, ka, own ? QB : B, kb, o, cR);
    memcpy(after, Q, (size_t)(n * n) * sizeof(double));
    if (o->rule == REF_QUAD) {
        retract(n, cR, 0.5, false, after);
        retract(n, cR, 0.5, true, after);
        double *T = transposed(n, after);
        for (int64_t i = 0; i < n * n; i++) after[i] = (after[i] + T[i]) / 2;
        free(T);
    } else {
        retract(n, cR, 1, o->rule == REF_QEQ, after);
    }
    if (o->rule == REF_PRO) rotate(node, unit, o, after);
    free(cR);
    free(QA);
    free(QB);
}

static void move_tiles(ref_node *node, const double *Q, const double *A, int64_t ka, const double *B, int64_t kb,
                       ref_options *o, double *after)
{
    int64_t n = node->n, at = 0;
    double *a = ref_tile_rows(node, A, ka), *b = ref_tile_rows(node, B, kb), *all = matrix(n, n);
    double *q = ref_tile_matrix(node, Q, false);
    for (int p = 0; p < node->child_count; p++) {
        int64_t m = node->child[p]->n;
        double *part = matrix(m, m), *moved = matrix(m, m);
        for (int64_t i = 0; i < m; i++) memcpy(part + i * m, q + (at + i) * n + at, (size_t)m * sizeof(double));
        o->unit = 0;
        ref_move(node->child[p], part, a + at * ka, ka, b + at * kb, kb, o, moved);
        for (int64_t i = 0; i < m; i++) memcpy(all + (at + i) * n + at, moved + i * m, (size_t)m * sizeof(double));
        free(part);
        free(moved);
        at += m;
    }
    double *back = ref_tile_matrix(node, all, true);
    memcpy(after, back, (size_t)(n * n) * sizeof(double));
    free(a);
    free(b);
    free(all);
    free(q);
    free(back);
}

static void move_sum(ref_node *node, const double *Q, const double *A, int64_t ka, const double *B, int64_t kb,
                     ref_options *o, double *after)
{
    int64_t n = node->n, at = 0;
    memset(after, 0, (size_t)(n * n) * sizeof(double));
    for (int p = 0; p < node->child_count; p++) {
        int64_t m = node->child[p]->n;
        double *part = matrix(m, m), *moved = matrix(m, m);
        for (int64_t i = 0; i < m; i++) memcpy(part + i * m, Q + (at + i) * n + at, (size_t)m * sizeof(double));
        ref_move(node->child[p], part, A + at * ka, ka, B + at * kb, kb, o, moved);
        for (int64_t i = 0; i < m; i++) memcpy(after + (at + i) * n + at, moved + i * m, (size_t)m * sizeof(double));
        free(part);
        free(moved);
        at += m;
    }
}

/* Factor f of Q, read off at its largest entry and divided by that entry. */
static double *factor_of(const ref_node *kron, int f, const double *Q)
{
    int64_t n = kron->n, m = kron->child[f]->n, after = 1, at = 0;
    for (int j = f + 1; j < kron->child_count; j++) after *= kron->child[j]->n;
    for (int64_t i = 1; i < n * n; i++) at = fabs(Q[i]) > fabs(Q[at]) ? i : at;
    int64_t row = at / n, column = at % n;
    int64_t row_rest = row - row / after % m * after, column_rest = column - column / after % m * after;
    double *F = matrix(m, m);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) F[i * m + j] = Q[(row_rest + i * after) * n + column_rest + j * after] / Q[at];
    }
    return F;
}

/* The factors have largest entry 1 here; by how much Q is larger is shared evenly, as balancing leaves them, by those
 * that can be scaled. */
static void move_kron(ref_node *node, const double *Q, const double *A, int64_t ka, const double *B, int64_t kb,
                      ref_options *o, double *after)
{
    int64_t n = node->n, done = 1;
    int free_factors = 0;
    double *all = matrix(n, n), *next = matrix(n, n), max = largest(n, Q);
    for (int f = 0; f < node->child_count; f++) free_factors += node->child[f]->kind != REF_IDENTITY;
    all[0] = 1;
    for (int f = 0; f < node->child_count; f++) {
        int64_t m = node->child[f]->n, each = n / m;
        double *own = factor_of(node, f, Q), *moved = matrix(m, m);
        double scale = node->child[f]->kind == REF_IDENTITY ? 1 : pow(max, 1.0 / free_factors);
        for (int64_t i = 0; i < m * m; i++) own[i] *= scale;
        double *a = ref_fibres(node, f, A, ka), *b = ref_fibres(node, f, B, kb);
        ref_move(node->child[f], own, a, ka * each, b, kb * each, o, moved);
        ref_kronecker(done, all, m, moved, next);
        done *= m;
        memcpy(all, next, (size_t)(done * done) * sizeof(double));
        free(own);
        free(moved);
        free(a);
        free(b);
    }
    double sign = 1;
    for (int64_t i = 0; i < n * n; i++) sign = Q[i] == -max ? -1 : sign;
    for (int64_t i = 0; i < n * n; i++) after[i] = sign * all[i];
    free(all);
    free(next);
}

void ref_move(ref_node *node, const double *Q, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
              double *after)
{
    if (node->kind == REF_SUM) {
        move_sum(node, Q, A, ka, B, kb, o, after);
    } else if (node->kind == REF_KRON) {
        move_kron(node, Q, A, ka, B, kb, o, after);
    } else if (node->kind == REF_TILES) {
        move_tiles(node, Q, A, ka, B, kb, o, after);
    } else {
        move_unit(node, Q, A, ka, B, kb, o, after);
    }
}
