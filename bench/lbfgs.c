/* psgd_minimize beside liblbfgs on the published problems, both with defaults, both ending at ||g|| <= 1e-8 (1 + |f|).
 *
 * Prints the table of docs/minimize.md. Exit status 1 where psgd_minimize solves fewer problems than liblbfgs. */
#include <lbfgs.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "problem/problem.h"
#include <psgd/psgd.h>

enum { MOST = 64, RUNS = 5 };

typedef struct outcome {
    bool solved;
    double value, norm, seconds;
    int64_t iterations, evaluations, products;
} outcome;

/* CPU time: what others do on the machine at the same time does not count. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool is_solved(const problem *p, double value, double norm)
{
    double minima[PROBLEM_MINIMA];
    int count = psgd__problem_minima(p, minima);
    for (int i = 0; i < count; i++) {
        bool near = fabs(value - minima[i]) <= 1e-6 * (minima[i] == 0 ? 1 : fabs(minima[i]));
        if (near) return norm <= 1e-8 * (1 + fabs(value));
    }
    return false;
}

static outcome run_psgd(problem *p)
{
    double x[MOST];
    psgd_function function = {psgd__problem_evaluate, psgd__problem_product, p};
    psgd_result r = {0};
    outcome o = {.seconds = HUGE_VAL};
    for (int run = 0; run < RUNS; run++) {
        psgd__problem_start(p, x);
        double start = cpu_seconds();
        if (psgd_minimize(NULL, psgd__problem_size(p), x, &function, NULL, NULL, NULL, &r) != PSGD_OK) exit(2);
        o.seconds = fmin(o.seconds, cpu_seconds() - start);
    }
    o.solved = is_solved(p, r.value, r.gradient_norm);
    o.value = r.value;
    o.norm = r.gradient_norm;
    o.iterations = r.iterations;
    o.evaluations = r.evaluations;
    o.products = r.products;
    return o;
}

typedef struct count {
    problem *p;
    int64_t evaluations, iterations;
} count;

static lbfgsfloatval_t evaluate(void *data, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                const lbfgsfloatval_t step)
{
    (void)step;
    count *c = data;
    double value;
    c->evaluations++;
    psgd__problem_evaluate(c->p, n, x, &value, g);
    return value;
}

static int progress(void *data, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g, const lbfgsfloatval_t fx,
                    const lbfgsfloatval_t xnorm, const lbfgsfloatval_t gnorm, const lbfgsfloatval_t step, int n, int k,
                    int ls)
{
    (void)x, (void)g, (void)xnorm, (void)step, (void)n, (void)ls;
    ((count *)data)->iterations = k;
    return gnorm <= 1e-8 * (1 + fabs(fx)) || k >= 10000;
}

static outcome run_lbfgs(problem *p)
{
    int n = (int)psgd__problem_size(p);
    lbfgsfloatval_t *x = lbfgs_malloc(n);
    double g[MOST];
    lbfgs_parameter_t parameters;
    lbfgs_parameter_init(&parameters);
    parameters.epsilon = 1e-300; /* its own test is relative to ||x||; progress has ours */
    outcome o = {.seconds = HUGE_VAL};
    for (int run = 0; run < RUNS; run++) {
        count c = {.p = p};
        psgd__problem_start(p, x);
        double start = cpu_seconds();
        lbfgs(n, x, NULL, evaluate, progress, &c, &parameters);
        o.seconds = fmin(o.seconds, cpu_seconds() - start);
        o.evaluations = c.evaluations;
        o.iterations = c.iterations;
    }
    psgd__problem_evaluate(p, n, x, &o.value, g);
    for (int i = 0; i < n; i++) o.norm += g[i] * g[i];
    o.norm = sqrt(o.norm);
    o.solved = is_solved(p, o.value, o.norm);
    lbfgs_free(x);
    return o;
}

static void print_outcome(const outcome *o)
{
    printf(" %s | %.6g | %.1e | %lld | %lld |", o->solved ? "yes" : "**no**", o->value, o->norm,
           (long long)o->iterations, (long long)o->evaluations);
}

int main(void)
{
    int psgd = 0, lbfgs_count = 0, problems = 0;
    double psgd_seconds = 0, lbfgs_seconds = 0;
    puts("| problem | n | psgd solves | f | ‖g‖ | iterations | f and g | Hv | ms | liblbfgs solves | f | ‖g‖ | "
         "iterations | "
         "f and g | ms |");
    puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (int k = 0; k < psgd__problem_count(); k++) {
        const problem_kind *kind = psgd__problem_kind(k);
        problem *p;
        if (!kind->number || psgd__problem_create(NULL, kind->name, 0, &p) != PSGD_OK) continue;
        outcome a = run_psgd(p), b = run_lbfgs(p);
        printf("| %d %s | %lld |", kind->number, kind->title, (long long)psgd__problem_size(p));
        print_outcome(&a);
        printf(" %lld | %.3f |", (long long)a.products, a.seconds * 1e3);
        print_outcome(&b);
        printf(" %.3f |\n", b.seconds * 1e3);
        problems++;
        psgd += a.solved;
        lbfgs_count += b.solved;
        psgd_seconds += a.seconds;
        lbfgs_seconds += b.seconds;
        psgd__problem_free(p);
    }
    printf("\nOf %d problems psgd_minimize solves %d in %.1f ms of CPU time, liblbfgs %d in %.1f ms.\n", problems, psgd,
           psgd_seconds * 1e3, lbfgs_count, lbfgs_seconds * 1e3);
    return psgd < lbfgs_count;
}
