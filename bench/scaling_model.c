/* The cost model of ranks compared with what ranks take, on a network that is slow on purpose: ranks are threads of
 * this process, messages have a delay, and the passes over the model are sleeps, so that any number of ranks fits on
 * two cores. What is measured is the machinery: owners, sums behind the backward pass, directions back.
 *
 *   T(R) = (forward + backward) / R + max(sums - backward / R, last bucket) + shares + fit / min(R, cores)
 *
 * Sums go out in buckets of 1 MB, 16 here.
 *
 * bench_scaling_model RANKS STEPS LATENCY_US MEGABYTES_PER_SECOND BACKWARD_MS: one JSON object. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <psgd/psgd.h>

enum { TENSORS = 64, ROWS = 64, COLUMNS = 1024, MAX_RANKS = 16, BUCKETS = 16, WARM = 2 };

typedef struct settings {
    int ranks, steps;
    double latency, bandwidth, backward; /* seconds, bytes a second, seconds of one rank */
} settings;

typedef struct rank_run {
    const settings *set;
    psgd_comm *comm;
    int rank;
    psgd_status status;
    char sentence[256];
    double seconds, messages, waited; /* a step; sums and what was waited for */
    double sent;                      /* bytes of a step */
} rank_run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* One step: a forward pass of half the backward pass, gradients from the last tensor to the first, the step. */
static psgd_status step(rank_run *run, psgd_optimizer *o, void **theta, void **g)
{
    double each = run->set->backward / run->set->ranks / TENSORS, ends = now() + 0.5 * each * TENSORS;
    rest(0.5 * each * TENSORS);
    for (int i = TENSORS - 1; i >= 0; i--) {
        ends += each;
        if (ends > now()) rest(ends - now());
        psgd_status status = psgd_optimizer_ready(o, i, g[i], NULL);
        if (status != PSGD_OK) return status;
    }
    return psgd_optimizer_step(o, theta, (const void *const *)g, NULL, NULL);
}

static psgd_status work(rank_run *run)
{
    static const int64_t shape[] = {ROWS, COLUMNS};
    psgd_tensor tensors[TENSORS];
    void *theta[TENSORS], *g[TENSORS];
    psgd_optimizer *o = NULL;
    psgd_options *options = NULL;
    size_t n = ROWS * COLUMNS;
    float *memory = malloc(2 * TENSORS * n * sizeof(float));
    if (!memory) return PSGD_ERR_NO_MEMORY;
    for (size_t i = 0; i < 2 * TENSORS * n; i++) memory[i] = (float)(1 + i % 7) / 16;
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = (psgd_tensor){.ndim = 2, .shape = shape, .spec = "kron(dense,diag)"};
        theta[i] = memory + (size_t)i * n;
        g[i] = memory + (size_t)(TENSORS + i) * n;
    }
    psgd_status status = psgd_options_create(NULL, &options);
    if (status == PSGD_OK) status = psgd_options_set(options, "update-every", "1000000");
    if (status == PSGD_OK) {
        status = psgd_optimizer_create_comm(NULL, run->comm, "psgd-fisher", TENSORS, tensors, PSGD_F32, options, &o);
    }
    for (int k = 0; k < WARM && status == PSGD_OK; k++) status = step(run, o, theta, g);
    double before[2], after[2], began = now(), sent = (double)psgd_comm_sent(run->comm);
    if (status == PSGD_OK) status = psgd_optimizer_messages(o, &before[0], &before[1]);
    for (int k = 0; k < run->set->steps && status == PSGD_OK; k++) status = step(run, o, theta, g);
    run->seconds = (now() - began) / run->set->steps;
    run->sent = ((double)psgd_comm_sent(run->comm) - sent) / run->set->steps;
    if (status == PSGD_OK) status = psgd_optimizer_messages(o, &after[0], &after[1]);
    if (status == PSGD_OK) {
        run->messages = (after[0] - before[0]) / run->set->steps;
        run->waited = (after[1] - before[1]) / run->set->steps;
    }
    snprintf(run->sentence, sizeof run->sentence, "%s", psgd_last_error());
    psgd_optimizer_free(o);
    psgd_options_free(options);
    free(memory);
    return status;
}

static void *run_rank(void *data)
{
    rank_run *run = data;
    run->status = work(run);
    return NULL;
}

/* Seconds of a reduce-scatter and of an all-gather of all gradients without delays: what copies and wake-ups take here,
 * behind which a delay hides. */
static void *sum_all(void *data)
{
    enum { TIMES = 5 };
    rank_run *run = data;
    int64_t count = (int64_t)TENSORS * ROWS * COLUMNS;
    float *x = calloc((size_t)count, sizeof *x);
    run->status = x ? psgd_comm_sum(run->comm, PSGD_F32, count, x) : PSGD_ERR_NO_MEMORY;
    double began = now();
    for (int k = 0; k < TIMES && run->status == PSGD_OK; k++) {
        run->status = psgd_comm_sum(run->comm, PSGD_F32, count, x);
    }
    run->seconds = (now() - began) / TIMES;
    snprintf(run->sentence, sizeof run->sentence, "%s", psgd_last_error());
    free(x);
    return NULL;
}

/* One thread for each rank; the slowest, and false where one has failed. */
static bool run_all(const settings *set, psgd_comm **comms, void *(*job)(void *), rank_run *runs, double *seconds)
{
    pthread_t threads[MAX_RANKS];
    bool good = true;
    *seconds = 0;
    for (int r = 0; r < set->ranks; r++) {
        runs[r] = (rank_run){.set = set, .comm = set->ranks > 1 ? comms[r] : NULL, .rank = r};
        if (pthread_create(&threads[r], NULL, job, &runs[r]) != 0) exit(1);
    }
    for (int r = 0; r < set->ranks; r++) {
        pthread_join(threads[r], NULL);
        if (runs[r].status != PSGD_OK) fprintf(stderr, "rank %d: %s\n", r, runs[r].sentence);
        good = good && runs[r].status == PSGD_OK;
        if (runs[r].seconds > *seconds) *seconds = runs[r].seconds;
    }
    return good;
}

/* Seconds of one step of one rank without passes and messages, what the fits of all tensors take here, while so many of
 * them run at once: two cores of a machine may be the two threads of one. */
static bool measure_fits(const settings *set, int at_once, double *seconds)
{
    settings alone = *set;
    psgd_comm *none[MAX_RANKS] = {NULL};
    rank_run runs[MAX_RANKS];
    alone.backward = 0;
    alone.ranks = at_once;
    return run_all(&alone, none, run_rank, runs, seconds);
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "bench_scaling_model RANKS STEPS LATENCY_US MEGABYTES_PER_SECOND BACKWARD_MS\n");
        return 2;
    }
    settings set = {atoi(words[1]), atoi(words[2]), 1e-6 * atof(words[3]), 1e6 * atof(words[4]), 1e-3 * atof(words[5])};
    if (set.ranks < 1 || set.ranks > MAX_RANKS || set.steps < 1 || !(set.bandwidth > 0)) return 2;
    psgd_set_threads(1);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int at_once = set.ranks < online ? set.ranks : (int)online;
    double fits;
    if (!measure_fits(&set, at_once, &fits)) return 1;

    psgd_comm *comms[MAX_RANKS];
    rank_run runs[MAX_RANKS];
    double seconds, own, sent = 0, messages = 0, waited = 0;
    if (psgd_comm_threads(NULL, set.ranks, comms) != PSGD_OK) return 1;
    if (!run_all(&set, comms, sum_all, runs, &own)) return 1;
    for (int r = 0; r < set.ranks; r++) psgd_comm_free(comms[r]);
    if (psgd_comm_threads(NULL, set.ranks, comms) != PSGD_OK) return 1;
    for (int r = 0; r < set.ranks; r++) {
        if (psgd_comm_delay(comms[r], set.latency, set.bandwidth) != PSGD_OK) return 1;
    }
    if (!run_all(&set, comms, run_rank, runs, &seconds)) return 1;
    for (int r = 0; r < set.ranks; r++) {
        if (runs[r].sent > sent) sent = runs[r].sent;
        messages += runs[r].messages / set.ranks;
        waited += runs[r].waited / set.ranks;
    }
    for (int r = 0; r < set.ranks; r++) psgd_comm_free(comms[r]);

    /* A rank's share of a reduce-scatter or of an all-gather; max |g| and whether a tensor was fitted are two
     * all-reduces of one double for each tensor. */
    double R = set.ranks, bytes = 4.0 * TENSORS * ROWS * COLUMNS, share = bytes * (R - 1) / R;
    double formula = 2 * share + 2 * 2 * 8.0 * TENSORS * (R - 1) / R;
    double backward = set.backward / R, model = 1.5 * backward + fits / at_once;
    if (set.ranks > 1) {
        double sums = share / set.bandwidth + BUCKETS * set.latency, gather = share / set.bandwidth + set.latency;
        sums = sums > own / 2 ? sums : own / 2;
        gather = gather > own / 2 ? gather : own / 2;
        double last = sums / BUCKETS, exposed = sums - backward > last ? sums - backward : last;
        model += exposed + gather + 4 * set.latency;
    }
    printf(
        "{\"ranks\": %d, \"measured\": %.6f, \"model\": %.6f, \"sent\": %.0f, \"formula\": %.0f, \"messages\": %.6f, "
        "\"waited\": %.6f}\n",
        set.ranks, seconds, model, sent, formula, messages, waited);
    return 0;
}
