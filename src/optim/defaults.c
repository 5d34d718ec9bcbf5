/* Every default that depends on the method: one table for the library, the command and the bindings. What it does not
 * name has the default of its row in options.c or precond/options.c, which psgd_precond_create and psgd fit keep. */
#include "optim/optim.h"

#include <string.h>

typedef struct method_default {
    const char *method, *option, *value;
} method_default;

/* psgd: for both criteria; psgd-newton, psgd-fisher: for one of them; none of them where option defaults is paper.
 * docs/optimizers.md says on which tasks they were chosen. */
static const method_default defaults[] = {
    {"adagrad", "lr", "0.01"},
    {"rmsprop", "lr", "0.001"},
    {"rmsprop", "beta2", "0.99"},
    {"adam", "lr", "0.001"},
    {"adamw", "lr", "0.001"},
    {"adamw", "decay", "0.01"},
    {"sparse-adam", "lr", "0.001"},
    {"esgd", "lr", "0.01"},
    {"kfac", "lr", "0.01"},
    {"kfac", "beta2", "0.95"},
    {"momentum", "momentum", "0.9"},
    {"nesterov", "momentum", "0.9"},
    {"lbfgs", "lr", "1"},
    {"newton-cg", "lr", "1"},
    {"psgd", "init", "first"},
    {"psgd", "step", "0.1"},
    {"psgd-newton", "lr", "0.08"},
    {"psgd-newton", "probe", "mixed"},
    {"psgd-newton", "warmup", "20"},
    {"psgd-newton", "update-anneal", "150"},
    {"psgd-newton", "update-floor", "0.03"},
    {"psgd-newton", "clip-relative", "2"},
    {"psgd-newton", "clip-recent", "4"},
    {"psgd-fisher", "lr", "0.008"},
    {"psgd-fisher", "warmup", "20"},
    {"psgd-fisher", "update-anneal", "500"},
    {"psgd-fisher", "update-floor", "0.1"},
    {"psgd-fisher", "clip-relative", "20"},
    {"psgd-fisher", "clip-rms", "0.3"},
    {"psgd-fisher", "momentum", "0.9"},
};

/* update-every with a delay and Hessian-vector products: one worker core keeps up with a pair every so many steps of
 * one core (docs/optimizers.md, bench/async). */
enum { DELAYED_EVERY = 4 };

enum { DEFAULTS = sizeof defaults / sizeof defaults[0] };

static const char *own_name(int type)
{
    return type == CRITERION_NEWTON ? "psgd-newton" : "psgd-fisher";
}

const char *psgd__optim_default(const char *method, int type, bool paper, const char *option)
{
    bool psgd = !strcmp(method, "psgd");
    if (psgd && paper) return NULL;
    for (int i = 0; i < DEFAULTS; i++) {
        const method_default *d = &defaults[i];
        bool here = !strcmp(d->method, method) || (psgd && !strcmp(d->method, own_name(type)));
        if (here && !strcmp(d->option, option)) return d->value;
    }
    return NULL;
}

bool psgd__optim_by_method(const char *option)
{
    for (int i = 0; i < DEFAULTS; i++) {
        if (!strcmp(defaults[i].option, option)) return true;
    }
    return !strcmp(option, "criterion");
}

/* In small networks fits are more frequent and move P further: with 0.1, one seed in five of an LSTM on delayed XOR
 * never left chance.
 *
 * Where the parameters are few, a fit is cheap compared with the rest of a step and P is soon that of the whole
 * Hessian: Newton's fits stay more frequent, v has covariance P, and steps may be longer. Fisher's steps are those of
 * parameters of any size, and bounded by it.
 *
 * A pair gives n equations for the n(n + 1)/2 unknowns of P, so where there are hardly any parameters a fit may move P
 * further before the noise of single pairs shows, and fewer fits suffice: there a fit costs more than a step. */
static const struct few_default {
    int64_t max; /* parameters in all; a later row takes precedence */
    const char *method, *option, *value;
} of_few[] = {
    {OPTIM_SMALL, "psgd-newton", "update-floor", "0.07"},
    {OPTIM_SMALL, "psgd-newton", "step", "0.15"},
    {OPTIM_FEW, "psgd-newton", "step", "0.1"},
    {OPTIM_FEW, "psgd-newton", "probe", "preconditioned"},
    {OPTIM_FEW, "psgd-newton", "clip-relative", "8"},
    {OPTIM_FEW, "psgd-newton", "warmup", "0"},
    {OPTIM_FEW, "psgd-newton", "update-floor", "0.25"},
    {OPTIM_FEW, "psgd-fisher", "lr", "0.03"},
    {OPTIM_FEW, "psgd-fisher", "clip-relative", "0.5"},
    {OPTIM_FEW, "psgd-fisher", "clip-rms", "0"},
    {OPTIM_FEW, "psgd-fisher", "warmup", "0"},
    {OPTIM_HARDLY_ANY, "psgd-newton", "lr", "0.2"},
    {OPTIM_HARDLY_ANY, "psgd-newton", "step", "0.3"},
    {OPTIM_HARDLY_ANY, "psgd-newton", "update-every", "9"},
    {OPTIM_HARDLY_ANY, "psgd-newton", "update-anneal", "0"},
};
enum { OF_FEW = sizeof of_few / sizeof *of_few };

/* A schedule of fits that the caller or a delay has set stays as it is. */
static bool is_set(const psgd_options *options, const optim_settings *set, const char *option)
{
    static const char *const scheduling[] = {"update-every", "update-probability", "update-anneal", "update-floor"};
    bool schedules = false, scheduled = false;
    for (int i = 0; i < 4; i++) {
        schedules |= !strcmp(option, scheduling[i]);
        scheduled |= psgd__options_find(options, scheduling[i]) != NULL;
    }
    bool delayed = set->delay > 0 && !strcmp(option, "update-every");
    return delayed || (schedules && scheduled) || psgd__options_find(options, option);
}

psgd_status psgd__optim_fit_few(const psgd_options *options, int64_t parameters, optim_settings *set)
{
    option_table tables[] = {{psgd__optim_options, psgd__optim_option_count, set},
                             {psgd__precond_options, psgd__precond_option_count, &set->fit}};
    if (set->defaults != DEFAULTS_TUNED) return PSGD_OK;
    for (int i = 0; i < OF_FEW; i++) {
        const struct few_default *d = &of_few[i];
        bool other = strcmp(d->method, own_name(set->fit.criterion)) != 0;
        if (other || parameters > d->max || is_set(options, set, d->option)) continue;
        PSGD_TRY(psgd__option_set(tables, 2, d->option, d->value));
    }
    return PSGD_OK;
}

psgd_status psgd__optim_read(const char *method, int type, const psgd_options *options, optim_settings *set)
{
    option_table tables[] = {{psgd__optim_options, psgd__optim_option_count, set},
                             {psgd__precond_options, psgd__precond_option_count, &set->fit}};
    *set = (optim_settings){0};
    PSGD_TRY(psgd__options_read(options, tables, 2)); /* option defaults is one of them */
    bool paper = set->defaults == DEFAULTS_PAPER;
    PSGD_TRY(psgd__options_defaults(tables, 2));
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < tables[t].count; i++) {
            const char *name = tables[t].rows[i].name, *value = psgd__optim_default(method, type, paper, name);
            if (value) PSGD_TRY(psgd__option_set(tables, 2, name, value));
        }
    }
    set->fit.criterion = type;
    PSGD_TRY(psgd__options_apply(options, tables, 2));
    if (set->delay > 0 && set->fit.criterion == CRITERION_NEWTON && !psgd__options_find(options, "update-every")) {
        set->update_every = DELAYED_EVERY;
    }
    return PSGD_OK;
}
