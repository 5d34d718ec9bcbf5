/* P of psgd_minimize, compared with BFGS in product form written out as dense matrices. */
#include "support.h"
#include "optim/secant.h"

enum { N = 30, ROOM = 20 };

static double dot(int n, const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* P <- (I - v h'/c)P(I - h v'/c) + v v'/c with c = v'h, h negated where c < 0. */
static void reference_add(int n, double P[N][N], const double *v, const double *h)
{
    double A[N][N], B[N][N], c = dot(n, v, h), sign = c < 0 ? -1 : 1;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) A[i][j] = (i == j ? 1 : 0) - v[i] * h[j] / c;
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            B[i][j] = 0;
            for (int k = 0; k < n; k++) B[i][j] += A[i][k] * P[k][j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            P[i][j] = v[i] * v[j] / (sign * c);
            for (int k = 0; k < n; k++) P[i][j] += B[i][k] * A[j][k];
        }
    }
}

static void reference_base(int n, double P[N][N], double gamma)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) P[i][j] = i == j ? gamma : 0;
    }
}

static void assert_is(int n, secant *s, double P[N][N], uint64_t *random)
{
    double x[N] = {0}, y[N];
    for (int i = 0; i < n; i++) x[i] = random_normal(random);
    psgd__secant_apply(s, x, y);
    for (int i = 0; i < n; i++) {
        double size = 0;
        for (int j = 0; j < n; j++) size += fabs(P[i][j] * x[j]);
        assert_float_equal(y[i], dot(n, P[i], x), 1e-9 * (1 + size));
    }
}

static secant *create(int n, int room, int fresh)
{
    secant *s = calloc(1, sizeof *s);
    double *memory = calloc((size_t)(psgd__secant_vectors(n, room, fresh) * n), sizeof(double));
    psgd__secant_place(s, n, room, fresh, memory);
    return s;
}

static void destroy(secant *s)
{
    free(s->sum_v - 2 * s->n * (s->room + s->fresh_room)); /* pairs come first in its memory, then the sums */
    free(s);
}

/* A symmetric H with eigenvalues of both signs, or positive. */
static void draw_matrix(int n, double H[N][N], double shift, uint64_t *random)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) H[i][j] = H[j][i] = random_normal(random) + (i == j ? shift : 0);
    }
}

static void draw_pair(int n, double H[N][N], double *v, double *h, uint64_t *random)
{
    for (int i = 0; i < n; i++) v[i] = random_normal(random);
    for (int i = 0; i < n; i++) h[i] = dot(n, H[i], v);
}

static void steps_are_bfgs_in_product_form(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int n = 1; n <= N; n += 7) {
        double H[N][N], P[N][N], v[60][N], h[60][N];
        secant *s = create(n, ROOM, 4);
        draw_matrix(n, H, 12, &random); /* positive */
        for (int k = 0; k < 60; k++) {
            double a[N], b[N];
            draw_pair(n, H, v[k], h[k], &random);
            memcpy(a, v[k], sizeof a);
            memcpy(b, h[k], sizeof b);
            if (k % 5 == 2) { /* the other sign of h */
                for (int i = 0; i < n; i++) b[i] = -b[i];
            }
            assert_ok(psgd__secant_step(s, a, b));
            int first = k < ROOM ? 0 : k - ROOM + 1;
            reference_base(n, P, dot(n, v[k], h[k]) / dot(n, h[k], h[k]));
            for (int i = first; i <= k; i++) reference_add(n, P, v[i], h[i]);
            assert_is(n, s, P, &random);
        }
        destroy(s);
    }
}

static void a_long_solve_makes_p_a_matrix(void **state)
{
    (void)state;
    uint64_t random = 2;
    double H[N][N], P[N][N], v[50][N], h[50][N], y[N];
    secant *s = create(N, ROOM, ROOM);
    draw_matrix(N, H, 12, &random);
    draw_pair(N, H, v[0], h[0], &random);
    memcpy(v[1], v[0], sizeof y);
    memcpy(h[1], h[0], sizeof y);
    assert_ok(psgd__secant_step(s, v[1], h[1]));
    reference_base(N, P, fabs(dot(N, v[0], h[0])) / dot(N, h[0], h[0]));
    reference_add(N, P, v[0], h[0]);
    for (int k = 1; k < 50; k++) {
        draw_pair(N, H, v[k], h[k], &random);
        for (int i = 0; k % 5 == 4 && i < N; i++) h[k][i] = -h[k][i];
        psgd__secant_learn(s, v[k], h[k]);
        assert_is(N, s, P, &random); /* P waits for the commit */
    }
    assert_ok(psgd__secant_commit(s));
    assert_true(s->dense);
    for (int k = 1; k < 50; k++) reference_add(N, P, v[k], h[k]);
    assert_is(N, s, P, &random);
    psgd__secant_apply(s, h[49], y); /* the secant equation of the last pair */
    double sign = dot(N, v[49], h[49]) < 0 ? -1 : 1;
    for (int i = 0; i < N; i++) assert_float_equal(y[i], sign * v[49][i], 1e-8);
    destroy(s);
}

/* Of 50 pairs at most four are kept: the first of each stretch of 16. */
static void pairs_of_a_solve_are_spread_evenly(void **state)
{
    (void)state;
    double v[2] = {1, 0}, h[2];
    secant *s = create(2, ROOM, 4);
    s->P = NULL;
    for (int k = 0; k < 50; k++) {
        h[0] = k + 1;
        h[1] = 0;
        psgd__secant_learn(s, v, h);
    }
    assert_int_equal(s->fresh_count, 4);
    for (int k = 0; k < 4; k++) assert_float_equal(s->fresh[k].h[0], 16 * k + 1, 0);
    destroy(s);
}

/* D = sqrt(sum v^2/|v'h| / sum h^2/|v'h|), the minimiser of the criterion over diagonals. */
static void the_diagonal_is_the_closed_form(void **state)
{
    (void)state;
    enum { SIZE = 30 };
    uint64_t random = 3;
    double sum_v[SIZE] = {0}, sum_h[SIZE] = {0}, H[N][N] = {{0}}, v[N], h[N];
    secant *s = create(SIZE, ROOM, 4);
    s->P = NULL;
    for (int i = 0; i < SIZE; i++) H[i][i] = pow(10, i % 5 - 2);
    for (int solve = 0; solve < 3; solve++) {
        for (int i = 0; i < SIZE; i++) sum_v[i] /= 2, sum_h[i] /= 2;
        for (int k = 0; k < 9; k++) {
            draw_pair(SIZE, H, v, h, &random);
            for (int i = 0; i < SIZE; i++) {
                sum_v[i] += v[i] * v[i] / dot(SIZE, v, h);
                sum_h[i] += h[i] * h[i] / dot(SIZE, v, h);
            }
            psgd__secant_learn(s, v, h);
        }
        assert_ok(psgd__secant_commit(s));
        for (int i = 0; i < SIZE; i++) {
            double D = sqrt(sum_v[i] / sum_h[i]);
            assert_float_equal(s->D[i], D, 0.01 * D); /* but for the floor of both sums */
            assert_float_equal(D, 1 / H[i][i], 1e-10 / H[i][i]);
        }
    }
    assert_true(s->score_D < 0.3 * s->score_plain && s->score_plain > 0.4); /* D explains the pairs, I does not */
    destroy(s);
}

/* Within the mask P is that of the pairs' free entries. */
static void a_mask_leaves_the_free_part(void **state)
{
    (void)state;
    enum { FREE = 17 };
    uint64_t random = 4;
    double H[N][N], P[N][N], v[N], h[N], mask[N], x[N], y[N];
    secant *s = create(N, ROOM, 4);
    draw_matrix(N, H, 14, &random);
    for (int i = 0; i < N; i++) mask[i] = i < FREE;
    double all_v[6][N], all_h[6][N];
    for (int k = 0; k < 6; k++) {
        draw_pair(N, H, v, h, &random);
        memcpy(all_v[k], v, sizeof v);
        memcpy(all_h[k], h, sizeof h);
        assert_ok(psgd__secant_step(s, v, h));
    }
    psgd__secant_mask(s, mask);
    reference_base(FREE, P, dot(FREE, all_v[5], all_h[5]) / dot(FREE, all_h[5], all_h[5]));
    for (int k = 0; k < 6; k++) {
        assert_true(dot(FREE, all_v[k], all_h[k]) > 0);
        reference_add(FREE, P, all_v[k], all_h[k]);
    }
    for (int i = 0; i < N; i++) x[i] = random_normal(&random);
    psgd__secant_apply(s, x, y);
    for (int i = 0; i < N; i++) assert_float_equal(y[i], i < FREE ? dot(FREE, P[i], x) : 0, 1e-9);
    destroy(s);
}

static void useless_pairs_are_left_out(void **state)
{
    (void)state;
    uint64_t random = 5;
    double P[N][N], pairs[][4] = {{0, 0, 1, 1}, {1, 1, 0, 0}, {1, 0, 0, 1}, {1, NAN, 1, 1}, {1, 1, INFINITY, 1}};
    secant *s = create(2, ROOM, 4);
    for (int k = 0; k < 5; k++) {
        assert_ok(psgd__secant_step(s, pairs[k], pairs[k] + 2));
        psgd__secant_learn(s, pairs[k], pairs[k] + 2);
    }
    assert_ok(psgd__secant_commit(s));
    reference_base(2, P, 1);
    assert_is(2, s, P, &random);
    destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_bfgs_in_product_form),     cmocka_unit_test(a_long_solve_makes_p_a_matrix),
        cmocka_unit_test(pairs_of_a_solve_are_spread_evenly), cmocka_unit_test(the_diagonal_is_the_closed_form),
        cmocka_unit_test(a_mask_leaves_the_free_part),        cmocka_unit_test(useless_pairs_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
