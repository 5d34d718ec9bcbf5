/* A function of the user's own in a shared object, without a main:
 *
 *   int64_t psgd_function_start(int64_t room, double *x);         returns n; fills x where room is n or more
 *   int psgd_function_evaluate(int64_t n, const double *x, double *value, double *gradient);    0: went well;
 *                                                                                 gradient may be NULL
 *   int psgd_function_product(int64_t n, const double *x, const double *v, double *h);    optional: h <- Hv */
#ifndef PSGD_PROBLEM_USER_FUNCTION_H
#define PSGD_PROBLEM_USER_FUNCTION_H

#include <psgd/minimize.h>

typedef struct user_function {
    void *library;
    int64_t n;
    double *start;
    int (*evaluate)(int64_t n, const double *x, double *value, double *gradient);
    int (*product)(int64_t n, const double *x, const double *v, double *h); /* may be NULL */
} user_function;

psgd_status psgd__user_function_open(const char *path, user_function *opened);
void psgd__user_function_close(user_function *self);

/* As psgd_minimize wants it; self must stay where it is. */
psgd_function psgd__user_function(user_function *self);

#endif
