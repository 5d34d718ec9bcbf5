/* The graph as its user sees it: a hand-computed case, error messages for wrong shapes, a user's op, carried state,
 * dropout masks, and memory. */
#include "support.h"

#include "core/status.h"

static void assert_number(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) print_error("%.17g is not %.17g\n", a, b);
    assert_true(fabs(a - b) <= tolerance);
}

/* loss = (1/2) ((w x + b) - t)^2 with x = 3, t = 1, w = 2, b = -1: r = 4; gradient r (x, 1); H = (x, 1)(x, 1)'. */
static void one_sample_by_hand(void **state)
{
    (void)state;
    psgd_graph *g;
    double loss, gradient[2], hv[2];
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){1, 1}), t = psgd_graph_input(g, 2, (int64_t[]){1, 1});
    psgd_node W = psgd_graph_parameter(g, "W", 1, 2);
    assert_ok(psgd_graph_finish(g, psgd_graph_squared(g, psgd_graph_affine(g, x, W), t)));
    *(double *)psgd_graph_values(g, x) = 3;
    *(double *)psgd_graph_values(g, t) = 1;
    assert_ok(psgd_graph_hessian(g, (double[]){2, -1}, (double[]){1, 10}, gradient, hv, &loss));
    assert_number(loss, 8, 1e-15);
    assert_number(gradient[0], 12, 1e-14);
    assert_number(gradient[1], 4, 1e-14);
    assert_number(hv[0], 3 * 13, 1e-14);
    assert_number(hv[1], 13, 1e-14);
    psgd_graph_free(g);
}

typedef struct wrong {
    const char *words;
    psgd_node (*build)(psgd_graph *g, psgd_node x, psgd_node image);
} wrong;

static psgd_node wrong_affine(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)image;
    return psgd_graph_affine(g, x, psgd_graph_parameter(g, "W", 3, 5));
}

static psgd_node wrong_convolution(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)x;
    return psgd_graph_convolution(g, image, psgd_graph_parameter(g, "W", 3, 19), 5, 2, 1, 0);
}

static psgd_node wrong_window(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)x;
    return psgd_graph_convolution(g, image, psgd_graph_parameter(g, "W", 3, 201), 10, 10, 1, 0);
}

static psgd_node wrong_add(psgd_graph *g, psgd_node x, psgd_node image)
{
    return psgd_graph_tanh(g, psgd_graph_add(g, x, image));
}

static psgd_node wrong_pool(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)x;
    return psgd_graph_max_pool(g, image, 7, 1);
}

static psgd_node wrong_dropout(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)image;
    return psgd_graph_dropout(g, x, 1);
}

static psgd_node wrong_lstm(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)image;
    psgd_node sequence = psgd_graph_reshape(g, x, 3, (int64_t[]){2, 2, 6});
    return psgd_graph_lstm(g, sequence, psgd_graph_parameter(g, "W", 8, 6));
}

static psgd_node wrong_gain(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)x;
    return psgd_graph_gain(g, image, psgd_graph_parameter(g, "W", 30, 2));
}

static psgd_node wrong_reshape(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)image;
    return psgd_graph_reshape(g, x, 2, (int64_t[]){5, -1});
}

static psgd_node wrong_input(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)image;
    return psgd_graph_add(g, x, psgd_graph_input(g, 2, (int64_t[]){4, 0}));
}

static psgd_node wrong_name(psgd_graph *g, psgd_node x, psgd_node image)
{
    (void)x;
    (void)image;
    psgd_graph_parameter(g, "W", 1, 1);
    return psgd_graph_parameter(g, "W", 1, 1);
}

static void a_shape_that_does_not_fit_is_named(void **state)
{
    (void)state;
    static const wrong cases[] = {
        {"affine (node 3) of [2, 6, 2], [3, 5]: 12 features need a matrix of 13 columns", wrong_affine},
        {"convolution (node 3) of [2, 5, 6, 3], [3, 19]: a window 5 x 2 of 2 channels needs a matrix of 21",
         wrong_convolution},
        {"the window 10 x 10 is larger than the padded image 5 x 6", wrong_window},
        {"add (node 2) of [2, 6, 2], [2, 5, 6, 3]: both must have the same shape", wrong_add},
        {"max_pool (node 2) of [2, 5, 6, 3]: a window of 7", wrong_pool},
        {"the probability must be at least 0 and below 1, not 1", wrong_dropout},
        {"lstm (node 4) of [2, 2, 6], [8, 6]: 2 features need a matrix [4 hidden, 2 + hidden + 1]", wrong_lstm},
        {"gain (node 3) of [2, 5, 6, 3], [30, 2]: it needs a matrix of 2 columns and 60 or, for channels, 2 rows",
         wrong_gain},
        {"24 elements do not fit the new shape", wrong_reshape},
        {"input (node 2): the shape [4, 0] has a size below 1", wrong_input},
        {"there is a parameter W already", wrong_name},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psgd_graph *g;
        assert_ok(psgd_graph_create(NULL, PSGD_F32, &g));
        psgd_node x = psgd_graph_input(g, 3, (int64_t[]){2, 6, 2}), p = psgd_graph_input(g, 4, (int64_t[]){2, 5, 6, 3});
        psgd_node last = cases[i].build(g, x, p);
        assert_fails(psgd_graph_finish(g, last), PSGD_ERR_ARGUMENT, cases[i].words);
        psgd_graph_free(g);
    }
}

static void a_loss_is_one_number(void **state)
{
    (void)state;
    psgd_graph *g;
    assert_ok(psgd_graph_create(NULL, PSGD_F32, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){2, 3});
    psgd_node y = psgd_graph_affine(g, x, psgd_graph_parameter(g, "W", 2, 3));
    assert_fails(psgd_graph_finish(g, y), PSGD_ERR_ARGUMENT,
                 "the loss must be the result of an op and have one element; node 2 is [2, 3]");
    psgd_graph_free(g);
}

static void a_label_out_of_range_is_named(void **state)
{
    (void)state;
    psgd_graph *g;
    double loss, theta[6] = {0}, gradient[6];
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){1, 2}), y = psgd_graph_input(g, 1, (int64_t[]){2});
    psgd_node W = psgd_graph_parameter(g, "W", 3, 2);
    assert_ok(psgd_graph_finish(g, psgd_graph_softmax(g, psgd_graph_affine(g, x, W), y)));
    double *label = psgd_graph_values(g, y);
    label[1] = 3;
    assert_fails(psgd_graph_gradient(g, theta, gradient, &loss), PSGD_ERR_ARGUMENT,
                 "label 3 of sample 1 is not a whole number from 0 to 2");
    label[1] = 0.5;
    assert_fails(psgd_graph_gradient(g, theta, gradient, &loss), PSGD_ERR_ARGUMENT, "label 0.5 of sample 1");
    label[1] = 2;
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    assert_number(loss, log(3), 1e-14);
    psgd_graph_free(g);
}

static void a_token_out_of_range_is_named(void **state)
{
    (void)state;
    psgd_graph *g;
    double loss, theta[15] = {0}, gradient[15];
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node tokens = psgd_graph_input(g, 2, (int64_t[]){2, 1}), W = psgd_graph_parameter(g, "W", 5, 3);
    assert_ok(psgd_graph_finish(g, psgd_graph_l2(g, psgd_graph_embedding(g, tokens, W), 1)));
    double *token = psgd_graph_values(g, tokens);
    static const double bad[] = {5, -1, 0.5, 1e300};
    for (int i = 0; i < 4; i++) {
        token[1] = bad[i];
        assert_fails(psgd_graph_gradient(g, theta, gradient, &loss), PSGD_ERR_ARGUMENT, "from 0 to 4");
    }
    token[1] = 4;
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    psgd_graph_free(g);
}

/* Averages of one batch again and again are that batch: evaluation gives what training gave. */
static void batch_norm_evaluates_with_its_averages(void **state)
{
    (void)state;
    psgd_graph *g;
    double trained, loss, theta[4] = {1, 0.5, -2, 0.3}, gradient[4];
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){1, 4}), y = psgd_graph_input(g, 2, (int64_t[]){2, 4});
    psgd_node h = psgd_graph_affine(g, x, psgd_graph_parameter(g, "W", 2, 2));
    assert_ok(psgd_graph_finish(g, psgd_graph_squared(g, psgd_graph_batch_norm(g, h, false, 0.01), y)));
    for (int i = 0; i < 8; i++) {
        if (i < 4) ((double *)psgd_graph_values(g, x))[i] = i * i - 2;
        ((double *)psgd_graph_values(g, y))[i] = sin(i);
    }
    for (int k = 0; k < 3; k++) {
        assert_ok(psgd_graph_gradient(g, theta, gradient, &trained));
        psgd_graph_carry(g);
        assert_ok(psgd_graph_loss(g, theta, &loss));
        assert_number(loss, trained, 1e-12);
    }
    theta[1] += 5; /* in training the mean takes this away */
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    assert_number(loss, trained, 1e-12);
    assert_ok(psgd_graph_loss(g, theta, &loss));
    assert_true(fabs(loss - trained) > 0.1);
    psgd_graph_free(g);
}

/* A user's op: y = x^3. */
static psgd_status cube_check(psgd_op_call *call)
{
    call->output.ndim = call->input[0].ndim;
    memcpy(call->output.shape, call->input[0].shape, sizeof call->output.shape);
    return PSGD_OK;
}

static psgd_status cube_forward(psgd_op_call *call)
{
    const double *x = call->input[0].value;
    for (int64_t i = 0; i < call->output.size; i++) ((double *)call->output.value)[i] = x[i] * x[i] * x[i];
    return PSGD_OK;
}

static void cube_tangent(psgd_op_call *call)
{
    const double *x = call->input[0].value, *t = call->input[0].tangent;
    for (int64_t i = 0; i < call->output.size; i++) ((double *)call->output.tangent)[i] = 3 * x[i] * x[i] * t[i];
}

static void cube_backward(psgd_op_call *call)
{
    const double *x = call->input[0].value, *dy = call->output.gradient;
    double *dx = call->input[0].gradient;
    for (int64_t i = 0; i < call->output.size; i++) dx[i] = (call->add[0] ? dx[i] : 0) + 3 * x[i] * x[i] * dy[i];
}

static void cube_tangent_backward(psgd_op_call *call)
{
    const double *x = call->input[0].value, *t = call->input[0].tangent;
    const double *dy = call->output.gradient, *tdy = call->output.tangent_gradient;
    double *tdx = call->input[0].tangent_gradient;
    for (int64_t i = 0; i < call->output.size; i++) {
        tdx[i] = (call->add[0] ? tdx[i] : 0) + 3 * x[i] * x[i] * tdy[i] + 6 * x[i] * t[i] * dy[i];
    }
}

/* loss = (1/2) (w^3)^2, so g = 3 w^5 and H = 15 w^4. */
static void an_op_of_ones_own(void **state)
{
    (void)state;
    const psgd_op cube = {"cube", cube_check, cube_forward, cube_tangent, cube_backward, cube_tangent_backward, NULL};
    psgd_graph *g;
    double loss, gradient, hv;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
    psgd_node w = psgd_graph_parameter(g, "w", 1, 1), y = psgd_graph_op(g, &cube, 1, &w, NULL, 0);
    assert_ok(psgd_graph_finish(g, psgd_graph_l2(g, y, 1)));
    assert_ok(psgd_graph_hessian(g, &(double){2}, &(double){1}, &gradient, &hv, &loss));
    assert_number(loss, 32, 1e-13);
    assert_number(gradient, 96, 1e-12);
    assert_number(hv, 240, 1e-12);
    psgd_graph_free(g);
}

/* Two halves of a sequence with carried state give the outputs of the whole; a reset starts from zero. */
static void carried_state_joins_sequences(void **state)
{
    (void)state;
    enum { TIMES = 6, N = 3, HIDDEN = 4, PARAMETERS = 16 * 7 };
    double theta[PARAMETERS], x[TIMES * 2 * N], whole[TIMES * HIDDEN * N], loss;
    uint64_t random = 5;
    for (int i = 0; i < PARAMETERS; i++) theta[i] = random_normal(&random);
    for (int i = 0; i < TIMES * 2 * N; i++) x[i] = random_normal(&random);
    for (int parts = 1; parts <= 2; parts++) {
        psgd_graph *g;
        int64_t times = TIMES / parts, out = times * HIDDEN * N, in = times * 2 * N;
        assert_ok(psgd_graph_create(NULL, PSGD_F64, &g));
        psgd_node input = psgd_graph_input(g, 3, (int64_t[]){times, 2, N});
        psgd_node y = psgd_graph_lstm(g, input, psgd_graph_parameter(g, "W", 4 * HIDDEN, 2 + HIDDEN + 1));
        assert_ok(psgd_graph_finish(g, psgd_graph_l2(g, y, 1)));
        for (int part = 0; part < parts; part++) {
            memcpy(psgd_graph_values(g, input), x + part * in, (size_t)in * sizeof *x);
            assert_ok(psgd_graph_loss(g, theta, &loss));
            assert_ok(psgd_graph_loss(g, theta, &loss)); /* a run leaves the state alone */
            const double *values = psgd_graph_values(g, y);
            if (parts == 1) memcpy(whole, values, sizeof whole);
            for (int64_t i = 0; i < out; i++) assert_number(values[i], whole[part * out + i], 1e-15);
            psgd_graph_carry(g);
        }
        psgd_graph_reset(g);
        memcpy(psgd_graph_values(g, input), x, (size_t)in * sizeof *x);
        assert_ok(psgd_graph_loss(g, theta, &loss));
        assert_number(((double *)psgd_graph_values(g, y))[0], whole[0], 1e-15);
        psgd_graph_free(g);
    }
}

/* The fraction of zeros is the probability, the rest is scaled; the same step repeats the mask, another changes it. */
static void masks_follow_seed_and_step(void **state)
{
    (void)state;
    enum { SIZE = 20000 };
    static float theta[SIZE], gradient[SIZE], first[SIZE];
    psgd_graph *g;
    double loss;
    for (int i = 0; i < SIZE; i++) theta[i] = 1;
    assert_ok(psgd_graph_create(NULL, PSGD_F32, &g));
    psgd_node y = psgd_graph_dropout(g, psgd_graph_parameter(g, "W", 1, SIZE), 0.25);
    assert_ok(psgd_graph_finish(g, psgd_graph_l2(g, y, 1)));
    const float *values = psgd_graph_values(g, y);
    int zeros = 0, moved = 0;
    psgd_graph_set_step(g, 1, 1);
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    memcpy(first, values, sizeof first);
    for (int i = 0; i < SIZE; i++) zeros += values[i] == 0;
    assert_true(abs(zeros - SIZE / 4) < 250); /* four standard deviations */
    for (int i = 0; i < SIZE; i++) assert_true(values[i] == 0 || fabsf(values[i] - 4 / 3.0f) < 1e-6f);
    psgd_graph_set_step(g, 1, 2);
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    for (int i = 0; i < SIZE; i++) moved += values[i] != first[i];
    assert_true(moved > SIZE / 4);
    psgd_graph_set_step(g, 1, 1);
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    assert_memory_equal(first, values, sizeof first);
    assert_ok(psgd_graph_loss(g, theta, &loss));
    assert_number(loss, SIZE / 2, 1e-3);
    psgd_graph_free(g);
}

typedef struct seen {
    psgd_graph *graph;
    double sums[1000]; /* the slab: sum over rows of d x' */
    int64_t count[3];
} seen;

static void watch_rows(void *data, int parameter, int64_t count, const void *inputs, const void *gradients)
{
    seen *s = data;
    const int64_t *shape = psgd_graph_parameter_shape(s->graph, parameter);
    const double *x = inputs, *d = gradients;
    double *to = s->sums + psgd_graph_parameter_offset(s->graph, parameter);
    s->count[parameter] += count;
    for (int64_t r = 0; r < count; r++) {
        for (int64_t i = 0; i < shape[0]; i++) {
            for (int64_t j = 0; j < shape[1]; j++) {
                to[i * shape[1] + j] += d[r * shape[0] + i] * x[r * shape[1] + j];
            }
        }
    }
}

/* The gradient is the mean over samples of sum_places d x', and both factors are scaled by places^(1/4). The watcher
 * does not see the matrices of other ops. */
static void rows_that_a_watcher_sees_make_the_gradient(void **state)
{
    (void)state;
    enum { N = 3, PLACES = 4 * 2, PARAMETERS = 4 * 19 + 2 * 33 + 2 * 2 };
    static seen s;
    double theta[PARAMETERS], gradient[PARAMETERS], loss;
    uint64_t random = 11;
    memset(&s, 0, sizeof s);
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &s.graph));
    psgd_node x = psgd_graph_input(s.graph, 4, (int64_t[]){2, 7, 4, N}),
              y = psgd_graph_input(s.graph, 1, (int64_t[]){N});
    psgd_node h = psgd_graph_convolution(s.graph, x, psgd_graph_parameter(s.graph, "W1", 4, 19), 3, 3, 2, 1);
    h = psgd_graph_affine(s.graph, psgd_graph_tanh(s.graph, h), psgd_graph_parameter(s.graph, "W2", 2, 33));
    h = psgd_graph_gain(s.graph, h, psgd_graph_parameter(s.graph, "G", 2, 2));
    assert_fails(psgd_graph_watch(s.graph, watch_rows, &s), PSGD_ERR_ARGUMENT, "needs a finished graph");
    assert_ok(psgd_graph_finish(s.graph, psgd_graph_softmax(s.graph, h, y)));
    assert_int_equal(psgd_graph_parameters(s.graph), PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) theta[i] = random_normal(&random);
    for (int i = 0; i < 2 * 7 * 4 * N; i++) ((double *)psgd_graph_values(s.graph, x))[i] = random_normal(&random);
    assert_ok(psgd_graph_watch(s.graph, watch_rows, &s));
    assert_ok(psgd_graph_gradient(s.graph, theta, gradient, &loss));
    assert_int_equal(s.count[0], PLACES * N);
    assert_int_equal(s.count[1], N);
    assert_int_equal(s.count[2], 0);
    for (int i = 0; i < 4 * 19; i++) assert_number(s.sums[i] / (N * sqrt(PLACES)), gradient[i], 1e-13);
    for (int i = 4 * 19; i < 4 * 19 + 2 * 33; i++) assert_number(s.sums[i] / N, gradient[i], 1e-13);
    assert_ok(psgd_graph_watch(s.graph, NULL, NULL));
    assert_ok(psgd_graph_gradient(s.graph, theta, gradient, &loss));
    assert_int_equal(s.count[1], N);
    psgd_graph_free(s.graph);
}

static psgd_status build_all(const psgd_context *context, psgd_graph **g)
{
    PSGD_TRY(psgd_graph_create(context, PSGD_F32, g));
    psgd_node x = psgd_graph_input(*g, 4, (int64_t[]){1, 6, 6, 2}), y = psgd_graph_input(*g, 1, (int64_t[]){2});
    psgd_node h = psgd_graph_convolution(*g, x, psgd_graph_parameter(*g, "W1", 2, 10), 3, 3, 1, 0);
    h = psgd_graph_relu(*g, psgd_graph_max_pool(*g, h, 2, 2));
    h = psgd_graph_affine(*g, h, psgd_graph_parameter(*g, "W2", 3, 9));
    return psgd_graph_finish(*g, psgd_graph_softmax(*g, h, y));
}

/* Each allocation fails in turn: an error status and no leak. Runs allocate nothing. */
static void memory_that_is_not_there(void **state)
{
    (void)state;
    counting c = {.fail_at = -1};
    psgd_allocator allocator = {counting_allocate, counting_release, &c};
    psgd_context *context;
    assert_ok(psgd_context_create(&allocator, &context));
    int64_t own = c.outstanding, before = c.made;
    psgd_graph *g;
    assert_ok(build_all(context, &g));
    int64_t needed = c.made - before;
    static float theta[64], gradient[64], v[64], hv[64];
    double loss;
    before = c.made;
    assert_ok(psgd_graph_hessian(g, theta, v, gradient, hv, &loss));
    assert_int_equal(c.made, before);
    psgd_graph_free(g);
    for (int64_t i = 0; i < needed; i++) {
        c.fail_at = c.made + i;
        g = NULL;
        assert_int_equal(build_all(context, &g), PSGD_ERR_NO_MEMORY);
        psgd_graph_free(g);
        assert_int_equal(c.outstanding, own);
    }
    c.fail_at = -1;
    psgd_context_free(context);
}

/* Loss, gradient and Hv of a decoder with two times and these labels, on the same W and the same x for each token. */
static void run_decoder(int64_t n, const double *labels, double loss[1], double g[12], double hv[12])
{
    psgd_graph *graph;
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &graph));
    psgd_node x = psgd_graph_input(graph, 3, (int64_t[]){1, 2, n}), y = psgd_graph_input(graph, 2, (int64_t[]){1, n});
    psgd_node W = psgd_graph_parameter(graph, "W", 4, 3);
    assert_ok(psgd_graph_finish(graph, psgd_graph_decoder(graph, x, W, y)));
    double *to = psgd_graph_values(graph, x), *words = psgd_graph_values(graph, y), theta[12], v[12];
    for (int64_t j = 0; j < n; j++) {
        words[j] = labels[j];
        to[j] = 0.5 + (double)j;
        to[n + j] = 1 - 0.3 * (double)j;
    }
    for (int i = 0; i < 12; i++) {
        theta[i] = sin(i);
        v[i] = cos(3 * i);
    }
    assert_ok(psgd_graph_hessian(graph, theta, v, g, hv, loss));
    psgd_graph_free(graph);
}

static void tokens_without_a_label_do_not_count(void **state)
{
    (void)state;
    double loss[2], g[2][12], hv[2][12];
    run_decoder(3, (double[]){2, 3, -1}, &loss[0], g[0], hv[0]);
    run_decoder(2, (double[]){2, 3}, &loss[1], g[1], hv[1]);
    assert_number(loss[0], loss[1], 1e-14);
    for (int i = 0; i < 12; i++) {
        assert_number(g[0][i], g[1][i], 1e-14);
        assert_number(hv[0][i], hv[1][i], 1e-14);
    }
    psgd_graph *graph;
    double theta[12] = {0}, bad[] = {-2, NAN, 4, 0.5, -1};
    assert_ok(psgd_graph_create(NULL, PSGD_F64, &graph));
    psgd_node x = psgd_graph_input(graph, 3, (int64_t[]){1, 2, 1}), y = psgd_graph_input(graph, 2, (int64_t[]){1, 1});
    assert_ok(psgd_graph_finish(graph, psgd_graph_decoder(graph, x, psgd_graph_parameter(graph, "W", 4, 3), y)));
    for (int i = 0; i < 5; i++) {
        *(double *)psgd_graph_values(graph, y) = bad[i];
        assert_fails(psgd_graph_loss(graph, theta, &loss[0]), PSGD_ERR_ARGUMENT, i < 4 ? "label" : "no token counts");
    }
    psgd_graph_free(graph);
}

static void lists_that_are_null_are_refused(void **state)
{
    (void)state;
    for (int k = 0; k < 5; k++) {
        psgd_graph *graph;
        assert_ok(psgd_graph_create(NULL, PSGD_F64, &graph));
        psgd_node x = psgd_graph_parameter(graph, "x", 2, 2), bad = 0;
        if (k == 0) bad = psgd_graph_input(graph, 2, NULL);
        if (k == 1) bad = psgd_graph_concat(graph, 2, NULL, 0);
        if (k == 2) bad = psgd_graph_reshape(graph, x, 2, NULL);
        if (k == 3) bad = psgd_graph_parameter(graph, "y", INT64_MAX, INT64_MAX);
        if (k == 4) bad = psgd_graph_input(graph, 1, (int64_t[]){INT64_MAX});
        bool later = k == 4; /* so many values can be counted, but there is no memory for them */
        assert_true(later ? bad >= 0 : bad == -1);
        psgd_node loss = psgd_graph_l2(graph, later ? psgd_graph_concat(graph, 2, (psgd_node[]){x, x}, 0) : x, 1);
        assert_int_equal(psgd_graph_finish(graph, loss), later ? PSGD_ERR_NO_MEMORY : PSGD_ERR_ARGUMENT);
        psgd_graph_free(graph);
    }
}

/* Out of memory is no reason to begin anew: the same graph can be finished when there is more. */
static void a_finish_that_had_no_memory_can_be_tried_again(void **state)
{
    (void)state;
    double first = 0;
    for (int64_t fail_at = 0;; fail_at++) {
        counting counter = {.fail_at = -1};
        psgd_allocator allocator = {counting_allocate, counting_release, &counter};
        psgd_context *context;
        psgd_graph *graph;
        assert_ok(psgd_context_create(&allocator, &context));
        assert_ok(psgd_graph_create(context, PSGD_F64, &graph));
        psgd_node tokens = psgd_graph_input(graph, 2, (int64_t[]){3, 2});
        psgd_node W = psgd_graph_row_parameter(graph, "W", 5, 4);
        psgd_node loss = psgd_graph_l2(graph, psgd_graph_embedding(graph, tokens, W), 1);
        counter.fail_at = counter.made + fail_at;
        psgd_status status = psgd_graph_finish(graph, loss);
        counter.fail_at = -1;
        if (status != PSGD_OK) {
            assert_int_equal(status, PSGD_ERR_NO_MEMORY);
            assert_ok(psgd_graph_finish(graph, loss));
        }
        double theta[20], gradient[20], value;
        for (int i = 0; i < 20; i++) theta[i] = i;
        for (int i = 0; i < 6; i++) ((double *)psgd_graph_values(graph, tokens))[i] = i % 5;
        assert_ok(psgd_graph_gradient(graph, theta, gradient, &value));
        double sum = value;
        for (int i = 0; i < 20; i++) sum += gradient[i] * (i + 1);
        if (fail_at == 0) first = sum;
        assert_true(sum == first);
        psgd_graph_free(graph);
        psgd_context_free(context);
        assert_int_equal(counter.outstanding, 0);
        if (status == PSGD_OK) break;
    }
}

/* What is told of a run: gradients that are final are those that the run ends with. */
typedef struct told {
    psgd_graph *graph;
    const float *gradient;
    float kept[64];
    int order[8], count, began;
    psgd_status answer;
} told;

static psgd_status tell(void *data, int parameter)
{
    told *t = data;
    if (parameter < 0) {
        assert_int_equal(t->count, 0);
        t->began++;
        return t->answer;
    }
    int64_t at = psgd_graph_parameter_offset(t->graph, parameter);
    const int64_t *shape = psgd_graph_parameter_shape(t->graph, parameter);
    memcpy(t->kept + at, t->gradient + at, (size_t)(shape[0] * shape[1]) * sizeof(float));
    t->order[t->count++] = parameter;
    return PSGD_OK;
}

/* A is used twice, C never: A is final last, C before everything else. */
static void every_gradient_is_told_once_when_it_is_final(void **state)
{
    (void)state;
    psgd_graph *g;
    float theta[64], gradient[64], expected[64];
    double loss;
    assert_ok(psgd_graph_create(NULL, PSGD_F32, &g));
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){3, 2}), y = psgd_graph_input(g, 2, (int64_t[]){3, 2});
    psgd_node A = psgd_graph_parameter(g, "A", 3, 4), B = psgd_graph_parameter(g, "B", 3, 4);
    psgd_graph_parameter(g, "C", 2, 2);
    psgd_node first = psgd_graph_tanh(g, psgd_graph_affine(g, x, A));
    psgd_node second = psgd_graph_tanh(g, psgd_graph_affine(g, first, B));
    assert_ok(psgd_graph_finish(g, psgd_graph_squared(g, psgd_graph_affine(g, second, A), y)));
    for (int i = 0; i < 64; i++) theta[i] = (float)sin(i + 1);
    for (int i = 0; i < 6; i++) {
        ((float *)psgd_graph_values(g, x))[i] = (float)cos(i);
        ((float *)psgd_graph_values(g, y))[i] = (float)i;
    }
    assert_ok(psgd_graph_gradient(g, theta, expected, &loss));

    told t = {.graph = g, .gradient = gradient};
    assert_ok(psgd_graph_on_final(g, tell, &t));
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    assert_int_equal(t.began, 1);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.order[0], 2);
    assert_int_equal(t.order[1], 1);
    assert_int_equal(t.order[2], 0);
    assert_memory_equal(t.kept, expected, 28 * sizeof(float));

    t = (told){.graph = g, .gradient = gradient, .answer = PSGD_ERR_IO};
    assert_int_equal(psgd_graph_gradient(g, theta, gradient, &loss), PSGD_ERR_IO);
    assert_int_equal(t.count, 0);
    assert_ok(psgd_graph_on_final(g, NULL, NULL));
    assert_ok(psgd_graph_gradient(g, theta, gradient, &loss));
    assert_int_equal(t.count, 0);
    assert_int_equal(psgd_graph_on_final(NULL, tell, &t), PSGD_ERR_ARGUMENT);
    psgd_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_told_once_when_it_is_final),
        cmocka_unit_test(lists_that_are_null_are_refused),
        cmocka_unit_test(a_finish_that_had_no_memory_can_be_tried_again),
        cmocka_unit_test(one_sample_by_hand),
        cmocka_unit_test(a_shape_that_does_not_fit_is_named),
        cmocka_unit_test(a_loss_is_one_number),
        cmocka_unit_test(a_label_out_of_range_is_named),
        cmocka_unit_test(a_token_out_of_range_is_named),
        cmocka_unit_test(batch_norm_evaluates_with_its_averages),
        cmocka_unit_test(an_op_of_ones_own),
        cmocka_unit_test(carried_state_joins_sequences),
        cmocka_unit_test(masks_follow_seed_and_step),
        cmocka_unit_test(rows_that_a_watcher_sees_make_the_gradient),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(tokens_without_a_label_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
