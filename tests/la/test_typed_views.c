/* Fibres that lie further apart than an int can count, as those of a long sum do with several pairs an update: the
 * products are those of fibres side by side. The memory between them is never touched. */
#include "support.h"

#include "la/matrix/blas.h"

#include <float.h>
#include <sys/mman.h>

enum { N = 5, FIBRES = 2 };
static const int64_t APART = (int64_t)2147483647 + 64;

/* FIBRES vectors of N numbers, APART from each other; NULL where the machine has no room for the addresses. */
static real *far_fibres(void)
{
    void *memory = mmap(NULL, (size_t)(APART * FIBRES) * sizeof(real), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static view far_view(real *x)
{
    return (view){.x = x, .n = N, .inner = 1, .outer = FIBRES, .ld = APART, .blocks = 1};
}

static void fill(uint64_t *seed, real *near, real *far)
{
    for (int i = 0; i < N * FIBRES; i++) near[i] = far[i / N * APART + i % N] = (real)random_normal(seed);
}

static void assert_same(const real *near, const real *far)
{
    for (int i = 0; i < N * FIBRES; i++) {
        assert_true(fabs((double)(near[i] - far[i / N * APART + i % N])) <= 64 * (double)REAL_EPSILON);
    }
}

static void distance_makes_no_difference(void **state)
{
    (void)state;
    uint64_t seed = 3;
    real T[N * N], near[N * FIBRES], other[N * FIBRES], R[N * N], S[N * N];
    real *far = far_fibres(), *far_other = far_fibres();
    if (!far || !far_other) {
        if (far) munmap(far, (size_t)(APART * FIBRES) * sizeof(real));
        skip();
    }
    for (int i = 0; i < N * N; i++) T[i] = (real)((i / N == i % N) + 0.1 * random_normal(&seed));
    view X = view_rows(near, N, FIBRES), Y = view_rows(other, N, FIBRES);
    for (int k = 0; k < 4; k++) {
        bool lower = k & 1, transpose = k & 2;
        fill(&seed, near, far);
        fill(&seed, other, far_other);
        la_tri_mul(T, lower, transpose, X);
        la_tri_mul(T, lower, transpose, far_view(far));
        assert_same(near, far);
        la_tri_solve(T, lower, transpose, X);
        la_tri_solve(T, lower, transpose, far_view(far));
        assert_same(near, far);
        la_mat_add_mul(T, N, transpose, 2, X, -1, Y);
        la_mat_add_mul(T, N, transpose, 2, X, -1, far_view(far_other));
        assert_same(other, far_other);
        memset(R, 0, sizeof R);
        memset(S, 0, sizeof S);
        la_sym_outer(X, view_over(X, NULL), 1, lower, false, R);
        la_sym_outer(far_view(far), view_over(X, NULL), 1, lower, false, S);
        for (int i = 0; i < N * N; i++) assert_true(fabs((double)(R[i] - S[i])) <= 64 * (double)REAL_EPSILON);
        la_cross_outer(X, Y, 1, 0, R);
        la_cross_outer(far_view(far), far_view(far_other), 1, 0, S);
        for (int i = 0; i < N * N; i++) assert_true(fabs((double)(R[i] - S[i])) <= 256 * (double)REAL_EPSILON);
    }
    munmap(far, (size_t)(APART * FIBRES) * sizeof(real));
    munmap(far_other, (size_t)(APART * FIBRES) * sizeof(real));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(distance_makes_no_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
