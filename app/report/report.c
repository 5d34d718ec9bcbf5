/* Gathering runs, and the page: a template with the runs as JSON in it. The script in page/ does the rest. */
#include "report/report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "report/json.h"
#include "report/page.h"
#include "report/words.h"

enum { DIGITS = 8 };

static psgd_status no_memory(void)
{
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the report");
}

/* Says where a run comes from when another one has its name. */
static psgd_status tell_apart(report *to, metrics_run *run, const char *path)
{
    for (int i = 0; i < to->run_count; i++) {
        if (strcmp(to->runs[i]->run, run->run) != 0 || strcmp(to->runs[i]->task, run->task) != 0) continue;
        text name = {.context = to->context};
        psgd__text_add(&name, "%s (%s)", run->run, path);
        if (name.failed) return no_memory();
        psgd__free(to->context, run->run);
        run->run = name.chars;
        return PSGD_OK;
    }
    return PSGD_OK;
}

static psgd_status add_run(report *to, const char *path)
{
    metrics_run *run;
    PSGD_TRY(psgd__metrics_read(to->context, path, &run));
    psgd_status status = tell_apart(to, run, path);
    if (status == PSGD_OK && !psgd__grow(to->context, &to->runs, to->run_count + 1, &to->run_room, sizeof *to->runs)) {
        status = no_memory();
    }
    if (status != PSGD_OK) {
        psgd__metrics_free(run);
        return status;
    }
    to->runs[to->run_count++] = run;
    return PSGD_OK;
}

/* folder/name/METRICS_FILE is there. */
static bool has_log(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s/%s", folder, name, METRICS_FILE);
    return length < (int)sizeof path && access(path, F_OK) == 0;
}

static psgd_status add_runs_in(report *to, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort), found = 0;
    if (count < 0) return psgd__fail(PSGD_ERR_IO, "cannot read the folder '%s': %s", folder, strerror(errno));
    psgd_status status = PSGD_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (status == PSGD_OK && *name != '.' && has_log(folder, name)) {
            text path = {.context = to->context};
            psgd__text_add(&path, "%s/%s", folder, name);
            status = path.failed ? no_memory() : add_run(to, path.chars);
            psgd__text_free(&path);
            found++;
        }
        free(entries[i]);
    }
    free(entries);
    if (status != PSGD_OK || found > 0) return status;
    return psgd__fail(PSGD_ERR_FORMAT, "'%s' is not the folder of a run: neither it nor a folder in it has a %s",
                      folder, METRICS_FILE);
}

psgd_status psgd__report_add(report *to, const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) return psgd__fail(PSGD_ERR_IO, "there is no run '%s': %s", path, strerror(errno));
    if (!S_ISDIR(about.st_mode) || has_log(path, ".")) return add_run(to, path);
    return add_runs_in(to, path);
}

void psgd__report_free(report *to)
{
    for (int i = 0; i < to->run_count; i++) psgd__metrics_free(to->runs[i]);
    psgd__free(to->context, to->runs);
    *to = (report){.context = to->context};
}

/* Which points to show: all, or the extremes of each of REPORT_POINTS / 2 stretches. Returns how many. */
static int64_t choose_points(const metrics_curve *curve, int64_t *chosen)
{
    int64_t stretches = curve->count > REPORT_POINTS ? REPORT_POINTS / 2 : curve->count, count = 0;
    for (int64_t s = 0; s < stretches; s++) {
        int64_t from = s * curve->count / stretches, to = (s + 1) * curve->count / stretches, low = from, high = from;
        for (int64_t i = from; i < to; i++) {
            if (curve->value[i] < curve->value[low] || isnan(curve->value[low])) low = i;
            if (curve->value[i] > curve->value[high] || isnan(curve->value[high])) high = i;
        }
        chosen[count++] = low < high ? low : high;
        if (low != high) chosen[count++] = low < high ? high : low;
    }
    if (count && chosen[count - 1] != curve->count - 1)
        chosen[count++] = curve->count - 1; /* the table shows the last */
    return count;
}

static void add_curve(text *to, const metrics_curve *curve, int64_t *chosen)
{
    static const char *const columns[] = {"step", "epoch", "seconds", "value"};
    psgd__json_string(to, "{", "name", curve->name);
    if (curve->split) psgd__json_string(to, ",", "split", curve->split);
    if (curve->tensor) psgd__json_string(to, ",", "tensor", curve->tensor);
    if (curve->group) psgd__json_string(to, ",", "group", curve->group);
    int64_t count = choose_points(curve, chosen);
    for (int column = 0; column < 4; column++) {
        psgd__text_add(to, ",\"%s\":[", columns[column]);
        for (int64_t i = 0; i < count; i++) {
            const metrics_time *when = &curve->when[chosen[i]];
            if (i > 0) psgd__text_add(to, ",");
            if (column == 0)
                psgd__text_add(to, "%" PRId64, when->step);
            else
                psgd__json_value(to, DIGITS,
                                 column == 1   ? when->epoch
                                 : column == 2 ? when->seconds
                                               : curve->value[chosen[i]]);
        }
        psgd__text_add(to, "]");
    }
    psgd__text_add(to, "}");
}

static void add_run_json(text *to, const metrics_run *run, const char *label, int64_t *chosen)
{
    char method[64];
    psgd__words_method(run->method, method, sizeof method);
    psgd__json_string(to, "{", "run", run->run);
    psgd__json_string(to, ",", "label", label);
    psgd__json_string(to, ",", "method", method);
    psgd__json_string(to, ",", "task", run->task);
    psgd__text_add(to, ",\"seed\":\"%" PRIu64 "\",\"finished\":%s,\"settings\":{", run->seed,
                   run->finished ? "true" : "false");
    for (int i = 0; i < run->setting_count; i++)
        psgd__json_string(to, i ? "," : "", run->settings[i].name, run->settings[i].value);
    psgd__text_add(to, "},\"defaults\":{");
    for (int i = 0; i < run->default_count; i++)
        psgd__json_string(to, i ? "," : "", run->defaults[i].name, run->defaults[i].value);
    psgd__text_add(to, "},\"final\":{");
    for (int i = 0; i < run->final_count; i++)
        psgd__json_number(to, i ? "," : "", run->final[i].name, DIGITS, run->final[i].value);
    psgd__text_add(to, "},\"last\":{\"step\":%" PRId64, run->last.step);
    psgd__json_number(to, ",", "epoch", DIGITS, run->last.epoch);
    psgd__json_number(to, ",", "seconds", DIGITS, run->last.seconds);
    psgd__text_add(to, "},\"curves\":[");
    for (int i = 0; i < run->curve_count; i++) {
        if (i > 0) psgd__text_add(to, ",\n");
        add_curve(to, &run->curves[i], chosen);
    }
    psgd__text_add(to, "]}");
}

static const char *setting_of(const metrics_run *run, const char *name)
{
    for (int i = 0; i < run->setting_count; i++) {
        if (!strcmp(run->settings[i].name, name)) return run->settings[i].value;
    }
    for (int i = 0; i < run->default_count; i++) {
        if (!strcmp(run->defaults[i].name, name)) return run->defaults[i].value;
    }
    return NULL;
}

/* Runs without settings, of other programs or of psgd paper, have said what they are called. */
static void describe(const metrics_run *run, char *label, size_t room)
{
    const char *group = setting_of(run, "group"), *rate = setting_of(run, "lr"), *criterion = NULL;
    if (!strcmp(run->method, "psgd")) criterion = setting_of(run, "criterion");
    if (criterion && !strcmp(criterion, "auto")) criterion = NULL;
    if (setting_of(run, "name") || !rate) {
        psgd__words_method(run->run, label, room);
        return;
    }
    char spec[64], method[64];
    snprintf(spec, sizeof spec, "%s%s%s", run->method, criterion ? "-" : "", criterion ? criterion : "");
    psgd__words_method(spec, method, sizeof method);
    snprintf(label, room, "%s%s%s, lr %s", method, group ? ", " : "", group ? group : "", rate);
}

void psgd__report_label(const report *from, int run, char *label, size_t room)
{
    char other[256];
    bool unique = true;
    describe(from->runs[run], label, room);
    for (int i = 0; i < from->run_count && unique; i++) {
        if (i == run || strcmp(from->runs[i]->task, from->runs[run]->task) != 0) continue;
        describe(from->runs[i], other, sizeof other);
        unique = strcmp(other, label) != 0;
    }
    size_t used = strlen(label);
    if (!unique && used + 4 < room) snprintf(label + used, room - used, " (%s)", from->runs[run]->run);
}

static psgd_status make_data(const report *from, text *data)
{
    int64_t *chosen = psgd__alloc(from->context, REPORT_POINTS + 1, sizeof *chosen);
    if (!chosen) return no_memory();
    psgd__text_add(data, "{\"version\":\"%s\",\"runs\":[\n", psgd_version());
    for (int i = 0; i < from->run_count; i++) {
        if (i > 0) psgd__text_add(data, ",\n");
        char label[256];
        psgd__report_label(from, i, label, sizeof label);
        add_run_json(data, from->runs[i], label, chosen);
    }
    psgd__text_add(data, "\n]}");
    psgd__free(from->context, chosen);
    return data->failed ? no_memory() : PSGD_OK;
}

/* Writes the template with each {{name}} replaced. */
static psgd_status write_page(file_writer *file, const char *data)
{
    const struct {
        const char *name, *chars;
    } parts[] = {{"{{style}}", psgd__page_style},
                 {"{{data}}", data},
                 {"{{chart}}", psgd__page_chart},
                 {"{{report}}", psgd__page_report}};
    const char *at = psgd__page_html;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *mark = strstr(at, parts[i].name);
        PSGD_TRY(psgd__file_write(file, at, mark - at));
        PSGD_TRY(psgd__file_write(file, parts[i].chars, (int64_t)strlen(parts[i].chars)));
        at = mark + strlen(parts[i].name);
    }
    return psgd__file_write(file, at, (int64_t)strlen(at));
}

psgd_status psgd__report_page(const report *from, const char *path)
{
    text data = {.context = from->context};
    file_writer file = {0};
    psgd_status status = make_data(from, &data);
    if (status == PSGD_OK) status = psgd__file_create(from->context, path, &file);
    if (status == PSGD_OK) status = write_page(&file, data.chars);
    if (status == PSGD_OK) status = psgd__file_publish(&file);
    if (status != PSGD_OK) psgd__file_abandon(&file);
    psgd__text_free(&data);
    return status;
}
