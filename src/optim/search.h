/* A step length that satisfies the strong Wolfe conditions. */
#ifndef PSGD_OPTIM_SEARCH_H
#define PSGD_OPTIM_SEARCH_H

#include <stdbool.h>

#include "core/status.h"

/* phi(a) = f(x + a d) and its slope g'd. What is not finite counts as too far. */
typedef psgd_status (*search_function)(void *data, double a, double *value, double *slope);

typedef struct line_search {
    double value, slope;        /* at 0; slope < 0 */
    double first;               /* the length to try first */
    double decrease, curvature; /* c1 and c2 */
    double longest;             /* no step is longer than this */
    int max;                    /* evaluations */
    double noise;               /* differences of values below this mean nothing: the slope decides */

    double length, reached; /* found: the last point evaluated, its value */
    bool found;
    int evaluations;
} line_search;

/* Bracketing and cubic interpolation (Nocedal and Wright, algorithms 3.5 and 3.6). Fails only where function does. */
psgd_status psgd__line_search(line_search *s, search_function function, void *data);

#endif
