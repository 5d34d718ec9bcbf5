/* psgd_minimize and liblbfgs on the published problems, both with defaults, both stopping at ||g|| <= 1e-8 (1 + |f|).
 *
 * Prints the table of docs/benchmarks/minimize.md, then what an iteration costs on Rosenbrock's function of two
 * unknowns, as it is written in psgd paper rosenbrock. Exit status 1 where psgd_minimize solves fewer problems than
 * liblbfgs. */
#include <lbfgs.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "problem/problem.h"
#include "paper/rosenbrock.h"
#include <psgd/psgd.h>

enum { MAX = 64, RUNS = 5, CALLS = 300, STEPS = 300 };

typedef struct outcome {
    bool solved;
    double value, norm, seconds;
    int64_t iterations, evaluations, products;
} outcome;

/* CPU time: other load on the machine does not count. */
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
    double x[MAX];
    psgd_function function = {.evaluate = psgd__problem_evaluate, .product = psgd__problem_product, .data = p};
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
    double g[MAX];
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

static int evaluate_two(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    (void)n;
    return psgd__rosenbrock_objective.gradient(data, (const void *[]){x}, value, (void *[]){gradient});
}

static int product_two(void *data, int64_t n, const double *x, const double *v, double *h)
{
    double value, gradient[2];
    (void)n;
    return psgd__rosenbrock_objective.product(data, (const void *[]){x}, (const void *[]){v}, &value,
                                              (void *[]){gradient}, (void *[]){h});
}

static lbfgsfloatval_t lbfgs_two(void *data, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                 const lbfgsfloatval_t step)
{
    (void)step, (void)data;
    double value;
    evaluate_two(NULL, n, x, &value, g);
    return value;
}

/* Seconds of one call, which ends at ||g|| <= 1e-8 (1 + |f|), and its iterations. */
static double time_lbfgs(int64_t *iterations)
{
    lbfgs_parameter_t parameters;
    lbfgs_parameter_init(&parameters);
    parameters.epsilon = 1e-300;
    lbfgsfloatval_t *x = lbfgs_malloc(2);
    count c = {0};
    double start = cpu_seconds();
    for (int i = 0; i < CALLS; i++) {
        x[0] = -1.2;
        x[1] = 1;
        lbfgs(2, x, NULL, lbfgs_two, progress, &c, &parameters);
    }
    double seconds = (cpu_seconds() - start) / CALLS;
    lbfgs_free(x);
    *iterations = c.iterations;
    return seconds;
}

static double time_minimize(int64_t *iterations)
{
    const psgd_function function = {.evaluate = evaluate_two, .product = product_two};
    psgd_result r;
    double start = cpu_seconds();
    for (int i = 0; i < CALLS; i++) {
        double x[] = {-1.2, 1};
        if (psgd_minimize(NULL, 2, x, &function, NULL, NULL, NULL, &r) != PSGD_OK) exit(2);
    }
    *iterations = r.iterations;
    return (cpu_seconds() - start) / CALLS;
}

/* The optimizer's Newton step on tri, with the settings of the paper's figure 1. */
static double time_step(int64_t *iterations)
{
    static const char *const set[][2] = {{"group", "tri"}, {"lr", "0.5"}, {"step", "0.2"}, {"init-scale", "0.1"}};
    const int64_t two = 2;
    const psgd_tensor tensor = {.ndim = 1, .shape = &two};
    psgd_options *options;
    psgd_optimizer *o;
    double x[] = {-1, 1};
    if (psgd_options_create(NULL, &options) != PSGD_OK) exit(2);
    for (int i = 0; i < 4; i++) {
        if (psgd_options_set(options, set[i][0], set[i][1]) != PSGD_OK) exit(2);
    }
    if (psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, options, &o) != PSGD_OK) exit(2);
    if (psgd_optimizer_bind(o, &psgd__rosenbrock_objective) != PSGD_OK) exit(2);
    double start = cpu_seconds();
    for (int i = 0; i < STEPS; i++) {
        if (psgd_optimizer_iterate(o, (void *[]){x}, NULL) != PSGD_OK) exit(2);
    }
    double seconds = cpu_seconds() - start;
    psgd_optimizer_free(o);
    psgd_options_free(options);
    *iterations = STEPS;
    return seconds;
}

static void print_times(void)
{
    static const struct {
        const char *name;
        double (*time)(int64_t *iterations);
    } rows[] = {{"liblbfgs", time_lbfgs}, {"psgd_minimize", time_minimize}, {"psgd_optimizer_iterate", time_step}};
    double min[3] = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
    int64_t iterations[3];
    for (int run = 0; run < 3 * RUNS; run++) {
        for (int i = 0; i < 3; i++) min[i] = fmin(min[i], rows[i].time(&iterations[i]));
    }
    puts("\nRosenbrock's function of 2 unknowns, CPU time, the least of 15 runs in turn:");
    double limit = min[0] / (double)iterations[0];
    for (int i = 0; i < 3; i++) {
        double each = min[i] / (double)iterations[i];
        printf("%-24s %4lld iterations, %6.1f us in total, %5.0f ns per iteration: %.2f x liblbfgs\n", rows[i].name,
               (long long)iterations[i], min[i] * 1e6, each * 1e9, each / limit);
    }
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
    print_times();
    return psgd < lbfgs_count;
}
