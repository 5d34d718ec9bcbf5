/* Only create allocates, and no more than state, two tensors and one R.
 *
 * The allocator of the context counts, and so does malloc itself: this test is linked with --wrap=malloc,calloc. */
#include "support.h"

#include "core/dtype.h"
#include "precond/precond.h"

static int64_t system_calls;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    system_calls++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    system_calls++;
    return __real_calloc(count, bytes);
}

typedef struct tally {
    int64_t calls, bytes;
} tally;

static void *tally_allocate(void *data, size_t bytes)
{
    tally *t = data;
    t->calls++;
    t->bytes += (int64_t)bytes;
    return malloc(bytes);
}

static void tally_release(void *data, void *memory)
{
    (void)data;
    free(memory);
}

typedef struct some_case {
    const char *spec;
    int ndim;
    int64_t shape[2];
} some_case;

static const some_case cases[] = {
    {"diag", 1, {50000}},
    {"xmat", 1, {40001}},
    {"tri", 1, {300}},
    {"dense", 1, {60}},
    {"scan", 2, {200, 301}},
    {"scaw", 2, {100, 201}},
    {"kron(tri,tri)", 2, {90, 120}},
    {"kron(norm,tri)", 2, {90, 120}},
    {"kron(dense,diag)", 2, {40, 50}},
    {"sum(tri:100,diag)", 1, {3000}},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static int64_t size_of(const some_case *c)
{
    return c->shape[0] * (c->ndim == 2 ? c->shape[1] : 1);
}

static void only_create_allocates(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const some_case *c = &cases[i];
        int64_t n = size_of(c), size, bytes;
        double cost[4];
        tally t = {0};
        psgd_allocator allocator = {tally_allocate, tally_release, &t};
        psgd_context *context;
        psgd_precond *p;
        real *v = malloc((size_t)n * sizeof *v), *h = malloc((size_t)n * sizeof *h), *y = calloc((size_t)n, sizeof *y);
        assert_ok(psgd_normal_fill(REAL_DTYPE, 1, 0, 0, 0, n, v));
        assert_ok(psgd_normal_fill(REAL_DTYPE, 1, 1, 0, 0, n, h));
        assert_ok(psgd_context_create(&allocator, &context));
        assert_ok(psgd_group_cost(context, c->spec, c->ndim, c->shape, REAL_DTYPE, &size, &bytes, cost, cost + 1,
                                  cost + 2, cost + 3));
        t.bytes = 0;
        assert_ok(psgd_precond_create(context, c->spec, c->ndim, c->shape, REAL_DTYPE, NULL, &p));

        /* State, two tensors, an R of at most the size of the state; sums of a few doubles for each row and column. */
        int64_t sides = c->shape[0] + (c->ndim == 2 ? c->shape[1] : 0);
        int64_t max = 2 * bytes + 2 * n * (int64_t)sizeof(real) + 40 * sides * (int64_t)sizeof(double) + 65536;
        if (strstr(c->spec, "dense")) max += bytes;
        assert_true(t.bytes <= max);

        assert_ok(psgd_precond_update(p, v, h));
        int64_t calls = t.calls, before = system_calls;
        for (int k = 0; k < 3; k++) {
            assert_ok(psgd_precond_update(p, v, h));
            assert_ok(psgd_precond_update(p, h, v));
            assert_ok(psgd_precond_apply(p, PSGD_APPLY_P, h, y));
        }
        assert_int_equal(t.calls, calls);
        assert_int_equal(system_calls, before);
        psgd_precond_free(p);
        psgd_context_free(context);
        free(v);
        free(h);
        free(y);
    }
}

/* So large that the sums beside rows and columns are small. */
static const struct {
    some_case is;
    int64_t largest; /* numbers in an R of the largest factor */
} large[] = {
    {{"diag", 1, {1000000}}, 1000000},
    {{"xmat", 1, {1000000}}, 2000000},
    {{"tri", 1, {1500}}, 1500 * 1501 / 2},
    {{"scan", 2, {2000, 1001}}, 2 * 1001},
    {{"kron(diag,diag)", 2, {2000, 1001}}, 2000},
    {{"scaw", 2, {500, 1001}}, 1001 * 1001},
    {{"kron(tri,diag)", 2, {900, 1000}}, 900 * 900},
    {{"kron(tri,norm)", 2, {900, 1000}}, 900 * 900},
    {{"kron(norm,tri)", 2, {900, 1000}}, 1000 * 1000},
    {{"kron(tri,tri)", 2, {900, 1000}}, 1000 * 1000},
};

/* State, two tensors and one R of the largest factor; beside them, sums of parts for each row and column. */
static void memory_holds_one_r(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        const some_case *c = &large[i].is;
        int64_t size, bytes, sides = c->shape[0] + c->shape[1];
        tally t = {0};
        psgd_allocator allocator = {tally_allocate, tally_release, &t};
        psgd_context *context;
        psgd_precond *p;
        assert_ok(psgd_context_create(&allocator, &context));
        assert_ok(
            psgd_group_cost(context, c->spec, c->ndim, c->shape, REAL_DTYPE, &size, &bytes, NULL, NULL, NULL, NULL));
        t.bytes = 0;
        assert_ok(psgd_precond_create(context, c->spec, c->ndim, c->shape, REAL_DTYPE, NULL, &p));
        int64_t beside = c->ndim == 2 ? 60 * sides * (int64_t)sizeof(double) : 65536;
        int64_t max = bytes + (2 * size_of(c) + large[i].largest) * (int64_t)sizeof(real) + beside;
        if (t.bytes > max) {
            print_error("%s takes %lld bytes, not %lld\n", c->spec, (long long)t.bytes, (long long)max);
            fail();
        }
        psgd_precond_free(p);
        psgd_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_create_allocates),
        cmocka_unit_test(memory_holds_one_r),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
