/* Option probe: v of covariance P is Q'x, with the x that option probe normal gives, and fits P = |H|^-1 too. */
#include "support.h"

enum { ROWS = 4, COLUMNS = 3, N = ROWS * COLUMNS, MAX_FACTORS = 2 };

static psgd_optimizer *create(const char *spec, const char *probe, const char *seed)
{
    static const int64_t shape[2] = {ROWS, COLUMNS};
    psgd_tensor tensors[2] = {{.spec = spec, .ndim = 2, .shape = shape}, {.spec = "diag", .ndim = 2, .shape = shape}};
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "probe", probe));
    assert_ok(psgd_options_set(options, "seed", seed));
    assert_ok(psgd_options_set(options, "update-anneal", "0"));
    assert_ok(psgd_optimizer_create(NULL, "psgd-newton", 2, tensors, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

/* h = Hv with a diagonal H that has both signs and a condition of 10^4. */
static void product(const double *v, double *h)
{
    for (int i = 0; i < N; i++) h[i] = (i % 3 ? 1 : -1) * pow(10, -2 + 4.0 * i / (N - 1)) * v[i];
}

static void step(psgd_optimizer *optimizer)
{
    double x[2][N] = {{1}, {1}}, g[2][N], v[2][N], h[2][N];
    for (int i = 0; i < 2; i++) {
        assert_ok(psgd_optimizer_draw(optimizer, i, v[i]));
        product(v[i], h[i]);
        for (int k = 0; k < N; k++) g[i][k] = 0.01 * (k + 1);
    }
    assert_ok(psgd_optimizer_step(optimizer, (void *[]){x[0], x[1]}, (const void *[]){g[0], g[1]},
                                  (const void *[]){v[0], v[1]}, (const void *[]){h[0], h[1]}));
}

/* Q'x by the dense factors of a kron, or by one dense Q. */
static void times_q_transposed(const psgd_precond *precond, const double *x, double *y)
{
    double Q[MAX_FACTORS][N * N];
    int count = psgd_precond_factor_count(precond);
    assert_in_range(count, 1, MAX_FACTORS);
    for (int k = 0; k < count; k++) assert_ok(psgd_precond_factor(precond, k, Q[k]));
    memset(y, 0, N * sizeof *y);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double q = count == 1 ? Q[0][j * N + i]
                                  : Q[0][j / COLUMNS * ROWS + i / COLUMNS] * Q[1][j % COLUMNS * COLUMNS + i % COLUMNS];
            y[i] += q * x[j];
        }
    }
}

static void v_of_covariance_p_is_a_multiple_of_normal_numbers(void **state)
{
    (void)state;
    static const char *const specs[] = {"kron(tri,tri)", "dense", "tri", "kron(diag,norm)", "diag", "lra(2)"};
    for (int s = 0; s < 6; s++) {
        psgd_optimizer *with = create(specs[s], "preconditioned", "5"), *normal = create(specs[s], "normal", "5");
        for (int t = 0; t < 12; t++) {
            double v[N], x[N], expected[N];
            assert_ok(psgd_optimizer_draw(with, 0, v));
            assert_ok(psgd_optimizer_draw(normal, 0, x));
            times_q_transposed(psgd_optimizer_precond(with, 0), x, expected);
            for (int i = 0; i < N; i++) assert_true(fabs(v[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i])));
            step(with);
            step(normal);
        }
        psgd_optimizer_free(with);
        psgd_optimizer_free(normal);
    }
}

/* All tensors alike, and both kinds about as often. */
static void mixed_is_either_of_them(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    psgd_optimizer *mixed = create("tri", "mixed", "7"), *normal = create("tri", "normal", "7");
    int count = 0;
    for (int t = 0; t < STEPS; t++) {
        bool plain[2];
        for (int i = 0; i < 2; i++) {
            double v[N], x[N];
            assert_ok(psgd_optimizer_draw(mixed, i, v));
            assert_ok(psgd_optimizer_draw(normal, i, x));
            plain[i] = !memcmp(v, x, sizeof v);
        }
        if (t > 0) assert_int_equal(plain[0], plain[1]); /* at first Q is I */
        count += plain[0];
        step(mixed);
        step(normal);
    }
    assert_in_range(count, STEPS / 2 - 50, STEPS / 2 + 50); /* five standard deviations */
    psgd_optimizer_free(mixed);
    psgd_optimizer_free(normal);
}

static void each_fits_the_inverse_of_the_absolute_hessian(void **state)
{
    (void)state;
    static const char *const probes[] = {"normal", "preconditioned", "mixed"};
    for (int k = 0; k < 3; k++) {
        psgd_optimizer *optimizer = create("diag", probes[k], "3");
        for (int t = 0; t < 600; t++) step(optimizer);
        double ones[N], H[N], P[N];
        for (int i = 0; i < N; i++) ones[i] = 1;
        product(ones, H);
        assert_ok(psgd_precond_apply(psgd_optimizer_precond(optimizer, 0), PSGD_APPLY_P, ones, P));
        for (int i = 0; i < N; i++) assert_true(fabs(P[i] * fabs(H[i]) - 1) <= 0.25); /* a step of 0.1 moves P by 0.2 */
        psgd_optimizer_free(optimizer);
    }
}

/* Rows of v are those of the whole v. */
static void rows_are_those_of_the_whole(void **state)
{
    (void)state;
    static const int64_t shape[2] = {ROWS, COLUMNS}, index[2] = {1, 3};
    psgd_tensor tensor = {.spec = "scan", .ndim = 2, .shape = shape, .rows = ROWS};
    psgd_rows rows = {.count = 2, .index = index};
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "probe", "preconditioned"));
    assert_ok(psgd_optimizer_create(NULL, "psgd-newton", 1, &tensor, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    for (int t = 0; t < 8; t++) {
        double whole[N], some[2 * COLUMNS], x[N] = {0}, g[N], h[N];
        assert_ok(psgd_optimizer_draw(optimizer, 0, whole));
        assert_ok(psgd_optimizer_draw_rows(optimizer, 0, &rows, some));
        for (int i = 0; i < 2 * COLUMNS; i++) {
            assert_true(fabs(some[i] - whole[index[i / COLUMNS] * COLUMNS + i % COLUMNS]) <= 1e-12);
        }
        product(whole, h);
        for (int i = 0; i < N; i++) g[i] = 1;
        assert_ok(psgd_optimizer_step(optimizer, (void *[]){x}, (const void *[]){g}, (const void *[]){whole},
                                      (const void *[]){h}));
    }
    psgd_optimizer_free(optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v_of_covariance_p_is_a_multiple_of_normal_numbers),
        cmocka_unit_test(mixed_is_either_of_them),
        cmocka_unit_test(each_fits_the_inverse_of_the_absolute_hessian),
        cmocka_unit_test(rows_are_those_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
