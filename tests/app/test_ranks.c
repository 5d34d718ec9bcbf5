/* The trainer over ranks, as threads of one process: parameters and checkpoints have the bits of a single rank with the
 * same micro-batches, for every kind of model, and a run resumes on another number of ranks. */
#include "support.h"

#include "train/checkpoint.h"

#include <pthread.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };

static char root[] = "/tmp/psgd_ranks_XXXXXX";

typedef struct team team;

typedef struct rank_job {
    team *team;
    train_ranks ranks;
    int rank;
    psgd_status status;
    char sentence[512];
} rank_job;

struct team {
    const char *const *settings; /* name, value, .., NULL */
    char folder[256];
    const char *steps; /* not NULL: end there, at a constant learning rate */
    bool resumes;
    int curvature_ranks; /* the last ones */
    int odd_rank;        /* gets another seed; -1: none */
    rank_job jobs[MAX_RANKS];
};

static int fill(const team *t, int rank, train_setting *list)
{
    int count = 0;
    for (int i = 0; t->settings[i]; i += 2) list[count++] = (train_setting){t->settings[i], t->settings[i + 1]};
    list[count++] = (train_setting){"out", t->folder};
    if (t->steps) list[count++] = (train_setting){"steps", t->steps};
    if (t->steps) list[count++] = (train_setting){"lr-schedule", "constant"};
    if (rank == t->odd_rank) list[count++] = (train_setting){"seed", "77"};
    return count;
}

static void *run_rank(void *data)
{
    rank_job *job = data;
    const team *t = job->team;
    train_setting list[TRAIN_MAX_SETTINGS];
    int count = fill(t, job->rank, list);
    trainer *self = NULL;
    bool stopped;
    train_setting longer = {"steps", t->steps};
    job->status = t->resumes ? psgd__trainer_resume(NULL, &job->ranks, t->folder, 1, &longer, &self)
                             : psgd__trainer_create(NULL, &job->ranks, count, list, &self);
    if (job->status == PSGD_OK) job->status = psgd__trainer_run(self, NULL, &stopped);
    if (job->status != PSGD_OK) snprintf(job->sentence, sizeof job->sentence, "%s", psgd_last_error());
    psgd__trainer_free(self);
    return NULL;
}

static void run_team(team *t, int size)
{
    psgd_comm *comms[MAX_RANKS], *all[MAX_RANKS] = {NULL};
    pthread_t threads[MAX_RANKS];
    int count = t->curvature_ranks, data = size - count;
    assert_ok(psgd_comm_threads(NULL, data, comms));
    if (count) assert_ok(psgd_comm_threads(NULL, count, comms + data));
    if (count) assert_ok(psgd_comm_threads(NULL, size, all));
    for (int r = 0; r < size; r++) {
        t->jobs[r] = (rank_job){.team = t, .ranks = {comms[r], all[r], count}, .rank = r};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &t->jobs[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) psgd_comm_free(comms[r]);
    for (int r = 0; r < size; r++) psgd_comm_free(all[r]);
}

static void assert_all_ok(const team *t, int size)
{
    for (int r = 0; r < size; r++) {
        if (t->jobs[r].status != PSGD_OK) print_error("rank %d: %s\n", r, t->jobs[r].sentence);
        assert_int_equal(t->jobs[r].status, PSGD_OK);
    }
}

/* The sections of two checkpoints are equal, but for the settings, where the folder is. */
static void assert_same(const char *a, const char *b)
{
    static const char *const names[] = {"weights", "best", "state", "optimizer"};
    checkpoint one, other;
    assert_ok(psgd__checkpoint_open(NULL, a, &one));
    assert_ok(psgd__checkpoint_open(NULL, b, &other));
    assert_int_equal(one.now.step, other.now.step);
    assert_memory_equal(&one.now.record_sum, &other.now.record_sum, sizeof one.now.record_sum);
    assert_memory_equal(&one.now.valid, &other.now.valid, sizeof one.now.valid);
    for (int k = 0; k < 4; k++) {
        int64_t bytes, other_bytes;
        const void *x = psgd__checkpoint_section(&one, names[k], &bytes);
        const void *y = psgd__checkpoint_section(&other, names[k], &other_bytes);
        assert_int_equal(bytes, other_bytes);
        if (bytes > 0) assert_memory_equal(x, y, (size_t)bytes);
    }
    psgd__checkpoint_close(&one);
    psgd__checkpoint_close(&other);
}

#define SMALL_DIGITS "data", "digits", "samples", "90", "epochs", "1", "checkpoint-every", "3", "micro-batches", "8"
#define SMALL_TEXT                                                                                                     \
    "model", "lm", "data", "markov:60,5,700,1", "hidden", "9", "back", "5", "epochs", "2", "micro-batches", "8"

static const char *const runs[][28] = {
    {"model", "lenet5", SMALL_DIGITS, "batch", "24", "optimizer", "psgd-newton", "group", "kron(dense,dense)"},
    {"model", "lenet5", SMALL_DIGITS, "batch", "19", "optimizer", "psgd-fisher", "group", "scan"}, /* uneven pieces */
    {"model", "mlp", SMALL_DIGITS, "batch", "30", "hidden", "9", "dropout", "0.2", "optimizer", "psgd-newton",
     "hv-batch", "11", "pairs", "2"},
    {"model", "mlp", SMALL_DIGITS, "batch", "30", "hidden", "9", "optimizer", "lbfgs"},
    {"model", "mlp", SMALL_DIGITS, "batch", "30", "hidden", "9", "optimizer", "psgd-newton", "hv", "difference"},
    {"model", "mlp", SMALL_DIGITS, "batch", "30", "hidden", "9", "optimizer", "adam", "dtype", "f64"},
    {SMALL_TEXT, "batch", "8", "optimizer", "psgd-newton", "group", "scan", "dropout", "0.2"},
    {SMALL_TEXT, "batch", "11", "optimizer", "psgd-fisher", "group", "kron(dense,dense)", "l2", "1e-4"},
};
enum { RUNS = sizeof runs / sizeof runs[0] };

/* The first run on 2, 4 and 8 ranks, each other on one of these in turn, or with PSGD_LONG_TESTS on all. */
static void runs_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    bool every = getenv("PSGD_LONG_TESTS");
    for (int k = 0; k < RUNS; k++) {
        team one = {.settings = runs[k], .odd_rank = -1};
        snprintf(one.folder, sizeof one.folder, "%s/one%d", root, k);
        run_team(&one, 1);
        assert_all_ok(&one, 1);
        for (int size = 2; size <= MAX_RANKS; size *= 2) {
            if (!every && k > 0 && size != 2 << k % 3) continue;
            team t = {.settings = runs[k], .odd_rank = -1};
            snprintf(t.folder, sizeof t.folder, "%s/run%d_%d", root, k, size);
            run_team(&t, size);
            assert_all_ok(&t, size);
            assert_same(one.folder, t.folder);
        }
    }
}

/* Two steps on 4 ranks, a third on 2 and a fourth on 8, against four on one. */
static void runs_resume_on_another_number_of_ranks(void **state)
{
    (void)state;
    static const int which[] = {0, 2, 6};
    for (int k = 0; k < 3; k++) {
        team one = {.settings = runs[which[k]], .odd_rank = -1, .steps = "4"};
        snprintf(one.folder, sizeof one.folder, "%s/whole%d", root, k);
        run_team(&one, 1);
        assert_all_ok(&one, 1);
        team t = {.settings = runs[which[k]], .odd_rank = -1, .steps = "2"};
        snprintf(t.folder, sizeof t.folder, "%s/resumed%d", root, k);
        run_team(&t, 4);
        assert_all_ok(&t, 4);
        t.resumes = true;
        t.steps = "3";
        run_team(&t, 2);
        assert_all_ok(&t, 2);
        t.steps = "4";
        run_team(&t, 8);
        assert_all_ok(&t, 8);
        assert_same(one.folder, t.folder);
    }
}

/* With a delay, without micro-batches (against worker threads) and with them (against products in the step). */
#define DELAYED "optimizer", "psgd-newton", "update-every", "1", "update-anneal", "0"

static const char *const delayed_runs[][30] = {
    {"model", "lenet5", "data", "digits", "samples", "60", "epochs", "1", "batch", "10", DELAYED, "delay", "2"},
    {"model", "lm", "data", "markov:60,5,700,1", "hidden", "9", "back", "5", "epochs", "1", "batch", "8", "untied",
     "yes", "row-gradients", "yes", DELAYED, "delay", "3"},
    {SMALL_TEXT, "batch", "11", "dropout", "0.2", DELAYED, "delay", "2", "group", "kron(dense,dense)"},
    {"model", "mlp", SMALL_DIGITS, "batch", "20", "hidden", "9", "dropout", "0.2", DELAYED, "delay", "6", "hv-batch",
     "11"},
    {"model", "mlp", SMALL_DIGITS, "batch", "20", "hidden", "9", DELAYED, "delay", "2", "pairs", "2", "group",
     "tiles(kron(dense,dense),2,3)"},
};
enum { DELAYED_RUNS = sizeof delayed_runs / sizeof delayed_runs[0], WHOLE_BATCH = 2 };

static void curvature_ranks_make_no_difference(void **state)
{
    (void)state;
    static const int teams[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {1, 4}};
    bool every = getenv("PSGD_LONG_TESTS");
    for (int k = 0; k < DELAYED_RUNS; k++) {
        team one = {.settings = delayed_runs[k], .odd_rank = -1};
        snprintf(one.folder, sizeof one.folder, "%s/threads%d", root, k);
        run_team(&one, 1);
        assert_all_ok(&one, 1);
        for (int i = 0; i < (k < WHOLE_BATCH ? 1 : 5); i++) {
            if (!every && i > 0 && (i % 2 != k % 2 || !every_case())) continue;
            team t = {.settings = delayed_runs[k], .odd_rank = -1, .curvature_ranks = teams[i][1]};
            snprintf(t.folder, sizeof t.folder, "%s/curvature%d_%d", root, k, i);
            run_team(&t, teams[i][0] + teams[i][1]);
            assert_all_ok(&t, teams[i][0] + teams[i][1]);
            assert_same(one.folder, t.folder);
        }
    }
}

/* Three steps with a curvature rank, two without, three with others, against eight in one process. */
static void curvature_ranks_come_and_go(void **state)
{
    (void)state;
    static const struct {
        const char *steps;
        int size, curvature_ranks;
    } parts[] = {{"3", 3, 1}, {"5", 2, 0}, {"8", 3, 2}};
    for (int k = WHOLE_BATCH; k < (every_case() ? DELAYED_RUNS : WHOLE_BATCH + 1); k++) {
        team one = {.settings = delayed_runs[k], .odd_rank = -1, .steps = "8"}, t = one;
        snprintf(one.folder, sizeof one.folder, "%s/straight%d", root, k);
        snprintf(t.folder, sizeof t.folder, "%s/changing%d", root, k);
        run_team(&one, 1);
        assert_all_ok(&one, 1);
        for (int i = 0; i < 3; i++) {
            t.resumes = i > 0;
            t.steps = parts[i].steps;
            t.curvature_ranks = parts[i].curvature_ranks;
            run_team(&t, parts[i].size);
            assert_all_ok(&t, parts[i].size);
        }
        assert_same(one.folder, t.folder);
    }
}

enum { CURVATURE = -2 }; /* for odd_rank: the last rank is a curvature rank */

static void all_ranks_are_told(const char *const *settings, int size, int odd_rank, const char *words)
{
    team t = {.settings = settings, .odd_rank = odd_rank};
    if (odd_rank == CURVATURE) t.curvature_ranks = 1;
    snprintf(t.folder, sizeof t.folder, "%s/refused", root);
    run_team(&t, size);
    for (int r = 0; r < size; r++) {
        assert_int_not_equal(t.jobs[r].status, PSGD_OK);
        if (!strstr(t.jobs[r].sentence, words)) print_error("expected '%s' in: %s\n", words, t.jobs[r].sentence);
        assert_non_null(strstr(t.jobs[r].sentence, words));
    }
    assert_int_not_equal(access(t.folder, F_OK), 0); /* nothing was written */
}

static void bad_input_is_told_to_all_ranks(void **state)
{
    (void)state;
    static const char *const missing[] = {"model", "mlp", "data", "csv:/nosuch.csv", "micro-batches", "8", NULL};
    static const char *const odd[] = {"model", "mlp", "data", "digits", "samples", "64", "micro-batches", "6", NULL};
    static const char *const tiny[] = {"model", "mlp", "data", "digits", "batch", "4", "micro-batches", "8", NULL};
#define SMALL "model", "mlp", "data", "digits", "samples", "64", "micro-batches", "4", "delay", "2"
    static const char *const fisher[] = {SMALL, "optimizer", "psgd-fisher", NULL};
    static const char *const differences[] = {SMALL, "hv", "difference", NULL};
    static const char *const sooner[] = {SMALL, "delay-free", "yes", NULL};
    all_ranks_are_told(runs[0], 2, 1, "rank 1: its list of options is not that of rank 0");
    all_ranks_are_told(missing, 2, -1, "rank 0: ");
    all_ranks_are_told(odd, 2, -1, "2 ranks with 6 micro-batches");
    all_ranks_are_told(odd, 4, -1, "4 ranks with 6 micro-batches");
    all_ranks_are_told(tiny, 2, -1, "a batch of 4 cannot be cut into 8 micro-batches");
    all_ranks_are_told(missing, 3, CURVATURE, "rank 0: ");
    all_ranks_are_told(runs[0], 3, CURVATURE, "rank 0: --curvature-ranks is for asynchronous fits: add --delay");
    all_ranks_are_told(fisher, 2, CURVATURE,
                       "rank 0: --curvature-ranks is for Hessian-vector products, and psgd-fisher");
    all_ranks_are_told(differences, 2, CURVATURE, "rank 0: --curvature-ranks is for --hv exact");
    all_ranks_are_told(sooner, 2, CURVATURE, "rank 0: option delay-free is for worker threads");
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : 1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_the_bits_of_one_rank),     cmocka_unit_test(runs_resume_on_another_number_of_ranks),
        cmocka_unit_test(curvature_ranks_make_no_difference), cmocka_unit_test(curvature_ranks_come_and_go),
        cmocka_unit_test(bad_input_is_told_to_all_ranks),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
