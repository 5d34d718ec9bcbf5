/* The paper's first experiment (section 7.1): five methods on Rosenbrock's function from (-1, 1). */
#ifndef PSGD_PAPER_ROSENBROCK_H
#define PSGD_PAPER_ROSENBROCK_H

#include <stdint.h>

#include "core/status.h"
#include <psgd/psgd.h>

enum { ROSENBROCK_METHODS = 5, ROSENBROCK_SEEDS = 21, ROSENBROCK_ITERATIONS = 1000 };

typedef struct rosenbrock_method {
    const char *name, *title, *method; /* title: in the figure */
    double lr;
    const char *const *options; /* name, value, ..., NULL */
} rosenbrock_method;

extern const rosenbrock_method psgd__rosenbrock_methods[ROSENBROCK_METHODS];

/* The function of two unknowns, with exact products. */
extern const psgd_objective psgd__rosenbrock_objective;

/* Values at iterations 0 to ROSENBROCK_ITERATIONS. step, the step size of the fit, is left as it is where it is 0. A
 * run that diverges keeps its last finite value. */
psgd_status psgd__rosenbrock_run(const rosenbrock_method *method, double lr, double step, int64_t seed,
                                 double values[ROSENBROCK_ITERATIONS + 1]);

typedef double rosenbrock_runs[ROSENBROCK_METHODS][ROSENBROCK_SEEDS][ROSENBROCK_ITERATIONS + 1];

psgd_status psgd__rosenbrock_run_all(rosenbrock_runs *runs);

/* Quartiles over the seeds: lower, median, upper. */
void psgd__rosenbrock_quartiles(const rosenbrock_runs *runs, int method, int iteration, double quartiles[3]);

/* Into the folder: rosenbrock.csv, with columns method, seed, iteration and value; rosenbrock/METHOD/metrics.jsonl, the
 * medians, for psgd report; rosenbrock.svg and rosenbrock.png. */
psgd_status psgd__rosenbrock_write(const rosenbrock_runs *runs, const char *folder);

#endif
