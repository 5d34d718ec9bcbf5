/* Convolution and its derivatives against plain loops, on its three ways: by points, direct for small matrices, patches
 * for large ones. */
#include "support.h"

#include "la/network/conv.h"

typedef struct plain {
    double *y, *dx, *dW;
} plain;

/* Every product of the definition, one by one. */
static void plain_loops(const la_conv *s, const real *W, const real *x, const real *dy, plain *to)
{
    int64_t depth = s->kh * s->kw * s->c;
    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t at = 0; at < s->oh * s->ow * s->n; at++) {
            int64_t j = at % s->n, ox = at / s->n % s->ow, oy = at / s->n / s->ow, y = o * s->oh * s->ow * s->n + at;
            to->y[y] += (double)W[o * (depth + 1) + depth];
            to->dW[o * (depth + 1) + depth] += (double)dy[y];
            for (int64_t k = 0; k < depth; k++) {
                int64_t c = k % s->c, kx = k / s->c % s->kw, ky = k / s->c / s->kw;
                int64_t iy = oy * s->stride - s->padding + ky, ix = ox * s->stride - s->padding + kx;
                if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
                int64_t from = ((c * s->h + iy) * s->w + ix) * s->n + j, weight = o * (depth + 1) + k;
                to->y[y] += (double)W[weight] * (double)x[from];
                to->dx[from] += (double)W[weight] * (double)dy[y];
                to->dW[weight] += (double)dy[y] * (double)x[from];
            }
        }
    }
}

static real *random_array(uint64_t *random, int64_t n)
{
    real *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)random_normal(random);
    return x;
}

/* The calls under test, and how many roundings an entry may be away from the plain loops. */
typedef struct way {
    int64_t (*work)(const la_conv *s);
    void (*forward)(const la_conv *s, int count, const la_conv_term *term, bool bias, real *y, real *work);
    void (*back)(const la_conv *s, int count, const la_conv_term *term, bool add_x, real *dx, bool add_W, real *dW,
                 real *work);
    double roundings;
} way;

/* Sums of terms of size one: the error of each is an epsilon, and they add like a random walk at worst a few times
 * over. Winograd multiplies it by what its transforms do. */
static const way by_rule = {la_conv_work, la_conv_forward, la_conv_back, 20};
static const way by_points = {la_winograd_work, la_winograd_forward, la_winograd_back, 600}; /* 425 seen without FMA */

typedef struct problem {
    la_conv s;
    const way *way;
    int64_t weights, in, out;
    real *W, *x, *dy, *y, *dx, *dW, *work;
    plain expected;
} problem;

static void assert_close(const problem *p, int64_t n, const real *a, const double *b, int64_t terms)
{
    double epsilon = sizeof(real) == 8 ? 2.3e-16 : 1.2e-7;
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)a[i] - b[i]) <= p->way->roundings * epsilon * sqrt((double)terms) * (1 + fabs(b[i]))) continue;
        print_error("entry %lld: %.9g against %.9g\n", (long long)i, (double)a[i], b[i]);
        fail();
    }
}

static problem open_problem(const way *how, la_conv s, uint64_t seed)
{
    s.oh = (s.h + 2 * s.padding - s.kh) / s.stride + 1;
    s.ow = (s.w + 2 * s.padding - s.kw) / s.stride + 1;
    problem p = {.s = s, .way = how, .weights = s.out * (s.kh * s.kw * s.c + 1), .in = s.c * s.h * s.w * s.n};
    p.out = s.out * s.oh * s.ow * s.n;
    p.W = random_array(&seed, p.weights);
    p.x = random_array(&seed, p.in);
    p.dy = random_array(&seed, p.out);
    p.y = random_array(&seed, p.out);
    p.dx = random_array(&seed, p.in);
    p.dW = random_array(&seed, p.weights);
    p.work = random_array(&seed, how->work(&s));
    p.expected = (plain){calloc((size_t)p.out, sizeof(double)), calloc((size_t)p.in, sizeof(double)),
                         calloc((size_t)p.weights, sizeof(double))};
    plain_loops(&s, p.W, p.x, p.dy, &p.expected);
    return p;
}

static void close_problem(problem *p)
{
    real *arrays[] = {p->W, p->x, p->dy, p->y, p->dx, p->dW, p->work};
    for (int i = 0; i < 7; i++) free(arrays[i]);
    free(p->expected.y);
    free(p->expected.dx);
    free(p->expected.dW);
}

static void assert_back(problem *p, double times)
{
    for (int64_t i = 0; i < p->in; i++) p->expected.dx[i] *= times;
    for (int64_t i = 0; i < p->weights; i++) p->expected.dW[i] *= times;
    assert_close(p, p->in, p->dx, p->expected.dx, p->s.out * p->s.kh * p->s.kw);
    assert_close(p, p->weights, p->dW, p->expected.dW, p->s.oh * p->s.ow * p->s.n);
}

static void check(const way *how, la_conv s, uint64_t seed)
{
    problem p = open_problem(how, s, seed);
    la_conv_term term[2] = {{.W = p.W, .x = p.x, .dy = p.dy}, {.W = p.W, .x = p.x, .dy = p.dy}};
    int64_t depth = s.kh * s.kw * s.c, places = p.out / s.out;
    how->forward(&p.s, 1, term, true, p.y, p.work);
    how->back(&p.s, 1, term, false, p.dx, false, p.dW, p.work);
    assert_close(&p, p.out, p.y, p.expected.y, depth);
    assert_back(&p, 1);

    /* Adding the same again doubles it. */
    how->back(&p.s, 1, term, true, p.dx, true, p.dW, p.work);
    assert_back(&p, 2);

    /* So do two terms, but for the bias, which is the first's alone. */
    for (int64_t i = 0; i < p.out; i++) {
        p.expected.y[i] = 2 * p.expected.y[i] - (double)p.W[i / places * (depth + 1) + depth];
    }
    for (int64_t o = 0; o < s.out; o++) p.expected.dW[o * (depth + 1) + depth] /= 2;
    how->forward(&p.s, 2, term, true, p.y, p.work);
    how->back(&p.s, 2, term, false, p.dx, false, p.dW, p.work);
    assert_close(&p, p.out, p.y, p.expected.y, depth);
    assert_back(&p, 1);

    /* Terms that have no W or no x add nothing, and what is not wanted is not made. */
    term[1].W = term[1].x = NULL;
    for (int64_t o = 0; o < s.out; o++) p.expected.dW[o * (depth + 1) + depth] *= 2;
    how->back(&p.s, 2, term, false, NULL, false, p.dW, p.work);
    how->back(&p.s, 2, term, false, p.dx, false, NULL, p.work);
    assert_back(&p, 0.5);
    close_problem(&p);
}

static void random_shapes_match_plain_loops(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (int trial = 0; trial < 60; trial++) {
        la_conv s = {.c = 1 + random_below(&random, 5), .n = 1 + random_below(&random, 70)};
        s.out = 1 + random_below(&random, 9);
        s.kh = 1 + random_below(&random, 4);
        s.kw = 1 + random_below(&random, 4);
        s.h = s.kh + random_below(&random, 5);
        s.w = s.kw + random_below(&random, 5);
        s.stride = 1 + random_below(&random, 3);
        s.padding = random_below(&random, s.kh < s.kw ? s.kh : s.kw);
        check(&by_rule, s, 100 + (uint64_t)trial);
    }
}

static void large_matrices_match_plain_loops(void **state)
{
    (void)state;
    static const la_conv shapes[] = {
        {.c = 40, .h = 5, .w = 4, .n = 3, .out = 96, .kh = 3, .kw = 2, .stride = 1, .padding = 1},
        {.c = 60, .h = 6, .w = 6, .n = 1, .out = 70, .kh = 3, .kw = 3, .stride = 2, .padding = 0},
        {.c = 3, .h = 23, .w = 24, .n = 2, .out = 96, .kh = 11, .kw = 11, .stride = 4, .padding = 2},
    };
    for (int i = 0; i < 3; i++) {
        assert_false(la_conv_winograd(&shapes[i]));
        check(&by_rule, shapes[i], 1 + (uint64_t)i);
    }
}

/* Whatever the rule would choose: sides that are no multiple of a square's, or smaller than one; every padding. */
static void points_match_plain_loops(void **state)
{
    (void)state;
    uint64_t random = 12;
    for (int trial = 0; trial < 80; trial++) {
        la_conv s = {.c = 1 + random_below(&random, 9), .n = 1 + random_below(&random, 36), .stride = 1};
        s.out = 1 + random_below(&random, 9);
        s.kh = s.kw = trial % 2 ? 3 : 5;
        s.padding = random_below(&random, s.kh);
        int64_t min = s.kh > 2 * s.padding ? s.kh - 2 * s.padding : 1;
        s.h = min + random_below(&random, 9);
        s.w = min + random_below(&random, 9);
        if (trial % 5 == 0) s.n = 1;
        assert_true(la_winograd_fits(&s));
        check(&by_points, s, 200 + (uint64_t)trial);
    }
}

/* More squares than a block has. */
static void points_in_blocks_match_plain_loops(void **state)
{
    (void)state;
    check(&by_points,
          (la_conv){.c = 24, .h = 9, .w = 10, .n = 400, .out = 8, .kh = 3, .kw = 3, .stride = 1, .padding = 1}, 5);
}

static void threads_do_not_change_points(void **state)
{
    (void)state;
    la_conv s = {.c = 24, .h = 9, .w = 9, .n = 60, .out = 20, .kh = 5, .kw = 5, .stride = 1, .padding = 2};
    int threads = psgd_threads();
    problem one = open_problem(&by_points, s, 3), more = open_problem(&by_points, s, 3);
    problem *all[] = {&one, &more};
    for (int i = 0; i < 2; i++) {
        problem *p = all[i];
        la_conv_term term = {.W = p->W, .x = p->x, .dy = p->dy};
        assert_ok(psgd_set_threads(1 + 2 * i));
        la_winograd_forward(&p->s, 1, &term, true, p->y, p->work);
        la_winograd_back(&p->s, 1, &term, false, p->dx, false, p->dW, p->work);
    }
    assert_ok(psgd_set_threads(threads));
    assert_memory_equal(one.y, more.y, (size_t)one.out * sizeof(real));
    assert_memory_equal(one.dx, more.dx, (size_t)one.in * sizeof(real));
    assert_memory_equal(one.dW, more.dW, (size_t)one.weights * sizeof(real));
    close_problem(&one);
    close_problem(&more);
}

static double rms_error(int64_t n, const real *a, const double *b)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(error / size);
}

/* The layers of AlexNet go by points, and the error that la/kernel/points.c states is what comes out, within a half. */
static void error_of_points_is_as_stated(void **state)
{
    (void)state;
    double unit = sizeof(real) == 8 ? 1.0 / (1 << 29) : 1;
    for (int64_t window = 3; window <= 5; window += 2) {
        la_conv s = {.c = 96, .h = 8, .w = 8, .n = 4, .out = 32, .kh = window, .kw = window, .stride = 1};
        double stated = (window == 3 ? 1.0e-6 : 3.7e-6) * unit;
        assert_true(la_conv_winograd(&s));
        problem p = open_problem(&by_points, s, 9);
        la_conv_term term = {.W = p.W, .x = p.x, .dy = p.dy};
        la_conv_forward(&p.s, 1, &term, true, p.y, p.work);
        la_conv_back(&p.s, 1, &term, false, p.dx, false, p.dW, p.work);
        double errors[] = {rms_error(p.out, p.y, p.expected.y), rms_error(p.in, p.dx, p.expected.dx),
                           rms_error(p.weights, p.dW, p.expected.dW)};
        for (int i = 0; i < 3; i++) {
            if (errors[i] > 1.5 * stated) print_error("window %d: %g\n", (int)window, errors[i]);
            assert_true(errors[i] < 1.5 * stated);
        }
        close_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes_match_plain_loops), cmocka_unit_test(large_matrices_match_plain_loops),
        cmocka_unit_test(points_match_plain_loops),        cmocka_unit_test(points_in_blocks_match_plain_loops),
        cmocka_unit_test(threads_do_not_change_points),    cmocka_unit_test(error_of_points_is_as_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
