/* The decoder against the two ops that it fuses, an affine map and a softmax: loss, gradient and Hv on sizes that fill
 * blocks, panels and tiles, and on sizes that do not. */
#include "support.h"

typedef struct sizes {
    int64_t times, features, n, words;
} sizes;

typedef struct result {
    double loss;
    double *g, *hv;
} result;

/* theta is x, [times, features n], then W; the labels follow from the sizes. */
static void run(const sizes *s, bool joined, double scale, psgd_dtype dtype, result *to)
{
    psgd_graph *graph;
    int64_t tokens = s->times * s->n, size = s->features * tokens + s->words * (s->features + 1);
    assert_ok(psgd_graph_create(NULL, dtype, &graph));
    psgd_node x = psgd_graph_parameter(graph, "x", s->times, s->features * s->n);
    psgd_node W = psgd_graph_parameter(graph, "W", s->words, s->features + 1), labels, loss;
    x = psgd_graph_reshape(graph, x, 3, (int64_t[]){s->times, s->features, s->n});
    if (joined) {
        labels = psgd_graph_input(graph, 2, (int64_t[]){s->times, s->n});
        loss = psgd_graph_decoder(graph, x, W, labels);
    } else {
        labels = psgd_graph_input(graph, 1, &tokens);
        psgd_node flat = psgd_graph_permute(graph, x, (int[]){1, 0, 2});
        flat = psgd_graph_reshape(graph, flat, 2, (int64_t[]){s->features, tokens});
        loss = psgd_graph_softmax(graph, psgd_graph_affine(graph, flat, W), labels);
    }
    assert_ok(psgd_graph_finish(graph, loss));
    uint64_t random = 7;
    void *slabs[4];
    for (int i = 0; i < 4; i++) assert_non_null(slabs[i] = calloc((size_t)size, sizeof(double)));
    for (int64_t i = 0; i < 2 * size; i++) {
        double value = i < size ? scale * random_normal(&random) : random_normal(&random);
        if (dtype == PSGD_F64) ((double *)slabs[i / size])[i % size] = value;
        if (dtype == PSGD_F32) ((float *)slabs[i / size])[i % size] = (float)value;
    }
    for (int64_t j = 0; j < tokens; j++) {
        int64_t label = random_below(&random, s->words);
        if (dtype == PSGD_F64) ((double *)psgd_graph_values(graph, labels))[j] = (double)label;
        if (dtype == PSGD_F32) ((float *)psgd_graph_values(graph, labels))[j] = (float)label;
    }
    /* Twice: nothing of a run is left over for the next. */
    for (int k = 0; k < 2; k++) assert_ok(psgd_graph_hessian(graph, slabs[0], slabs[1], slabs[2], slabs[3], &to->loss));
    to->g = malloc((size_t)size * sizeof(double));
    to->hv = malloc((size_t)size * sizeof(double));
    assert_true(to->g && to->hv);
    for (int64_t i = 0; i < size; i++) {
        to->g[i] = dtype == PSGD_F64 ? ((double *)slabs[2])[i] : (double)((float *)slabs[2])[i];
        to->hv[i] = dtype == PSGD_F64 ? ((double *)slabs[3])[i] : (double)((float *)slabs[3])[i];
    }
    for (int i = 0; i < 4; i++) free(slabs[i]);
    psgd_graph_free(graph);
}

/* Each within epsilon times this of the largest: sums of at most a thousand terms, and a softmax whose exponents carry
 * the rounding of logits of size scale^2 sqrt(features). */
static void assert_same(int64_t n, const double *a, const double *b, double tolerance)
{
    double max = 0, apart = 0;
    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, fabs(b[i]));
        assert_true(isfinite(a[i]));
        apart = fmax(apart, fabs(a[i] - b[i]));
    }
    if (!(apart <= tolerance * max)) print_error("%g apart, the largest is %g\n", apart, max);
    assert_true(apart <= tolerance * max);
}

static void compare(sizes s, double scale)
{
    const struct {
        psgd_dtype dtype;
        double epsilon;
    } types[] = {{PSGD_F64, 2.3e-16}, {PSGD_F32, 1.2e-7}};
    int64_t size = s.features * s.times * s.n + s.words * (s.features + 1);
    for (int i = 0; i < 2; i++) {
        result joined, apart;
        double tolerance = types[i].epsilon * (200 + 100 * scale * scale * sqrt((double)s.features));
        run(&s, true, scale, types[i].dtype, &joined);
        run(&s, false, scale, types[i].dtype, &apart);
        assert_same(1, &joined.loss, &apart.loss, tolerance);
        assert_same(size, joined.g, apart.g, tolerance);
        assert_same(size, joined.hv, apart.hv, tolerance);
        free(joined.g);
        free(joined.hv);
        free(apart.g);
        free(apart.hv);
    }
}

static void it_is_an_affine_map_and_a_softmax(void **state)
{
    (void)state;
    static const sizes all[] = {
        {1, 1, 1, 2},    {1, 1, 1, 300},   {3, 2, 1, 5},     {1, 31, 32, 252}, {2, 32, 16, 253}, {4, 15, 8, 251},
        {3, 16, 11, 40}, {1, 63, 33, 505}, {5, 17, 7, 1013}, {7, 40, 10, 12},  {2, 11, 65, 13},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) compare(all[i], 1);
}

/* e^logit overflows in each dtype, and so does its inverse. */
static void large_logits_are_safe(void **state)
{
    (void)state;
    compare((sizes){2, 9, 10, 600}, 40);
    result far;
    run(&(sizes){2, 9, 10, 600}, true, 1e4, PSGD_F32, &far);
    assert_true(isfinite(far.loss));
    for (int64_t i = 0; i < 9 * 20 + 600 * 10; i++) assert_true(isfinite(far.g[i]) && isfinite(far.hv[i]));
    free(far.g);
    free(far.hv);
}

static void threads_do_not_change_the_result(void **state)
{
    (void)state;
    sizes s = {5, 40, 13, 3000};
    int64_t size = s.features * s.times * s.n + s.words * (s.features + 1);
    result got[2];
    int before = psgd_threads();
    for (int i = 0; i < 2; i++) {
        assert_ok(psgd_set_threads(i ? 3 : 1));
        run(&s, true, 1, PSGD_F32, &got[i]);
    }
    assert_ok(psgd_set_threads(before));
    assert_true(got[0].loss == got[1].loss);
    assert_memory_equal(got[0].g, got[1].g, (size_t)size * sizeof(double));
    assert_memory_equal(got[0].hv, got[1].hv, (size_t)size * sizeof(double));
    for (int i = 0; i < 2; i++) {
        free(got[i].g);
        free(got[i].hv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_an_affine_map_and_a_softmax),
        cmocka_unit_test(large_logits_are_safe),
        cmocka_unit_test(threads_do_not_change_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
