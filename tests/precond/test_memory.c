/* Every allocation of every create call fails in turn: the right status, no leak, nothing half made. */
#include "specs.h"
#include "support.h"

#include "core/options.h"

/* As in support.h, but only one allocation fails, or all from one on. */
typedef struct failing {
    int64_t made, outstanding, at;
    bool once;
} failing;

static void *failing_allocate(void *data, size_t bytes)
{
    failing *f = data;
    int64_t index = f->made++;
    if (f->at >= 0 && (f->once ? index == f->at : index >= f->at)) return NULL;
    void *memory = malloc(bytes);
    if (memory) memset(memory, 0xa5, bytes); /* nobody may count on zeros */
    f->outstanding += memory != NULL;
    return memory;
}

static void failing_release(void *data, void *memory)
{
    ((failing *)data)->outstanding--;
    assert_non_null(memory);
    free(memory);
}

typedef psgd_status (*attempt)(psgd_context *context, const void *data);

/* Runs the attempt until no allocation fails, with the failure one place later each time. */
static void exhaust(const char *what, attempt run, const void *data)
{
    for (int once = 0; once < 2; once++) {
        bool failed = true;
        for (int64_t at = 0; failed; at++) {
            failing f = {.at = -1, .once = once};
            psgd_allocator allocator = {failing_allocate, failing_release, &f};
            psgd_context *context;
            assert_ok(psgd_context_create(&allocator, &context));
            int64_t own = f.made;
            f.at = own + at;
            psgd_status status = run(context, data);
            failed = f.made > f.at;
            if (failed && status != PSGD_ERR_NO_MEMORY) {
                print_error("%s: allocation %lld failed, status %d: %s\n", what, (long long)at, (int)status,
                            psgd_last_error());
                fail();
            }
            if (!failed) assert_ok(status);
            if (failed) assert_true(strlen(psgd_last_error()) > 10);
            if (f.outstanding != 1) print_error("%s: leak after allocation %lld failed\n", what, (long long)at);
            assert_int_equal(f.outstanding, 1);
            f.at = -1;
            psgd_context_free(context);
            assert_int_equal(f.outstanding, 0);
            assert_true(at < 500);
        }
    }
}

static psgd_status make_context(psgd_context *unused, const void *data)
{
    (void)unused;
    (void)data;
    failing f = {.at = 0};
    psgd_allocator allocator = {failing_allocate, failing_release, &f};
    psgd_context *context = (psgd_context *)&f;
    assert_fails(psgd_context_create(&allocator, &context), PSGD_ERR_NO_MEMORY, "context");
    assert_null(context);
    assert_int_equal(f.outstanding, 0);
    return PSGD_OK;
}

static psgd_status make_options(psgd_context *context, const void *data)
{
    (void)data;
    psgd_options *options = NULL;
    psgd_status status = psgd_options_create(context, &options);
    if (status != PSGD_OK) {
        assert_null(options);
        return status;
    }
    status = psgd_options_set(options, "step", "0.1");
    if (status == PSGD_OK) status = psgd_options_set_number(options, "damping", 0.5);
    if (status == PSGD_OK) status = psgd_options_set(options, "step", "0.2");
    psgd_options_free(options);
    return status;
}

/* A failed setting leaves the earlier one in force. */
static psgd_status replace_option(psgd_context *context, const void *data)
{
    (void)data;
    int64_t n = 1;
    psgd_options *options;
    psgd_precond *precond;
    double Q = 0;
    psgd_status status = psgd_options_create(context, &options);
    if (status != PSGD_OK) return status;
    status = psgd_options_set(options, "init-scale", "2");
    if (status == PSGD_OK) {
        status = psgd_options_set(options, "init-scale", "3");
        assert_ok(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, options, &precond));
        assert_ok(psgd_precond_factor(precond, 0, &Q));
        assert_true(Q == (status == PSGD_OK ? 3 : 2));
        psgd_precond_free(precond);
    }
    psgd_options_free(options);
    return status;
}

static psgd_status make_precond(psgd_context *context, const void *data)
{
    const instance *g = data;
    psgd_precond *precond = (psgd_precond *)&precond;
    psgd_status status = psgd_precond_create(context, g->spec, g->ndim, g->shape, PSGD_F32, NULL, &precond);
    if (status != PSGD_OK) assert_null(precond);
    psgd_precond_free(precond);
    return status;
}

static psgd_status make_unbiased(psgd_context *context, const void *data)
{
    const instance *g = data;
    psgd_precond *precond;
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "criterion", "fisher"));
    assert_ok(psgd_options_set(options, "unbiased", "yes"));
    assert_ok(psgd_options_set(options, "integrate", "yes"));
    assert_ok(psgd_options_set(options, "norm", "second"));
    psgd_status status = psgd_precond_create(context, g->spec, g->ndim, g->shape, PSGD_F64, options, &precond);
    psgd_precond_free(precond);
    psgd_options_free(options);
    return status;
}

static psgd_status describe(psgd_context *context, const void *data)
{
    const instance *g = data;
    char *tree = (char *)&tree;
    int64_t size = -1;
    psgd_status status = psgd_group_cost(context, g->spec, g->ndim, g->shape, PSGD_F32, &size, NULL, NULL, NULL, NULL,
                                         NULL);
    assert_true(status == PSGD_OK ? size >= 0 : size == -1);
    if (status != PSGD_OK) return status;
    status = psgd_group_tree(context, g->spec, g->ndim, g->shape, PSGD_F32, &tree);
    if (status != PSGD_OK) assert_null(tree);
    psgd_text_free(context, tree);
    return status;
}

static psgd_status help(psgd_context *context, const void *data)
{
    (void)data;
    text lines = {.context = context};
    psgd_option_info option;
    for (int i = 0; psgd_precond_option(i, &option); i++) psgd__option_help(&lines, &option);
    psgd_status status = lines.failed ? PSGD_ERR_NO_MEMORY : PSGD_OK;
    if (lines.failed) assert_null(lines.chars);
    psgd__text_free(&lines);
    return status;
}

/* condition may allocate; it leaves the preconditioner as it was. */
static psgd_status condition(psgd_context *context, const void *data)
{
    const instance *g = data;
    psgd_precond *precond;
    double value = -1;
    psgd_status status = psgd_precond_create(context, g->spec, g->ndim, g->shape, PSGD_F64, NULL, &precond);
    if (status != PSGD_OK) return status;
    status = psgd_precond_condition(precond, &value);
    assert_true(status == PSGD_OK ? value == 1 : value == -1);
    psgd_precond_free(precond);
    return status;
}

static void contexts_and_options_survive(void **state)
{
    (void)state;
    exhaust("context", make_context, NULL);
    exhaust("options", make_options, NULL);
    exhaust("an option set twice", replace_option, NULL);
    exhaust("the help", help, NULL);
}

static void preconditioners_survive(void **state)
{
    (void)state;
    for (int i = 0; i < instance_count; i++) {
        exhaust(instances[i].spec, make_precond, &instances[i]);
        exhaust(instances[i].spec, make_unbiased, &instances[i]);
    }
}

static void descriptions_survive(void **state)
{
    (void)state;
    for (int i = 0; i < instance_count; i++) {
        exhaust(instances[i].spec, describe, &instances[i]);
        exhaust(instances[i].spec, condition, &instances[i]);
    }
}

/* Once created, nothing allocates: an allocator that always fails is not noticed. */
static void running_allocates_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < instance_count; i++) {
        const instance *g = &instances[i];
        failing f = {.at = -1};
        psgd_allocator allocator = {failing_allocate, failing_release, &f};
        psgd_context *context;
        psgd_precond *precond;
        uint64_t seed = 1;
        assert_ok(psgd_context_create(&allocator, &context));
        assert_ok(psgd_precond_create(context, g->spec, g->ndim, g->shape, PSGD_F64, NULL, &precond));
        int64_t n = psgd_precond_size(precond), made = f.made;
        double *v = calloc((size_t)n, sizeof *v), *h = calloc((size_t)n, sizeof *h), value;
        f.at = made;
        for (int k = 0; k < 200; k++) {
            for (int64_t j = 0; j < n; j++) {
                v[j] = random_normal(&seed);
                h[j] = random_normal(&seed);
            }
            assert_ok(psgd_precond_update(precond, v, h));
        }
        assert_ok(psgd_precond_criterion(precond, v, h, &value));
        for (int what = 0; what <= PSGD_APPLY_QT_INVERSE; what++) {
            assert_ok(psgd_precond_apply(precond, (psgd_operator)what, v, h));
        }
        assert_int_equal(f.made, made);
        free(v);
        free(h);
        psgd_precond_free(precond);
        psgd_context_free(context);
        assert_int_equal(f.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_and_options_survive),
        cmocka_unit_test(preconditioners_survive),
        cmocka_unit_test(descriptions_survive),
        cmocka_unit_test(running_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
