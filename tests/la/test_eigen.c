/* Eigenvalues of tridiagonal matrices: known ones, and M v = lambda v. */
#include "support.h"

#include "la/eigen.h"

enum { N = 40 };

static void eigenvalues_of_a_second_difference(void **state)
{
    (void)state;
    double values[N], off[N], V[N * N], work[N];
    for (int i = 0; i < N; i++) {
        values[i] = 2;
        off[i] = -1;
    }
    assert_true(psgd__la_tridiagonal(N, values, off, V, work));
    for (int i = 0; i < N; i++) {
        assert_true(fabs(values[i] - 2 + 2 * cos((i + 1) * acos(-1) / (N + 1))) < 1e-13);
    }
}

static void eigenvectors_of_a_tridiagonal_matrix(void **state)
{
    (void)state;
    uint64_t seed = 6;
    for (int n = 1; n <= N; n += 13) {
        double d[N], e[N], values[N], V[N * N], work[N];
        for (int i = 0; i < n; i++) {
            values[i] = d[i] = random_normal(&seed);
            e[i] = i % 5 == 4 ? 0 : random_normal(&seed);
        }
        assert_true(psgd__la_tridiagonal(n, values, e, V, work));
        for (int k = 0; k < n; k++) {
            double length = 0;
            for (int i = 0; i < n; i++) {
                double y = d[i] * V[k * n + i];
                if (i > 0) y += e[i - 1] * V[k * n + i - 1];
                if (i + 1 < n) y += e[i] * V[k * n + i + 1];
                assert_true(fabs(y - values[k] * V[k * n + i]) < 1e-13 * n);
                length += V[k * n + i] * V[k * n + i];
            }
            assert_true(fabs(length - 1) < 1e-13);
        }
    }
}

static void what_is_not_finite_does_not_converge(void **state)
{
    (void)state;
    double values[2] = {1, 2}, off[1] = {NAN}, V[4], work[2];
    assert_false(psgd__la_tridiagonal(2, values, off, V, work));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_of_a_second_difference),
        cmocka_unit_test(eigenvectors_of_a_tridiagonal_matrix),
        cmocka_unit_test(what_is_not_finite_does_not_converge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
