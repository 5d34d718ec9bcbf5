/* Convolution and its derivatives against plain loops, on both of its ways: direct for small matrices, patches for
 * large ones. */
#include "support.h"

#include "la/conv.h"

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

/* Sums of terms of size one: the error of each is an epsilon, and they add like a random walk at worst a few times
 * over. */
static void assert_close(int64_t n, const real *a, const double *b, double terms)
{
    double epsilon = sizeof(real) == 8 ? 2.3e-16 : 1.2e-7;
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)a[i] - b[i]) <= 20 * epsilon * sqrt(terms) * (1 + fabs(b[i]))) continue;
        print_error("entry %lld: %.9g against %.9g\n", (long long)i, (double)a[i], b[i]);
        fail();
    }
}

static void check(la_conv s, uint64_t seed)
{
    s.oh = (s.h + 2 * s.padding - s.kh) / s.stride + 1;
    s.ow = (s.w + 2 * s.padding - s.kw) / s.stride + 1;
    int64_t depth = s.kh * s.kw * s.c, weights = s.out * (depth + 1), in = s.c * s.h * s.w * s.n;
    int64_t out = s.out * s.oh * s.ow * s.n;
    real *W = random_array(&seed, weights), *x = random_array(&seed, in), *dy = random_array(&seed, out);
    real *y = random_array(&seed, out), *dx = random_array(&seed, in), *dW = random_array(&seed, weights);
    real *work = random_array(&seed, la_conv_work(&s));
    plain expected = {calloc((size_t)out, sizeof(double)), calloc((size_t)in, sizeof(double)),
                      calloc((size_t)weights, sizeof(double))};
    plain_loops(&s, W, x, dy, &expected);
    la_conv_forward(&s, W, x, true, false, y, work);
    la_conv_back_input(&s, W, dy, false, dx, work);
    la_conv_back_weights(&s, x, dy, true, false, dW, work);
    assert_close(out, y, expected.y, (double)depth);
    assert_close(in, dx, expected.dx, (double)(s.out * s.kh * s.kw));
    assert_close(weights, dW, expected.dW, (double)(s.oh * s.ow * s.n));

    /* Adding the same again doubles everything but the bias, which forward was told to leave out. */
    la_conv_back_input(&s, W, dy, true, dx, work);
    la_conv_back_weights(&s, x, dy, true, true, dW, work);
    for (int64_t i = 0; i < in; i++) expected.dx[i] *= 2;
    for (int64_t i = 0; i < weights; i++) expected.dW[i] *= 2;
    assert_close(in, dx, expected.dx, (double)(s.out * s.kh * s.kw));
    assert_close(weights, dW, expected.dW, (double)(s.oh * s.ow * s.n));
    real *arrays[] = {W, x, dy, y, dx, dW, work};
    for (int i = 0; i < 7; i++) free(arrays[i]);
    free(expected.y);
    free(expected.dx);
    free(expected.dW);
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
        check(s, 100 + (uint64_t)trial);
    }
}

static void large_matrices_match_plain_loops(void **state)
{
    (void)state;
    check((la_conv){.c = 40, .h = 5, .w = 4, .n = 3, .out = 96, .kh = 3, .kw = 3, .stride = 1, .padding = 1}, 1);
    check((la_conv){.c = 60, .h = 6, .w = 6, .n = 1, .out = 70, .kh = 3, .kw = 3, .stride = 2, .padding = 0}, 2);
    check((la_conv){.c = 3, .h = 23, .w = 24, .n = 2, .out = 96, .kh = 11, .kw = 11, .stride = 4, .padding = 2}, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes_match_plain_loops),
        cmocka_unit_test(large_matrices_match_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
