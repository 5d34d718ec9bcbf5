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

#include "core/memory.h"
#include "core/text.h"

struct metrics_log {
    const psgd_context *context;
    FILE *file;
    char *path;
};

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
    *self = (metrics_log){.context = context, .path = path.chars, .file = fopen(path.chars, mode)};
    if (!self->file) {
        psgd_status status = psgd__fail(PSGD_ERR_IO, "cannot open '%s': %s", self->path, strerror(errno));
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
    psgd__free(log->context, log);
}

static void put_string(FILE *to, const char *chars)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)chars; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(to, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(to, "\\u%04x", *c);
        } else {
            fputc(*c, to);
        }
    }
    fputc('"', to);
}

static void put_number(FILE *to, double value)
{
    if (isfinite(value)) {
        fprintf(to, "%.10g", value);
    } else {
        fputs("null", to);
    }
}

static void put_field(FILE *to, const char *name, const char *value)
{
    fputc(',', to);
    put_string(to, name);
    fputc(':', to);
    put_string(to, value);
}

static void put_time(FILE *to, const char *kind, metrics_time when)
{
    fprintf(to, "{\"kind\":\"%s\",\"step\":%" PRId64 ",\"epoch\":", kind, when.step);
    put_number(to, when.epoch);
    fprintf(to, ",\"seconds\":%.6f", isfinite(when.seconds) ? when.seconds : 0.0);
}

static psgd_status end_record(metrics_log *log, const metric *values, int count)
{
    for (int i = 0; i < count; i++) {
        fputc(',', log->file);
        put_string(log->file, values[i].name);
        fputc(':', log->file);
        put_number(log->file, values[i].value);
    }
    fputs("}\n", log->file);
    if (fflush(log->file) == 0 && !ferror(log->file)) return PSGD_OK;
    return psgd__fail(PSGD_ERR_IO, "cannot write to '%s': %s", log->path, strerror(errno));
}

static psgd_status put_header(metrics_log *log, const metrics_header *header)
{
    FILE *to = log->file;
    fprintf(to, "{\"kind\":\"header\",\"version\":%d", METRICS_VERSION);
    put_field(to, "run", header->run);
    put_field(to, "method", header->method);
    if (header->task) put_field(to, "task", header->task);
    fprintf(to, ",\"seed\":\"%" PRIu64 "\",\"settings\":{", header->seed);
    for (int i = 0; i < header->setting_count; i++) {
        if (i > 0) fputc(',', to);
        put_string(to, header->settings[i].name);
        fputc(':', to);
        put_string(to, header->settings[i].value);
    }
    fputc('}', to);
    return end_record(log, NULL, 0);
}

psgd_status psgd__metrics_create(const psgd_context *context, const char *folder, const metrics_header *header,
                                 metrics_log **log)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return psgd__fail(PSGD_ERR_IO, "cannot make the folder '%s': %s", folder, strerror(errno));

    metrics_log *made;
    PSGD_TRY(open_log(context, folder, "w", &made));
    psgd_status status = put_header(made, header);
    if (status != PSGD_OK) {
        psgd__metrics_close(made);
        return status;
    }
    *log = made;
    return PSGD_OK;
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
        status = psgd__fail(PSGD_ERR_FORMAT, "'%s' is not a metrics log: its first line is not a header", made->path);
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
    put_time(log->file, "point", when);
    put_field(log->file, "split", split);
    return end_record(log, values, count);
}

psgd_status psgd__metrics_health(metrics_log *log, metrics_time when, const char *tensor, const char *group,
                                 const metric *values, int count)
{
    put_time(log->file, "health", when);
    put_field(log->file, "tensor", tensor);
    put_field(log->file, "group", group);
    return end_record(log, values, count);
}

psgd_status psgd__metrics_final(metrics_log *log, metrics_time when, const metric *values, int count)
{
    put_time(log->file, "final", when);
    return end_record(log, values, count);
}
