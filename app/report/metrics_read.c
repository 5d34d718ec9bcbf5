/* Reading a metrics log into curves. */
#include "report/metrics.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/memory.h"
#include "core/text.h"

static psgd_status no_memory(void)
{
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to read a metrics log");
}

static const char *string_of(const cJSON *record, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(record, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *record, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(record, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* As an integer; what is none, or has no exact place among them, counts as the nearest limit. */
static int64_t count_of(const cJSON *record, const char *name)
{
    const double max = 9007199254740992.0; /* 2^53 */
    double number = number_of(record, name);
    return number >= max ? (int64_t)max : number >= 0 ? (int64_t)number : 0;
}

static psgd_status copy_settings(const metrics_run *run, const cJSON *settings, metrics_setting **list, int *count)
{
    if (settings && !cJSON_IsObject(settings)) return psgd__fail(PSGD_ERR_FORMAT, "its settings are not an object");
    *list = psgd__alloc(run->context, cJSON_GetArraySize(settings), sizeof **list);
    if (!*list) return no_memory();
    const cJSON *item;
    cJSON_ArrayForEach(item, settings)
    {
        char number[32];
        const char *value = number;
        if (cJSON_IsString(item))
            value = item->valuestring;
        else if (cJSON_IsNumber(item))
            psgd__print(number, sizeof number, "%.10g", item->valuedouble);
        else
            value = cJSON_IsTrue(item) ? "yes" : cJSON_IsFalse(item) ? "no" : "";
        metrics_setting *to = &(*list)[(*count)++];
        to->name = psgd__strdup(run->context, item->string);
        to->value = psgd__strdup(run->context, value);
        if (!to->name || !to->value) return no_memory();
    }
    return PSGD_OK;
}

static psgd_status read_header(metrics_run *run, const cJSON *record)
{
    const char *name = string_of(record, "run"), *method = string_of(record, "method");
    const char *task = string_of(record, "task"), *kind = string_of(record, "kind"), *seed = string_of(record, "seed");
    if (!kind || strcmp(kind, "header") != 0 || !name || !method)
        return psgd__fail(PSGD_ERR_FORMAT, "it does not begin with a header that names a run and a method");
    if (number_of(record, "version") != METRICS_VERSION)
        return psgd__fail(PSGD_ERR_FORMAT, "it has version %g of the format; this psgd reads version %d",
                          number_of(record, "version"), METRICS_VERSION);
    run->run = psgd__strdup(run->context, name);
    run->method = psgd__strdup(run->context, method);
    run->task = psgd__strdup(run->context, task ? task : "");
    if (!run->run || !run->method || !run->task) return no_memory();
    run->seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)count_of(record, "seed");
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(record, "settings");
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(record, "defaults");
    PSGD_TRY(copy_settings(run, given, &run->settings, &run->setting_count));
    return copy_settings(run, others, &run->defaults, &run->default_count);
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool copy_text(const psgd_context *context, const char *from, char **to)
{
    *to = from ? psgd__strdup(context, from) : NULL;
    return !from || *to;
}

/* The curve that a metric of this record belongs to, made where it is new; NULL where there is no memory. */
static metrics_curve *find_curve(metrics_run *run, const cJSON *record, const char *name)
{
    const char *split = string_of(record, "split"), *tensor = string_of(record, "tensor");
    for (int i = 0; i < run->curve_count; i++) {
        metrics_curve *curve = &run->curves[i];
        if (same(curve->name, name) && same(curve->split, split) && same(curve->tensor, tensor)) return curve;
    }
    if (!psgd__grow(run->context, &run->curves, run->curve_count + 1, &run->curve_room, sizeof *run->curves))
        return NULL;
    metrics_curve *made = &run->curves[run->curve_count++];
    *made = (metrics_curve){0};
    bool copied = copy_text(run->context, name, &made->name) && copy_text(run->context, split, &made->split) &&
                  copy_text(run->context, tensor, &made->tensor) &&
                  copy_text(run->context, string_of(record, "group"), &made->group);
    return copied ? made : NULL;
}

static psgd_status add_point(metrics_run *run, metrics_curve *curve, metrics_time when, double value)
{
    int64_t room = curve->room, need = curve->count + 1;
    if (!psgd__grow(run->context, &curve->when, need, &room, sizeof *curve->when) ||
        !psgd__grow(run->context, &curve->value, need, &curve->room, sizeof *curve->value)) {
        return no_memory();
    }
    curve->when[curve->count] = when;
    curve->value[curve->count++] = value;
    return PSGD_OK;
}

/* step, epoch and the like are where a record belongs, not what it says. */
static bool is_value(const cJSON *item)
{
    static const char *const places[] = {"kind", "step", "epoch", "seconds", "split", "tensor", "group"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!strcmp(item->string, places[i])) return false;
    }
    return cJSON_IsNumber(item) || cJSON_IsNull(item);
}

static double value_of(const cJSON *item)
{
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static psgd_status read_final(metrics_run *run, const cJSON *record)
{
    if (run->finished) return psgd__fail(PSGD_ERR_FORMAT, "a second final record");
    run->finished = true;
    run->final = psgd__alloc(run->context, cJSON_GetArraySize(record), sizeof *run->final);
    if (!run->final) return no_memory();
    const cJSON *item;
    cJSON_ArrayForEach(item, record)
    {
        if (!is_value(item)) continue;
        metric *to = &run->final[run->final_count++];
        *to = (metric){.name = psgd__strdup(run->context, item->string), .value = value_of(item)};
        if (!to->name) return no_memory();
    }
    return PSGD_OK;
}

static psgd_status read_record(metrics_run *run, const cJSON *record)
{
    const char *kind = string_of(record, "kind");
    if (!kind || !cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(record, "step")))
        return psgd__fail(PSGD_ERR_FORMAT, "a record without a kind or a step");
    metrics_time when = {
        .step = count_of(record, "step"), .epoch = number_of(record, "epoch"), .seconds = number_of(record, "seconds")};
    run->last = when;
    if (!strcmp(kind, "final")) return read_final(run, record);
    if (strcmp(kind, "point") != 0 && strcmp(kind, "health") != 0)
        return psgd__fail(PSGD_ERR_FORMAT, "there is no record of the kind '%.40s'", kind);
    if (!string_of(record, *kind == 'p' ? "split" : "tensor"))
        return psgd__fail(PSGD_ERR_FORMAT, "a record of the kind '%s' needs a %s", kind,
                          *kind == 'p' ? "split" : "tensor");
    const cJSON *item;
    cJSON_ArrayForEach(item, record)
    {
        if (!is_value(item)) continue;
        metrics_curve *curve = find_curve(run, record, item->string);
        if (!curve) return no_memory();
        PSGD_TRY(add_point(run, curve, when, value_of(item)));
    }
    return PSGD_OK;
}

/* The entries of an array as a figure of the factors Q1, Q2, .. */
static psgd_status add_factors(metrics_run *run, const cJSON *record, const char *from, const char *name,
                               metrics_time when)
{
    int factor = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(record, from))
    {
        char tensor[16];
        snprintf(tensor, sizeof tensor, "Q%d", ++factor);
        cJSON *where = cJSON_CreateObject();
        metrics_curve *curve = cJSON_AddStringToObject(where, "tensor", tensor) ? find_curve(run, where, name) : NULL;
        cJSON_Delete(where);
        if (!curve) return no_memory();
        PSGD_TRY(add_point(run, curve, when, value_of(item)));
    }
    return PSGD_OK;
}

/* A line of psgd fit --report, which has no header: its update is the step. */
static psgd_status read_update(metrics_run *run, cJSON *record)
{
    static const char *const names[] = {"criterion", "criterion_average", "condition"};
    metrics_time when = {.step = count_of(record, "update")};
    if (when.step <= run->last.step) return psgd__fail(PSGD_ERR_FORMAT, "its updates do not ascend");
    run->last = when;
    if (!cJSON_AddStringToObject(record, "split", "fit")) return no_memory();
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(record, names[i]);
        if (!item || !is_value(item)) continue;
        metrics_curve *curve = find_curve(run, record, names[i]);
        if (!curve) return no_memory();
        PSGD_TRY(add_point(run, curve, when, value_of(item)));
    }
    PSGD_TRY(add_factors(run, record, "conditions", "condition", when));
    PSGD_TRY(add_factors(run, record, "least_diagonals", "min_diagonal", when));
    return add_factors(run, record, "most_diagonals", "max_diagonal", when);
}

static bool is_update(const cJSON *record)
{
    return cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(record, "update")) && !string_of(record, "kind");
}

/* The run of such a log has the name of its file. */
static psgd_status begin_updates(metrics_run *run, const char *path)
{
    const char *slash = strrchr(path, '/');
    run->run = psgd__strdup(run->context, slash ? slash + 1 : path);
    run->method = psgd__strdup(run->context, "psgd fit");
    run->task = psgd__strdup(run->context, "fit");
    run->finished = true;
    return run->run && run->method && run->task ? PSGD_OK : no_memory();
}

static psgd_status read_line(metrics_run *run, const char *line, int64_t number, const char *path)
{
    cJSON *record = cJSON_Parse(line);
    psgd_status status = PSGD_OK;
    if (!cJSON_IsObject(record)) {
        status = psgd__fail(PSGD_ERR_FORMAT, "not a JSON object");
    } else if (is_update(record)) {
        if (number == 1) status = begin_updates(run, path);
        if (status == PSGD_OK) status = read_update(run, record);
    } else {
        status = number == 1 ? read_header(run, record) : read_record(run, record);
    }
    cJSON_Delete(record);
    return status;
}

static psgd_status read_lines(metrics_run *run, FILE *file, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    int64_t number = 0;
    psgd_status status = PSGD_OK;
    for (ssize_t length; status == PSGD_OK && (length = getline(&line, &room, file)) > 0;) {
        if (line[length - 1] != '\n' && number > 0) break; /* cut off while it was written */
        status = read_line(run, line, ++number, path);
        if (status != PSGD_OK) psgd__fail_in(status, "'%s' line %lld", path, (long long)number);
    }
    free(line);
    if (status == PSGD_OK && ferror(file))
        status = psgd__fail(PSGD_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    if (status == PSGD_OK && number == 0) status = psgd__fail(PSGD_ERR_FORMAT, "the metrics log '%s' is empty", path);
    return status;
}

psgd_status psgd__metrics_read(const psgd_context *context, const char *path, metrics_run **run)
{
    struct stat about;
    if (stat(path, &about) != 0) return psgd__fail(PSGD_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    text log = {.context = context};
    psgd__text_add(&log, S_ISDIR(about.st_mode) ? "%s/%s" : "%s", path, METRICS_FILE);
    metrics_run *made = psgd__alloc(context, 1, sizeof *made);
    if (log.failed || !made) {
        psgd__text_free(&log);
        psgd__free(context, made);
        return no_memory();
    }
    made->context = context;

    psgd_status status;
    struct stat inside;
    bool special = S_ISDIR(about.st_mode) && stat(log.chars, &inside) == 0 && !S_ISREG(inside.st_mode);
    FILE *file = special ? NULL : fopen(log.chars, "r");
    if (special) { /* a pipe in the folder of a run would be waited for */
        status = psgd__fail(PSGD_ERR_IO, "cannot read '%s': it is not a file", log.chars);
    } else if (!file) {
        status = errno == ENOENT
                     ? psgd__fail(PSGD_ERR_FORMAT, "'%s' is not the folder of a run: it has no %s", path, METRICS_FILE)
                     : psgd__fail(PSGD_ERR_IO, "cannot open '%s': %s", log.chars, strerror(errno));
    } else {
        status = read_lines(made, file, log.chars);
        fclose(file);
    }
    psgd__text_free(&log);
    if (status != PSGD_OK) {
        psgd__metrics_free(made);
        return status;
    }
    *run = made;
    return PSGD_OK;
}

static void free_curve(const psgd_context *context, metrics_curve *curve)
{
    void *const blocks[] = {curve->split, curve->tensor, curve->group, curve->name, curve->when, curve->value};
    for (int i = 0; i < 6; i++) psgd__free(context, blocks[i]);
}

static void free_settings(const psgd_context *context, metrics_setting *list, int count)
{
    for (int i = 0; i < count; i++) {
        psgd__free(context, (void *)list[i].name);
        psgd__free(context, (void *)list[i].value);
    }
    psgd__free(context, list);
}

void psgd__metrics_free(metrics_run *run)
{
    if (!run) return;
    const psgd_context *context = run->context;
    for (int i = 0; i < run->curve_count; i++) free_curve(context, &run->curves[i]);
    free_settings(context, run->settings, run->setting_count);
    free_settings(context, run->defaults, run->default_count);
    for (int i = 0; i < run->final_count; i++) psgd__free(context, (void *)run->final[i].name);
    void *const blocks[] = {run->curves, run->final, run->run, run->method, run->task, run};
    for (int i = 0; i < 6; i++) psgd__free(context, blocks[i]);
}

const metrics_curve *psgd__metrics_curve(const metrics_run *run, const char *what)
{
    for (int i = 0; i < run->curve_count; i++) {
        const metrics_curve *curve = &run->curves[i];
        size_t length = curve->split ? strlen(curve->split) : 0;
        if (length && !strncmp(what, curve->split, length) && what[length] == ' ' &&
            !strcmp(what + length + 1, curve->name)) {
            return curve;
        }
    }
    return NULL;
}
