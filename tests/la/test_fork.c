/* After threads have run, a child of a fork computes what its parent does, and ends. */
#include "support.h"

#include <dirent.h>
#include <psgd/threads.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 300 };

/* Fits and applies a pair of triangles, with products that threads share. */
static double work(void)
{
    const int64_t shape[] = {SIDE, SIDE};
    static _Thread_local float v[SIDE * SIDE], h[SIDE * SIDE];
    uint64_t seed = 1;
    double sum = 0;
    psgd_precond *precond;
    for (int i = 0; i < SIDE * SIDE; i++) {
        v[i] = (float)random_normal(&seed);
        h[i] = (float)random_normal(&seed);
    }
    assert_ok(psgd_precond_create(NULL, "kron(tri,dense)", 2, shape, PSGD_F32, NULL, &precond));
    for (int t = 0; t < 3; t++) assert_ok(psgd_precond_update(precond, v, h));
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, h, h));
    psgd_precond_free(precond);
    for (int i = 0; i < SIDE * SIDE; i++) sum += (double)h[i];
    return sum;
}

/* Threads of this process. */
static int threads(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 2; /* nobody tells */
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* With threads of its own: none of its parent's came along. */
static void assert_child_ends(double expected)
{
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        if (work() != expected) _exit(1);
        _exit(threads() > 1 ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void a_child_works_as_its_parent(void **state)
{
    (void)state;
    assert_ok(psgd_set_threads(4));
    double sum = work();
    for (int i = 0; i < 5; i++) assert_child_ends(sum);
    assert_true(work() == sum); /* and the parent still does */
}

static atomic_bool stop;

static void *busy(void *data)
{
    (void)data;
    while (!atomic_load(&stop)) work();
    return NULL;
}

/* The child has no thread that could release what another held at the moment of the fork. */
static void a_fork_in_the_middle_of_work_is_fine(void **state)
{
    (void)state;
    pthread_t others[2];
    assert_ok(psgd_set_threads(3));
    double sum = work();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&others[i], NULL, busy, NULL), 0);
    for (int i = 0; i < 20; i++) assert_child_ends(sum);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(others[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_works_as_its_parent),
        cmocka_unit_test(a_fork_in_the_middle_of_work_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
