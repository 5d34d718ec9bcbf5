/* psgd_minimize and liblbfgs on big problems, in turn: evaluations, wall time, memory in vectors of n.
 *
 *   build/tests/bench_minimize_big [SCALE]    SCALE divides the numbers of unknowns, 1 by default
 *
 * Both stop at ||g|| <= 1e-6 (1 + |f|). Prints the table of docs/benchmarks/minimize.md. */
#include <lbfgs.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "problem/problem.h"
#include <psgd/psgd.h>

static const double TOLERANCE = 1e-6;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Area of a graph over the unit square on a side x side grid of free nodes, piecewise linear on two triangles a cell;
 * the boundary is fixed. u and v are padded with the boundary, values of which v has none. */
typedef struct surface {
    int side;
    double *u, *v, *g; /* [(side + 2)^2] */
} surface;

static double boundary(int i, int j, int side)
{
    double x = (double)i / (side + 1), y = (double)j / (side + 1);
    return sin(6.28 * x) * (1 - y) + 0.5 * x * y * y + 0.3 * cos(9 * y);
}

static void pad(const surface *s, const double *x, bool edge, double *to)
{
    int w = s->side + 2;
    for (int i = 0; i < w; i++) {
        for (int j = 0; j < w; j++) {
            bool inside = i > 0 && j > 0 && i <= s->side && j <= s->side;
            to[i * w + j] = inside ? x[(i - 1) * s->side + j - 1] : edge ? boundary(i, j, s->side) : 0;
        }
    }
}

/* The triangle at p with legs to a and b: its area; with v NULL its gradient is added to g, else its product with v. */
static double triangle(const double *u, const double *v, double *g, int p, int a, int b, double h)
{
    double s = (u[a] - u[p]) / h, t = (u[b] - u[p]) / h, root = sqrt(1 + s * s + t * t), area = 0.5 * h * h;
    double ds = s / root, dt = t / root;
    if (v) {
        double vs = (v[a] - v[p]) / h, vt = (v[b] - v[p]) / h, along = (s * vs + t * vt) / (root * root);
        ds = (vs - s * along) / root;
        dt = (vt - t * along) / root;
    }
    if (g) {
        g[a] += area * ds / h;
        g[b] += area * dt / h;
        g[p] -= area * (ds + dt) / h;
    }
    return area * root;
}

static double sweep(surface *s, const double *v, double *out)
{
    int w = s->side + 2;
    double h = 1.0 / (s->side + 1), sum = 0, *g = out ? s->g : NULL;
    if (g) memset(g, 0, (size_t)w * (size_t)w * sizeof *g);
    for (int i = 0; i + 1 < w; i++) {
        for (int j = 0; j + 1 < w; j++) {
            int p = i * w + j;
            sum += triangle(s->u, v, g, p, p + w, p + 1, h);
            sum += triangle(s->u, v, g, p + w + 1, p + 1, p + w, -h);
        }
    }
    for (int i = 0; out && i < s->side; i++) {
        memcpy(out + i * s->side, g + (i + 1) * w + 1, (size_t)s->side * sizeof *out);
    }
    return sum;
}

static int surface_evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    surface *s = data;
    pad(s, x, true, s->u);
    *value = sweep(s, NULL, gradient);
    return n != (int64_t)s->side * s->side;
}

static int surface_product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    surface *s = data;
    pad(s, x, true, s->u);
    pad(s, v, false, s->v);
    sweep(s, s->v, h);
    return n != (int64_t)s->side * s->side;
}

/* Mean logistic loss plus l2/2 ||x||^2; each sample has PER features with values. */
enum { PER = 20 };

typedef struct logistic {
    int64_t samples;
    int32_t *at;
    float *value;
    signed char *label;
    double l2;
} logistic;

static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static double uniform(uint64_t *state)
{
    return (double)(next(state) >> 11) * 0x1p-53;
}

static logistic logistic_create(int64_t features, int64_t samples)
{
    uint64_t random = 7;
    size_t count = (size_t)samples * PER;
    logistic l = {samples, malloc(count * sizeof *l.at), malloc(count * sizeof *l.value), malloc((size_t)samples),
                  1.0 / (double)samples};
    double *truth = malloc((size_t)features * sizeof *truth);
    for (int64_t i = 0; i < features; i++) truth[i] = 2 * uniform(&random) - 1;
    for (int64_t k = 0; k < samples; k++) {
        double sum = 0;
        for (int j = 0; j < PER; j++) { /* few features are frequent */
            double skewed = pow(uniform(&random), 3);
            l.at[k * PER + j] = (int32_t)(skewed * (double)features);
            l.value[k * PER + j] = (float)(0.5 + uniform(&random));
            sum += truth[l.at[k * PER + j]] * (double)l.value[k * PER + j];
        }
        l.label[k] = uniform(&random) < 1 / (1 + exp(-sum)) ? 1 : -1;
    }
    free(truth);
    return l;
}

static double row_dot(const logistic *l, int64_t k, const double *x)
{
    double sum = 0;
    for (int j = 0; j < PER; j++) sum += x[l->at[k * PER + j]] * (double)l->value[k * PER + j];
    return sum;
}

static void row_add(const logistic *l, int64_t k, double c, double *to)
{
    for (int j = 0; j < PER; j++) to[l->at[k * PER + j]] += c * (double)l->value[k * PER + j];
}

static int logistic_evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    const logistic *l = data;
    double sum = 0, c = 1 / (double)l->samples;
    for (int64_t i = 0; gradient && i < n; i++) gradient[i] = l->l2 * x[i];
    for (int64_t i = 0; i < n; i++) sum += 0.5 * l->l2 * x[i] * x[i];
    for (int64_t k = 0; k < l->samples; k++) {
        double t = l->label[k] * row_dot(l, k, x), e = exp(-fabs(t));
        sum += c * (log1p(e) + (t < 0 ? -t : 0));
        double slope = t > 0 ? -e / (1 + e) : -1 / (1 + e);
        if (gradient) row_add(l, k, c * l->label[k] * slope, gradient);
    }
    *value = sum;
    return 0;
}

static int logistic_product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    const logistic *l = data;
    double c = 1 / (double)l->samples;
    for (int64_t i = 0; i < n; i++) h[i] = l->l2 * v[i];
    for (int64_t k = 0; k < l->samples; k++) {
        double e = exp(-fabs(row_dot(l, k, x))), curvature = e / ((1 + e) * (1 + e));
        row_add(l, k, c * curvature * row_dot(l, k, v), h);
    }
    return 0;
}

typedef struct outcome {
    double value, norm, seconds, inside; /* inside: of the function */
    int64_t evaluations, products;
    bool converged;
} outcome;

/* The function, timed and counted. */
typedef struct watched {
    const psgd_function *function;
    double inside;
    int64_t evaluations, products;
} watched;

static int evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    watched *w = data;
    double begin = seconds();
    w->evaluations++;
    int code = w->function->evaluate(w->function->data, n, x, value, gradient);
    w->inside += seconds() - begin;
    return code;
}

static int product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    watched *w = data;
    double begin = seconds();
    w->products++;
    int code = w->function->product(w->function->data, n, x, v, h);
    w->inside += seconds() - begin;
    return code;
}

static size_t allocated;

static void *count_memory(void *data, size_t bytes)
{
    (void)data;
    allocated += bytes;
    return malloc(bytes);
}

static void release(void *data, void *memory)
{
    (void)data;
    free(memory);
}

static outcome run_psgd(const psgd_function *function, int64_t n, const double *start)
{
    psgd_allocator allocator = {.allocate = count_memory, .release = release};
    psgd_context *context;
    psgd_options *options;
    psgd_result r;
    double *x = malloc((size_t)n * sizeof *x), begin = seconds();
    watched w = {.function = function};
    psgd_function own = {.evaluate = evaluate, .product = product, .data = &w};
    memcpy(x, start, (size_t)n * sizeof *x);
    allocated = 0;
    if (psgd_context_create(&allocator, &context) != PSGD_OK || psgd_options_create(context, &options) != PSGD_OK ||
        psgd_options_set_number(options, "tolerance", TOLERANCE) != PSGD_OK ||
        psgd_minimize(context, n, x, &own, options, NULL, NULL, &r) != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        exit(2);
    }
    double elapsed = seconds() - begin;
    psgd_options_free(options);
    psgd_context_free(context);
    free(x);
    return (outcome){
        r.value, r.gradient_norm, elapsed, w.inside, w.evaluations, w.products, r.outcome == PSGD_CONVERGED};
}

static lbfgsfloatval_t lbfgs_evaluate(void *data, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                      const lbfgsfloatval_t step)
{
    double value;
    (void)step;
    evaluate(data, n, x, &value, g);
    return value;
}

static double last_norm, last_value;

static int lbfgs_progress(void *data, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g, const lbfgsfloatval_t fx,
                          const lbfgsfloatval_t xnorm, const lbfgsfloatval_t gnorm, const lbfgsfloatval_t step, int n,
                          int k, int ls)
{
    (void)data, (void)x, (void)g, (void)xnorm, (void)step, (void)n, (void)ls;
    last_norm = gnorm;
    last_value = fx;
    return gnorm <= TOLERANCE * (1 + fabs(fx)) || k >= 10000;
}

static outcome run_lbfgs(const psgd_function *function, int64_t n, const double *start)
{
    lbfgs_parameter_t parameters;
    lbfgs_parameter_init(&parameters);
    parameters.epsilon = 1e-300; /* its own test is relative to ||x||; the callback has ours */
    lbfgsfloatval_t *x = lbfgs_malloc((int)n);
    watched w = {.function = function};
    memcpy(x, start, (size_t)n * sizeof *x);
    double begin = seconds();
    lbfgs((int)n, x, NULL, lbfgs_evaluate, lbfgs_progress, &w, &parameters);
    double elapsed = seconds() - begin;
    lbfgs_free(x);
    return (outcome){
        last_value, last_norm, elapsed, w.inside, w.evaluations, 0, last_norm <= TOLERANCE * (1 + fabs(last_value))};
}

static void compare(const char *name, const psgd_function *function, int64_t n, const double *start)
{
    outcome a = {.seconds = HUGE_VAL}, b = {.seconds = HUGE_VAL};
    for (int run = 0; run < 2; run++) { /* in turn; the faster of two */
        outcome one = run_psgd(function, n, start), other = run_lbfgs(function, n, start);
        if (one.seconds < a.seconds) a = one;
        if (other.seconds < b.seconds) b = other;
    }
    printf("| %s | %lld | %s | %.6g | %lld + %lld | %.2f | %.2f | %.0f | %s | %.6g | %lld | %.2f | %.2f | %.2f |\n",
           name, (long long)n, a.converged ? "yes" : "**no**", a.value, (long long)a.evaluations, (long long)a.products,
           a.seconds, a.seconds - a.inside, (double)allocated / (8 * (double)n), b.converged ? "yes" : "**no**",
           b.value, (long long)b.evaluations, b.seconds, b.seconds - b.inside, a.seconds / b.seconds);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int scale = argc > 1 ? atoi(argv[1]) : 1;
    static const char *const names[] = {"extended-rosenbrock", "extended-powell", "broyden-tridiagonal"};
    if (scale < 1) return 2;
    puts("| problem | n | psgd converges | f | f, g + Hv | s | outside f | vectors | liblbfgs converges | f | f, g | s "
         "| "
         "outside f | psgd / liblbfgs |");
    puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (int k = 0; k < 3; k++) {
        problem *p;
        int64_t n = 1000000 / scale / 4 * 4;
        double *start = malloc((size_t)n * sizeof *start);
        if (psgd__problem_create(NULL, names[k], n, &p) != PSGD_OK) return 2;
        psgd__problem_start(p, start);
        psgd_function function = {.evaluate = psgd__problem_evaluate, .product = psgd__problem_product, .data = p};
        compare(names[k], &function, n, start);
        psgd__problem_free(p);
        free(start);
    }
    int side = (int)(300 / sqrt(scale));
    size_t nodes = (size_t)(side + 2) * (size_t)(side + 2);
    surface s = {side, malloc(nodes * 8), malloc(nodes * 8), malloc(nodes * 8)};
    double *start = calloc(nodes + 100000, sizeof *start);
    psgd_function area = {.evaluate = surface_evaluate, .product = surface_product, .data = &s};
    compare("minimal surface", &area, (int64_t)side * side, start);
    logistic l = logistic_create(100000 / scale, 100000 / scale);
    psgd_function loss = {.evaluate = logistic_evaluate, .product = logistic_product, .data = &l};
    compare("logistic regression", &loss, 100000 / scale, start);
    free(start), free(s.u), free(s.v), free(s.g), free(l.at), free(l.value), free(l.label);
    return 0;
}
