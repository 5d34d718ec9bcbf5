/* The normaliser entry: a diag is a direct sum of groups of size 1, each normalised on its own. */
#include "specs.h"
#include "support.h"

#include <float.h>

#include "group/group.h"
#include "la/la.h"
#include "precond/precond.h"

enum { N = 6 };

typedef struct setting {
    const char *name, *value;
} setting;

#define WITH(...) ((const setting[]){__VA_ARGS__, {NULL, NULL}})

static psgd_status create(const char *source, int ndim, const int64_t *shape, const setting *settings, psgd_precond **p)
{
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    for (; settings->name; settings++) assert_ok(psgd_options_set(options, settings->name, settings->value));
    psgd_status status = psgd_precond_create(NULL, source, ndim, shape, REAL_DTYPE, options, p);
    psgd_options_free(options);
    return status;
}

static psgd_precond *make(const char *source, int64_t n, const setting *settings)
{
    psgd_precond *p;
    assert_ok(create(source, 1, &n, settings, &p));
    return p;
}

static void read_q(const psgd_precond *p, int64_t n, real *q)
{
    for (int64_t i = 0; i < n; i++) q[i] = 1;
    assert_ok(psgd_precond_apply(p, PSGD_APPLY_Q, q, q));
}

/* Entries of all sizes, one that never sees h and one that never sees v. */
static void draw(uint64_t *seed, int count, real *v, real *h)
{
    static const double size_v[N] = {1, 1, 1e10, 1e-12, 1, 0}, size_h[N] = {1, 50, 1e-3, 1e-9, 0, 1};
    for (int i = 0; i < N * count; i++) {
        v[i] = (real)(size_v[i % N] * random_normal(seed));
        h[i] = (real)(size_h[i % N] * random_normal(seed));
    }
}

/* Two computations of the same signs, and of hundreds of products. The law holds for the fused pass and for plain ops,
 * with several pairs, damping, and v integrated out, where no entry may be without v. */
static void check_split(const char *sum, const setting *more, bool plain, bool integrate, int pairs)
{
    setting own[12] = {{"norm", "entry"}, {"step", "0.1"}, {NULL, NULL}}, split[12];
    int at = 2;
    for (; more->name; more++) own[at++] = *more;
    memcpy(split, own, sizeof own);
    split[0].value = "max";
    psgd_precond *one = make("diag", N, own), *many = make(sum, N, split);
    if (plain) ((group *)one->root)->fused = NULL;
    uint64_t seed = 5;
    for (int k = 0; k < 400; k++) {
        real v[3 * N], h[3 * N], q[N], r[N];
        draw(&seed, pairs, v, h);
        assert_ok(psgd_precond_update_pairs(one, pairs, integrate ? NULL : v, h));
        assert_ok(psgd_precond_update_pairs(many, pairs, integrate ? NULL : v, h));
        read_q(one, N, q);
        read_q(many, N, r);
        for (int i = 0; i < N; i++) {
            if (fabs((double)(q[i] - r[i])) <= (k + 4) * 8 * (double)REAL_EPSILON * (double)r[i]) continue;
            fail_msg("entry %d after %d updates is %g, not %g", i, k + 1, (double)q[i], (double)r[i]);
        }
    }
    psgd_precond_free(one);
    psgd_precond_free(many);
}

static void a_diag_by_entry_is_a_sum_of_diags_of_size_one(void **state)
{
    (void)state;
    const char *sum = "sum(diag:1,diag:1,diag:1,diag:1,diag:1,diag:1)";
    for (int plain = 0; plain < 2; plain++) {
        check_split(sum, WITH({"criterion", "newton"}), plain, false, 1);
        check_split(sum, WITH({"criterion", "fisher"}, {"damping", "0.3"}), plain, false, 1);
    }
    check_split(sum, WITH({"pairs", "3"}), false, false, 3);
    check_split(sum, WITH({"criterion", "fisher"}, {"damping", "0.3"}, {"integrate", "yes"}), false, true, 1);
}

/* From one state, entry by entry; where |a| and |b| are the same to rounding either sign is right. */
static void the_fused_pass_is_the_plain_update(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 17, 1000, 40001, 70002};
    for (int s = 0; s < 5; s++) {
        int64_t n = sizes[s];
        real *x[5];
        for (int k = 0; k < 5; k++) assert_non_null(x[k] = calloc((size_t)n, sizeof(real)));
        real *v = x[0], *h = x[1], *q = x[2], *r = x[3], *old = x[4];
        const setting *set = WITH({"norm", "entry"}, {"step", "0.1"}, {"criterion", "fisher"}, {"damping", "0.2"});
        psgd_precond *fused = make("diag", n, set), *plain = make("diag", n, set);
        ((group *)plain->root)->fused = NULL;
        for (int k = 0; k < 8; k++) {
            memcpy(((group *)plain->root)->q, ((group *)fused->root)->q, (size_t)n * sizeof(real));
            memcpy(old, ((group *)fused->root)->q, (size_t)n * sizeof(real));
            assert_ok(psgd_normal_fill(REAL_DTYPE, 9, 0, (uint64_t)k, 0, n, v));
            assert_ok(psgd_normal_fill(REAL_DTYPE, 9, 1, (uint64_t)k, 0, n, h));
            assert_ok(psgd_precond_update(fused, v, h));
            assert_ok(psgd_precond_update(plain, v, h));
            read_q(fused, n, q);
            read_q(plain, n, r);
            for (int64_t i = 0; i < n; i++) {
                double a = fabs((double)old[i] * ((double)h[i] + 0.2 * (double)v[i])),
                       b = fabs((double)(v[i] / old[i]));
                bool tie = fabs(a - b) <= 8 * (double)REAL_EPSILON * (a + b);
                double expected = (double)old[i] * (a > b ? 0.9 : 1.1);
                if (tie) continue;
                assert_true(fabs((double)q[i] - expected) <= 4 * (double)REAL_EPSILON * expected);
                assert_true(fabs((double)r[i] - expected) <= 4 * (double)REAL_EPSILON * expected);
            }
        }
        assert_int_equal(psgd_precond_updates(fused), psgd_precond_updates(plain));
        psgd_precond_free(fused);
        psgd_precond_free(plain);
        for (int k = 0; k < 5; k++) free(x[k]);
    }
}

/* One update from Q = I with v = (1, 1, ..) and h = (2, 4, 0.5, ..): by entry every q_i is 1 -+ step; by max most stay.
 */
static void auto_is_entry_for_a_diag_outside_of_krons(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double expected[4];
    } cases[] = {
        {"diag", {0.5, 0.5, 1.5, 1.5}},
        {"sum(diag:2,diag:2)", {0.5, 0.5, 1.5, 1.5}},
        {"sum(diag:2,sum(scale:1,diag:1))", {0.5, 0.5, 1.5, 1.5}},
        {"sum(diag:3,dense:1)", {0.5, 0.5, 1.5, 1.5}},
        {"kron(diag)", {1 - 0.5 * 3 / 15, 0.5, 1 + 0.5 * 0.75 / 15, 1 + 0.5 * 0.9375 / 15}},
        {"block(diag:3,identity:1)", {1 - 0.5 * 3 / 15, 0.5, 1 + 0.5 * 0.75 / 15, 1}},
    };
    real h[] = {2, 4, (real)0.5, (real)0.25}, v[] = {1, 1, 1, 1};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        psgd_precond *p = make(cases[k].spec, 4, WITH({"step", "0.5"}));
        double Q[16];
        real typed[16];
        assert_ok(psgd_precond_update(p, v, h));
        assert_ok(psgd_precond_factor(p, 0, typed));
        for (int i = 0; i < 16; i++) Q[i] = (double)typed[i];
        for (int i = 0; i < 4; i++) {
            if (fabs(Q[5 * i] - cases[k].expected[i]) < 10 * (double)REAL_EPSILON) continue;
            fail_msg("%s: entry %d is %g, not %g", cases[k].spec, i, Q[5 * i], cases[k].expected[i]);
        }
        psgd_precond_free(p);
    }
}

/* Whether a spec is made of diag, identity and sum alone. */
static bool splits(const char *source)
{
    static const char *const names[] = {"diag", "identity", "sum", "tiles"};
    for (const char *at = source; *at;) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        bool known = length == 0;
        for (int i = 0; i < 4 && !known; i++) known = strlen(names[i]) == length && !strncmp(at, names[i], length);
        if (!known) return false;
        at += length ? length : 1;
    }
    return true;
}

static void groups_that_do_not_split_refuse_it(void **state)
{
    (void)state;
    int accepted = 0;
    static const instance more[] = {{"sum", "sum(diag:2,identity:3)", 1, {5}}, {"lra", "lra(2)", 1, {5}}};
    for (int i = 0; i < instance_count + 2; i++) {
        const instance *g = i < instance_count ? &instances[i] : &more[i - instance_count];
        psgd_precond *p = NULL;
        psgd_status status = create(g->spec, g->ndim, g->shape, WITH({"norm", "entry"}), &p);
        if ((status == PSGD_OK) != splits(g->spec)) fail_msg("%s: %s", g->spec, psgd_last_error());
        if (status != PSGD_OK) assert_non_null(strstr(psgd_last_error(), "does not: use max"));
        if (status == PSGD_OK) {
            real v[64], h[64];
            for (int k = 0; k < 64; k++) v[k] = 1, h[k] = 2;
            assert_ok(psgd_precond_update(p, v, h));
            accepted++;
        }
        psgd_precond_free(p);
    }
    assert_true(accepted >= 4);
}

static void what_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    psgd_precond *p = make("diag", 3, WITH({"norm", "entry"}));
    real good[] = {1, 2, 3}, q[3];
    assert_ok(psgd_precond_update(p, good, good));
    assert_fails(psgd_precond_update(p, good, (real[]){1, 5, (real)NAN}), PSGD_ERR_NOT_FINITE,
                 "h is not a number at entry 2");
    assert_fails(psgd_precond_update(p, (real[]){2, (real)-INFINITY, 1}, good), PSGD_ERR_NOT_FINITE,
                 "v is infinite at entry 1");
    read_q(p, 3, q);
    for (int i = 0; i < 3; i++) assert_true(q[i] == 1);
    assert_int_equal(psgd_precond_updates(p), 1);
    psgd_precond_free(p);
}

/* An entry without curvature stops growing long before it overflows, an entry of any scale finds its own, and neither
 * changes the others. */
static void entries_stay_in_range_each_by_itself(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        bool plain = k % 2, small = k / 2;
        psgd_precond *p = make("diag", 4, WITH({"norm", "entry"}, {"step", "0.5"}));
        double far = REAL_EPSILON > 1e-10 ? 1e-37 : 1e-300;
        real v[] = {1, 1, 1, 1}, h[] = {0, (real)(small ? far : 1), 4, (real)(small ? 1 : 1 / far)}, q[4];
        if (plain) ((group *)p->root)->fused = NULL;
        for (int u = 0; u < 3000; u++) assert_ok(psgd_precond_update(p, v, h));
        read_q(p, 4, q);
        assert_true((double)q[0] > 100 && (double)q[0] < 1e8);
        assert_true(small ? (double)q[1] > 1e15 && q[1] <= LA_MAX : fabs((double)q[1] - 1) < 1);
        assert_true((double)q[2] > 0.2 && (double)q[2] < 1);
        assert_true(small ? fabs((double)q[3] - 1) < 1 : (double)q[3] < 1e-15 && q[3] >= LA_MIN);
        assert_int_equal(psgd_precond_skipped(p), 0);
        psgd_precond_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diag_by_entry_is_a_sum_of_diags_of_size_one),
        cmocka_unit_test(the_fused_pass_is_the_plain_update),
        cmocka_unit_test(auto_is_entry_for_a_diag_outside_of_krons),
        cmocka_unit_test(groups_that_do_not_split_refuse_it),
        cmocka_unit_test(what_is_not_finite_changes_nothing),
        cmocka_unit_test(entries_stay_in_range_each_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
