/* The options of a preconditioner, one row each. */
#include "precond/precond.h"

#include <math.h>
#include <stddef.h>

static const char *const criteria[] = {"newton", "fisher", NULL};
static const char *const norms[] = {"auto", "max", "entry", "spectral", "second", "none", NULL};
static const char *const rules[] = {"auto", "eq", "qeq", "pro", "quad", "qep", NULL};
static const char *const inits[] = {"scale", "first", NULL};
static const char *const rows[] = {"none", "exact", "lazy", NULL};

#define FIELD(name) offsetof(precond_settings, name)

const option_row psgd__precond_options[] = {
    {"criterion", OPTION_CHOICE, FIELD(criterion), "newton", .choices = criteria,
     .help = "fit P to Hessian-vector products or to gradients"},
    {"damping", OPTION_NUMBER, FIELD(damping), "0", .min = 0, .max = HUGE_VAL,
     .help = "fisher: lambda, added to h as lambda v"},
    {"step", OPTION_NUMBER, FIELD(step), "0.01", .min = 0, .max = HUGE_VAL,
     .help = "step size of the fit; below 1 unless norm is none"},
    {"norm", OPTION_CHOICE, FIELD(norm), "auto", .choices = norms,
     .help = "what the step is divided by; auto: entry for diag, spectral for dense and xmat, else max; second with "
             "rules other than eq"},
    {"rule", OPTION_CHOICE, FIELD(rule), "eq", .choices = rules,
     .help = "how Q moves; eq is the paper's; the others need dense, diag, scale, xmat or identity, and step about "
             "0.1; auto: pro where it fits"},
    {"norm-decay", OPTION_NUMBER, FIELD(norm_decay), "0.9", .min = 0, .max = 1, .below = true,
     .help = "norm second: L <- max(norm-decay L + (1 - norm-decay) l, l)"},
    {"init-scale", OPTION_NUMBER, FIELD(init_scale), "1", .min = 1e-15, .max = 1e15,
     .help = "Q starts as this times I"},
    {"init", OPTION_CHOICE, FIELD(init), "scale", .choices = inits,
     .help = "first: the scale of the first five pairs whose h is not zero"},
    {"pairs", OPTION_COUNT, FIELD(pairs), "1", .min = 1, .max = 1e6,
     .help = "max number of pairs (v, h) of one update"},
    {"integrate", OPTION_FLAG, FIELD(integrate), "no",
     .help = "take the expectation over v in closed form; of newton's h = Hv only the term in v"},
    {"rows", OPTION_CHOICE, FIELD(rows), "none", .choices = rows,
     .help = "kron(diag,G), gradients of some rows only: exact integrates v out on the absent rows, lazy leaves them "
             "out of the fit"},
    {"unbiased", OPTION_FLAG, FIELD(unbiased), "no",
     .help = "fisher: g - s + s/sqrt(batch) for g, s the moving average before it; P^2/batch then estimates F^-1"},
    {"batch", OPTION_COUNT, FIELD(batch), "1", .min = 1, .max = 1e12, .help = "unbiased: samples in a gradient"},
    {"average", OPTION_NUMBER, FIELD(average), "0.9", .min = 0, .max = 1, .below = true,
     .help = "unbiased: factor of the moving average"},
};

const int psgd__precond_option_count = (int)(sizeof psgd__precond_options / sizeof psgd__precond_options[0]);
