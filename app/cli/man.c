#include "cli/cli.h"

/* Text as roff wants it: no backslash, dash or leading dot of its own. */
static void put(const char *words)
{
    bool line_start = true;
    for (; *words; words++) {
        if (line_start && (*words == '.' || *words == '\'')) fputs("\\&", stdout);
        if (*words == '\\') {
            fputs("\\e", stdout);
        } else if (*words == '-') {
            fputs("\\-", stdout);
        } else {
            putchar(*words);
        }
        line_start = *words == '\n';
    }
}

static void put_in(const char *before, const char *words, const char *after)
{
    fputs(before, stdout);
    put(words);
    fputs(after, stdout);
}

static void put_flag(const char *name, const char *value, const char *help, const char *default_value)
{
    put_in(".TP\n\\fB\\-\\-", name, "\\fR");
    if (value) put_in(" \\fI", value, "\\fR");
    put_in("\n", help, "");
    if (*default_value) put_in(" [", default_value, "]");
    putchar('\n');
}

static void put_verb(const cli_verb *verb)
{
    put_in(".SS ", verb->name, "\n.nf\n");
    put_in("", verb->usage, "\n.fi\n.PP\n");
    put_in("", verb->summary, ".\n");
    for (const cli_flag *flag = verb->flags; flag && flag->name; flag++) {
        if (*flag->name) put_flag(flag->name, flag->value, flag->help, "");
        if (!*flag->name) put_in(".PP\n", flag->help, ":\n");
    }
    psgd_option_info option;
    const char *section = NULL, *before = NULL;
    for (int i = 0; cli_option_at(verb, i, &option, &section); i++) {
        if (section && section != before) put_in(".PP\n", section, ":\n");
        before = section;
        text value = {0};
        psgd__option_value(&value, &option);
        put_flag(option.name, value.chars ? value.chars : "", option.help, option.default_value);
        psgd__text_free(&value);
    }
    text methods = {0};
    cli_method_defaults(verb, &methods);
    if (methods.chars) put_in(".PP\nDefaults by method:\n.nf\n", methods.chars, ".fi\n");
    psgd__text_free(&methods);
    if (verb->more) put_in(".PP\n.nf\n", verb->more, ".fi\n");
    if (verb->example) put_in(".PP\nExamples:\n.nf\n", verb->example, ".fi\n");
    for (int i = 0; verb->topics && verb->topics[i]; i++) put_verb(verb->topics[i]);
}

void cli_print_man(const cli_verb *const *verbs, int count)
{
    printf(".TH PSGD 1 \"\" \"psgd %s\" \"User Commands\"\n", psgd_version());
    fputs(".SH NAME\npsgd \\- preconditioned SGD on matrix Lie groups\n.SH SYNOPSIS\n.B psgd\n.I VERB\n"
          "[\\fIarguments\\fR]\n.br\n.B psgd\n.I VERB\n.B \\-\\-help\n.br\n.B psgd \\-\\-version\n.SH VERBS\n",
          stdout);
    for (int i = 0; i < count; i++) put_verb(verbs[i]);
    fputs(".SH GROUPS\n", stdout);
    for (int i = 0; psgd_group_name(NULL, i); i++) {
        put_in(".TP\n\\fB", psgd_group_name(NULL, i), "\\fR\n");
        put_in("", psgd_group_summary(NULL, i), "; elements: ");
        put_in("", psgd_group_formula(NULL, i), "\n");
    }
    fputs(".SH EXIT STATUS\n0 on success, 1 on failure, 2 for wrong use. Errors are one sentence on standard error.\n",
          stdout);
}
