/* Optimizers over ranks, as threads: the same bits of parameters and of the saved state on 1, 2, 4 and 8 of them, for
 * owned and for replicated preconditioners; who owns what; what all ranks are told where one of them fails. */
#include "support.h"

#include "precond/precond.h"

#include <pthread.h>

enum { PARTS = 8, SHARES = 8, MAX_RANKS = 8, STEPS = 7, PAIRS = 2 };

static const char *const specs[PARTS] = {
    "kron(dense,dense)", "scan", "kron(tri,tri)", "diag", "scaw", "dense", "tiles(kron(dense,dense),2,3)",
    "tiles(scan,2,2)"};
static const int64_t shapes[PARTS][2] = {{9, 14}, {12, 17}, {20, 11}, {1, 30}, {6, 40}, {5, 6}, {13, 17}, {7, 10}};

/* Method, whether it has an objective, options. */
typedef struct config {
    const char *method;
    bool objective;
    const char *options[14];
} config;

static const config configs[] = {
    {"psgd-newton", false, {"lr", "0.05"}},
    {"psgd-newton", false, {"lr", "0.05", "pairs", "2", "momentum", "0.5", "clip", "0.5", "l2", "0.1"}},
    {"psgd-fisher", false, {"lr", "0.01", "momentum", "0.9", "update-every", "2"}},
    {"psgd-fisher", false, {"lr", "0.01", "clip-gradient", "0.5", "clip-relative", "0.1"}},
    {"psgd-fisher", false, {"lr", "0.01", "joint", "yes", "group", "diag"}},
    {"psgd-newton", false, {"lr", "0.05", "delay", "2", "update-every", "1", "update-anneal", "0"}},
    {"psgd", true, {"lr", "0.02"}},
    {"adam", false, {"lr", "0.01", "clip-gradient", "0.5"}},
    {"sgd", false, {"lr", "0.01"}},
    {"esgd", false, {"lr", "0.01"}},
    {"kfac", false, {"lr", "0.01"}},
    {"lbfgs", true, {0}},
    {"newton-cg", true, {0}},
};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

typedef struct team team;

typedef struct rank_job {
    team *team;
    psgd_comm *comm;
    int rank;
    psgd_status status;
    char sentence[256];
    psgd_optimizer *optimizer;
    float *memory, *theta[PARTS], *g[PARTS], *v[PARTS], *h[PARTS], *term, *part[4];
    int step;
    double health[3 * PARTS];
} rank_job;

struct team {
    const config *config;
    bool overlap;                 /* gradients are summed as they become ready */
    int size, bad_rank, bad_step; /* the rank whose gradient is not finite at that step; -1: none */
    rank_job jobs[MAX_RANKS];
    char *saved; /* by rank 0, halfway */
    int64_t saved_bytes;
    const char *loaded; /* not NULL: start from this, at the step after */
    float *result;      /* theta of rank 0 */
};

static int64_t size_of(int i)
{
    return shapes[i][0] * shapes[i][1];
}

static int64_t total(void)
{
    int64_t sum = 0;
    for (int i = 0; i < PARTS; i++) sum += size_of(i);
    return sum;
}

/* Share m of H x, with another Hessian for each share. */
static void product(int m, int tensor, const float *x, float *h)
{
    int64_t n = size_of(tensor);
    for (int64_t i = 0; i < n; i++) {
        float curvature = (float)(1 + (i * 7 + m * 3 + tensor) % 10) / SHARES;
        h[i] = curvature * x[i] + 0.01f * (float)m * x[(i + 1) % n] + 0.01f * (float)m * x[(i + n - 1) % n];
    }
}

/* The sum of this rank's shares of Hx, in the order of the tree. */
static void sum_shares(rank_job *job, int tensor, const float *x, float *to)
{
    int each = SHARES / job->team->size;
    for (int i = 0; i < each; i++) {
        product(job->rank * each + i, tensor, x, job->term);
        psgd_tree_add(PSGD_F32, size_of(tensor), i, job->term, (void *const *)job->part);
    }
    psgd_tree_end(PSGD_F32, size_of(tensor), each, (void *const *)job->part);
    memcpy(to, job->part[0], (size_t)size_of(tensor) * sizeof(float));
}

static int gradient(void *data, const void *const *theta, double *loss, void *const *g)
{
    rank_job *job = data;
    *loss = 0;
    for (int i = 0; i < PARTS; i++) {
        sum_shares(job, i, theta[i], g[i]);
        if (job->rank > 0) continue; /* the whole loss is that of rank 0: its order does not matter here */
        double sum = 0;
        for (int m = 0; m < SHARES; m++) {
            product(m, i, theta[i], job->term);
            for (int64_t k = 0; k < size_of(i); k++) sum += 0.5 * (double)job->term[k] * (double)((float *)theta[i])[k];
        }
        *loss += sum;
    }
    return 0;
}

static int objective_product(void *data, const void *const *theta, const void *const *v, double *loss, void *const *g,
                             void *const *h)
{
    gradient(data, theta, loss, g);
    for (int i = 0; i < PARTS; i++) sum_shares(data, i, v[i], h[i]);
    return 0;
}

static void allocate(rank_job *job)
{
    float *at = job->memory = calloc((size_t)(total() * (2 + 2 * PAIRS + 5)), sizeof(float));
    float **lists[] = {job->theta, job->g, job->v, job->h};
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < PARTS; i++) {
            lists[k][i] = at;
            at += size_of(i) * (k < 2 ? 1 : PAIRS);
        }
    }
    job->term = at;
    for (int k = 0; k < 4; k++) job->part[k] = at + (k + 1) * total();
    for (int i = 0; i < PARTS; i++) {
        for (int64_t j = 0; j < size_of(i); j++) job->theta[i][j] = sinf((float)(j + 1) * (float)(i + 1));
    }
}

static psgd_status create(rank_job *job)
{
    const config *c = job->team->config;
    psgd_tensor tensors[PARTS];
    psgd_options *options;
    bool joint = false;
    psgd_options_create(NULL, &options);
    for (int i = 0; c->options[i]; i += 2) {
        psgd_options_set(options, c->options[i], c->options[i + 1]);
        joint = joint || !strcmp(c->options[i], "joint");
    }
    for (int i = 0; i < PARTS; i++) {
        tensors[i] = (psgd_tensor){.ndim = 2, .shape = shapes[i], .spec = joint ? NULL : specs[i]};
    }
    psgd_status status = psgd_optimizer_create_comm(NULL, job->comm, c->method, PARTS, tensors, PSGD_F32, options,
                                                    &job->optimizer);
    psgd_options_free(options);
    psgd_objective objective = {gradient, objective_product, job};
    return status == PSGD_OK && c->objective ? psgd_optimizer_bind(job->optimizer, &objective) : status;
}

static psgd_status take_step(rank_job *job)
{
    const team *t = job->team;
    psgd_optimizer *o = job->optimizer;
    if (t->config->objective) return psgd_optimizer_iterate(o, (void *const *)job->theta, NULL);
    bool products = psgd_optimizer_wants_product(o);
    int64_t pairs = psgd_optimizer_pairs(o);
    for (int i = 0; i < PARTS; i++) {
        sum_shares(job, i, job->theta[i], job->g[i]);
        if (products) psgd_optimizer_draw(o, i, job->v[i]);
        for (int64_t k = 0; products && k < pairs; k++) {
            sum_shares(job, i, job->v[i] + k * size_of(i), job->h[i] + k * size_of(i));
        }
    }
    if (t->bad_rank == job->rank && t->bad_step == job->step) job->g[2][3] = NAN;
    for (int k = 0; k < (t->overlap ? PARTS : 0); k++) { /* in another order on each rank, and not all of them */
        int i = (k + job->rank) % PARTS;
        if (i == (job->rank + job->step) % (2 * PARTS)) continue;
        PSGD_TRY(psgd_optimizer_ready(o, i, job->g[i], products ? job->h[i] : NULL));
    }
    return psgd_optimizer_step(o, (void *const *)job->theta, (const void *const *)job->g, (const void *const *)job->v,
                               (const void *const *)job->h);
}

static psgd_status work(rank_job *job)
{
    team *t = job->team;
    psgd_status status = create(job);
    if (status == PSGD_OK && t->loaded) {
        status = psgd_optimizer_state_load(job->optimizer, t->saved_bytes, t->loaded);
    }
    for (job->step = t->loaded ? STEPS / 2 + 1 : 0; status == PSGD_OK && job->step < STEPS; job->step++) {
        status = take_step(job);
        if (status != PSGD_OK || job->step != STEPS / 2) continue;
        if (job->rank == 0 && !t->loaded) {
            t->saved_bytes = psgd_optimizer_state_bytes(job->optimizer);
            t->saved = malloc((size_t)t->saved_bytes);
        }
        status = psgd_optimizer_state_save(job->optimizer, job->rank == 0 ? t->saved : NULL);
    }
    return status;
}

static void *run_rank(void *data)
{
    rank_job *job = data;
    job->status = work(job);
    snprintf(job->sentence, sizeof job->sentence, "%s", psgd_last_error());
    return NULL;
}

static void run_team(team *t, int size)
{
    psgd_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    t->size = size;
    assert_ok(psgd_comm_threads(NULL, size, comms));
    for (int r = 0; r < size; r++) {
        t->jobs[r] = (rank_job){.team = t, .comm = size > 1 ? comms[r] : NULL, .rank = r};
        allocate(&t->jobs[r]);
        if (t->loaded) memcpy(t->jobs[r].theta[0], t->result, (size_t)total() * sizeof(float));
    }
    for (int r = 0; r < size; r++) assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &t->jobs[r]), 0);
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) psgd_comm_free(comms[r]);
}

static void free_team(team *t)
{
    for (int r = 0; r < t->size; r++) {
        psgd_optimizer_free(t->jobs[r].optimizer);
        free(t->jobs[r].memory);
    }
    free(t->saved);
    t->saved = NULL;
}

static void assert_all_ok(const team *t)
{
    for (int r = 0; r < t->size; r++) {
        if (t->jobs[r].status != PSGD_OK) print_error("%s, rank %d: %s\n", t->config->method, r, t->jobs[r].sentence);
        assert_int_equal(t->jobs[r].status, PSGD_OK);
    }
}

static void compare_with_one(const config *c, int bad_rank, bool overlap)
{
    team one = {.config = c, .bad_rank = bad_rank < 0 ? -1 : 0, .bad_step = 2};
    run_team(&one, 1);
    assert_all_ok(&one);
    for (int i = 0; i < PARTS; i++) { /* it went somewhere */
        float start = sinf((float)(i + 1));
        assert_true(isfinite(one.jobs[0].theta[i][0]) && one.jobs[0].theta[i][0] != start);
    }
    for (int size = 2; size <= MAX_RANKS; size *= 2) {
        team t = {.config = c, .overlap = overlap, .bad_rank = bad_rank < 0 ? -1 : size - 1, .bad_step = 2};
        run_team(&t, size);
        assert_all_ok(&t);
        for (int r = 0; r < size; r++) {
            assert_memory_equal(t.jobs[r].theta[0], one.jobs[0].theta[0], (size_t)total() * sizeof(float));
            assert_int_equal(psgd_optimizer_skipped(t.jobs[r].optimizer), bad_rank < 0 ? 0 : 1);
        }
        assert_int_equal(t.saved_bytes, one.saved_bytes);
        assert_memory_equal(t.saved, one.saved, (size_t)one.saved_bytes);
        free_team(&t);
    }
    free_team(&one);
}

static void parameters_and_state_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    for (int k = 0; k < CONFIGS; k++) compare_with_one(&configs[k], -1, false);
}

static void sums_behind_the_backward_pass_have_the_same_bits(void **state)
{
    (void)state;
    for (int k = 0; k < CONFIGS; k++) {
        if (!configs[k].objective) compare_with_one(&configs[k], -1, true);
    }
}

static void a_gradient_that_is_not_finite_on_one_rank_skips_the_step_on_all(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) compare_with_one(&configs[k], 0, k % 2);
    compare_with_one(&configs[7], 0, true);
}

/* Saved by 4 ranks halfway, resumed by 1, 2 and 8: the same end. */
static void state_saved_on_some_ranks_loads_on_another_number(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        team half = {.config = &configs[k], .bad_rank = -1};
        run_team(&half, 4);
        assert_all_ok(&half);
        /* Where the saved step left theta: run once more and stop there. */
        team whole = {.config = &configs[k], .bad_rank = -1};
        run_team(&whole, 1);
        static const int sizes[] = {1, 2, 8};
        float *at_half = malloc((size_t)total() * sizeof(float));
        rank_job job = {.team = &whole, .rank = 0};
        allocate(&job);
        assert_ok(create(&job));
        for (job.step = 0; job.step <= STEPS / 2; job.step++) assert_ok(take_step(&job));
        memcpy(at_half, job.theta[0], (size_t)total() * sizeof(float));
        psgd_optimizer_free(job.optimizer);
        free(job.memory);
        for (int s = 0; s < 3; s++) {
            team t = {.config = &configs[k],
                      .bad_rank = -1,
                      .loaded = half.saved,
                      .saved_bytes = half.saved_bytes,
                      .result = at_half};
            run_team(&t, sizes[s]);
            assert_all_ok(&t);
            for (int r = 0; r < t.size; r++) {
                assert_memory_equal(t.jobs[r].theta[0], whole.jobs[0].theta[0], (size_t)total() * sizeof(float));
            }
            t.saved = NULL;
            free_team(&t);
        }
        free(at_half);
        free_team(&half);
        free_team(&whole);
    }
}

static void only_the_owner_holds_a_preconditioner(void **state)
{
    (void)state;
    for (int size = 2; size <= MAX_RANKS; size *= 2) {
        team t = {.config = &configs[0], .bad_rank = -1};
        run_team(&t, size);
        assert_all_ok(&t);
        for (int i = 0; i < PARTS; i++) {
            int owner = psgd_optimizer_owner(t.jobs[0].optimizer, i), holders = 0;
            bool tiled = !strncmp(specs[i], "tiles(kron", 10);
            bool cheap = strstr(specs[i], "scan") || !strcmp(specs[i], "diag");
            assert_int_equal(owner < 0, cheap || tiled);
            for (int r = 0; r < size; r++) {
                assert_int_equal(psgd_optimizer_owner(t.jobs[r].optimizer, i), owner);
                holders += psgd_optimizer_precond(t.jobs[r].optimizer, i) != NULL;
            }
            assert_int_equal(holders, cheap || tiled ? size : 1);
        }
        free_team(&t);
    }
    assert_int_equal(psgd_optimizer_owner(NULL, 0), -1);
}

/* The tiles of a tensor are dealt out over all ranks, and a rank has the memory of its own. */
static void tiles_have_owners_of_their_own(void **state)
{
    enum { TILED = 6, TILES = 6 };
    (void)state;
    for (int size = 2; size <= 4; size *= 2) {
        team t = {.config = &configs[0], .bad_rank = -1};
        int held[MAX_RANKS] = {0};
        run_team(&t, size);
        assert_all_ok(&t);
        for (int k = 0; k < TILES; k++) {
            int owner = psgd_optimizer_tile_owner(t.jobs[0].optimizer, TILED, k);
            assert_in_range(owner, 0, size - 1);
            for (int r = 0; r < size; r++) {
                const psgd_precond *precond = psgd_optimizer_precond(t.jobs[r].optimizer, TILED);
                assert_int_equal(psgd_optimizer_tile_owner(t.jobs[r].optimizer, TILED, k), owner);
                assert_int_equal(precond->tiles[k] != NULL, r == owner);
                if (r == owner) held[r]++;
            }
        }
        int holders = 0;
        for (int r = 0; r < size; r++) holders += held[r] > 0;
        assert_true(holders >= 2);
        assert_int_equal(psgd_optimizer_tile_owner(t.jobs[0].optimizer, 0, 0),
                         psgd_optimizer_owner(t.jobs[0].optimizer, 0));
        free_team(&t);
    }
}

/* Updates, skipped and the condition number are those of a single rank. */
static void *run_health(void *data)
{
    rank_job *job = data;
    job->status = create(job);
    for (job->step = 0; job->status == PSGD_OK && job->step < 3; job->step++) job->status = take_step(job);
    for (int i = 0; i < PARTS && job->status == PSGD_OK; i++) {
        double *to = &job->health[3 * i];
        job->status = psgd_optimizer_health(job->optimizer, i, &to[0], &to[1], &to[2]);
    }
    return NULL;
}

static void health_is_that_of_one_rank(void **state)
{
    (void)state;
    double one[3 * PARTS];
    for (int size = 1; size <= 4; size *= 2) {
        team t = {.config = &configs[0], .bad_rank = -1, .size = size};
        psgd_comm *comms[4];
        pthread_t threads[4];
        assert_ok(psgd_comm_threads(NULL, size, comms));
        for (int r = 0; r < size; r++) {
            t.jobs[r] = (rank_job){.team = &t, .comm = size > 1 ? comms[r] : NULL, .rank = r};
            allocate(&t.jobs[r]);
            assert_int_equal(pthread_create(&threads[r], NULL, run_health, &t.jobs[r]), 0);
        }
        for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
        assert_all_ok(&t);
        if (size == 1) memcpy(one, t.jobs[0].health, sizeof one);
        for (int r = 0; r < size; r++) assert_memory_equal(t.jobs[r].health, one, sizeof one);
        for (int i = 0; i < PARTS; i++) assert_true(one[3 * i] >= 1 && one[3 * i + 2] > 1);
        free_team(&t);
        for (int r = 0; r < size; r++) psgd_comm_free(comms[r]);
    }
}

/* Steps of plain data parallelism and no more: g to its owner and d back, Hv to its owner. */
static psgd_status counting_work(rank_job *job)
{
    psgd_status status = create(job);
    int64_t before = psgd_comm_sent(job->comm);
    if (status == PSGD_OK) status = take_step(job);
    job->step = (int)(psgd_comm_sent(job->comm) - before);
    return status;
}

static void *run_counting(void *data)
{
    rank_job *job = data;
    job->status = counting_work(job);
    return NULL;
}

/* probes: v of covariance P, which owners send as well. */
static void check_bytes_sent(bool probes)
{
    const config c = {"psgd-newton", false, {"lr", "0.05", "probe", probes ? "preconditioned" : "normal"}};
    psgd_comm *comms[2];
    pthread_t threads[2];
    team t = {.config = &c, .bad_rank = -1, .size = 2};
    assert_ok(psgd_comm_threads(NULL, 2, comms));
    for (int r = 0; r < 2; r++) {
        t.jobs[r] = (rank_job){.team = &t, .comm = comms[r], .rank = r};
        allocate(&t.jobs[r]);
        assert_int_equal(pthread_create(&threads[r], NULL, run_counting, &t.jobs[r]), 0);
    }
    for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < 2; r++) {
        enum { TILED = 6, TILES = 6, PIECES = PARTS - 1 + TILES };
        int64_t owned[2] = {0}, shared = 0;
        for (int k = 0; k < TILES; k++) {
            int64_t rows = k / 3 ? 6 : 7, columns = k % 3 == 2 ? 5 : 6;
            owned[psgd_optimizer_tile_owner(t.jobs[r].optimizer, TILED, k)] += rows * columns;
        }
        for (int i = 0; i < PARTS; i++) {
            if (i == TILED) continue;
            int owner = psgd_optimizer_owner(t.jobs[r].optimizer, i);
            *(owner < 0 ? &shared : &owned[owner]) += size_of(i);
        }
        assert_int_equal(t.jobs[r].status, PSGD_OK);
        assert_true(owned[0] > 0 && owned[1] > 0 && shared % 2 == 0);
        /* g and Hv of the other's tensors to it, d of its own; both halves of two all-reduces; 4 times one double for
         * each tensor or tile: max |g|, |h| and |v|, and whether it was fitted. */
        int64_t floats = 2 * owned[1 - r] + (probes ? 2 : 1) * owned[r] + 2 * shared;
        assert_int_equal(t.jobs[r].step, floats * (int64_t)sizeof(float) + 4 * PIECES * (int64_t)sizeof(double));
    }
    free_team(&t);
    for (int r = 0; r < 2; r++) psgd_comm_free(comms[r]);
}

static void a_step_sends_what_the_formula_says(void **state)
{
    (void)state;
    check_bytes_sent(false);
    check_bytes_sent(true);
}

/* A spec that only rank 1 has. */
static psgd_status wrong_work(rank_job *job)
{
    psgd_tensor tensor = {.ndim = 2, .shape = shapes[0], .spec = job->rank == 1 ? "nosuch" : "diag"};
    psgd_optimizer *o;
    return psgd_optimizer_create_comm(NULL, job->comm, "psgd", 1, &tensor, PSGD_F32, NULL, &o);
}

static psgd_status rows_work(rank_job *job)
{
    psgd_tensor tensor = {.ndim = 2, .shape = shapes[0], .rows = 2};
    psgd_optimizer *o;
    return psgd_optimizer_create_comm(NULL, job->comm, "sgd", 1, &tensor, PSGD_F32, NULL, &o);
}

static psgd_status (*refused)(rank_job *job);

static void *run_refused(void *data)
{
    rank_job *job = data;
    job->status = refused(job);
    snprintf(job->sentence, sizeof job->sentence, "%s", psgd_last_error());
    return NULL;
}

static void all_ranks_are_told_what_is_wrong_on_one(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        psgd_comm *comms[2];
        pthread_t threads[2];
        rank_job jobs[2];
        refused = k ? rows_work : wrong_work;
        assert_ok(psgd_comm_threads(NULL, 2, comms));
        for (int r = 0; r < 2; r++) {
            jobs[r] = (rank_job){.comm = comms[r], .rank = r};
            assert_int_equal(pthread_create(&threads[r], NULL, run_refused, &jobs[r]), 0);
        }
        for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(jobs[r].status, k ? PSGD_ERR_UNSUPPORTED : PSGD_ERR_SPEC);
            assert_non_null(strstr(jobs[r].sentence, k ? "row-sparse" : "rank 1: tensor 0: "));
            psgd_comm_free(comms[r]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_and_state_have_the_bits_of_one_rank),
        cmocka_unit_test(sums_behind_the_backward_pass_have_the_same_bits),
        cmocka_unit_test(a_gradient_that_is_not_finite_on_one_rank_skips_the_step_on_all),
        cmocka_unit_test(state_saved_on_some_ranks_loads_on_another_number),
        cmocka_unit_test(only_the_owner_holds_a_preconditioner),
        cmocka_unit_test(tiles_have_owners_of_their_own),
        cmocka_unit_test(health_is_that_of_one_rank),
        cmocka_unit_test(a_step_sends_what_the_formula_says),
        cmocka_unit_test(all_ranks_are_told_what_is_wrong_on_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
