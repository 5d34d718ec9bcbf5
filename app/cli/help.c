/* psgd VERB --help. */
#include "cli/cli.h"

#include <string.h>

int cli_optimizer_option(int index, psgd_option_info *option)
{
    if (!psgd_optimizer_option(NULL, index, option)) return 0;
    if (!*option->default_value) memcpy(option->default_value, "by method", sizeof "by method");
    return 1;
}

/* The learning rate, and whatever is not as for sgd. */
static void put_defaults(const char *method, text *to)
{
    psgd_option_info own, plain;
    psgd__text_add(to, "  %-12s", method);
    for (int i = 0; psgd_optimizer_option(method, i, &own); i++) {
        psgd_optimizer_option("sgd", i, &plain);
        bool same = !strcmp(own.default_value, plain.default_value), lr = !strcmp(own.name, "lr");
        if (lr || !same) psgd__text_add(to, "%s %s %s", lr ? "" : ",", own.name, own.default_value);
    }
    psgd__text_add(to, "\n");
}

void cli_method_defaults(const cli_verb *verb, text *to)
{
    bool has = false;
    for (int k = 0; verb->options[k]; k++) has = has || verb->options[k] == cli_optimizer_option;
    if (!has) return;
    put_defaults("psgd-newton", to);
    put_defaults("psgd-fisher", to);
    for (int m = 0; psgd_method_name(m); m++) {
        if (strcmp(psgd_method_name(m), "psgd") != 0) put_defaults(psgd_method_name(m), to);
    }
}

/* "psgd" and a criterion are a name of their own: the defaults depend on both. */
static const char *method_of(const cli_args *args)
{
    const char *name = cli_value(args, "optimizer"), *criterion = cli_value(args, "criterion");
    psgd_option_info first;
    if (!name) name = cli_value(args, "method");
    if (name && !strcmp(name, "gd")) name = "sgd";
    if (name && !strcmp(name, "psgd")) {
        name = criterion && !strcmp(criterion, "fisher") ? "psgd-fisher" : "psgd-newton";
    }
    return name && psgd_optimizer_option(name, 0, &first) ? name : NULL;
}

/* The default that an option has for a method. */
static void resolve(const char *method, psgd_option_info *option)
{
    psgd_option_info own;
    if (!method || strcmp(option->default_value, "by method") != 0) return;
    for (int i = 0; psgd_optimizer_option(method, i, &own); i++) {
        if (!strcmp(own.name, option->name)) memcpy(option->default_value, own.default_value, sizeof own.default_value);
    }
}

static void put_flags(const cli_verb *verb, text *to)
{
    for (const cli_flag *flag = verb->flags; flag && flag->name; flag++) {
        char left[80];
        snprintf(left, sizeof left, "--%s %s", flag->name, flag->value ? flag->value : "");
        if (*flag->name) psgd__text_entry(to, left, flag->help);
        if (!*flag->name) psgd__text_add(to, "\n%s:\n", flag->help);
    }
}

static void put_options(const cli_verb *verb, const char *method, text *to)
{
    psgd_option_info option;
    const char *section = NULL, *before = NULL;
    for (int i = 0; cli_option_at(verb, i, &option, &section); i++) {
        if (section && section != before) psgd__text_add(to, "\n%s:\n", section);
        before = section;
        resolve(method, &option);
        psgd__option_help(to, &option);
    }
}

static void put_topics(const cli_verb *verb, text *to)
{
    for (int i = 0; verb->topics && verb->topics[i]; i++) {
        psgd__text_add(to, "  psgd %-20s %s\n", verb->topics[i]->name, verb->topics[i]->summary);
    }
    if (verb->topics) psgd__text_add(to, "\npsgd %s --help and the like explain each.\n", verb->topics[0]->name);
}

static void put_methods(const cli_verb *verb, const char *method, text *to)
{
    text methods = {0};
    cli_method_defaults(verb, &methods);
    if (methods.chars && method) psgd__text_add(to, "\nDefaults are those of %s.\n", method);
    if (methods.chars && !method) {
        bool minimize = !strcmp(verb->name, "minimize");
        psgd__text_add(to, "\nDefaults by method (psgd %s NAME --help shows all of one):\n%s",
                       minimize ? "minimize --method" : "train --optimizer", methods.chars);
    }
    psgd__text_free(&methods);
}

void cli_print_help(const cli_verb *verb, const cli_args *args)
{
    const char *method = method_of(args);
    text to = {0};
    psgd__text_add(&to, "usage: %s\n\n%s.\n\n", verb->usage, verb->summary);
    put_topics(verb, &to);
    put_flags(verb, &to);
    bool sections = verb->sections[0] || (verb->flags && !*verb->flags->name);
    if (sections) psgd__text_entry(&to, "--help", "this text");
    put_options(verb, method, &to);
    if (!sections && !verb->topics) psgd__text_entry(&to, "--help", "this text");
    put_methods(verb, method, &to);
    if (verb->more) psgd__text_add(&to, "\n%s", verb->more);
    if (verb->example) psgd__text_add(&to, "\nExamples:\n%s", verb->example);
    if (to.chars) fputs(to.chars, stdout);
    psgd__text_free(&to);
}
