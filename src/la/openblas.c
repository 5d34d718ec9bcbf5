/* OpenBLAS comes in three flavours. The serial one needs nothing. In the OpenMP one the number of threads is a setting
 * of the calling thread. In the one with pthreads it is one of the process: the first thread that enters sets it, the
 * last that leaves restores it; newer versions have a setting per thread. All of these are weak, so that any other
 * CBLAS links as well, and OpenMP is not ours to link. */
#include "la/openblas.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#pragma weak openblas_get_corename
#pragma weak openblas_get_parallel
#pragma weak openblas_get_num_threads
#pragma weak openblas_set_num_threads
#pragma weak openblas_set_num_threads_local
#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads
char *openblas_get_corename(void);
int openblas_get_parallel(void);
int openblas_get_num_threads(void);
void openblas_set_num_threads(int threads);
int openblas_set_num_threads_local(int threads);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

enum { SERIAL, PTHREADS, OPENMP }; /* as openblas_get_parallel says */
enum { WIDEST = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int inside, restored; /* threads between enter and leave; the number of threads that the last of them restores */
static bool changed;         /* the number is ours now */

/* The child of a fork has none of the threads that were inside, and nobody who would unlock. */
static void forget_threads(void)
{
    pthread_mutex_init(&lock, NULL);
    inside = 0; /* who leaves last restores the number, as before */
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_threads);
}

static void enter_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    if (inside++ == 0 && !changed) {
        restored = openblas_get_num_threads();
        changed = restored != 1;
        if (changed) openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&lock);
}

static void leave_process(void)
{
    pthread_mutex_lock(&lock);
    if (--inside == 0 && changed) {
        openblas_set_num_threads(restored);
        changed = false;
    }
    pthread_mutex_unlock(&lock);
}

static int flavour(void)
{
    return openblas_get_parallel ? openblas_get_parallel() : SERIAL;
}

int psgd__blas_enter(void)
{
    int kind = flavour();
    if (kind == OPENMP && omp_get_max_threads && omp_set_num_threads) {
        int before = omp_get_max_threads();
        if (before != 1) omp_set_num_threads(1);
        return before;
    }
    if (kind == PTHREADS && openblas_set_num_threads_local) return openblas_set_num_threads_local(1);
    if (kind == PTHREADS && openblas_get_num_threads && openblas_set_num_threads) enter_process();
    return 1;
}

void psgd__blas_leave(int before)
{
    int kind = flavour();
    if (kind == OPENMP && before != 1) omp_set_num_threads(before);
    if (kind != PTHREADS) return;
    if (openblas_set_num_threads_local) {
        openblas_set_num_threads_local(before);
    } else if (openblas_get_num_threads && openblas_set_num_threads) {
        leave_process();
    }
}

/* The names of driver/others/dynamic.c in OpenBLAS; a build for one core says them in capitals. Every other core, and a
 * BLAS that does not say, is taken to know the processor. */
static int width_of_core(void)
{
    static const struct {
        const char *name;
        int bits;
    } cores[] = {{"Katmai", 128},       {"Coppermine", 128},  {"Northwood", 128}, {"Prescott", 128},
                 {"Banias", 128},       {"Atom", 128},        {"Core2", 128},     {"Penryn", 128},
                 {"Dunnington", 128},   {"Nehalem", 128},     {"Athlon", 128},    {"Opteron", 128},
                 {"Opteron_SSE3", 128}, {"Barcelona", 128},   {"Nano", 128},      {"Bobcat", 128},
                 {"Generic", 128},      {"Sandybridge", 256}, {"Bulldozer", 256}, {"Piledriver", 256},
                 {"Steamroller", 256},  {"Excavator", 256},   {"Haswell", 256},   {"Zen", 256}};
    const char *core = openblas_get_corename ? openblas_get_corename() : NULL;
    for (size_t i = 0; core && i < sizeof cores / sizeof cores[0]; i++) {
        if (!strcasecmp(core, cores[i].name)) return cores[i].bits;
    }
    return WIDEST;
}

/* Two threads that race find the same. */
int psgd__blas_vector_bits(void)
{
    static _Atomic int known;
    int bits = atomic_load_explicit(&known, memory_order_relaxed);
    if (bits == 0) {
        bits = width_of_core();
        atomic_store_explicit(&known, bits, memory_order_relaxed);
    }
    return bits;
}
