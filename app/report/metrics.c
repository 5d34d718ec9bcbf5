/* Writing the metrics log. */
#include "report/metrics.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "report/json.h"

struct metrics_log {
    const psgd_context *context;
    FILE *file;
    char *path;
    text record; /* the line that is being made */
};

enum { DIGITS = 10 };

#define HEADER_START "{\"kind\":\"header\""

static psgd_status open_log(const psgd_context *context, const char *folder, const char *mode, metrics_log **log)
{
    text path = {.context = context};
    psgd__text_add(&path, "%s/%s", folder, METRICS_FILE);
    metrics_log *self = psgd__alloc(context, 1, sizeof *self);
    if (!self || path.failed) {
        psgd__text_free(&path);
        psgd__free(context, self);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the metrics log of '%s'", folder);
    }
    struct stat about;
    bool special = stat(path.chars, &about) == 0 && !S_ISREG(about.st_mode); /* a pipe would be waited for */
    *self = (metrics_log){.context = context,
                          .path = path.chars,
                          .file = special ? NULL : fopen(path.chars, mode),
                          .record = {.context = context}};
    if (!self->file) {
        psgd_status status = psgd__fail(PSGD_ERR_IO, "cannot open '%s': %s", self->path,
                                        special ? "it is not a file" : strerror(errno));
        psgd__metrics_close(self);
        return status;
    }
    *log = self;
    return PSGD_OK;
}

void psgd__metrics_close(metrics_log *log)
{
    if (!log) return;
    if (log->file) fclose(log->file);
    psgd__free(log->context, log->path);
    psgd__text_free(&log->record);
    psgd__free(log->context, log);
}

static void put_time(metrics_log *log, const char *kind, metrics_time when)
{
    psgd__text_add(&log->record, "{\"kind\":\"%s\",\"step\":%" PRId64, kind, when.step);
    psgd__json_number(&log->record, ",", "epoch", DIGITS, when.epoch);
    psgd__text_add(&log->record, ",\"seconds\":%.6f", isfinite(when.seconds) ? when.seconds : 0.0);
}

static psgd_status end_record(metrics_log *log, const metric *values, int count)
{
    text *record = &log->record;
    for (int i = 0; i < count; i++) psgd__json_number(record, ",", values[i].name, DIGITS, values[i].value);
    psgd__text_add(record, "}\n");
    bool failed = record->failed;
    if (!failed) fputs(record->chars, log->file);
    psgd__text_free(record);
    if (failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a record of '%s'", log->path);
    if (fflush(log->file) == 0 && !ferror(log->file)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_IO, "cannot write to '%s': %s", log->path, strerror(errno));
}

static void put_settings(text *to, const char *name, const metrics_setting *list, int count)
{
    psgd__text_add(to, ",\"%s\":{", name);
    for (int i = 0; i < count; i++) psgd__json_string(to, i ? "," : "", list[i].name, list[i].value);
    psgd__text_add(to, "}");
}

static void add_header(text *to, const metrics_header *header)
{
    psgd__text_add(to, HEADER_START ",\"version\":%d", METRICS_VERSION);
    psgd__json_string(to, ",", "run", header->run);
    psgd__json_string(to, ",", "method", header->method);
    if (header->task) psgd__json_string(to, ",", "task", header->task);
    psgd__text_add(to, ",\"seed\":\"%" PRIu64 "\"", header->seed);
    put_settings(to, "settings", header->settings, header->setting_count);
    if (header->default_count) put_settings(to, "defaults", header->defaults, header->default_count);
}

psgd_status psgd__metrics_create(const psgd_context *context, const char *folder, const metrics_header *header,
                                 metrics_log **log)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return psgd__fail(PSGD_ERR_IO, "cannot make the folder '%s': %s", folder, strerror(errno));

    metrics_log *made;
    PSGD_TRY(open_log(context, folder, "w", &made));
    add_header(&made->record, header);
    psgd_status status = end_record(made, NULL, 0);
    if (status != PSGD_OK) {
        psgd__metrics_close(made);
        return status;
    }
    *log = made;
    return PSGD_OK;
}

static psgd_status refuse_log(const char *path)
{
    return psgd__fail(PSGD_ERR_FORMAT, "'%s' is not a metrics log: its first line is not a header", path);
}

static psgd_status replace_line(const psgd_context *context, const char *path, const char *line,
                                const unsigned char *rest, int64_t count)
{
    file_writer file;
    PSGD_TRY(psgd__file_create(context, path, &file));
    psgd_status status = psgd__file_write(&file, line, (int64_t)strlen(line));
    if (status == PSGD_OK) status = psgd__file_write(&file, rest, count);
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

psgd_status psgd__metrics_replace_header(const psgd_context *context, const char *folder, const metrics_header *header)
{
    char path[4096];
    unsigned char *bytes = NULL;
    int64_t count;
    text line = {.context = context};
    snprintf(path, sizeof path, "%s/%s", folder, METRICS_FILE);
    PSGD_TRY(psgd__file_read_whole(context, path, &bytes, &count));
    const unsigned char *end = count > 0 ? memchr(bytes, '\n', (size_t)count) : NULL;
    psgd_status status = PSGD_OK;
    if (!end || strncmp((const char *)bytes, HEADER_START, strlen(HEADER_START)) != 0) status = refuse_log(path);
    add_header(&line, header);
    psgd__text_add(&line, "}\n");
    if (line.failed) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a record of '%s'", path);
    if (status == PSGD_OK) status = replace_line(context, path, line.chars, end + 1, count - (end + 1 - bytes));
    psgd__text_free(&line);
    psgd__free(context, bytes);
    return status;
}

/* Whether this line is a whole record that a run at this step has already written. */
static bool keep_line(const char *line, int64_t step)
{
    cJSON *record = cJSON_Parse(line);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(record, "kind");
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(record, "step");
    bool keep = cJSON_IsString(kind) && strcmp(kind->valuestring, "final") != 0 &&
                (!at || (cJSON_IsNumber(at) && at->valuedouble <= (double)step));
    cJSON_Delete(record);
    return keep;
}

/* Where the first line begins that does not stay. */
static off_t kept_bytes(FILE *file, int64_t step)
{
    char *line = NULL;
    size_t room = 0;
    off_t kept = 0;
    for (ssize_t length; (length = getline(&line, &room, file)) > 0; kept += length) {
        if (line[length - 1] != '\n' || !keep_line(line, step)) break;
    }
    free(line);
    return kept;
}

psgd_status psgd__metrics_resume(const psgd_context *context, const char *folder, int64_t step, metrics_log **log)
{
    metrics_log *made;
    PSGD_TRY(open_log(context, folder, "r+", &made));
    off_t kept = kept_bytes(made->file, step);
    psgd_status status = PSGD_OK;
    if (kept == 0) {
        status = refuse_log(made->path);
    } else if (fseeko(made->file, kept, SEEK_SET) != 0 || ftruncate(fileno(made->file), kept) != 0) {
        status = psgd__fail(PSGD_ERR_IO, "cannot cut '%s' back to step %" PRId64 ": %s", made->path, step,
                            strerror(errno));
    }
    if (status != PSGD_OK) {
        psgd__metrics_close(made);
        return status;
    }
    *log = made;
    return PSGD_OK;
}

psgd_status psgd__metrics_point(metrics_log *log, metrics_time when, const char *split, const metric *values, int count)
{
    put_time(log, "point", when);
    psgd__json_string(&log->record, ",", "split", split);
    return end_record(log, values, count);
}

psgd_status psgd__metrics_health(metrics_log *log, metrics_time when, const char *tensor, const char *group,
                                 const metric *values, int count)
{
    put_time(log, "health", when);
    psgd__json_string(&log->record, ",", "tensor", tensor);
    psgd__json_string(&log->record, ",", "group", group);
    return end_record(log, values, count);
}

psgd_status psgd__metrics_final(metrics_log *log, metrics_time when, const metric *values, int count)
{
    put_time(log, "final", when);
    return end_record(log, values, count);
}
