/* Curvature ranks, as threads: bits and saved states of data ranks and curvature ranks in any number are those of one
 * process with worker threads, also where products fail; what all ranks are told. */
#include "support.h"

#include <math.h>
#include <pthread.h>

enum { PARTS = 4, SHARES = 4, STEPS = 14, HALF = 8, TOTAL = 63 + 30 + 99 + 10, MAX_RANKS = 6, DEPTH = 4 };

static const char *const specs[PARTS] = {"kron(dense,dense)", "scan", "tiles(kron(dense,dense),2,3)", "diag"};
static const int64_t shapes[PARTS][2] = {{7, 9}, {5, 6}, {9, 11}, {1, 10}};

static int64_t size_of(int i)
{
    return shapes[i][0] * shapes[i][1];
}

typedef struct config {
    const char *options[12];
} config;

static const config configs[] = {
    {{"delay", "1", "update-every", "1"}},
    {{"delay", "3", "update-every", "2", "pairs", "2", "l2", "0.1"}},
    {{"delay", "7", "update-every", "1", "probe", "preconditioned"}}, /* more pairs than may be under way */
    {{"delay", "2", "update-every", "1", "joint", "yes", "group", "diag"}},
    {{"delay", "4", "update-every", "3", "probe", "mixed", "step-schedule", "cosine", "total", "14"}},
};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

typedef struct team team;

typedef struct rank_job {
    team *team;
    psgd_comm *comm, *all;
    int rank, size; /* among those of the same kind */
    psgd_optimizer *optimizer;
    psgd_status status;
    char sentence[256];
    double x[TOTAL], g[TOTAL], term[TOTAL], part[DEPTH][TOTAL];
    void *theta[PARTS], *gradient[PARTS];
    int64_t kept[32]; /* the step that each slot is of */
    int64_t skipped, sent;
} rank_job;

struct team {
    const config *config;
    int data_ranks, curvature_ranks; /* 0 curvature ranks: one rank with worker threads */
    int64_t bad_step, failing_step;  /* whose product is not finite, or fails on the last rank; -1: none */
    int64_t bytes;                   /* of the state */
    char *saved, *loaded;            /* after HALF steps, and to start from then; may be NULL */
    rank_job jobs[MAX_RANKS];
};

/* Share m of the gradient and of Hv at step t; sums of (x_i - x_j)^2 / 2 over neighbours and x^4 / 4. */
static void add_share(int m, int64_t t, const double *x, const double *v, double *to)
{
    double scale = (1 + 0.1 * (double)(t % 5) + 0.2 * m) / SHARES;
    for (int i = 0; i < TOTAL; i++) {
        const double *y = v ? v : x;
        double left = i > 0 ? y[i] - y[i - 1] : y[i], right = i + 1 < TOTAL ? y[i] - y[i + 1] : 0;
        to[i] = scale * (left + right + (v ? 3 * x[i] * x[i] * v[i] : x[i] * x[i] * x[i]));
    }
}

/* This rank's shares, in the order of the tree. */
static void sum_shares(rank_job *job, int64_t t, const double *x, const double *v, double *to)
{
    int each = SHARES / job->size;
    void *part[DEPTH];
    for (int k = 0; k < DEPTH; k++) part[k] = job->part[k];
    for (int i = 0; i < each; i++) {
        add_share(job->rank * each + i, t, x, v, job->term);
        psgd_tree_add(PSGD_F64, TOTAL, i, job->term, part);
    }
    psgd_tree_end(PSGD_F64, TOTAL, each, part);
    memcpy(to, part[0], TOTAL * sizeof *to);
}

static int product_of(rank_job *job, int64_t t, const void *const *theta, const void *const *v, void *const *h)
{
    if (t == job->team->failing_step && job->rank == job->size - 1) return 7;
    sum_shares(job, t, theta[0], v[0], h[0]);
    if (t == job->team->bad_step && job->rank == 0) ((double *)h[1])[2] = NAN;
    return 0;
}

static int keep_slot(void *data, int slot)
{
    rank_job *job = data;
    job->kept[slot] = psgd_optimizer_steps(job->optimizer);
    return 0;
}

/* On a worker thread, while the caller works with the arrays of its job. */
static int slot_product(void *data, int slot, int worker, const void *const *theta, const void *const *v,
                        void *const *h)
{
    const rank_job *caller = data;
    rank_job *own = calloc(1, sizeof *own);
    (void)worker;
    *own = (rank_job){.team = caller->team, .size = 1};
    int code = product_of(own, caller->kept[slot], theta, v, h);
    free(own);
    return code;
}

/* Data rank d keeps d + 1 copies of the number of the step. */
static int keep(void *data, void *kept)
{
    rank_job *job = data;
    int64_t step = psgd_optimizer_steps(job->optimizer);
    for (int i = 0; i <= job->rank; i++) memcpy((char *)kept + i * (int)sizeof step, &step, sizeof step);
    return 0;
}

static int product(void *data, const void *const *kept, const void *const *theta, const void *const *v, void *const *h)
{
    rank_job *job = data;
    int64_t step;
    memcpy(&step, kept[0], sizeof step);
    for (int d = 0; d < job->team->data_ranks; d++) {
        for (int i = 0; i <= d; i++) {
            if (memcmp((const char *)kept[d] + i * (int)sizeof step, &step, sizeof step) != 0) return 99;
        }
    }
    return product_of(job, step, theta, v, h);
}

static psgd_status create(rank_job *job)
{
    psgd_tensor tensors[PARTS];
    psgd_options *options;
    bool joint = false;
    int64_t at = 0;
    psgd_options_create(NULL, &options);
    psgd_options_parse(options, "defaults=paper, lr=0.02, step=0.1");
    for (int i = 0; job->team->config->options[i]; i += 2) {
        psgd_options_set(options, job->team->config->options[i], job->team->config->options[i + 1]);
        joint = joint || !strcmp(job->team->config->options[i], "joint");
    }
    for (int i = 0; i < PARTS; at += size_of(i++)) {
        tensors[i] = (psgd_tensor){.spec = joint ? NULL : specs[i], .ndim = 2, .shape = shapes[i]};
        job->theta[i] = job->x + at;
        job->gradient[i] = job->g + at;
    }
    for (int i = 0; i < TOTAL; i++) job->x[i] = 0.3 * sin(i + 1);
    psgd_status status = psgd_optimizer_create_comm(NULL, job->comm, "psgd-newton", PARTS, tensors, PSGD_F64, options,
                                                    &job->optimizer);
    psgd_options_free(options);
    return status;
}

static psgd_status bind(rank_job *job, bool serves)
{
    psgd_delayed_product threads = {keep_slot, slot_product, job};
    psgd_curvature ranks = {.data = job};
    if (!job->all) return psgd_optimizer_bind_product(job->optimizer, &threads);
    if (serves) {
        ranks.product = product;
    } else {
        ranks.keep = keep;
        ranks.kept = (job->rank + 1) * (int64_t)sizeof(int64_t);
    }
    return psgd_optimizer_bind_curvature(job->optimizer, job->all, job->team->curvature_ranks, &ranks);
}

static psgd_status save(rank_job *job)
{
    team *t = job->team;
    if (job->rank == 0) {
        t->bytes = psgd_optimizer_state_bytes(job->optimizer);
        t->saved = calloc(1, (size_t)t->bytes + sizeof job->x);
        memcpy(t->saved + t->bytes, job->x, sizeof job->x);
    }
    return psgd_optimizer_state_save(job->optimizer, job->rank == 0 ? t->saved : NULL);
}

static psgd_status take_steps(rank_job *job)
{
    const team *t = job->team;
    psgd_status status = PSGD_OK;
    for (int64_t step = t->loaded ? HALF : 0; status == PSGD_OK && step < STEPS; step++) {
        sum_shares(job, step, job->x, NULL, job->g);
        status = psgd_optimizer_wants_product(job->optimizer) ? PSGD_ERR_ARGUMENT : PSGD_OK;
        if (status == PSGD_OK) {
            status = psgd_optimizer_step(job->optimizer, job->theta, (const void *const *)job->gradient, NULL, NULL);
        }
        if (status == PSGD_OK && step + 1 == HALF && !t->loaded) status = save(job);
    }
    job->skipped = psgd_optimizer_skipped(job->optimizer);
    return status;
}

static void *run_rank(void *data)
{
    rank_job *job = data;
    const team *t = job->team;
    bool serves = job - t->jobs >= t->data_ranks;
    job->status = create(job);
    if (job->status == PSGD_OK) job->status = bind(job, serves);
    int64_t before = psgd_comm_sent(job->all);
    if (job->status == PSGD_OK && t->loaded) {
        job->status = psgd_optimizer_state_load(job->optimizer, t->bytes, t->loaded);
        memcpy(job->x, t->loaded + t->bytes, sizeof job->x);
    }
    if (job->status == PSGD_OK) job->status = serves ? psgd_optimizer_serve_curvature(job->optimizer) : take_steps(job);
    snprintf(job->sentence, sizeof job->sentence, "%s", psgd_last_error());
    if (job->all && !serves && job->optimizer) (void)psgd_optimizer_end_curvature(job->optimizer);
    job->sent = psgd_comm_sent(job->all) - before;
    psgd_optimizer_free(job->optimizer);
    return NULL;
}

static void run_team(team *t)
{
    int data = t->data_ranks, count = t->curvature_ranks, size = data + count;
    psgd_comm *comms[MAX_RANKS], *all[MAX_RANKS] = {NULL};
    pthread_t threads[MAX_RANKS];
    assert_ok(psgd_comm_threads(NULL, data, comms));
    if (count) assert_ok(psgd_comm_threads(NULL, count, comms + data));
    if (count) assert_ok(psgd_comm_threads(NULL, size, all));
    for (int r = 0; r < size; r++) {
        bool serves = r >= data;
        rank_job job = {.team = t, .comm = comms[r], .all = all[r], .rank = serves ? r - data : r};
        job.size = serves ? count : data;
        t->jobs[r] = job;
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &t->jobs[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) psgd_comm_free(comms[r]);
    for (int r = 0; r < size; r++) psgd_comm_free(all[r]);
}

static team *new_team(const config *c, int data_ranks, int curvature_ranks)
{
    team *t = calloc(1, sizeof *t);
    *t = (team){.config = c, .data_ranks = data_ranks, .curvature_ranks = curvature_ranks};
    t->bad_step = t->failing_step = -1;
    return t;
}

static void free_team(team *t)
{
    free(t->saved);
    free(t);
}

static void assert_all_ok(const team *t)
{
    for (int r = 0; r < t->data_ranks + t->curvature_ranks; r++) {
        if (t->jobs[r].status != PSGD_OK) print_error("rank %d: %s\n", r, t->jobs[r].sentence);
        assert_int_equal(t->jobs[r].status, PSGD_OK);
    }
}

static const int teams[][2] = {{1, 1}, {2, 1}, {1, 2}, {4, 2}, {2, 4}};
enum { TEAMS = sizeof teams / sizeof teams[0] };

static void bits_and_states_are_those_of_worker_threads(void **state)
{
    (void)state;
    for (int k = 0; k < CONFIGS; k++) {
        team *one = new_team(&configs[k], 1, 0);
        run_team(one);
        assert_all_ok(one);
        for (int i = 0; i < TEAMS; i++) {
            team *t = new_team(&configs[k], teams[i][0], teams[i][1]);
            run_team(t);
            assert_all_ok(t);
            for (int d = 0; d < t->data_ranks; d++) {
                assert_memory_equal(t->jobs[d].x, one->jobs[0].x, sizeof one->jobs[0].x);
            }
            assert_int_equal(t->bytes, one->bytes);
            assert_memory_equal(t->saved, one->saved, (size_t)one->bytes);
            free_team(t);
        }
        free_team(one);
    }
}

/* From a state with pairs in flight, of any kind of team to any other. */
static void a_state_resumes_with_other_ranks(void **state)
{
    (void)state;
    for (int k = 0; k < CONFIGS; k++) {
        team *one = new_team(&configs[k], 1, 0);
        run_team(one);
        for (int i = -1; i < TEAMS; i++) {
            team *t = new_team(&configs[k], i < 0 ? 1 : teams[i][0], i < 0 ? 0 : teams[i][1]);
            t->loaded = one->saved;
            t->bytes = one->bytes;
            run_team(t);
            assert_all_ok(t);
            assert_memory_equal(t->jobs[0].x, one->jobs[0].x, sizeof one->jobs[0].x);
            free_team(t);
        }
        free_team(one);
    }
}

/* The product of step 0, whose Q is waited for, and that of a later one. */
static void a_product_that_is_not_finite_skips_the_step_at_which_it_is_due(void **state)
{
    (void)state;
    for (int64_t bad = 0; bad <= 6; bad += 6) {
        team *one = new_team(&configs[1], 1, 0);
        one->bad_step = bad;
        run_team(one);
        assert_all_ok(one);
        assert_int_equal(one->jobs[0].skipped, 1);
        for (int i = 0; i < TEAMS; i++) {
            team *t = new_team(&configs[1], teams[i][0], teams[i][1]);
            t->bad_step = bad;
            run_team(t);
            assert_all_ok(t);
            for (int d = 0; d < t->data_ranks; d++) {
                assert_int_equal(t->jobs[d].skipped, 1);
                assert_memory_equal(t->jobs[d].x, one->jobs[0].x, sizeof one->jobs[0].x);
            }
            assert_memory_equal(t->saved, one->saved, (size_t)one->bytes);
            free_team(t);
        }
        free_team(one);
    }
}

static void a_product_that_fails_ends_the_step_at_which_it_is_due(void **state)
{
    (void)state;
    for (int64_t failing = 0; failing <= 6; failing += 6) {
        for (int i = 0; i < TEAMS; i++) {
            char said[64];
            team *t = new_team(&configs[1], teams[i][0], teams[i][1]);
            t->failing_step = failing;
            run_team(t);
            snprintf(said, sizeof said, "the product of step %d reported failure 7", (int)failing);
            for (int d = 0; d < t->data_ranks; d++) {
                assert_int_equal(t->jobs[d].status, PSGD_ERR_CALLBACK);
                assert_string_equal(t->jobs[d].sentence, said);
            }
            for (int r = t->data_ranks; r < t->data_ranks + t->curvature_ranks; r++) assert_ok(t->jobs[r].status);
            free_team(t);
        }
    }
}

/* Each request is theta and little else, each reply Q. */
static void bytes_are_counted(void **state)
{
    (void)state;
    team *t = new_team(&configs[0], 1, 1);
    run_team(t);
    int64_t theta = TOTAL * (int64_t)sizeof(double), requests = STEPS + 1; /* the last one ends */
    assert_in_range(t->jobs[0].sent, requests * theta, requests * (theta + 1024));
    assert_in_range(t->jobs[1].sent, STEPS * (7 * 7 + 9 * 9) * (int64_t)sizeof(double), STEPS * t->bytes);
    free_team(t);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    static const struct {
        config config;
        const char *words;
    } cases[] = {
        {{{"delay", "0"}}, "curvature ranks need the option delay"},
        {{{"delay", "2", "delay-free", "yes"}}, "option delay-free is for worker threads"},
    };
    for (int k = 0; k < 2; k++) {
        team *t = new_team(&cases[k].config, 2, 1);
        run_team(t);
        for (int r = 0; r < 3; r++) {
            assert_int_not_equal(t->jobs[r].status, PSGD_OK);
            assert_non_null(strstr(t->jobs[r].sentence, cases[k].words));
        }
        free_team(t);
    }
    psgd_tensor tensor = {.ndim = 2, .shape = shapes[0]};
    psgd_optimizer *optimizer;
    assert_ok(psgd_optimizer_create(NULL, "psgd-newton", 1, &tensor, PSGD_F64, NULL, &optimizer));
    psgd_curvature none = {0};
    assert_int_equal(psgd_optimizer_bind_curvature(optimizer, NULL, 1, &none), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_optimizer_serve_curvature(optimizer), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_optimizer_end_curvature(optimizer), PSGD_ERR_ARGUMENT);
    psgd_optimizer_free(optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_and_states_are_those_of_worker_threads),
        cmocka_unit_test(a_state_resumes_with_other_ranks),
        cmocka_unit_test(a_product_that_is_not_finite_skips_the_step_at_which_it_is_due),
        cmocka_unit_test(a_product_that_fails_ends_the_step_at_which_it_is_due),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
