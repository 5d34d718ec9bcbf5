/* States that were cut, or changed and given a right checksum, are refused with nothing changed, or are harmless. */
#include "support.h"

#include "core/checksum.h"

#include <unistd.h>

enum { TENSORS = 3 };
static const int64_t shapes[TENSORS][2] = {{3, 4}, {5, 0}, {2, 3}};
static double theta[TENSORS][12], g[TENSORS][12], v[TENSORS][12], h[TENSORS][12];

static psgd_optimizer *make(const char *method)
{
    psgd_tensor tensors[TENSORS];
    psgd_optimizer *made;
    for (int i = 0; i < TENSORS; i++) tensors[i] = (psgd_tensor){.ndim = shapes[i][1] ? 2 : 1, .shape = shapes[i]};
    assert_ok(psgd_optimizer_create(NULL, method, TENSORS, tensors, PSGD_F64, NULL, &made));
    return made;
}

static int bowl(void *data, const void *const *at, double *loss, void *const *gradient)
{
    (void)data;
    *loss = 0;
    for (int i = 0; i < TENSORS; i++) {
        int64_t n = shapes[i][0] * (shapes[i][1] ? shapes[i][1] : 1);
        for (int64_t j = 0; j < n; j++) {
            double x = ((const double *)at[i])[j];
            *loss += x * x * (double)(j + 1) / 2;
            if (gradient) ((double *)gradient[i])[j] = x * (double)(j + 1);
        }
    }
    return 0;
}

static const psgd_objective objective = {.gradient = bowl};

static void start(uint64_t seed)
{
    for (int i = 0; i < TENSORS; i++) {
        for (int j = 0; j < 12; j++) {
            theta[i][j] = random_normal(&seed);
            v[i][j] = random_normal(&seed);
        }
    }
}

/* One step; a skipped one is fine. */
static void step(psgd_optimizer *o)
{
    void *to[TENSORS];
    const void *gs[TENSORS], *vs[TENSORS], *hs[TENSORS];
    double loss;
    for (int i = 0; i < TENSORS; i++) {
        to[i] = theta[i];
        gs[i] = g[i];
        vs[i] = v[i];
        hs[i] = h[i];
        for (int j = 0; j < 12; j++) {
            g[i][j] = theta[i][j] * (j + 1);
            h[i][j] = v[i][j] * (j + 1);
        }
    }
    if (psgd_optimizer_needs_objective(o)) {
        (void)psgd_optimizer_bind(o, &objective);
        (void)psgd_optimizer_iterate(o, to, &loss);
    } else {
        (void)psgd_optimizer_step(o, to, gs, psgd_optimizer_uses_products(o) ? vs : NULL,
                                  psgd_optimizer_uses_products(o) ? hs : NULL);
    }
}

static char *saved(const psgd_optimizer *o)
{
    char *bytes = malloc((size_t)psgd_optimizer_state_bytes(o));
    assert_ok(psgd_optimizer_state_save(o, bytes));
    return bytes;
}

static void assert_state(const psgd_optimizer *o, const char *before)
{
    char *now = saved(o);
    assert_memory_equal(now, before, (size_t)psgd_optimizer_state_bytes(o));
    free(now);
}

/* In memory of exactly that length, so that a sanitizer sees the first byte too many. */
static void cut_states_are_refused(void **state)
{
    (void)state;
    for (int m = 0; psgd_method_name(m); m++) {
        psgd_optimizer *o = make(psgd_method_name(m));
        start(3);
        for (int t = 0; t < 3; t++) step(o);
        char *whole = saved(o);
        int64_t bytes = psgd_optimizer_state_bytes(o);
        for (int64_t cut = 0; cut < bytes; cut += cut < 900 || cut > bytes - 600 ? 1 : 97) {
            char *piece = malloc((size_t)cut + (cut == 0));
            memcpy(piece, whole, (size_t)cut);
            assert_int_equal(psgd_optimizer_state_load(o, cut, piece), PSGD_ERR_FORMAT);
            for (int i = PSGD_SHARED_STATE; i < TENSORS; i++) {
                if (cut == psgd_optimizer_tensor_state_bytes(o, i)) continue;
                assert_int_equal(psgd_optimizer_tensor_state_load(o, i, cut, piece), PSGD_ERR_FORMAT);
            }
            free(piece);
        }
        assert_state(o, whole);
        free(whole);
        psgd_optimizer_free(o);
    }
}

/* Writes the checksum of the section that begins there, as long as its header says. */
static void repair(char *section, int64_t bytes)
{
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, section, bytes - 8);
    memcpy(section + bytes - 8, &sum, sizeof sum);
}

static void assert_theta_finite(const char *method, int64_t at)
{
    for (int i = 0; i < TENSORS; i++) {
        for (int j = 0; j < 12; j++) {
            if (!isfinite(theta[i][j]))
                fail_msg("%s: theta is not finite after a state changed at %lld", method, (long long)at);
        }
    }
}

static void changed_states_are_refused_or_harmless(void **state)
{
    (void)state;
    static const uint64_t evil[] = {UINT64_MAX,
                                    UINT64_C(1) << 63,
                                    INT64_MAX,
                                    1000000,
                                    UINT64_C(0x7ff0000000000000) /* inf */,
                                    UINT64_C(0x7ff8000000000000) /* NaN */,
                                    UINT64_C(0x7e37e43c8800759c) /* 1e300 */,
                                    UINT64_C(0xfe37e43c8800759c)};
    for (int m = 0; psgd_method_name(m); m++) {
        psgd_optimizer *o = make(psgd_method_name(m));
        start(3);
        for (int t = 0; t < 3; t++) step(o);
        char *good = saved(o), *bad = saved(o);
        int64_t bytes = psgd_optimizer_state_bytes(o), from = 0, refused = 0;
        for (int i = PSGD_SHARED_STATE; i < TENSORS; i++) {
            int64_t section = psgd_optimizer_tensor_state_bytes(o, i);
            for (int64_t at = from; at < from + section - 8; at += 8) {
                for (size_t k = 0; k < sizeof evil / sizeof evil[0]; k++) {
                    memcpy(bad, good, (size_t)bytes);
                    memcpy(bad + at, &evil[k], 8);
                    repair(bad + from, section);
                    if (psgd_optimizer_state_load(o, bytes, bad) != PSGD_OK) {
                        refused++;
                        if (k == 0) assert_state(o, good);
                        continue;
                    }
                    start(5);
                    for (int t = 0; t < 3; t++) step(o);
                    assert_theta_finite(psgd_method_name(m), at);
                    assert_ok(psgd_optimizer_state_load(o, bytes, good));
                }
            }
            from += section;
        }
        assert_true(refused > 100);
        assert_state(o, good);
        free(good);
        free(bad);
        psgd_optimizer_free(o);
    }
}

/* The last preconditioner is refused when the others have been loaded. */
static void a_late_failure_restores_everything(void **state)
{
    (void)state;
    psgd_optimizer *o = make("psgd");
    start(3);
    step(o);
    char *old = saved(o);
    step(o);
    char *now = saved(o);
    int64_t bytes = psgd_optimizer_state_bytes(o), last = psgd_optimizer_tensor_state_bytes(o, TENSORS - 1);
    double nan = NAN;
    memcpy(old + bytes - 24, &nan, sizeof nan); /* an entry of Q */
    repair(old + bytes - last, last);
    assert_fails(psgd_optimizer_state_load(o, bytes, old), PSGD_ERR_FORMAT, "damaged");
    assert_state(o, now);
    free(old);
    free(now);
    psgd_optimizer_free(o);
}

static void only_files_are_loaded(void **state)
{
    (void)state;
    psgd_optimizer *o = make("adam");
    assert_fails(psgd_optimizer_load(o, "/tmp"), PSGD_ERR_IO, "a folder");
    assert_fails(psgd_optimizer_load(o, "/dev/zero"), PSGD_ERR_IO, "a device");
    psgd_optimizer_free(o);
}

static void sizes_beyond_counting_are_refused(void **state)
{
    (void)state;
    static const char *const specs[] = {"diag",
                                        "tri",
                                        "tril",
                                        "dense",
                                        "norm",
                                        "bnorm",
                                        "xmat",
                                        "scale",
                                        "lra(3)",
                                        "splu(2)",
                                        "scan",
                                        "kron(tri,diag)",
                                        "t(tri)",
                                        "scaw",
                                        "identity",
                                        "auto",
                                        "sum(diag:2,tri:3)"};
    static const int64_t many[][2] = {{INT64_MAX, 1}, {INT64_MAX, INT64_MAX}, {INT64_MAX / 8, 2}};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        for (int k = 0; k < 6; k++) {
            psgd_precond *precond = NULL;
            psgd_optimizer *o = NULL;
            psgd_tensor tensor = {.spec = specs[i], .ndim = 1 + k % 2, .shape = many[k / 2]};
            assert_int_not_equal(psgd_precond_create(NULL, specs[i], 1 + k % 2, many[k / 2], PSGD_F64, NULL, &precond),
                                 PSGD_OK);
            assert_int_not_equal(psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, NULL, &o), PSGD_OK);
            assert_null(precond);
            assert_null(o);
        }
    }
}

/* The squares of 1e200 are no numbers; a factor that had them would never forget. */
static void one_huge_gradient_is_forgotten(void **state)
{
    (void)state;
    for (int m = 0; psgd_method_name(m); m++) {
        psgd_optimizer *o = make(psgd_method_name(m));
        if (psgd_optimizer_needs_objective(o)) {
            psgd_optimizer_free(o);
            continue;
        }
        start(3);
        for (int i = 0; i < TENSORS; i++) {
            for (int j = 0; j < 12; j++) theta[i][j] = 1e200;
        }
        step(o);
        start(7);
        double before[TENSORS][12];
        memcpy(before, theta, sizeof theta);
        for (int t = 0; t < 20; t++) step(o);
        assert_theta_finite(psgd_method_name(m), -1);
        if (!strcmp(psgd_method_name(m), "kfac")) assert_memory_not_equal(before[0], theta[0], sizeof theta[0]);
        psgd_optimizer_free(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_states_are_refused),
        cmocka_unit_test(changed_states_are_refused_or_harmless),
        cmocka_unit_test(a_late_failure_restores_everything),
        cmocka_unit_test(only_files_are_loaded),
        cmocka_unit_test(sizes_beyond_counting_are_refused),
        cmocka_unit_test(one_huge_gradient_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
