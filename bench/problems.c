/* The test functions of psgd minimize as a shared object, for bench/minimize. */
#include "problem/problem.h"

#define EXPORT(declaration)                                                                                            \
    __attribute__((visibility("default"))) declaration;                                                                \
    declaration

EXPORT(int bench_problem_count(void))
{
    return psgd__problem_count();
}

EXPORT(const char *bench_problem_name(int index))
{
    return psgd__problem_kind(index)->name;
}

/* 0: not a problem of More, Garbow and Hillstrom. */
EXPORT(int bench_problem_number(int index))
{
    return psgd__problem_kind(index)->number;
}

/* NULL where the function has no such size; n = 0: the usual one. */
EXPORT(void *bench_problem_create(int index, int64_t n))
{
    problem *p;
    return psgd__problem_create(NULL, psgd__problem_kind(index)->name, n, &p) == PSGD_OK ? p : NULL;
}

EXPORT(int64_t bench_problem_size(void *p))
{
    return psgd__problem_size(p);
}

EXPORT(void bench_problem_start(void *p, double *x))
{
    psgd__problem_start(p, x);
}

EXPORT(int bench_problem_evaluate(void *p, int64_t n, const double *x, double *value, double *gradient))
{
    return psgd__problem_evaluate(p, n, x, value, gradient);
}

EXPORT(int bench_problem_product(void *p, int64_t n, const double *x, const double *v, double *h))
{
    return psgd__problem_product(p, n, x, v, h);
}

EXPORT(void bench_problem_free(void *p))
{
    psgd__problem_free(p);
}
