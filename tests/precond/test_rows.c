/* Row-sparse gradients: what comes from the rows present is what whole arrays with zeros in them would give. */
#include "support.h"

#include <unistd.h>

enum { ROWS = 7, WIDTH = 4, SOME = 3, ALL = ROWS * WIDTH, PART = SOME * WIDTH };

static const int64_t matrix[2] = {ROWS, WIDTH}, small[2] = {SOME, WIDTH}, present[SOME] = {1, 4, 5};
static const psgd_rows some = {SOME, present};

static void fill(uint64_t *seed, int count, double *x)
{
    for (int i = 0; i < count; i++) x[i] = random_normal(seed);
}

static void spread(const double *rows, double *whole)
{
    memset(whole, 0, ALL * sizeof *whole);
    for (int i = 0; i < SOME; i++) memcpy(whole + present[i] * WIDTH, rows + i * WIDTH, WIDTH * sizeof *whole);
}

static void gather(const double *whole, double *rows)
{
    for (int i = 0; i < SOME; i++) memcpy(rows + i * WIDTH, whole + present[i] * WIDTH, WIDTH * sizeof *whole);
}

static void assert_near(int count, const double *a, const double *b, double tolerance)
{
    for (int i = 0; i < count; i++) {
        if (fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i]))) continue;
        print_error("entry %d: %.17g, not %.17g\n", i, a[i], b[i]);
        fail();
    }
}

/* "name value, name value" */
static psgd_options *options_of(const char *words)
{
    psgd_options *made;
    char copy[200], *save = NULL;
    assert_ok(psgd_options_create(NULL, &made));
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char name[50], value[50];
        assert_int_equal(sscanf(word, "%49s %49s", name, value), 2);
        assert_ok(psgd_options_set(made, name, value));
    }
    return made;
}

static psgd_precond *new_precond(const char *spec, const int64_t shape[2], const char *words)
{
    psgd_precond *made;
    psgd_options *options = options_of(words);
    assert_ok(psgd_precond_create(NULL, spec, 2, shape, PSGD_F64, options, &made));
    psgd_options_free(options);
    return made;
}

static const char *const specs[] = {"scan", "scaw", "kron(diag,diag)", "kron(diag,dense)",
                                    "kron(diag,sum(tri:2,diag:2))"};
static const char *const norms[] = {"max", "spectral", "second", "none"};

/* The rows alone as a matrix of their own: the same G, and the same q in their places. */
static void a_lazy_fit_is_that_of_the_rows_alone(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        for (int k = 0; k < 8; k++) {
            char words[100];
            bool integrate = k >= 4;
            snprintf(words, sizeof words, "norm %s,step 0.02,criterion fisher,damping 0.3,integrate %s", norms[k % 4],
                     integrate ? "yes" : "no");
            psgd_precond *alone = new_precond(specs[s], small, words);
            snprintf(words + strlen(words), 20, ",rows lazy");
            psgd_precond *lazy = new_precond(specs[s], matrix, words);
            double v[PART], h[PART], G[2][WIDTH * WIDTH], q[ROWS * ROWS], own[SOME * SOME];
            for (int t = 0; t < 5; t++) {
                fill(&seed, PART, v);
                fill(&seed, PART, h);
                assert_ok(psgd_precond_update(alone, v, h));
                assert_ok(psgd_precond_update_rows(lazy, &some, v, h));
            }
            assert_ok(psgd_precond_factor(alone, 1, G[0]));
            assert_ok(psgd_precond_factor(lazy, 1, G[1]));
            /* second on dense: exact with a few rows, an estimate with more */
            double tolerance = k % 4 == 2 && strstr(specs[s], "dense") ? 1e-5 : 1e-13;
            assert_near(WIDTH * WIDTH, G[1], G[0], tolerance);
            assert_ok(psgd_precond_factor(alone, 0, own));
            assert_ok(psgd_precond_factor(lazy, 0, q));
            for (int i = 0; i < SOME; i++) assert_near(1, &q[present[i] * (ROWS + 1)], &own[i * (SOME + 1)], tolerance);
            assert_true(q[0] == 1 && q[2 * (ROWS + 1)] == 1);
            psgd_precond_free(alone);
            psgd_precond_free(lazy);
        }
    }
}

/* With v integrated out there is nothing random: the whole matrix with zeros gives the same. */
static void an_exact_fit_is_that_of_the_whole_matrix(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        for (int k = 0; k < 8; k++) {
            char words[100];
            snprintf(words, sizeof words, "norm %s,step 0.02,criterion fisher,integrate yes,damping %s", norms[k % 4],
                     k < 4 ? "0" : "0.3");
            psgd_precond *whole = new_precond(specs[s], matrix, words);
            snprintf(words + strlen(words), 20, ",rows exact");
            psgd_precond *exact = new_precond(specs[s], matrix, words);
            double h[PART], all[ALL], factor[2][ROWS * ROWS];
            for (int t = 0; t < 5; t++) {
                fill(&seed, PART, h);
                spread(h, all);
                assert_ok(psgd_precond_update(whole, NULL, all));
                assert_ok(psgd_precond_update_rows(exact, &some, NULL, h));
            }
            for (int i = 0; i < 2; i++) {
                int64_t n = i ? WIDTH : ROWS;
                assert_ok(psgd_precond_factor(whole, i, factor[0]));
                assert_ok(psgd_precond_factor(exact, i, factor[1]));
                assert_near((int)(n * n), factor[1], factor[0], 1e-12);
            }
            fill(&seed, ALL, all);
            double y[ALL], x[PART], z[PART], expected[PART];
            for (int what = 0; what <= PSGD_APPLY_QT_INVERSE; what++) {
                assert_ok(psgd_precond_apply(whole, (psgd_operator)what, all, y));
                gather(all, x);
                gather(y, expected);
                assert_ok(psgd_precond_apply_rows(exact, (psgd_operator)what, &some, x, z));
                assert_near(PART, z, expected, 1e-11);
            }
            psgd_precond_free(whole);
            psgd_precond_free(exact);
        }
    }
}

/* The two laws above for the other update rules: rows alone and lazily, the whole matrix and exactly. Noise of the size
 * of a rounding is added to h, other noise where there are other rows. */
static void rules_fit_rows_as_they_fit_matrices(void **state)
{
    (void)state;
    static const char *const rules[] = {"qeq", "pro", "quad", "qep"}, *const groups[] = {"kron(diag,diag)",
                                                                                         "kron(diag,dense)"};
    uint64_t seed = 9;
    for (int k = 0; k < 32; k++) {
        const char *spec = groups[k % 2];
        bool lazily = k / 8 % 2, damped = k / 16;
        if (lazily && !strcmp(rules[k / 2 % 4], "qep")) continue; /* balancing sees the absent rows too */
        char words[120];
        int used = snprintf(words, sizeof words, "rule %s,step 0.1,criterion fisher,integrate %s,damping %s",
                            rules[k / 2 % 4], lazily ? "no" : "yes", damped ? "0.3" : "0");
        psgd_precond *whole = new_precond(spec, lazily ? small : matrix, words);
        snprintf(words + used, sizeof words - (size_t)used, ",rows %s", lazily ? "lazy" : "exact");
        psgd_precond *rows = new_precond(spec, matrix, words);
        double v[PART], h[PART], all[ALL], G[2][WIDTH * WIDTH], q[2][ROWS * ROWS];
        for (int t = 0; t < 5; t++) {
            fill(&seed, PART, v);
            fill(&seed, PART, h);
            spread(h, all);
            assert_ok(psgd_precond_update(whole, lazily ? v : NULL, lazily ? h : all));
            assert_ok(psgd_precond_update_rows(rows, &some, lazily ? v : NULL, h));
        }
        for (int i = 0; i < 2; i++) {
            assert_ok(psgd_precond_factor(i ? rows : whole, 1, G[i]));
            assert_ok(psgd_precond_factor(i ? rows : whole, 0, q[i]));
        }
        /* dense with a few rows has the exact norm, with more an estimate */
        double tolerance = lazily && k % 2 ? 2e-3 : 1e-11;
        assert_near(WIDTH * WIDTH, G[1], G[0], tolerance);
        if (!lazily) assert_near(ROWS * ROWS, q[1], q[0], tolerance);
        for (int i = 0; lazily && i < SOME; i++) {
            assert_near(1, &q[1][present[i] * (ROWS + 1)], &q[0][i * (SOME + 1)], tolerance);
        }
        psgd_precond_free(whole);
        psgd_precond_free(rows);
    }
}

/* The plain rule is linear in R, so the mean over v on the absent rows of the whole update is the exact one. */
static void an_exact_fit_is_the_mean_over_v_of_absent_rows(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    uint64_t seed = 3;
    const char *words = "norm none,step 0.001,criterion fisher,damping 0.5,rows exact";
    psgd_precond *start = new_precond("scaw", matrix, words), *one = new_precond("scaw", matrix, words);
    double v[PART], h[PART], all_v[ALL], all_h[ALL], factor[ROWS * ROWS], sum[2][ROWS * ROWS] = {{0}};
    for (int t = 0; t < 3; t++) { /* away from I */
        fill(&seed, ALL, all_v);
        fill(&seed, ALL, all_h);
        assert_ok(psgd_precond_update(start, all_v, all_h));
    }
    int64_t bytes = psgd_precond_state_bytes(start);
    char *kept = malloc((size_t)bytes);
    assert_ok(psgd_precond_state_save(start, kept));
    fill(&seed, PART, v);
    fill(&seed, PART, h);
    spread(h, all_h);
    for (int t = 0; t < DRAWS; t++) {
        fill(&seed, ALL, all_v);
        for (int i = 0; i < SOME; i++) memcpy(all_v + present[i] * WIDTH, v + i * WIDTH, WIDTH * sizeof *v);
        assert_ok(psgd_precond_state_load(one, bytes, kept));
        assert_ok(psgd_precond_update(one, all_v, all_h));
        for (int i = 0; i < 2; i++) {
            assert_ok(psgd_precond_factor(one, i, factor));
            for (int j = 0; j < (i ? WIDTH * WIDTH : ROWS * ROWS); j++) sum[i][j] += factor[j] / DRAWS;
        }
    }
    assert_ok(psgd_precond_update_rows(start, &some, v, h));
    for (int i = 0; i < 2; i++) {
        assert_ok(psgd_precond_factor(start, i, factor));
        /* An entry of 2 step R has a standard deviation of about 0.02: five standard errors. */
        assert_near(i ? WIDTH * WIDTH : ROWS * ROWS, factor, sum[i], 5 * 0.02 / sqrt(DRAWS));
    }
    free(kept);
    psgd_precond_free(start);
    psgd_precond_free(one);
}

static psgd_optimizer *new_optimizer(const char *method, int64_t rows, const char *words)
{
    static const int64_t line[1] = {5};
    psgd_tensor tensors[2] = {{.ndim = 2, .shape = matrix, .rows = rows}, {.spec = "tri", .ndim = 1, .shape = line}};
    psgd_options *options = options_of(words);
    psgd_optimizer *made;
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_ok(psgd_optimizer_create(NULL, method, 2, tensors, PSGD_F64, options, &made));
    psgd_options_free(options);
    return made;
}

/* Steps of the same optimizer on whole arrays and on rows, beside another tensor. */
typedef struct pair_of_runs {
    psgd_optimizer *whole, *rows;
    double theta[2][ALL + 5];
} pair_of_runs;

static void step_both(pair_of_runs *p, uint64_t *seed)
{
    double all[ALL], part[PART], line[5], v_line[5], v[PART], all_v[ALL], h[PART], all_h[ALL], h_line[5];
    fill(seed, PART, part);
    fill(seed, 5, line);
    fill(seed, PART, h);
    fill(seed, 5, h_line);
    spread(part, all);
    spread(h, all_h);
    assert_ok(psgd_optimizer_draw(p->whole, 0, all_v));
    assert_ok(psgd_optimizer_draw_rows(p->rows, 0, &some, v));
    gather(all_v, part);
    assert_memory_equal(part, v, sizeof v);
    gather(all, part);
    assert_ok(psgd_optimizer_draw(p->whole, 1, v_line));
    void *one[2] = {p->theta[0], p->theta[0] + ALL}, *other[2] = {p->theta[1], p->theta[1] + ALL};
    const psgd_rows *lists[2] = {&some, NULL};
    assert_ok(psgd_optimizer_step(p->whole, one, (const void *[]){all, line}, (const void *[]){all_v, v_line},
                                  (const void *[]){all_h, h_line}));
    assert_ok(psgd_optimizer_step_rows(p->rows, other, lists, (const void *[]){part, line}, (const void *[]){v, v_line},
                                       (const void *[]){h, h_line}));
}

static void close_runs(pair_of_runs *p)
{
    psgd_optimizer_free(p->whole);
    psgd_optimizer_free(p->rows);
}

static void steps_are_those_of_whole_gradients(void **state)
{
    (void)state;
    static const struct {
        const char *method, *options;
    } cases[] = {{"sgd", "lr 0.1"},
                 {"sgd", "lr 0.1,clip 0.5,clip-element 0.4"},
                 {"adagrad", "lr 0.1"},
                 {"adagrad", "lr 0.1,clip 0.3"},
                 {"psgd", "criterion fisher,integrate yes,group scan,lr 0.1"},
                 {"psgd", "criterion fisher,integrate yes,group scaw,clip 0.1,apply p2"},
                 {"psgd", "criterion newton,integrate yes,group scan,update-every 2,init first"}};
    uint64_t seed = 4;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        pair_of_runs p = {.whole = new_optimizer(cases[k].method, 0, cases[k].options),
                          .rows = new_optimizer(cases[k].method, SOME, cases[k].options)};
        fill(&seed, ALL + 5, p.theta[0]);
        memcpy(p.theta[1], p.theta[0], sizeof p.theta[0]);
        for (int t = 0; t < 6; t++) step_both(&p, &seed);
        assert_int_equal(psgd_optimizer_skipped(p.rows), 0);
        assert_near(ALL + 5, p.theta[1], p.theta[0], 1e-12);
        close_runs(&p);
    }
}

/* Rows with a gradient in every step move as under Adam; the others, and their moments, stay. */
static void sparse_adam_leaves_absent_rows_alone(void **state)
{
    (void)state;
    uint64_t seed = 5;
    pair_of_runs p = {.whole = new_optimizer("adam", 0, "lr 0.1"),
                      .rows = new_optimizer("sparse-adam", ROWS, "lr 0.1")};
    double before[ALL];
    fill(&seed, ALL + 5, p.theta[0]);
    memcpy(p.theta[1], p.theta[0], sizeof p.theta[0]);
    memcpy(before, p.theta[0], sizeof before);
    for (int t = 0; t < 4; t++) step_both(&p, &seed);
    double rows[2][PART];
    gather(p.theta[0], rows[0]);
    gather(p.theta[1], rows[1]);
    assert_near(PART, rows[1], rows[0], 1e-14);
    assert_memory_equal(p.theta[1], before, WIDTH * sizeof(double)); /* row 0 */

    /* Row 0 for the first time in step 5, moments from zero: u = 0.1 g, s = 0.001 g^2, corrected by 1 - beta^5. */
    static const int64_t first[1] = {0};
    psgd_rows list = {1, first};
    double g[WIDTH] = {1, -2, 0.5, 0}, line[5] = {0}, expected[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        double u = 0.1 * g[i] / (1 - pow(0.9, 5)), s = sqrt(0.001 * g[i] * g[i] / (1 - pow(0.999, 5)));
        expected[i] = before[i] - (g[i] == 0 ? 0 : 0.1 * u / (s + 1e-8));
    }
    void *theta[2] = {p.theta[1], p.theta[1] + ALL};
    assert_ok(psgd_optimizer_step_rows(p.rows, theta, (const psgd_rows *[]){&list, NULL}, (const void *[]){g, line},
                                       NULL, NULL));
    assert_near(WIDTH, p.theta[1], expected, 1e-9);
    close_runs(&p);
}

static void a_state_file_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    static const char *const methods[] = {"sparse-adam", "adagrad", "psgd"};
    uint64_t seed = 6;
    for (int k = 0; k < 3; k++) {
        const char *words = k == 2 ? "group scan,criterion fisher,lr 0.1" : "lr 0.1";
        psgd_optimizer *one = new_optimizer(methods[k], SOME, words), *other = new_optimizer(methods[k], SOME, words);
        double theta[2][ALL + 5], g[PART], line[5];
        fill(&seed, ALL + 5, theta[0]);
        for (int t = 0; t < 6; t++) {
            fill(&seed, PART, g);
            fill(&seed, 5, line);
            for (int i = t < 3 ? 1 : 2; i-- > 0;) {
                void *list[2] = {theta[i], theta[i] + ALL};
                assert_ok(psgd_optimizer_step_rows(i ? other : one, list, (const psgd_rows *[]){&some, NULL},
                                                   (const void *[]){g, line}, NULL, NULL));
            }
            if (t != 2) continue;
            assert_ok(psgd_optimizer_save(one, "rows-test.state"));
            assert_ok(psgd_optimizer_load(other, "rows-test.state"));
            memcpy(theta[1], theta[0], sizeof theta[0]);
        }
        assert_memory_equal(theta[0], theta[1], sizeof theta[0]);
        psgd_optimizer_free(one);
        psgd_optimizer_free(other);
    }
    unlink("rows-test.state");
}

/* What is not finite skips the step; extreme scales are ordinary; no row at all moves the other tensor alone. */
static void bad_and_extreme_rows(void **state)
{
    (void)state;
    psgd_optimizer *self = new_optimizer("psgd", SOME, "group scaw,criterion fisher,lr 0.1");
    double theta[ALL + 5] = {0}, kept[ALL + 5], g[PART], line[5] = {1, 1, 1, 1, 1};
    void *list[2] = {theta, theta + ALL};
    uint64_t seed = 7;
    fill(&seed, ALL + 5, theta);
    fill(&seed, PART, g);
    memcpy(kept, theta, sizeof theta);
    g[5] = NAN;
    assert_ok(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&some, NULL}, (const void *[]){g, line}, NULL,
                                       NULL));
    assert_int_equal(psgd_optimizer_skipped(self), 1);
    assert_memory_equal(theta, kept, sizeof theta);
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(self, 0)), 0);

    psgd_rows none = {0, NULL};
    assert_ok(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&none, NULL}, (const void *[]){NULL, line},
                                       NULL, NULL));
    assert_memory_equal(theta, kept, ALL * sizeof *theta);
    assert_true(theta[ALL] != kept[ALL]);
    psgd_optimizer_free(self);

    static const char *const fits[] = {"exact", "lazy"};
    for (int k = 0; k < 4; k++) {
        psgd_precond *precond;
        char words[80];
        snprintf(words, sizeof words, "rows %s,init first", fits[k % 2]);
        psgd_options *options = options_of(words);
        assert_ok(psgd_precond_create(NULL, "scan", 2, matrix, PSGD_F32, options, &precond));
        psgd_options_free(options);
        float v[PART], h[PART], y[PART];
        for (int t = 0; t < 20; t++) {
            for (int i = 0; i < PART; i++) {
                v[i] = (float)random_normal(&seed);
                h[i] = (float)(random_normal(&seed) * (k < 2 ? 1e-30 : 1e30));
            }
            assert_ok(psgd_precond_update_rows(precond, &some, v, h));
        }
        assert_ok(psgd_precond_apply_rows(precond, PSGD_APPLY_P, &some, h, y));
        for (int i = 0; i < PART; i++) assert_true(isfinite(y[i]) && fabsf(y[i]) > 1e-6f && fabsf(y[i]) < 1e6f);
        psgd_precond_free(precond);
    }
}

static void assert_refused(const char *method, const char *words, const char *sentence)
{
    psgd_tensor tensor = {.ndim = 2, .shape = matrix, .rows = SOME};
    psgd_options *options = options_of(words);
    psgd_optimizer *made;
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_fails(psgd_optimizer_create(NULL, method, 1, &tensor, PSGD_F64, options, &made), PSGD_ERR_UNSUPPORTED,
                 sentence);
    psgd_options_free(options);
}

static void what_does_not_fit_gets_a_sentence(void **state)
{
    (void)state;
    assert_refused("momentum", "lr 1", "momentum moves every row");
    assert_refused("adam", "lr 1", "sparse-adam");
    assert_refused("sgd", "decay 0.1", "option decay");
    assert_refused("sgd", "l2 0.1", "option l2");
    assert_refused("psgd", "group scan,momentum 0.9", "option momentum");
    assert_refused("psgd", "group lra(2),joint yes", "option joint");
    assert_refused("psgd", "group tri", "kron(diag,G)");
    assert_refused("psgd", "group dense", "kron(diag,G)");
    assert_refused("psgd", "group scan,pairs 2", "pairs above 1");
    assert_refused("psgd", "group scan,criterion fisher,unbiased yes,apply inverse-fisher", "unbiased");

    psgd_optimizer *self = new_optimizer("sgd", 2, "lr 1");
    double theta[ALL + 5] = {0}, g[ALL] = {0};
    void *list[2] = {theta, theta + ALL};
    const void *arrays[2] = {g, g};
    static const int64_t twice[2] = {3, 3}, outside[1] = {ROWS};
    psgd_rows bad[] = {{2, twice}, {1, outside}, {1, NULL}};
    assert_fails(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&some, NULL}, arrays, NULL, NULL),
                 PSGD_ERR_ARGUMENT, "at most 2 rows");
    for (int i = 0; i < 2; i++)
        assert_fails(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&bad[i], NULL}, arrays, NULL, NULL),
                     PSGD_ERR_ARGUMENT, "ascending");
    assert_fails(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&bad[2], NULL}, arrays, NULL, NULL),
                 PSGD_ERR_ARGUMENT, "without an index");
    assert_fails(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){NULL, &some}, arrays, NULL, NULL),
                 PSGD_ERR_ARGUMENT, "whole gradients");
    assert_fails(psgd_optimizer_step_rows(self, list, (const psgd_rows *[]){&bad[0], NULL}, NULL, NULL, NULL),
                 PSGD_ERR_ARGUMENT, "list of gradients");
    psgd_optimizer_free(self);
    psgd_precond *precond = new_precond("scan", matrix, "step 0.1");
    assert_fails(psgd_precond_update_rows(precond, &some, g, g), PSGD_ERR_ARGUMENT, "whole arrays");
    psgd_precond_free(precond);
}

typedef struct net {
    psgd_graph *graph;
    psgd_node tokens, labels;
} net;

static net new_net(bool by_rows)
{
    net made;
    static const int64_t shape[2] = {3, 2};
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &made.graph));
    made.tokens = psgd_graph_input(made.graph, 2, shape);
    made.labels = psgd_graph_input(made.graph, 2, shape);
    psgd_node E = by_rows ? psgd_graph_row_parameter(made.graph, "embedding", ROWS, WIDTH)
                          : psgd_graph_parameter(made.graph, "embedding", ROWS, WIDTH);
    psgd_node W = psgd_graph_parameter(made.graph, "decoder", 6, WIDTH);
    psgd_node x = psgd_graph_embedding(made.graph, made.tokens, E);
    x = psgd_graph_tanh(made.graph, psgd_graph_add(made.graph, x, psgd_graph_embedding(made.graph, made.labels, E)));
    assert_ok(psgd_graph_finish(made.graph, psgd_graph_decoder(made.graph, x, W, made.labels)));
    static const double tokens[] = {4, 1, 1, 4, 4, 1}, labels[] = {5, 1, 5, 5, 1, 5};
    memcpy(psgd_graph_values(made.graph, made.tokens), tokens, sizeof tokens);
    memcpy(psgd_graph_values(made.graph, made.labels), labels, sizeof labels);
    return made;
}

static void a_graph_gives_the_rows_of_its_tokens(void **state)
{
    (void)state;
    enum { N = ALL + 6 * WIDTH };
    net whole = new_net(false), rows = new_net(true);
    double theta[N], v[2][N], g[2][N], hv[2][N], loss[2], part[PART];
    uint64_t seed = 8;
    psgd_rows found;
    assert_int_equal(psgd_graph_max_rows(rows.graph, 0), ROWS);
    assert_int_equal(psgd_graph_max_rows(rows.graph, 1), 0);
    assert_ok(psgd_graph_rows(rows.graph, 0, &found));
    assert_int_equal(found.count, SOME);
    assert_memory_equal(found.index, present, sizeof present);
    fill(&seed, N, theta);
    fill(&seed, N, v[0]);
    memcpy(v[1], v[0], sizeof v[0]);
    gather(v[0], v[1]);
    for (int i = PART; i < ALL; i++) v[1][i] = NAN; /* is not read */
    for (int i = 0; i < N; i++) g[1][i] = hv[1][i] = 7;
    assert_ok(psgd_graph_hessian(whole.graph, theta, v[0], g[0], hv[0], &loss[0]));
    for (int t = 0; t < 2; t++) assert_ok(psgd_graph_hessian(rows.graph, theta, v[1], g[1], hv[1], &loss[1]));
    assert_true(loss[0] == loss[1]);
    gather(g[0], part);
    assert_memory_equal(part, g[1], sizeof part);
    gather(hv[0], part);
    assert_memory_equal(part, hv[1], sizeof part);
    assert_memory_equal(g[0] + ALL, g[1] + ALL, 6 * WIDTH * sizeof(double));
    assert_memory_equal(hv[0] + ALL, hv[1] + ALL, 6 * WIDTH * sizeof(double));
    for (int i = PART; i < ALL; i++) assert_true(g[1][i] == 7 && hv[1][i] == 7); /* is not written */

    ((double *)psgd_graph_values(rows.graph, rows.tokens))[2] = ROWS;
    assert_fails(psgd_graph_rows(rows.graph, 0, &found), PSGD_ERR_ARGUMENT, "token 7 at entry 2");
    assert_fails(psgd_graph_gradient(rows.graph, theta, g[1], &loss[1]), PSGD_ERR_ARGUMENT, "token 7");
    ((double *)psgd_graph_values(rows.graph, rows.tokens))[2] = 6;
    assert_ok(psgd_graph_rows(rows.graph, 0, &found));
    assert_int_equal(found.count, SOME + 1);
    assert_fails(psgd_graph_rows(rows.graph, 1, &found), PSGD_ERR_ARGUMENT, "row parameters");
    psgd_graph_free(whole.graph);
    psgd_graph_free(rows.graph);

    psgd_graph *tied;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &tied));
    psgd_node tokens = psgd_graph_input(tied, 2, (int64_t[]){3, 2});
    psgd_node E = psgd_graph_row_parameter(tied, "E", ROWS, WIDTH);
    psgd_node y = psgd_graph_decoder(tied, psgd_graph_embedding(tied, tokens, E), E, tokens);
    assert_fails(psgd_graph_finish(tied, y), PSGD_ERR_ARGUMENT, "decoder (node 3) reads the row parameter E");
    psgd_graph_free(tied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lazy_fit_is_that_of_the_rows_alone),
        cmocka_unit_test(an_exact_fit_is_that_of_the_whole_matrix),
        cmocka_unit_test(rules_fit_rows_as_they_fit_matrices),
        cmocka_unit_test(an_exact_fit_is_the_mean_over_v_of_absent_rows),
        cmocka_unit_test(steps_are_those_of_whole_gradients),
        cmocka_unit_test(sparse_adam_leaves_absent_rows_alone),
        cmocka_unit_test(a_state_file_goes_on_to_the_same_bits),
        cmocka_unit_test(bad_and_extreme_rows),
        cmocka_unit_test(what_does_not_fit_gets_a_sentence),
        cmocka_unit_test(a_graph_gives_the_rows_of_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
