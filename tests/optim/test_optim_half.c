/* Optimizers over bfloat16 and float16 arrays: an f32 optimizer whose parameters are rounded here, entry by entry,
 * takes the same steps. */
#include "support.h"

#include "core/half.h"

enum { ROWS = 6, COLUMNS = 5, N = ROWS * COLUMNS, M = 4, SEED = 11, FIRST = 3 };

static const int64_t matrix[] = {ROWS, COLUMNS}, vector[] = {M};

static psgd_optimizer *make(const char *method, psgd_dtype dtype, const char *spec, int64_t rows,
                            const char *const *with)
{
    psgd_tensor tensors[] = {{.spec = spec, .ndim = 2, .shape = matrix, .rows = rows}, {.ndim = 1, .shape = vector}};
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set_number(options, "seed", SEED));
    assert_ok(psgd_options_set_number(options, "first-tensor", FIRST));
    for (; *with; with += 2) assert_ok(psgd_options_set(options, with[0], with[1]));
    assert_ok(psgd_optimizer_create(NULL, method, rows ? 1 : 2, tensors, dtype, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

/* Halves and the same as floats. */
typedef struct both {
    uint16_t half[2][N];
    float single[2][N];
} both;

static void fill(both *x, psgd_dtype dtype, uint64_t *random)
{
    for (int i = 0; i < 2 * N; i++) {
        float value = (float)((double)next_random(random) / 0x1p63 - 1);
        (&x->half[0][0])[i] = psgd__half_nearest(dtype, value);
        (&x->single[0][0])[i] = psgd__half_value(dtype, (&x->half[0][0])[i]);
    }
}

/* The parameters of the f32 optimizer after a step, rounded with the bits of entry i of their stream. */
static void round_here(psgd_dtype dtype, int tensor, int64_t step, int64_t from, int64_t count, float *x)
{
    rng_stream stream = psgd__rng_stream(SEED, RNG_ROUND, (uint64_t)(FIRST + tensor), (uint64_t)step);
    for (int64_t i = from; i < from + count; i++) {
        uint32_t bits = psgd__rng_bits(&stream, (uint64_t)i / 2);
        x[i] = psgd__half_value(dtype, psgd__half_rounded(dtype, x[i], i % 2 ? bits >> 16 : bits));
    }
}

static void assert_same(psgd_dtype dtype, const both *x)
{
    for (int i = 0; i < N; i++) assert_true(psgd__half_value(dtype, x->half[0][i]) == x->single[0][i]);
    for (int i = 0; i < M; i++) assert_true(psgd__half_value(dtype, x->half[1][i]) == x->single[1][i]);
}

static void compare(psgd_dtype dtype, const char *method, const char *const *with)
{
    uint64_t random = 17;
    psgd_optimizer *half = make(method, dtype, "kron(tri,tri)", 0, with);
    psgd_optimizer *single = make(method, PSGD_F32, "kron(tri,tri)", 0, with);
    both x, g, v, h;
    fill(&x, dtype, &random);
    both start = x;
    for (int step = 0; step < 20; step++) {
        fill(&g, dtype, &random);
        fill(&v, dtype, &random);
        fill(&h, dtype, &random);
        assert_ok(psgd_optimizer_step(half, (void *[]){x.half[0], x.half[1]}, (const void *[]){g.half[0], g.half[1]},
                                      (const void *[]){v.half[0], v.half[1]}, (const void *[]){h.half[0], h.half[1]}));
        assert_ok(psgd_optimizer_step(
            single, (void *[]){x.single[0], x.single[1]}, (const void *[]){g.single[0], g.single[1]},
            (const void *[]){v.single[0], v.single[1]}, (const void *[]){h.single[0], h.single[1]}));
        round_here(dtype, 0, step, 0, N, x.single[0]);
        round_here(dtype, 1, step, 0, M, x.single[1]);
        assert_same(dtype, &x);
    }
    assert_memory_not_equal(&x, &start, sizeof x);
    psgd_optimizer_free(half);
    psgd_optimizer_free(single);
}

static void steps_are_those_of_f32_rounded(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        psgd_dtype dtype = d ? PSGD_F16 : PSGD_BF16;
        compare(dtype, "psgd", (const char *const[]){"criterion", "fisher", "lr", "0.01", NULL});
        compare(dtype, "psgd", (const char *const[]){"criterion", "newton", "lr", "0.01", "momentum", "0.9", NULL});
        compare(dtype, "adamw", (const char *const[]){"lr", "0.001", "decay", "0.1", NULL});
    }
}

static void rows_are_rounded_where_they_are(void **state)
{
    (void)state;
    uint64_t random = 23;
    const char *const with[] = {"lr", "0.1", NULL};
    psgd_optimizer *half = make("adagrad", PSGD_BF16, NULL, 3, with);
    psgd_optimizer *single = make("adagrad", PSGD_F32, NULL, 3, with);
    both x, g;
    fill(&x, PSGD_BF16, &random);
    both start = x;
    for (int step = 0; step < 5; step++) {
        const int64_t index[] = {1, 4};
        const psgd_rows rows = {.count = 2, .index = index};
        fill(&g, PSGD_BF16, &random);
        assert_ok(psgd_optimizer_step_rows(half, (void *[]){x.half[0]}, (const psgd_rows *[]){&rows},
                                           (const void *[]){g.half[0]}, NULL, NULL));
        assert_ok(psgd_optimizer_step_rows(single, (void *[]){x.single[0]}, (const psgd_rows *[]){&rows},
                                           (const void *[]){g.single[0]}, NULL, NULL));
        for (int k = 0; k < 2; k++) round_here(PSGD_BF16, 0, step, index[k] * COLUMNS, COLUMNS, x.single[0]);
        assert_same(PSGD_BF16, &x);
    }
    assert_memory_equal(x.half[0], start.half[0], COLUMNS * sizeof(uint16_t)); /* row 0 */
    assert_memory_not_equal(x.half[0] + COLUMNS, start.half[0] + COLUMNS, COLUMNS * sizeof(uint16_t));
    psgd_optimizer_free(half);
    psgd_optimizer_free(single);
}

static void draws_are_those_of_f32_to_the_nearest(void **state)
{
    (void)state;
    const char *const with[] = {"criterion", "newton", "pairs", "2", NULL};
    psgd_optimizer *half = make("psgd", PSGD_F16, "diag", 0, with), *single = make("psgd", PSGD_F32, "diag", 0, with);
    uint16_t drawn[2 * N];
    float v[2 * N];
    assert_ok(psgd_optimizer_draw(half, 0, drawn));
    assert_ok(psgd_optimizer_draw(single, 0, v));
    for (int i = 0; i < 2 * N; i++) assert_int_equal(drawn[i], psgd__half_nearest(PSGD_F16, v[i]));
    psgd_optimizer_free(half);
    psgd_optimizer_free(single);
}

static void what_is_not_finite_is_skipped(void **state)
{
    (void)state;
    uint64_t random = 29;
    const char *const with[] = {"criterion", "fisher", NULL};
    psgd_optimizer *o = make("psgd", PSGD_BF16, "diag", 0, with);
    both x, g;
    fill(&x, PSGD_BF16, &random);
    fill(&g, PSGD_BF16, &random);
    both start = x;
    g.half[1][2] = 0x7f80; /* infinity */
    const void *gradients[] = {g.half[0], g.half[1]};
    assert_int_equal(psgd_optimizer_check(o, NULL, gradients, NULL, NULL), PSGD_ERR_NOT_FINITE);
    assert_ok(psgd_optimizer_step(o, (void *[]){x.half[0], x.half[1]}, gradients, NULL, NULL));
    assert_int_equal(psgd_optimizer_skipped(o), 1);
    assert_memory_equal(x.half, start.half, sizeof x.half);
    psgd_optimizer_free(o);
}

static void what_halves_cannot_do_is_said(void **state)
{
    (void)state;
    const char *const with[] = {"criterion", "fisher", NULL};
    psgd_optimizer *o = make("psgd", PSGD_BF16, "diag", 0, with);
    float x[N];
    psgd_precond *precond;
    assert_fails(psgd_optimizer_position(o, (const void *[]){x, x}, (void *[]){x, x}), PSGD_ERR_UNSUPPORTED, "bf16");
    assert_fails(psgd_precond_create(NULL, "diag", 1, vector, PSGD_F16, NULL, &precond), PSGD_ERR_ARGUMENT, "f16");
    assert_int_equal(psgd_dtype_size(PSGD_BF16), 2);
    assert_string_equal(psgd_dtype_name(PSGD_F16), "f16");
    psgd_optimizer_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_f32_rounded),        cmocka_unit_test(rows_are_rounded_where_they_are),
        cmocka_unit_test(draws_are_those_of_f32_to_the_nearest), cmocka_unit_test(what_is_not_finite_is_skipped),
        cmocka_unit_test(what_halves_cannot_do_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
