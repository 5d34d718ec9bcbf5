/* One vector out of several tensors: the same as the tensors put together by hand. */
#include "support.h"

enum { N = 11, PARTS = 3 };
static const int64_t sizes[PARTS] = {2, 5, 4};

static void split(const double *x, const void *parts[PARTS])
{
    for (int i = 0, at = 0; i < PARTS; at += (int)sizes[i++]) parts[i] = x + at;
}

static void joint_is_the_whole_vector(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "tri", "dense", "lra(2)", "splu(2)", "xmat", "diag", "sum(tri:2,lra(1):5,diag)"};
    uint64_t seed = 21;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        psgd_precond *joint, *whole;
        int64_t n = N;
        assert_ok(psgd_precond_create_joint(NULL, specs[s], PARTS, sizes, PSGD_F64, NULL, &joint));
        assert_ok(psgd_precond_create(NULL, specs[s], 1, &n, PSGD_F64, NULL, &whole));
        assert_int_equal(psgd_precond_size(joint), N);
        assert_int_equal(psgd_precond_segment_count(joint), PARTS);
        assert_int_equal(psgd_precond_segment_size(joint, 1), 5);
        assert_int_equal(psgd_precond_segment_count(whole), 0);
        for (int t = 0; t < 20; t++) {
            double v[N], h[N], out[N], expected[N], value, same;
            const void *v_parts[PARTS], *h_parts[PARTS], *out_parts[PARTS];
            for (int i = 0; i < N; i++) v[i] = random_normal(&seed), h[i] = 2 * v[i] + random_normal(&seed);
            split(v, v_parts);
            split(h, h_parts);
            split(out, out_parts);
            assert_ok(psgd_precond_criterion_segments(joint, v_parts, h_parts, &value));
            assert_ok(psgd_precond_criterion(whole, v, h, &same));
            assert_true(value == same);
            assert_ok(psgd_precond_update_segments(joint, v_parts, h_parts));
            assert_ok(psgd_precond_update(whole, v, h));
            assert_ok(psgd_precond_apply_segments(joint, PSGD_APPLY_P, h_parts, (void *const *)out_parts));
            assert_ok(psgd_precond_apply(whole, PSGD_APPLY_P, h, expected));
            assert_memory_equal(out, expected, sizeof out);
        }
        psgd_precond_free(joint);
        psgd_precond_free(whole);
    }
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    psgd_precond *joint, *whole;
    int64_t n = 4, zero[] = {3, 0};
    double x[N] = {0};
    const void *parts[PARTS] = {x, x + 2, NULL};
    assert_fails(psgd_precond_create_joint(NULL, "diag", 0, sizes, PSGD_F64, NULL, &joint), PSGD_ERR_ARGUMENT,
                 "at least one tensor");
    assert_fails(psgd_precond_create_joint(NULL, "diag", 2, zero, PSGD_F64, NULL, &joint), PSGD_ERR_ARGUMENT,
                 "tensor 1 has 0 elements");
    assert_fails(psgd_precond_create_joint(NULL, "kron(tri,tri)", PARTS, sizes, PSGD_F64, NULL, &joint), PSGD_ERR_SPEC,
                 "1 dimension");
    assert_ok(psgd_precond_create_joint(NULL, "diag", PARTS, sizes, PSGD_F64, NULL, &joint));
    assert_ok(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, NULL, &whole));
    assert_fails(psgd_precond_update_segments(joint, parts, parts), PSGD_ERR_ARGUMENT, "h of tensor 2 is NULL");
    assert_fails(psgd_precond_update_segments(whole, parts, parts), PSGD_ERR_ARGUMENT, "psgd_precond_create_joint");
    psgd_precond_free(joint);
    psgd_precond_free(whole);
}

static void failed_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    counting c = {.fail_at = -1};
    psgd_allocator allocator = {counting_allocate, counting_release, &c};
    bool done = false;
    for (int64_t fail_at = 1; !done; fail_at++) {
        psgd_context *context;
        psgd_precond *first = NULL, *second = NULL;
        c = (counting){.fail_at = -1};
        assert_ok(psgd_context_create(&allocator, &context));
        c.fail_at = fail_at;
        psgd_status status = psgd_precond_create_joint(context, "lra(2)", PARTS, sizes, PSGD_F32, NULL, &first);
        if (status == PSGD_OK) {
            status = psgd_precond_create_joint(context, "splu(2)", PARTS, sizes, PSGD_F32, NULL, &second);
        }
        assert_true(status == PSGD_OK || status == PSGD_ERR_NO_MEMORY);
        done = status == PSGD_OK;
        psgd_precond_free(first);
        psgd_precond_free(second);
        psgd_context_free(context);
        assert_int_equal(c.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_is_the_whole_vector),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(failed_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
