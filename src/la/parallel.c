#include "la/parallel.h"

void la_parallel(int64_t count, double work, void (*task)(void *data, int64_t i), void *data)
{
    const double min = 1e5; /* about 10 microseconds of one thread: below that, waking another costs more */
    /* Not by an if clause: that is a region of one thread too, and for regions inside one OpenMP starts new threads. */
    if (count == 1 || work <= min) {
        for (int64_t i = 0; i < count; i++) task(data, i);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) task(data, i);
}
