/* Ranks as threads: sums in the order of the tree, shares, agreements, and what happens where one rank fails. */
#include "support.h"

#include <pthread.h>

enum { MAX_RANKS = 8 };

typedef struct team team;

/* What one rank does. Tests look at results after all ranks have ended: cmocka is for one thread. */
typedef struct rank_job {
    team *team;
    psgd_comm *comm;
    int rank;
    psgd_status status;
    char sentence[256];
    double x[64];
    float *big;
} rank_job;

struct team {
    int size;
    psgd_status (*work)(rank_job *job);
    rank_job jobs[MAX_RANKS];
    int64_t count;
};

static void *run_rank(void *data)
{
    rank_job *job = data;
    job->status = job->team->work(job);
    snprintf(job->sentence, sizeof job->sentence, "%s", psgd_last_error());
    return NULL;
}

static void run_team(team *t, int size, psgd_status (*work)(rank_job *job))
{
    psgd_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    t->size = size;
    t->work = work;
    assert_ok(psgd_comm_threads(NULL, size, comms));
    for (int r = 0; r < size; r++) {
        t->jobs[r] = (rank_job){.team = t, .comm = comms[r], .rank = r, .big = t->jobs[r].big};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &t->jobs[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) psgd_comm_free(comms[r]);
}

static void assert_all_ok(const team *t)
{
    for (int r = 0; r < t->size; r++) {
        if (t->jobs[r].status != PSGD_OK) print_error("rank %d: %s\n", r, t->jobs[r].sentence);
        assert_int_equal(t->jobs[r].status, PSGD_OK);
    }
}

/* Term of a rank, entry i: of very different sizes, so that the order of a sum shows in its bits. */
static float term(int rank, int64_t i)
{
    uint64_t seed = (uint64_t)(rank * 1000003 + i + 1) * 0x9E3779B97F4A7C15u | 1;
    next_random(&seed);
    return (float)((random_uniform(&seed) - 0.5) * pow(10, random_uniform(&seed) * 6));
}

static float tree(int from, int count, int64_t i)
{
    if (count == 1) return term(from, i);
    int left = 1;
    while (2 * left < count) left *= 2;
    return tree(from, left, i) + tree(from + left, count - left, i);
}

static psgd_status sum_work(rank_job *job)
{
    int64_t count = job->team->count;
    for (int64_t i = 0; i < count; i++) job->big[i] = term(job->rank, i);
    return psgd_comm_sum(job->comm, PSGD_F32, count, job->big);
}

static void sums_are_those_of_the_tree_on_every_rank(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 3, 1000, 300001}; /* below and above a chunk */
    team t = {0};
    for (int r = 0; r < MAX_RANKS; r++) assert_non_null(t.jobs[r].big = malloc(300001 * sizeof(float)));
    for (int size = 1; size <= MAX_RANKS; size++) {
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            t.count = counts[k];
            run_team(&t, size, sum_work);
            assert_all_ok(&t);
            for (int64_t i = 0; i < t.count; i += 1 + t.count / 500) {
                float expected = tree(0, size, i);
                for (int r = 0; r < size; r++) assert_memory_equal(&t.jobs[r].big[i], &expected, sizeof expected);
            }
        }
    }
    for (int r = 0; r < MAX_RANKS; r++) free(t.jobs[r].big);
}

/* Each rank sends 2 (size - 1) / size of the array: count elements, divisible. */
static psgd_status count_work(rank_job *job)
{
    int64_t before = psgd_comm_sent(job->comm);
    psgd_status status = sum_work(job);
    job->x[0] = (double)(psgd_comm_sent(job->comm) - before);
    return status;
}

static void sums_send_what_the_formula_says(void **state)
{
    (void)state;
    team t = {.count = 840 * 300};
    for (int r = 0; r < MAX_RANKS; r++) assert_non_null(t.jobs[r].big = malloc((size_t)t.count * sizeof(float)));
    for (int size = 1; size <= MAX_RANKS; size++) {
        run_team(&t, size, count_work);
        for (int r = 0; r < size; r++) {
            assert_true(t.jobs[r].x[0] == 2.0 * (size - 1) / size * (double)t.count * sizeof(float));
        }
    }
    for (int r = 0; r < MAX_RANKS; r++) free(t.jobs[r].big);
}

/* Segments of 0, 1, 2, .. elements. */
static psgd_status segments_work(rank_job *job)
{
    int64_t counts[MAX_RANKS];
    int at = 0;
    for (int r = 0; r < job->team->size; r++) {
        counts[r] = r;
        for (int k = 0; k < r; k++) job->x[at++] = 100 * r + k + 0.25 * job->rank;
    }
    psgd_status status = psgd_comm_sum_to(job->comm, PSGD_F64, counts, job->x);
    return status == PSGD_OK ? psgd_comm_share(job->comm, sizeof(double), counts, job->x) : status;
}

static void segments_are_summed_to_their_owners_and_shared(void **state)
{
    (void)state;
    team t = {0};
    for (int size = 1; size <= MAX_RANKS; size++) {
        run_team(&t, size, segments_work);
        assert_all_ok(&t);
        for (int r = 0; r < size; r++) {
            int at = 0;
            for (int owner = 0; owner < size; owner++) {
                for (int k = 0; k < owner; k++) {
                    double expected = size * (100 * owner + k) + 0.25 * size * (size - 1) / 2;
                    assert_true(fabs(t.jobs[r].x[at] - expected) < 1e-9 * expected);
                    at++;
                }
            }
        }
    }
}

/* All of it is the last rank's. */
static psgd_status uneven_work(rank_job *job)
{
    int64_t counts[MAX_RANKS] = {0}, count = job->team->count;
    counts[job->team->size - 1] = count;
    for (int64_t i = 0; i < count; i++) job->big[i] = term(job->rank, i);
    int64_t before = psgd_comm_sent(job->comm);
    psgd_status status = psgd_comm_sum_to(job->comm, PSGD_F32, counts, job->big);
    if (status == PSGD_OK) status = psgd_comm_share(job->comm, sizeof(float), counts, job->big);
    job->x[0] = (double)(psgd_comm_sent(job->comm) - before);
    return status;
}

static void a_segment_that_is_all_of_one_rank_costs_it_no_more_than_twice(void **state)
{
    (void)state;
    team t = {.count = 840 * 300};
    double bytes = (double)t.count * sizeof(float);
    for (int r = 0; r < MAX_RANKS; r++) assert_non_null(t.jobs[r].big = malloc((size_t)bytes));
    for (int size = 2; size <= MAX_RANKS; size++) {
        run_team(&t, size, uneven_work);
        assert_all_ok(&t);
        for (int r = 0; r < size; r++) {
            assert_true(t.jobs[r].x[0] <= 3 * bytes);
            for (int64_t i = 0; i < t.count; i += 501) {
                float expected = tree(0, size, i);
                assert_memory_equal(&t.jobs[r].big[i], &expected, sizeof expected);
            }
        }
    }
    for (int r = 0; r < MAX_RANKS; r++) free(t.jobs[r].big);
}

static void owners_take_the_dearest_first(void **state)
{
    (void)state;
    const double cost[] = {3, 0, 5, 4, 1, 3};
    int owners[6];
    psgd_comm_owners(2, 6, cost, owners); /* 5 | 4, 3 | 4 + 3 = 7 then 5 + 3 = 8, 7 + 1 */
    const int expected[] = {1, -1, 0, 1, 1, 0};
    assert_memory_equal(owners, expected, sizeof expected);
    psgd_comm_owners(1, 6, cost, owners);
    for (int i = 0; i < 6; i++) assert_int_equal(owners[i], i == 1 ? -1 : 0);
}

static psgd_status broadcast_work(rank_job *job)
{
    for (int root = 0; root < job->team->size; root++) {
        double value = job->rank == root ? 10 + root : -1;
        psgd_status status = psgd_comm_broadcast(job->comm, root, sizeof value, &value);
        if (status != PSGD_OK) return status;
        job->x[root] = value;
        if ((status = psgd_comm_barrier(job->comm)) != PSGD_OK) return status;
    }
    return PSGD_OK;
}

static void broadcasts_reach_all_ranks(void **state)
{
    (void)state;
    team t = {0};
    for (int size = 1; size <= MAX_RANKS; size++) {
        run_team(&t, size, broadcast_work);
        assert_all_ok(&t);
        for (int r = 0; r < size; r++) {
            for (int root = 0; root < size; root++) assert_true(t.jobs[r].x[root] == 10 + root);
        }
    }
}

/* Ranks 2 and 5 fail. */
static psgd_status failing_work(rank_job *job)
{
    psgd_status own = PSGD_OK;
    psgd_group_cost(NULL, job->rank == 2 ? "nosuch" : "none", 1, (int64_t[]){1}, PSGD_F32, NULL, NULL, NULL, NULL, NULL,
                    NULL);
    if (job->rank == 2) own = PSGD_ERR_SPEC;
    if (job->rank == 5) own = PSGD_ERR_IO;
    return psgd_comm_agree(job->comm, own);
}

static void all_ranks_agree_on_the_failure_of_the_lowest(void **state)
{
    (void)state;
    team t = {0};
    run_team(&t, 2, failing_work);
    assert_all_ok(&t);
    for (int size = 3; size <= MAX_RANKS; size++) {
        run_team(&t, size, failing_work);
        for (int r = 0; r < size; r++) {
            assert_int_equal(t.jobs[r].status, PSGD_ERR_SPEC);
            assert_non_null(strstr(t.jobs[r].sentence, "rank 2: "));
            assert_non_null(strstr(t.jobs[r].sentence, "nosuch"));
        }
    }
}

/* The last rank stops while the others wait for it. */
static psgd_status stopping_work(rank_job *job)
{
    if (job->rank == job->team->size - 1) {
        psgd_comm_stop(job->comm, "the disk is full");
        return PSGD_OK;
    }
    psgd_status status = PSGD_OK;
    while (status == PSGD_OK) status = psgd_comm_barrier(job->comm);
    return status;
}

static void a_rank_that_stops_ends_the_others(void **state)
{
    (void)state;
    team t = {0};
    for (int size = 2; size <= MAX_RANKS; size++) {
        run_team(&t, size, stopping_work);
        for (int r = 0; r < size - 1; r++) {
            char expected[64];
            snprintf(expected, sizeof expected, "rank %d: the disk is full", size - 1);
            assert_int_equal(t.jobs[r].status, PSGD_ERR_RANK);
            assert_string_equal(t.jobs[r].sentence, expected);
        }
    }
}

static psgd_status unequal_work(rank_job *job)
{
    double x[3] = {0};
    psgd_status status = psgd_comm_broadcast(job->comm, 0, job->rank == 0 ? 24 : 16, x);
    if (status != PSGD_OK) psgd_comm_stop(job->comm, "gives up");
    return status;
}

static void ranks_that_call_with_other_sizes_are_told(void **state)
{
    (void)state;
    team t = {0};
    run_team(&t, 2, unequal_work);
    assert_int_equal(t.jobs[1].status, PSGD_ERR_ARGUMENT);
    assert_non_null(strstr(t.jobs[1].sentence, "rank 0 sends 24 bytes and rank 1 expects 16"));
    assert_int_equal(t.jobs[0].status, PSGD_ERR_RANK);
}

static psgd_status delayed_work(rank_job *job)
{
    psgd_status status = psgd_comm_delay(job->comm, 0.02, 0);
    return status == PSGD_OK ? psgd_comm_barrier(job->comm) : status;
}

static void delays_are_for_threads_and_not_negative(void **state)
{
    (void)state;
    team t = {0};
    run_team(&t, 2, delayed_work);
    assert_all_ok(&t);
    assert_fails(psgd_comm_delay(NULL, 0, 0), PSGD_ERR_ARGUMENT, "threads");
}

/* Terms 0 .. count - 1 by one rank, and by ranks of 1, 2, 4 terms each: the same bits. */
static float sum_by(int count, int each)
{
    float part_memory[8] = {0}, level[8];
    void *part[8];
    for (int k = 0; k < 8; k++) part[k] = &part_memory[k];
    int ranks = count / each;
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < each; i++) {
            float x = term(r * each + i, 7);
            psgd_tree_add(PSGD_F32, 1, i, &x, part);
        }
        psgd_tree_end(PSGD_F32, 1, each, part);
        level[r] = part_memory[0];
    }
    for (int stride = 1; stride < ranks; stride *= 2) {
        for (int r = 0; r + stride < ranks; r += 2 * stride) level[r] += level[r + stride];
    }
    return level[0];
}

static void terms_of_a_rank_are_a_node_of_the_same_tree(void **state)
{
    (void)state;
    for (int count = 1; count <= 8; count++) {
        float expected = tree(0, count, 7);
        for (int each = 1; each <= count; each++) {
            bool fits = count % each == 0 && (each == count || (each & (each - 1)) == 0);
            if (!fits) continue;
            float found = sum_by(count, each);
            assert_memory_equal(&found, &expected, sizeof found);
        }
    }
    assert_int_equal(psgd_tree_depth(1), 1);
    assert_int_equal(psgd_tree_depth(8), 4);
}

static void a_single_rank_needs_no_comm(void **state)
{
    (void)state;
    double x = 3;
    int64_t count = 1;
    assert_ok(psgd_comm_sum(NULL, PSGD_F64, 1, &x));
    assert_ok(psgd_comm_sum_to(NULL, PSGD_F64, &count, &x));
    assert_ok(psgd_comm_share(NULL, sizeof x, &count, &x));
    assert_ok(psgd_comm_broadcast(NULL, 0, sizeof x, &x));
    assert_ok(psgd_comm_barrier(NULL));
    assert_int_equal(psgd_comm_agree(NULL, PSGD_ERR_IO), PSGD_ERR_IO);
    psgd_comm_stop(NULL, "nobody");
    psgd_comm_free(NULL);
    assert_int_equal(psgd_comm_size(NULL), 1);
    assert_true(x == 3);
}

static void bad_arguments_and_missing_memory_are_told(void **state)
{
    (void)state;
    psgd_comm *comms[4];
    assert_fails(psgd_comm_threads(NULL, 0, comms), PSGD_ERR_ARGUMENT, "at least one");
    assert_fails(psgd_comm_create(NULL, 2, 2, NULL, NULL, comms), PSGD_ERR_ARGUMENT, "table");
    assert_fails(psgd_comm_create(NULL, 0, 2, &(psgd_comm_ops){0}, NULL, comms), PSGD_ERR_ARGUMENT, "exchange");
    assert_fails(psgd_comm_broadcast(NULL, 1, 0, NULL), PSGD_ERR_ARGUMENT, "rank");
    for (int64_t fail_at = 0;; fail_at++) {
        counting c = {.fail_at = -1};
        psgd_context *context;
        psgd_allocator hooks = {counting_allocate, counting_release, &c};
        assert_ok(psgd_context_create(&hooks, &context));
        c.fail_at = c.made + fail_at;
        psgd_status status = psgd_comm_threads(context, 4, comms);
        for (int r = 0; r < 4; r++) psgd_comm_free(comms[r]);
        assert_int_equal(c.outstanding, 1);
        psgd_context_free(context);
        if (status == PSGD_OK) break;
        assert_int_equal(status, PSGD_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_tree_on_every_rank),
        cmocka_unit_test(sums_send_what_the_formula_says),
        cmocka_unit_test(segments_are_summed_to_their_owners_and_shared),
        cmocka_unit_test(a_segment_that_is_all_of_one_rank_costs_it_no_more_than_twice),
        cmocka_unit_test(owners_take_the_dearest_first),
        cmocka_unit_test(broadcasts_reach_all_ranks),
        cmocka_unit_test(all_ranks_agree_on_the_failure_of_the_lowest),
        cmocka_unit_test(a_rank_that_stops_ends_the_others),
        cmocka_unit_test(ranks_that_call_with_other_sizes_are_told),
        cmocka_unit_test(delays_are_for_threads_and_not_negative),
        cmocka_unit_test(terms_of_a_rank_are_a_node_of_the_same_tree),
        cmocka_unit_test(a_single_rank_needs_no_comm),
        cmocka_unit_test(bad_arguments_and_missing_memory_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
