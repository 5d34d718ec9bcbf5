/* Update rules as a user meets them: which one auto takes, what is refused, where a fit ends. */
#include "support.h"

static psgd_options *options_of(const char *words)
{
    psgd_options *made;
    char copy[300], *save = NULL;
    assert_ok(psgd_options_create(NULL, &made));
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char name[50], value[50];
        assert_int_equal(sscanf(word, "%49s %49s", name, value), 2);
        assert_ok(psgd_options_set(made, name, value));
    }
    return made;
}

static psgd_status create(const char *spec, int ndim, const int64_t *shape, psgd_dtype dtype, const char *words,
                          psgd_precond **made)
{
    psgd_options *options = options_of(words);
    psgd_status status = psgd_precond_create(NULL, spec, ndim, shape, dtype, options, made);
    psgd_options_free(options);
    return status;
}

static psgd_precond *new_precond(const char *spec, int ndim, const int64_t *shape, const char *words)
{
    psgd_precond *made;
    assert_ok(create(spec, ndim, shape, PSGD_F64, words, &made));
    return made;
}

static void fill(uint64_t *seed, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = random_normal(seed);
}

static void a_rule_that_does_not_fit_names_the_group_that_would(void **state)
{
    (void)state;
    static const int64_t shape[] = {6, 4}, flat = 24;
    psgd_precond *made;
    assert_fails(create("kron(tri,norm)", 2, shape, PSGD_F32, "rule pro", &made), PSGD_ERR_UNSUPPORTED,
                 "tri (column 6) does not: take the group kron(dense,dense), or rule eq");
    assert_fails(create("sum(block(tri:3,scale:2):5,t(xmat:4):4,diag)", 1, &flat, PSGD_F32, "rule quad", &made),
                 PSGD_ERR_UNSUPPORTED, "take the group sum(dense:5,xmat:4,diag), or rule eq");
    assert_fails(create("lra(2)", 1, &flat, PSGD_F32, "rule qep", &made), PSGD_ERR_UNSUPPORTED, "take the group diag");
    assert_fails(create("dense", 1, &flat, PSGD_F32, "rule qeq,norm max", &made), PSGD_ERR_ARGUMENT,
                 "rule qeq has the normaliser second");
    assert_fails(create("dense", 1, &flat, PSGD_F32, "rule prop", &made), PSGD_ERR_ARGUMENT, "option rule is one of");
}

/* The same updates by two option lists give the same bits. */
static bool same_fit(const char *spec, const char *words, const char *others)
{
    static const int64_t shape[] = {6, 4};
    uint64_t seed = 3;
    double v[24], h[24], x[24], y[24];
    psgd_precond *a = new_precond(spec, 2, shape, words), *b = new_precond(spec, 2, shape, others);
    for (int t = 0; t < 5; t++) {
        fill(&seed, 24, v);
        fill(&seed, 24, h);
        assert_ok(psgd_precond_update(a, v, h));
        assert_ok(psgd_precond_update(b, v, h));
    }
    assert_ok(psgd_precond_apply(a, PSGD_APPLY_P, h, x));
    assert_ok(psgd_precond_apply(b, PSGD_APPLY_P, h, y));
    psgd_precond_free(a);
    psgd_precond_free(b);
    return memcmp(x, y, sizeof x) == 0;
}

static void auto_is_pro_where_it_fits(void **state)
{
    (void)state;
    assert_true(same_fit("kron(dense,dense)", "rule auto", "rule pro,norm second"));
    assert_true(same_fit("kron(dense,dense)", "rule auto,norm spectral", "rule eq,norm spectral"));
    assert_true(same_fit("kron(dense,dense)", "rule auto,norm second", "rule pro"));
    assert_true(same_fit("kron(dense,tri)", "rule auto", "rule eq"));
    assert_true(same_fit("kron(dense,dense)", "rule eq", "step 0.01"));
    assert_false(same_fit("kron(dense,dense)", "rule pro", "rule quad"));
    assert_false(same_fit("kron(dense,dense)", "rule pro,norm-decay 0.5", "rule pro"));
}

static const char *const rules[] = {"qeq", "pro", "quad", "qep"};
enum { RULES = 4 };

/* Running maxima, and the draws of the norm estimates, resume with the rest. */
static void a_fit_resumes_bit_for_bit(void **state)
{
    (void)state;
    static const int64_t shape[] = {6, 5};
    for (int r = 0; r < RULES; r++) {
        char words[50];
        uint64_t seed = 21;
        double v[30], h[30], Q[2][36];
        snprintf(words, sizeof words, "rule %s,step 0.1", rules[r]);
        psgd_precond *one = new_precond("kron(dense,dense)", 2, shape, words);
        psgd_precond *two = new_precond("kron(dense,dense)", 2, shape, words);
        psgd_precond *other = new_precond("kron(dense,dense)", 2, shape,
                                          rules[(r + 1) % RULES][0] == 'p' ? "rule pro" : "rule eq");
        for (int t = 0; t < 20; t++) {
            fill(&seed, 30, v);
            fill(&seed, 30, h);
            assert_ok(psgd_precond_update(one, v, h));
            if (t == 9) {
                int64_t bytes = psgd_precond_state_bytes(one);
                char *state_bytes = malloc((size_t)bytes);
                assert_ok(psgd_precond_state_save(one, state_bytes));
                assert_ok(psgd_precond_state_load(two, bytes, state_bytes));
                assert_fails(psgd_precond_state_load(other, bytes, state_bytes), PSGD_ERR_FORMAT, "or rule");
                free(state_bytes);
            }
            if (t > 9) assert_ok(psgd_precond_update(two, v, h));
        }
        assert_ok(psgd_precond_factor(one, 0, Q[0]));
        assert_ok(psgd_precond_factor(two, 0, Q[1]));
        assert_memory_equal(Q[0], Q[1], sizeof Q[0]);
        psgd_precond_free(one);
        psgd_precond_free(two);
        psgd_precond_free(other);
    }
}

/* Tensors as one vector are that vector. */
static void joint_tensors_take_rules(void **state)
{
    (void)state;
    static const int64_t sizes[] = {2, 3}, n = 5;
    for (int r = 0; r < RULES; r++) {
        char words[50];
        uint64_t seed = 22;
        double v[5], h[5], x[5], y[5];
        psgd_precond *joint, *flat;
        snprintf(words, sizeof words, "rule %s,step 0.1", rules[r]);
        psgd_options *options = options_of(words);
        assert_ok(psgd_precond_create_joint(NULL, "dense", 2, sizes, PSGD_F64, options, &joint));
        psgd_options_free(options);
        flat = new_precond("dense", 1, &n, words);
        for (int t = 0; t < 10; t++) {
            fill(&seed, 5, v);
            fill(&seed, 5, h);
            assert_ok(psgd_precond_update(flat, v, h));
            assert_ok(psgd_precond_update_segments(joint, (const void *[]){v, v + 2}, (const void *[]){h, h + 2}));
        }
        assert_ok(psgd_precond_apply(flat, PSGD_APPLY_P, h, x));
        assert_ok(psgd_precond_apply_segments(joint, PSGD_APPLY_P, (const void *[]){h, h + 2}, (void *[]){y, y + 2}));
        assert_memory_equal(x, y, sizeof x);
        psgd_precond_free(joint);
        psgd_precond_free(flat);
    }
}

/* One short step makes the criterion of its own pair smaller, from any Q that the rule leads to. */
static void every_step_descends(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t shape[2];
    } groups[] = {{"dense", {1, 5}},
                  {"diag", {1, 6}},
                  {"xmat", {1, 5}},
                  {"scale", {1, 4}},
                  {"kron(dense,dense)", {4, 3}},
                  {"kron(diag,xmat)", {3, 4}},
                  {"sum(dense:3,diag:3)", {1, 6}}};
    uint64_t seed = 12;
    double v[12], h[12], slope = 0;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (int r = 0; r < RULES; r++) {
            char words[50];
            int64_t n = groups[g].shape[0] * groups[g].shape[1];
            snprintf(words, sizeof words, "rule %s,step 0.2", rules[r]);
            psgd_precond *precond = new_precond(groups[g].spec, 2, groups[g].shape, words);
            for (int t = 0; t < 500; t++) {
                double before, after;
                fill(&seed, n, v);
                fill(&seed, n, h);
                assert_ok(psgd_precond_set_step(precond, 1e-6));
                assert_ok(psgd_precond_criterion(precond, v, h, &before));
                assert_ok(psgd_precond_update(precond, v, h));
                assert_ok(psgd_precond_criterion(precond, v, h, &after));
                if (!(after <= before * (1 + 1e-14))) {
                    fail_msg("%s, rule %s: from %.17g to %.17g", groups[g].spec, rules[r], before, after);
                }
                slope = fmax(slope, before / after - 1);
                assert_ok(psgd_precond_set_step(precond, 0.2));
                assert_ok(psgd_precond_update(precond, v, h));
            }
            psgd_precond_free(precond);
        }
    }
    assert_true(slope > 1e-7 && slope < 1e-4); /* of the size of the step: this was a descent */
}

/* H = U diag(e) U' with eigenvalues of either sign, and |H|^-1. Its condition is 10: at 100, qeq and quad with step 0.1
 * do not settle. */
static void indefinite(uint64_t *seed, int n, double *H, double *inverse)
{
    double U[64];
    fill(seed, n * n, U);
    for (int i = 0; i < n; i++) { /* Gram and Schmidt */
        for (int k = 0; k <= i; k++) {
            double along = 0;
            for (int j = 0; j < n; j++) along += U[i * n + j] * U[k * n + j];
            for (int j = 0; j < n; j++)
                U[i * n + j] = k < i ? U[i * n + j] - along * U[k * n + j] : U[i * n + j] / sqrt(along);
        }
    }
    memset(H, 0, (size_t)(n * n) * sizeof(double));
    memset(inverse, 0, (size_t)(n * n) * sizeof(double));
    for (int k = 0; k < n; k++) {
        double e = pow(10, (double)k / (n - 1) - 0.5);
        for (int i = 0; i < n * n; i++) {
            H[i] += (k % 2 ? -e : e) * U[k * n + i / n] * U[k * n + i % n];
            inverse[i] += U[k * n + i / n] * U[k * n + i % n] / e;
        }
    }
}

/* Where an update takes the whole expectation, the columns of I here, the fit ends at the closed form: |H|^-1 for
 * dense, 1/||H_i|| for diag. */
static void whole_expectations_lead_to_closed_forms(void **state)
{
    (void)state;
    enum { N = 6 };
    uint64_t seed = 8;
    int64_t n = N;
    double H[N * N], inverse[N * N], I[N * N] = {0}, P[N * N];
    indefinite(&seed, N, H, inverse);
    for (int i = 0; i < N; i++) I[i * N + i] = 1;
    for (int r = 0; r < RULES; r++) {
        for (int diag = 0; diag < 2; diag++) {
            char words[80];
            double worst = 0;
            snprintf(words, sizeof words, "rule %s,step 0.1,pairs %d", rules[r], N);
            psgd_precond *precond = new_precond(diag ? "diag" : "dense", 1, &n, words);
            for (int t = 0; t < 5000; t++) assert_ok(psgd_precond_update_pairs(precond, N, I, H));
            for (int i = 0; i < N; i++) assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, I + i * N, P + i * N));
            for (int i = 0; i < N; i++) {
                double square = 0;
                for (int j = 0; j < N; j++) square += H[i * N + j] * H[i * N + j];
                for (int j = 0; j < N; j++) {
                    double expected = !diag ? inverse[i * N + j] : i == j ? 1 / sqrt(square) : 0;
                    worst = fmax(worst, fabs(P[i * N + j] - expected));
                }
            }
            if (!(worst < 1e-9)) fail_msg("%s, rule %s: off by %g", diag ? "diag" : "dense", rules[r], worst);
            psgd_precond_free(precond);
        }
    }
}

/* Columns of h that are always zero say nothing about P there. It stops growing, and the rest is fitted. */
static void dead_directions_stay_bounded(void **state)
{
    (void)state;
    enum { M = 6, N = 8, DEAD = 3 };
    static const int64_t shape[] = {M, N};
    static const char *const specs[] = {"kron(dense,dense)", "kron(dense,diag)", "diag"};
    for (int s = 0; s < 3; s++) {
        for (int r = 0; r < RULES - 1; r++) { /* qep is slow from far away */
            for (int integrate = 0; integrate < 2; integrate++) {
                char words[100];
                uint64_t seed = 4;
                double condition, total = 0;
                float v[M * N], g[M * N];
                psgd_precond *precond;
                snprintf(words, sizeof words, "rule %s,step 0.1,criterion fisher,integrate %s", rules[r],
                         integrate ? "yes" : "no");
                assert_ok(create(specs[s], 2, shape, PSGD_F32, words, &precond));
                for (int t = 0; t < 6000; t++) {
                    for (int i = 0; i < M * N; i++) v[i] = (float)random_normal(&seed);
                    for (int i = 0; i < M * N; i++) g[i] = i % N < DEAD ? 0 : (float)random_normal(&seed);
                    if (t >= 5000) {
                        float Pg[M * N];
                        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, g, Pg));
                        for (int i = 0; i < M * N; i++) total += i % N < DEAD ? 0 : Pg[i] * Pg[i];
                    }
                    assert_ok(psgd_precond_update(precond, integrate ? NULL : v, g));
                }
                assert_ok(psgd_precond_condition(precond, &condition));
                assert_int_equal(psgd_precond_skipped(precond), 0);
                total /= 1000.0 * M * (N - DEAD);
                if (!(condition < 1e5 && total > 0.5 && total < 2)) {
                    fail_msg("%s, %s: condition of Q %g, mean square of Pg %g", specs[s], words, condition, total);
                }
                psgd_precond_free(precond);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_does_not_fit_names_the_group_that_would),
        cmocka_unit_test(auto_is_pro_where_it_fits),
        cmocka_unit_test(a_fit_resumes_bit_for_bit),
        cmocka_unit_test(joint_tensors_take_rules),
        cmocka_unit_test(every_step_descends),
        cmocka_unit_test(whole_expectations_lead_to_closed_forms),
        cmocka_unit_test(dead_directions_stay_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
