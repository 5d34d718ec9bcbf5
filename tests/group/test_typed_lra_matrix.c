/* lra(r) keeps M = I + V'U next to U and V. Between two refreshes M follows by products, while the panels are rounded
 * to their dtype; a refresh brings M back to what the panels say. */
#include "support.h"

#include "group/family/lra.h"
#include "precond/precond.h"

#include <float.h>

enum { N = 9, R = 3, REFRESH_EVERY = 16 };

/* max |M - (I + V'U)| of what is kept, relative to the terms of the sum. */
static double drift(const psgd_precond *precond)
{
    const lra *l = precond->root;
    double *M, *inverse, worst = 0;
    psgd__lra_matrix(l, &M, &inverse);
    for (int i = 0; i < R; i++) {
        for (int j = 0; j < R; j++) {
            double sum = i == j, terms = 1;
            for (int k = 0; k < N; k++) {
                double term = (double)l->v[i * N + k] * (double)l->u[j * N + k];
                sum += term;
                terms += fabs(term);
            }
            worst = fmax(worst, fabs(M[i * R + j] - sum) / terms);
        }
    }
    return worst;
}

static void refreshed_matrix_is_that_of_the_panels(void **state)
{
    (void)state;
    const int64_t shape = N;
    uint64_t seed = 5;
    psgd_precond *precond;
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set_number(options, "step", 0.1));
    assert_ok(psgd_precond_create(NULL, "lra(3)", 1, &shape, REAL_DTYPE, options, &precond));
    psgd_options_free(options);
    double between = 0;
    for (int t = 1; t <= 40 * REFRESH_EVERY; t++) {
        real v[N], h[N];
        for (int i = 0; i < N; i++) {
            v[i] = (real)random_normal(&seed);
            h[i] = (real)(random_normal(&seed) + (1 + i % 3) * (double)v[i]);
        }
        assert_ok(psgd_precond_update(precond, v, h));
        if (t % REFRESH_EVERY == REFRESH_EVERY - 1) between = fmax(between, drift(precond));
        if (t % REFRESH_EVERY) continue;
        /* A sum of N + 1 terms in double, stored as two values of the dtype: 48 bits at least. */
        if (!(drift(precond) < 0x1p-46)) fail_msg("M is off by %g after update %d", drift(precond), t);
    }
    /* By then roundings of the panels have moved M in their last digits, and in no others. */
    assert_true(between > 0 && between < 256 * (double)REAL_EPSILON);
    psgd_precond_free(precond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refreshed_matrix_is_that_of_the_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
