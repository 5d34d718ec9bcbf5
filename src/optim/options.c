/* The options of an optimizer, one row each; those of its preconditioners (precond/options.c) follow them. Defaults
 * that depend on the method are in defaults.c. */
#include "optim/optim.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const schedules[] = {"constant", "step", "cosine", "plateau", NULL};
static const char *const whitened[] = {"gradient", "momentum", NULL};
static const char *const applied[] = {"p", "p2", "inverse-fisher", "q", NULL};
static const char *const probes[] = {"normal", "preconditioned", "mixed", NULL};
static const char *const clips[] = {"absolute", "sqrt", NULL};

static const char *const defaults[] = {"tuned", "paper", NULL};

#define FIELD(name) offsetof(optim_settings, name)

const option_row psgd__optim_options[] = {
    {"lr", OPTION_NUMBER, FIELD(lr), "0.01", .min = 0, .max = HUGE_VAL,
     .help = "mu, the step size; psgd: larger up to 128 parameters"},
    {"lr-schedule", OPTION_CHOICE, FIELD(lr_schedule.kind), "constant", .choices = schedules,
     .help = "plateau: times lr-factor whenever validation is worse than the best so far"},
    {"lr-every", OPTION_COUNT, FIELD(lr_schedule.every), "1000", .min = 1, .max = 1e15,
     .help = "schedule step: times lr-factor every so many steps"},
    {"lr-factor", OPTION_NUMBER, FIELD(lr_schedule.factor), "0.25", .min = 0, .max = 1, .above = true,
     .help = "schedules step and plateau: what lr is multiplied by"},
    {"lr-floor", OPTION_NUMBER, FIELD(lr_schedule.floor), "0", .min = 0, .max = 1,
     .help = "schedule cosine: ends at this times lr"},
    {"step-schedule", OPTION_CHOICE, FIELD(step_schedule.kind), "constant", .choices = schedules,
     .help = "the same for step, the learning rate of the preconditioner"},
    {"step-every", OPTION_COUNT, FIELD(step_schedule.every), "1000", .min = 1, .max = 1e15,
     .help = "as lr-every, for step"},
    {"step-factor", OPTION_NUMBER, FIELD(step_schedule.factor), "0.25", .min = 0, .max = 1, .above = true,
     .help = "as lr-factor, for step"},
    {"step-floor", OPTION_NUMBER, FIELD(step_schedule.floor), "0", .min = 0, .max = 1, .help = "as lr-floor, for step"},
    {"warmup", OPTION_COUNT, FIELD(warmup), "0", .min = 0, .max = 1e15,
     .help = "steps over which lr rises to its value"},
    {"total", OPTION_COUNT, FIELD(total), "1000", .min = 1, .max = 1e15, .help = "schedule cosine: steps in all"},
    {"momentum", OPTION_NUMBER, FIELD(momentum), "0", .min = 0, .max = 1, .below = true,
     .help = "psgd: factor of the moving average of gradients; momentum, nesterov: of u"},
    {"nesterov", OPTION_FLAG, FIELD(nesterov), "no", .help = "psgd: look ahead along the momentum"},
    {"whiten", OPTION_CHOICE, FIELD(whiten), "gradient", .choices = whitened,
     .help = "fisher: fit P to gradients or to the momentum"},
    {"apply", OPTION_CHOICE, FIELD(apply), "p", .choices = applied,
     .help = "psgd: step along P g, P^2 g, P^2 g / batch (with the option unbiased), or Q g"},
    {"probe", OPTION_CHOICE, FIELD(probe), "normal", .choices = probes,
     .help = "newton: v of covariance I, P, or either with equal chance"},
    {"clip-gradient", OPTION_NUMBER, FIELD(clip_gradient), "0", .min = 0, .max = HUGE_VAL,
     .help = "max norm of the gradient over all tensors, before the method sees it; 0: any"},
    {"clip", OPTION_NUMBER, FIELD(clip), "0", .min = 0, .max = HUGE_VAL,
     .help = "max norm of the direction over all tensors (the paper's Omega); 0: any"},
    {"clip-by", OPTION_CHOICE, FIELD(clip_by), "absolute", .choices = clips,
     .help = "sqrt: clip is per square root of the number of parameters"},
    {"clip-element", OPTION_NUMBER, FIELD(clip_element), "0", .min = 0, .max = HUGE_VAL,
     .help = "max |entry| of the direction; 0: any"},
    {"clip-relative", OPTION_NUMBER, FIELD(clip_relative), "0", .min = 0, .max = HUGE_VAL,
     .help = "max norm of the direction relative to that of theta, now and at the first step; 0: any"},
    {"clip-recent", OPTION_NUMBER, FIELD(clip_recent), "0", .min = 0, .max = HUGE_VAL,
     .help =
         "max norm of the direction relative to the average of recent ones; where that is exceeded, psgd fits in the "
         "next step; 0: any"},
    {"clip-rms", OPTION_NUMBER, FIELD(clip_rms), "0", .min = 0, .max = HUGE_VAL,
     .help = "max root mean square of the direction of a tensor; 0: any"},
    {"l2", OPTION_NUMBER, FIELD(l2), "0", .min = 0, .max = HUGE_VAL, .help = "adds l2 theta to the gradient"},
    {"decay", OPTION_NUMBER, FIELD(decay), "0", .min = 0, .max = HUGE_VAL,
     .help = "decoupled: theta shrinks by mu decay in a step"},
    {"update-every", OPTION_COUNT, FIELD(update_every), "1", .min = 1, .max = 1e15,
     .help =
         "fit the preconditioner every so many steps of a tensor; newton: 9 for at most 16 parameters in all, if no "
         "schedule of fits is set"},
    {"update-probability", OPTION_NUMBER, FIELD(update_probability), "1", .min = 0, .max = 1,
     .help = "and then with this probability"},
    {"update-anneal", OPTION_COUNT, FIELD(update_anneal), "0", .min = 0, .max = 1e15,
     .help = "steps over which the probability falls from 1 to update-floor; 0: it does not"},
    {"update-floor", OPTION_NUMBER, FIELD(update_floor), "0.03", .min = 0, .max = 1, .above = true,
     .help =
         "where the probability ends; newton: by parameters in all 0.25 up to 128, 0.07 up to 10,000, else 0.03, if "
         "no schedule of fits is set"},
    {"delay", OPTION_COUNT, FIELD(delay), "0", .min = 0, .max = 1000,
     .help = "psgd: a worker fits the preconditioner, which takes effect so many steps after its pair; 0: it is "
             "fitted in that step"},
    {"delay-free", OPTION_FLAG, FIELD(delay_free), "no",
     .help = "it takes effect as soon as it is there, delay steps after its pair at most: not the same bits in "
             "every run"},
    {"workers", OPTION_COUNT, FIELD(workers), "1", .min = 1, .max = 64,
     .help = "delay: workers; each evaluates the Hessian-vector product of another step"},
    {"worker-threads", OPTION_COUNT, FIELD(worker_threads), "1", .min = 1, .max = 256,
     .help = "delay: threads of a worker"},
    {"beta1", OPTION_NUMBER, FIELD(beta1), "0.9", .min = 0, .max = 1, .below = true,
     .help = "adam: factor of the moving average of gradients"},
    {"beta2", OPTION_NUMBER, FIELD(beta2), "0.999", .min = 0, .max = 1, .below = true,
     .help = "adam, rmsprop, esgd, kfac: factor of the moving average of squares"},
    {"epsilon", OPTION_NUMBER, FIELD(epsilon), "1e-8", .min = 0, .max = HUGE_VAL,
     .help = "adaptive methods: added to the root of the squares"},
    {"epsilon-inside", OPTION_FLAG, FIELD(epsilon_inside), "no",
     .help = "adaptive methods: add epsilon^2 under the root instead, as the paper's lambda^2"},
    {"power", OPTION_NUMBER, FIELD(power), "1", .min = 0, .max = 1, .above = true,
     .help = "kfac: the power of the inverse Fisher matrix; 0.5 is what psgd fits"},
    {"inverse-every", OPTION_COUNT, FIELD(inverse_every), "20", .min = 1, .max = 1e15,
     .help = "kfac: inverts its factors at each of the first so many updates, then at every so many"},
    {"memory", OPTION_COUNT, FIELD(memory), "6", .min = 1, .max = 1000, .help = "lbfgs: number of pairs that are kept"},
    {"cg-iterations", OPTION_COUNT, FIELD(cg_iterations), "50", .min = 1, .max = 1e9,
     .help = "newton-cg: max number of products per step"},
    {"cg-tolerance", OPTION_NUMBER, FIELD(cg_tolerance), "0.1", .min = 0, .max = 1, .above = true,
     .help = "newton-cg: the residual at which a step is good enough, relative to the gradient"},
    {"group", OPTION_TEXT, FIELD(group), "auto",
     .help = "psgd: group of tensors that do not name one; auto: by their shapes, see psgd group --plan"},
    {"joint", OPTION_FLAG, FIELD(joint), "no",
     .help = "psgd: one group over all tensors as one vector; they must not name one"},
    {"seed", OPTION_COUNT, FIELD(seed), "0", .min = 0, .max = 9.3e18, .help = "of v and of random updates"},
    {"first-tensor", OPTION_COUNT, FIELD(first_tensor), "0", .min = 0, .max = 1e15,
     .help = "added to the index of a tensor when v is drawn: for optimizers that share a seed"},
    {"parameters", OPTION_COUNT, FIELD(parameters), "0", .min = 0, .max = 9e18,
     .help = "parameters in all, which some defaults depend on, where this optimizer has only a part of them; 0: its "
             "own"},
    {"defaults", OPTION_CHOICE, FIELD(defaults), "tuned", .choices = defaults,
     .help = "psgd: of all options that are not set; paper: no momentum, limit or schedule but those asked for"},
    {"max-skipped", OPTION_COUNT, FIELD(max_skipped), "20", .min = 0, .max = 1e15,
     .help = "steps in a row that may be skipped because something is not finite"},
    {"check", OPTION_FLAG, FIELD(check), "yes",
     .help = "no: the caller guarantees that gradients are finite, which saves reading them once"},
};

const int psgd__optim_option_count = (int)(sizeof psgd__optim_options / sizeof psgd__optim_options[0]);

/* Options that only scale a step: no memory depends on them. */
static bool is_live(const char *name)
{
    static const char *const live[] = {"lr", "decay", "momentum", "step"};
    for (size_t i = 0; i < sizeof live / sizeof live[0]; i++) {
        if (!strcmp(live[i], name)) return true;
    }
    return false;
}

/* What creation refuses as well, and what would need other memory. */
static psgd_status check_live(const psgd_optimizer *self, const optim_settings *set)
{
    if ((set->momentum == 0) != (self->settings.momentum == 0)) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "option momentum is 0 or above 0 for good once the optimizer is created");
    }
    if (set->fit.step >= 1 && set->fit.norm != NORM_NONE) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option step must be below 1 unless norm is none");
    }
    for (int i = 0; i < self->part_count; i++) {
        PSGD_TRY(psgd__optim_check_rows(self->kind, set, self->parts[i].name, self->parts[i].rows_max));
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_set_number(psgd_optimizer *self, const char *option, double value)
{
    if (!self || !option || !is_live(option)) {
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "of an optimizer lr, decay, momentum and step can be set between steps, not %s",
                          option ? option : "NULL");
    }
    char digits[32];
    optim_settings set = self->settings;
    psgd__print(digits, sizeof digits, "%.17g", value);
    option_table tables[] = {{psgd__optim_options, psgd__optim_option_count, &set},
                             {psgd__precond_options, psgd__precond_option_count, &set.fit}};
    PSGD_TRY(psgd__option_set(tables, 2, option, digits));
    PSGD_TRY(check_live(self, &set));
    self->settings = set;
    return PSGD_OK;
}
