/* Reading the command line against a verb's flags. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *cli_value(const cli_args *args, const char *name)
{
    for (int i = args->flag_count - 1; i >= 0; i--) {
        if (!strcmp(args->name[i], name)) return args->value[i];
    }
    return NULL;
}

static const char *find_option(option_source *source, const char *name)
{
    psgd_option_info option;
    for (int i = 0; source(i, &option); i++) {
        if (!strcmp(option.name, name)) return option.name;
    }
    return NULL;
}

/* In the first sources of a verb. */
static const char *find_in(const cli_verb *verb, int sources, const char *name)
{
    const char *found = NULL;
    for (int k = 0; !found && k < sources && verb->options[k]; k++) found = find_option(verb->options[k], name);
    return found;
}

static const cli_flag *find_flag(const cli_verb *verb, const char *name)
{
    for (const cli_flag *flag = verb->flags; *name && flag && flag->name; flag++) {
        if (!strcmp(flag->name, name)) return flag;
    }
    return NULL;
}

bool cli_option_at(const cli_verb *verb, int index, psgd_option_info *option, const char **section)
{
    for (int k = 0; verb->options[k]; k++) {
        for (int i = 0; verb->options[k](i, option); i++) {
            bool shown = !find_flag(verb, option->name) && !find_in(verb, k, option->name);
            if (!shown || index-- > 0) continue;
            if (section) *section = verb->sections[k];
            bool own = verb->schedule && !strcmp(option->name, "lr-schedule");
            if (own) snprintf(option->default_value, sizeof option->default_value, "%s", verb->schedule);
            return true;
        }
    }
    return false;
}

static psgd_status refuse_flag(const cli_verb *verb, const char *name)
{
    const char *names[256];
    int count = 0;
    for (const cli_flag *flag = verb->flags; flag && flag->name && count < 256; flag++) names[count++] = flag->name;
    psgd_option_info option;
    for (int i = 0; count < 256 && cli_option_at(verb, i, &option, NULL); i++) names[count++] = option.name;
    return cli_wrong_use("psgd %s has no flag --%s%s; psgd %s --help shows all", verb->name, name,
                         psgd__suggest("--", name, names, count).words, verb->name);
}

static psgd_status add_flag(const cli_verb *verb, cli_args *args, const char *word, const char *next, int *used)
{
    char name[64];
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    if (length >= sizeof name) return cli_wrong_use("psgd %s has no flag --%.40s...", verb->name, word);
    memcpy(name, word, length);
    name[length] = 0;

    const cli_flag *flag = find_flag(verb, name);
    const char *option = find_in(verb, CLI_MAX_SOURCES, name);
    if (!flag && !option) return refuse_flag(verb, name);
    if (args->flag_count == CLI_MAX_FLAGS) return cli_wrong_use("too many flags");

    bool wants = flag ? flag->value != NULL : true;
    bool follows = next && strncmp(next, "--", 2) != 0; /* a value like that is written --name=--value */
    const char *value = equals ? equals + 1 : !wants ? "" : follows ? next : NULL;
    if (!value) return cli_wrong_use("--%s needs a value", name);
    if (!wants && equals) return cli_wrong_use("--%s takes no value", name);
    args->name[args->flag_count] = flag ? flag->name : option;
    args->value[args->flag_count++] = value;
    *used = wants && !equals ? 2 : 1;
    return PSGD_OK;
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* The topic of a verb that the first word names, or the verb itself. */
static const cli_verb *find_topic(const cli_verb *verb, const char *word)
{
    for (int i = 0; verb->topics && word && verb->topics[i]; i++) {
        if (!strcmp(strrchr(verb->topics[i]->name, ' ') + 1, word)) return verb->topics[i];
    }
    return verb;
}

static psgd_status read_words(const cli_verb *verb, int argc, char **argv, cli_args *args)
{
    for (int i = 0, used = 1; i < argc; i += used) {
        const char *word = argv[i];
        used = 1;
        if (is_help(word)) continue;
        if (!strcmp(word, "-o")) word = "--out";
        if (!strncmp(word, "--", 2) && word[2]) {
            PSGD_TRY(add_flag(verb, args, word + 2, i + 1 < argc ? argv[i + 1] : NULL, &used));
        } else if (args->positional_count == CLI_MAX_POSITIONAL) {
            return cli_wrong_use("too many arguments");
        } else {
            args->positional[args->positional_count++] = word;
        }
    }
    return PSGD_OK;
}

psgd_status cli_run(const cli_verb *verb, int argc, char **argv, int *code)
{
    cli_args args = {.code = code};
    const cli_verb *topic = find_topic(verb, argc > 0 ? argv[0] : NULL);
    for (int i = 0; i < argc; i++) {
        if (!is_help(argv[i])) continue;
        (void)read_words(topic, argc, argv, &args); /* what is wrong with them does not matter to the help */
        cli_print_help(topic, &args);
        return PSGD_OK;
    }
    PSGD_TRY(read_words(topic, argc, argv, &args));
    return topic->run(&args);
}

psgd_status cli_shape(const char *word, int *ndim, int64_t shape[32])
{
    const char *at = word;
    for (*ndim = 0; *ndim < 32;) {
        char *end;
        errno = 0;
        long long size = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        if (size < 1 || errno) break;
        shape[(*ndim)++] = size;
        if (!*end) return PSGD_OK;
        if (*end != 'x') break;
        at = end + 1;
    }
    return cli_wrong_use("'%s' is not a shape; write sizes of 1 or more with x between them, as in 4096x4097", word);
}

psgd_status cli_dtype(const cli_args *args, psgd_dtype *dtype)
{
    const char *word = cli_value(args, "dtype");
    if (!word) return PSGD_OK;
    *dtype = !strcmp(word, "f64") ? PSGD_F64 : PSGD_F32;
    if (*dtype == PSGD_F64 || !strcmp(word, "f32")) return PSGD_OK;
    return cli_wrong_use("--dtype is f32 or f64, not '%s'", word);
}

psgd_status cli_number(const cli_args *args, const char *flag, double *number)
{
    const char *word = cli_value(args, flag);
    if (!word || psgd__parse_number(word, number)) return PSGD_OK;
    return cli_wrong_use("--%s needs a finite number, not '%s'", flag, word);
}

psgd_status cli_count(const cli_args *args, const char *flag, int64_t *count)
{
    const char *word = cli_value(args, flag);
    if (!word || (psgd__parse_integer(word, count) && *count >= 0)) return PSGD_OK;
    return cli_wrong_use("--%s needs a whole number of 0 or more, not '%s'", flag, word);
}

psgd_status cli_options(option_source *source, const cli_args *args, psgd_options *options)
{
    for (int i = 0; i < args->flag_count; i++) {
        if (find_option(source, args->name[i])) PSGD_TRY(psgd_options_set(options, args->name[i], args->value[i]));
    }
    return PSGD_OK;
}
