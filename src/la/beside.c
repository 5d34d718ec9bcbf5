#include "la/beside.h"
#include "core/workspace.h"

#include <omp.h>

void psgd__side_by_side(int count, int threads, void (*task)(void *data, int i), void *data)
{
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1 && count > 1)
    for (int i = 0; i < count; i++) {
        psgd__work_slice = omp_get_thread_num();
        task(data, i);
        psgd__work_slice = 0;
    }
}

int psgd__thread_count(void)
{
    return omp_in_parallel() ? 1 : omp_get_max_threads();
}
