/* Several vectors at once, compared with plain loops in double; the same bits on one thread and on several. */
#include "support.h"
#include "core/dtype.h"
#include "la/array/vectors.h"

#include <float.h>

static void fill(int64_t n, real *x, uint64_t *random)
{
    for (int64_t i = 0; i < n; i++) x[i] = (real)random_normal(random);
}

static void they_match_plain_loops(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 4096, 4097, 100003};
    static const int counts[] = {1, 3, 20, LA_VECTORS_MAX};
    uint64_t random = 11;
    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++) {
        for (int b = 0; b < 4; b++) {
            int64_t n = sizes[a];
            int count = counts[b];
            real *memory = malloc((size_t)(n * (count + 2)) * sizeof(real)), *y = memory + n * count, *z = y + n;
            const real *x[LA_VECTORS_MAX];
            double dot[LA_VECTORS_MAX], again[LA_VECTORS_MAX], c[LA_VECTORS_MAX];
            fill(n * (count + 1), memory, &random);
            memcpy(z, y, (size_t)n * sizeof(real));
            for (int i = 0; i < count; i++) x[i] = memory + n * i, c[i] = random_normal(&random);

            psgd_set_threads(1);
            la_dots(count, n, x, y, dot);
            psgd_set_threads(2);
            la_dots(count, n, x, y, again);
            for (int i = 0; i < count; i++) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < n; k++) {
                    sum += (double)x[i][k] * (double)y[k];
                    size += fabs((double)x[i][k] * (double)y[k]);
                }
                assert_float_equal(dot[i], sum, 1e-13 * (size + 1));
                assert_memory_equal(&dot[i], &again[i], sizeof(double));
            }
            la_combine(count, n, c, x, y);
            for (int64_t k = 0; k < n; k++) {
                double sum = (double)z[k], size = fabs(sum);
                for (int i = 0; i < count; i++) sum += c[i] * (double)x[i][k], size += fabs(c[i] * (double)x[i][k]);
                /* c, products and sums are rounded: 1 + count / 2 epsilons to first order. */
                assert_float_equal((double)y[k], sum, (2 + count) * (double)REAL_EPSILON * size);
            }
            free(memory);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_match_plain_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
