#include "core/options.h"
#include "core/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct pair {
    struct pair *next;
    char *value;
    char name[];
} pair;

struct psgd_options {
    const psgd_context *context;
    pair *first;
};

psgd_status psgd_options_create(const psgd_context *context, psgd_options **options)
{
    if (!options) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_options_create: options is NULL");
    *options = psgd__alloc(context, 1, sizeof **options);
    if (!*options) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an option list");
    (*options)->context = context;
    return PSGD_OK;
}

void psgd_options_free(psgd_options *options)
{
    if (!options) return;
    for (pair *at = options->first, *next; at; at = next) {
        next = at->next;
        psgd__free(options->context, at->value);
        psgd__free(options->context, at);
    }
    psgd__free(options->context, options);
}

static pair *find(const psgd_options *options, const char *name)
{
    for (pair *at = options ? options->first : NULL; at; at = at->next) {
        if (!strcmp(at->name, name)) return at;
    }
    return NULL;
}

const char *psgd__options_find(const psgd_options *options, const char *name)
{
    const pair *at = find(options, name);
    return at ? at->value : NULL;
}

psgd_status psgd_options_set(psgd_options *options, const char *name, const char *value)
{
    if (!options || !name || !value) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_options_set: options, name and value must not be NULL");
    }
    char *copy = psgd__strdup(options->context, value);
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for option %s", name);

    pair *at = find(options, name);
    if (at) {
        psgd__free(options->context, at->value);
        at->value = copy;
        return PSGD_OK;
    }
    size_t length = strlen(name);
    at = psgd__alloc(options->context, (int64_t)(sizeof *at + length + 1), 1);
    if (!at) {
        psgd__free(options->context, copy);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for option %s", name);
    }
    memcpy(at->name, name, length + 1);
    at->value = copy;
    at->next = options->first;
    options->first = at;
    return PSGD_OK;
}

psgd_status psgd_options_set_number(psgd_options *options, const char *name, double value)
{
    char digits[32];
    psgd__print(digits, sizeof digits, "%.17g", value);
    return psgd_options_set(options, name, digits);
}

/* The end of a value: a comma that is in no bracket, or the end of the text; NULL where brackets do not match. */
static char *value_end(char *at)
{
    int depth = 0;
    for (; *at && (depth > 0 || *at != ','); at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth < 0) return NULL;
    }
    return depth ? NULL : at;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The words from here to end, which is overwritten, without white space around them. */
static char *trim(char *from, char *end)
{
    while (from < end && is_space(*from)) from++;
    while (end > from && is_space(end[-1])) end--;
    *end = 0;
    return from;
}

/* Sets the pairs of a list, which is cut up. */
static psgd_status parse_list(psgd_options *to, char *at)
{
    at = trim(at, at + strlen(at));
    for (bool more = *at; more;) {
        char *end = value_end(at);
        if (!end) return psgd__fail(PSGD_ERR_ARGUMENT, "brackets do not match in the options '%.60s'", at);
        more = *end == ',';
        *end = 0;
        char *equals = strchr(at, '=');
        if (!equals || equals == at) {
            return psgd__fail(PSGD_ERR_ARGUMENT,
                              "'%.60s' is not name=value; options are written as criterion=fisher,lr=0.05", at);
        }
        char *value = trim(equals + 1, end);
        PSGD_TRY(psgd_options_set(to, trim(at, equals), value));
        at = end + 1;
    }
    return PSGD_OK;
}

/* Moves all pairs; nothing is allocated, so nothing can fail. */
static void merge(psgd_options *to, psgd_options *from)
{
    while (from->first) {
        pair *at = from->first, *known = find(to, at->name);
        from->first = at->next;
        at->next = to->first;
        if (!known) {
            to->first = at;
            continue;
        }
        psgd__free(to->context, known->value);
        known->value = at->value;
        psgd__free(to->context, at);
    }
}

psgd_status psgd_options_parse(psgd_options *options, const char *list)
{
    if (!options || !list) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_options_parse: options and list must not be NULL");
    }
    psgd_options *read;
    PSGD_TRY(psgd_options_create(options->context, &read));
    char *copy = psgd__strdup(options->context, list);
    psgd_status status = copy ? parse_list(read, copy) : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for options");
    if (status == PSGD_OK) merge(options, read);
    psgd__free(options->context, copy);
    psgd_options_free(read);
    return status;
}

static psgd_status refuse_range(const option_row *row, const char *value)
{
    char min[40] = "", max[40] = "";
    if (row->min > -HUGE_VAL) psgd__print(min, sizeof min, "%s %g", row->above ? "above" : "at least", row->min);
    if (row->max < HUGE_VAL) psgd__print(max, sizeof max, "%s %g", row->below ? "below" : "at most", row->max);
    return psgd__fail(PSGD_ERR_ARGUMENT, "option %s must be %s%s%s, not %s", row->name, min,
                      *min && *max ? " and " : "", max, value);
}

static psgd_status read_number(const option_row *row, const char *value, double *number)
{
    if (!psgd__parse_number(value, number)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option %s needs a finite number, not '%s'", row->name, value);
    }
    bool low = row->above ? *number <= row->min : *number < row->min;
    bool high = row->below ? *number >= row->max : *number > row->max;
    return low || high ? refuse_range(row, value) : PSGD_OK;
}

static psgd_status read_count(const option_row *row, const char *value, int64_t *count)
{
    if (!psgd__parse_integer(value, count)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option %s needs a whole number, not '%s'", row->name, value);
    }
    double size = (double)*count;
    return size < row->min || size > row->max ? refuse_range(row, value) : PSGD_OK;
}

static psgd_status read_choice(const option_row *row, const char *value, int *index)
{
    char words[512] = "";
    int count = 0;
    size_t used = 0;
    for (; row->choices[count]; count++) {
        if (!strcmp(value, row->choices[count])) {
            *index = count;
            return PSGD_OK;
        }
        if (used < sizeof words) {
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", count ? ", " : "", row->choices[count]);
        }
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "option %s is one of %s, not '%s'%s", row->name, words, value,
                      psgd__suggest("", value, row->choices, count).words);
}

static psgd_status read_flag(const option_row *row, const char *value, bool *flag)
{
    static const char *const words[] = {"yes", "no", "true", "false", "1", "0", NULL};
    for (int i = 0; words[i]; i++) {
        if (!strcmp(value, words[i])) {
            *flag = i % 2 == 0;
            return PSGD_OK;
        }
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "option %s is yes or no, not '%s'", row->name, value);
}

static psgd_status read_value(const option_row *row, const char *value, void *settings)
{
    void *field = (char *)settings + row->offset;
    switch (row->kind) {
    case OPTION_NUMBER:
        return read_number(row, value, field);
    case OPTION_COUNT:
        return read_count(row, value, field);
    case OPTION_FLAG:
        return read_flag(row, value, field);
    case OPTION_CHOICE:
        return read_choice(row, value, field);
    case OPTION_TEXT:
        *(const char **)field = value;
        return PSGD_OK;
    }
    return PSGD_OK;
}

static psgd_status refuse_name(const option_table *tables, int table_count, const char *name)
{
    const char *names[256];
    int count = 0;
    for (int t = 0; t < table_count; t++) {
        for (int i = 0; i < tables[t].count && count < 256; i++) names[count++] = tables[t].rows[i].name;
    }
    return psgd__fail(PSGD_ERR_ARGUMENT, "there is no option %s%s", name, psgd__suggest("", name, names, count).words);
}

psgd_status psgd__option_set(const option_table *tables, int table_count, const char *name, const char *value)
{
    for (int t = 0; t < table_count; t++) {
        for (int i = 0; i < tables[t].count; i++) {
            const option_row *row = &tables[t].rows[i];
            if (!strcmp(row->name, name)) return read_value(row, value, tables[t].settings);
        }
    }
    return refuse_name(tables, table_count, name);
}

psgd_status psgd__options_defaults(const option_table *tables, int table_count)
{
    for (int t = 0; t < table_count; t++) {
        for (int i = 0; i < tables[t].count; i++) {
            const option_row *row = &tables[t].rows[i];
            if (row->standard) PSGD_TRY(read_value(row, row->standard, tables[t].settings));
        }
    }
    return PSGD_OK;
}

psgd_status psgd__options_apply(const psgd_options *options, const option_table *tables, int table_count)
{
    for (const pair *at = options ? options->first : NULL; at; at = at->next) {
        PSGD_TRY(psgd__option_set(tables, table_count, at->name, at->value));
    }
    return PSGD_OK;
}

psgd_status psgd__options_read(const psgd_options *options, const option_table *tables, int table_count)
{
    PSGD_TRY(psgd__options_defaults(tables, table_count));
    return psgd__options_apply(options, tables, table_count);
}

int psgd__option_at(const option_row *rows, int count, int index, psgd_option_info *option)
{
    if (index < 0 || index >= count || !option) return 0;
    const option_row *row = &rows[index];
    *option = (psgd_option_info){.name = row->name,
                                 .type = (psgd_option_type)row->kind,
                                 .min = row->min,
                                 .max = row->max,
                                 .min_excluded = row->above,
                                 .max_excluded = row->below,
                                 .choices = row->choices,
                                 .help = row->help};
    snprintf(option->default_value, sizeof option->default_value, "%s", row->standard ? row->standard : "");
    return 1;
}

void psgd__option_in_force(const option_row *row, const void *settings, psgd_option_info *option)
{
    const char *at = (const char *)settings + row->offset;
    char *to = option->default_value;
    double number = 0, before;
    switch (row->kind) {
    case OPTION_FLAG:
        snprintf(to, sizeof option->default_value, "%s", *(const bool *)at ? "yes" : "no");
        return;
    case OPTION_CHOICE:
        snprintf(to, sizeof option->default_value, "%s", row->choices[*(const int *)(const void *)at]);
        return;
    case OPTION_NUMBER:
        number = *(const double *)(const void *)at;
        break;
    case OPTION_COUNT:
        number = (double)*(const int64_t *)(const void *)at;
        break;
    default:
        return;
    }
    if (psgd__parse_number(to, &before) && before == number) return; /* as a person wrote it */
    psgd__print(to, sizeof option->default_value, "%.10g", number);
}

void psgd__option_value(text *to, const psgd_option_info *option)
{
    static const char *const types[] = {"X", "N", "yes|no", "", "TEXT"};
    psgd__text_add(to, "%s", types[option->type]);
    for (int k = 0; option->type == PSGD_OPTION_CHOICE && option->choices[k]; k++) {
        psgd__text_add(to, "%s%s", k ? "|" : "", option->choices[k]);
    }
}

void psgd__option_help(text *to, const psgd_option_info *option)
{
    text left = {.context = to->context}, words = {.context = to->context};
    psgd__text_add(&left, "--%s ", option->name);
    psgd__option_value(&left, option);
    psgd__text_add(&words, *option->default_value ? "%s [%s]" : "%s", option->help, option->default_value);
    if (left.failed || words.failed) {
        psgd__text_free(to);
        to->failed = true;
    } else {
        psgd__text_entry(to, left.chars, words.chars);
    }
    psgd__text_free(&left);
    psgd__text_free(&words);
}
