#ifndef PSGD_CORE_SORT_H
#define PSGD_CORE_SORT_H

#include <stdlib.h>

static inline int psgd__ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* x <- x in ascending order. */
static inline void psgd__sort(int n, double *x)
{
    qsort(x, (size_t)n, sizeof *x, psgd__ascending);
}

#endif
