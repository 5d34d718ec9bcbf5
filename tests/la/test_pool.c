/* The thread pool: every part runs once, on any number of threads, from any thread of the program, after a fork. */
#include "support.h"

#include "core/workspace.h"
#include "la/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a forked child, sanitizers miss the threads of the parent: LeakSanitizer reports what belongs to them, and
 * ThreadSanitizer stops at the first thread that is started. */
#if defined(__SANITIZE_ADDRESS__)
enum { ADDRESS_SANITIZER = 1, THREAD_SANITIZER = 0 };
#elif defined(__SANITIZE_THREAD__)
enum { ADDRESS_SANITIZER = 0, THREAD_SANITIZER = 1 };
#else
enum { ADDRESS_SANITIZER = 0, THREAD_SANITIZER = 0 };
#endif

enum { MAX_PARTS = 5000, MUCH = 1000000000 };

typedef struct counts {
    _Atomic int runs[MAX_PARTS];
    int64_t nested; /* parts of a call inside each part */
} counts;

static void count_one(void *data, int64_t i)
{
    counts *c = data;
    atomic_fetch_add(&c->runs[i], 1);
}

static void check_counts(counts *c, int64_t parts, int expected)
{
    for (int64_t i = 0; i < MAX_PARTS; i++) {
        assert_int_equal(atomic_exchange(&c->runs[i], 0), i < parts ? expected : 0);
    }
}

static void every_part_runs_once(void **state)
{
    (void)state;
    static counts c;
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 17, 100, 4999, MAX_PARTS};
    static const double works[] = {0, 1e5, 2e5, 1e6, MUCH};
    for (int threads = 1; threads <= 8; threads++) {
        assert_ok(psgd_set_threads(threads));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t w = 0; w < sizeof works / sizeof works[0]; w++) {
                la_parallel(sizes[s], works[w], count_one, &c);
                check_counts(&c, sizes[s], 1);
            }
        }
    }
    assert_ok(psgd_set_threads(0));
}

static void many_short_jobs(void **state)
{
    (void)state;
    static counts c;
    assert_ok(psgd_set_threads(4));
    for (int k = 0; k < 20000; k++) la_parallel(5, MUCH, count_one, &c);
    check_counts(&c, 5, 20000);
    assert_ok(psgd_set_threads(0));
}

/* Whoever called is done first and has nothing left to take: it must still wait for the others, however long. */
typedef struct slow_parts {
    pthread_t caller;
    _Atomic int ended;
} slow_parts;

static void run_slowly(void *data, int64_t i)
{
    slow_parts *s = data;
    (void)i;
    usleep(pthread_equal(pthread_self(), s->caller) ? 1000 : 30000);
    atomic_fetch_add(&s->ended, 1);
}

static void a_caller_waits_for_the_slowest_part(void **state)
{
    (void)state;
    assert_ok(psgd_set_threads(4));
    for (int k = 0; k < 4; k++) {
        slow_parts s = {.caller = pthread_self()};
        la_parallel(8, MUCH, run_slowly, &s);
        assert_int_equal(atomic_load(&s.ended), 8);
    }
    assert_ok(psgd_set_threads(0));
}

typedef struct sums {
    double part[100];
} sums;

static void sum_part(void *data, int64_t i)
{
    sums *s = data;
    s->part[i] = 0;
    for (int k = 1; k <= 1000; k++) s->part[i] += 1.0 / (double)(1000 * i + k);
}

static double harmonic(void)
{
    sums s;
    double sum = 0;
    la_parallel(100, 1e6, sum_part, &s);
    for (int i = 0; i < 100; i++) sum += s.part[i];
    return sum;
}

static void sums_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    assert_ok(psgd_set_threads(1));
    double one = harmonic();
    for (int threads = 2; threads <= 8; threads++) {
        assert_ok(psgd_set_threads(threads));
        assert_true(harmonic() == one);
    }
    assert_ok(psgd_set_threads(0));
}

static void count_nested(void *data, int64_t i)
{
    counts *c = data;
    assert_true(c->nested == 0 || psgd_threads() == 1);
    (void)i;
    la_parallel(c->nested, MUCH, count_one, c);
}

static void a_part_that_shares_runs_its_own_parts(void **state)
{
    (void)state;
    static counts c = {.nested = 50};
    assert_ok(psgd_set_threads(3));
    psgd_parallel(200, count_nested, &c);
    check_counts(&c, 50, 200);
    assert_int_equal(psgd_threads(), 3);
    assert_ok(psgd_set_threads(0));
}

typedef struct job {
    counts tasks, parts, slices;
} job;

static bool is_heavy(void *data, int i)
{
    (void)data;
    return i % 5 == 0;
}

static void run_task(void *data, int i)
{
    job *j = data;
    atomic_fetch_add(&j->tasks.runs[i], 1);
    assert_true(psgd__work_slice < 3);
    if (is_heavy(data, i)) {
        assert_int_equal(psgd__work_slice, 0);
        for (int k = 0; k < 20; k++) la_parallel(40, MUCH, count_one, &j->parts);
    } else {
        assert_int_equal(atomic_fetch_add(&j->slices.runs[psgd__work_slice], 1), 0); /* nobody else is in it */
        la_parallel(40, MUCH, count_one, &j->parts);
        atomic_fetch_sub(&j->slices.runs[psgd__work_slice], 1);
    }
}

static void threads_help_with_heavy_tasks(void **state)
{
    (void)state;
    static job j;
    static const int counts_of[] = {0, 1, 2, 31};
    for (int threads = 1; threads <= 5; threads += 2) {
        assert_ok(psgd_set_threads(threads));
        for (int s = 0; s < 4; s++) {
            int count = counts_of[s], heavy = (count + 4) / 5;
            la_tasks(count, 3, is_heavy, run_task, &j);
            check_counts(&j.tasks, count, 1);
            check_counts(&j.parts, count ? 40 : 0, 20 * heavy + count - heavy);
            assert_int_equal(psgd__work_slice, 0);
        }
    }
    assert_ok(psgd_set_threads(0));
}

static void *work_in_thread(void *data)
{
    for (int k = 0; k < 500; k++) la_parallel(64, MUCH, count_one, data);
    return NULL;
}

static void threads_of_the_program_do_not_wait_for_each_other(void **state)
{
    (void)state;
    static counts c[4];
    pthread_t thread[4];
    assert_ok(psgd_set_threads(3));
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, work_in_thread, &c[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 4; i++) check_counts(&c[i], 64, 500);
    assert_ok(psgd_set_threads(0));
}

/* 0 if all is well in the child. */
static int in_child(int (*work)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        int result = work();
        if (ADDRESS_SANITIZER) _exit(result);
        exit(result); /* what runs at exit must not hang either */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int counts_are_right(void)
{
    static counts c;
    for (int k = 0; k < 100; k++) la_parallel(300, MUCH, count_one, &c);
    for (int i = 0; i < 300; i++) {
        if (c.runs[i] != 100) return 1;
    }
    return psgd_threads() == 3 ? 0 : 2;
}

static void a_forked_child_has_a_pool_of_its_own(void **state)
{
    (void)state;
    if (THREAD_SANITIZER) skip();
    assert_ok(psgd_set_threads(3));
    double before = harmonic();
    for (int k = 0; k < 20; k++) assert_int_equal(in_child(counts_are_right), 0);
    assert_true(harmonic() == before);
    assert_ok(psgd_set_threads(0));
}

static void *fork_all_the_time(void *data)
{
    (void)data;
    for (int k = 0; k < 10; k++) assert_int_equal(in_child(counts_are_right), 0);
    return NULL;
}

static void a_fork_while_another_thread_works(void **state)
{
    (void)state;
    if (THREAD_SANITIZER) skip();
    static counts c;
    pthread_t thread;
    assert_ok(psgd_set_threads(3));
    assert_int_equal(pthread_create(&thread, NULL, fork_all_the_time, NULL), 0);
    for (int k = 0; k < 2000; k++) la_parallel(64, MUCH, count_one, &c);
    assert_int_equal(pthread_join(thread, NULL), 0);
    check_counts(&c, 64, 2000);
    assert_ok(psgd_set_threads(0));
}

/* No address space is left for the stacks of threads. */
static int works_without_threads(void)
{
    assert_ok(psgd_set_threads(3));
    if (setrlimit(RLIMIT_AS, &(struct rlimit){1, 1}) != 0) return 3;
    return counts_are_right();
}

static void threads_that_cannot_be_started_are_no_error(void **state)
{
    (void)state;
    if (ADDRESS_SANITIZER || THREAD_SANITIZER) skip(); /* they stop where their own memory for a thread is refused */
    assert_int_equal(in_child(works_without_threads), 0);
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    int threads = psgd_threads();
    assert_true(threads >= 1);
    assert_int_equal(psgd_set_threads(-1), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_set_threads(1 << 20), PSGD_ERR_ARGUMENT);
    assert_int_equal(psgd_threads(), threads);
}

static int follows_the_environment(void)
{
    setenv("OMP_NUM_THREADS", "5,2", 1);
    unsetenv("PSGD_NUM_THREADS");
    assert_ok(psgd_set_threads(0));
    if (psgd_threads() != 5) return 1;
    setenv("PSGD_NUM_THREADS", "7", 1);
    assert_ok(psgd_set_threads(0));
    if (psgd_threads() != 7) return 2;
    assert_ok(psgd_set_threads(2));
    return psgd_threads() == 2 ? 0 : 3;
}

static void the_environment_sets_the_default(void **state)
{
    (void)state;
    assert_int_equal(in_child(follows_the_environment), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_cannot_be_started_are_no_error), /* first: later, stacks are there to be reused */
        cmocka_unit_test(every_part_runs_once),
        cmocka_unit_test(many_short_jobs),
        cmocka_unit_test(a_caller_waits_for_the_slowest_part),
        cmocka_unit_test(sums_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(a_part_that_shares_runs_its_own_parts),
        cmocka_unit_test(threads_help_with_heavy_tasks),
        cmocka_unit_test(threads_of_the_program_do_not_wait_for_each_other),
        cmocka_unit_test(a_forked_child_has_a_pool_of_its_own),
        cmocka_unit_test(a_fork_while_another_thread_works),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(the_environment_sets_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
