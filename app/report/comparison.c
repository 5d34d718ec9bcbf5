#include "report/comparison.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "report/json.h"

enum { DIGITS = 10 };

/* What learning rates are chosen by. */
static double cost_of(const metrics_summary *result)
{
    if (result->diverged) return NAN;
    if (isfinite(result->valid_error)) return result->valid_error;
    return isfinite(result->valid_loss) ? result->valid_loss : result->loss;
}

int psgd__comparison_best(const comparison_row *row)
{
    int best = -1;
    for (int i = 0; i < row->trial_count; i++) {
        double cost = cost_of(&row->trials[i].result);
        if (isfinite(cost) && (best < 0 || cost < cost_of(&row->trials[best].result))) best = i;
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a field of the results; the values come out in order. Returns how many are finite. */
static int collect(const comparison_row *row, size_t field, double *values)
{
    int count = 0;
    for (int i = 0; i < row->run_count; i++) {
        double value = *(const double *)((const char *)&row->runs[i].result + field);
        if (isfinite(value) && !row->runs[i].result.diverged) values[count++] = value;
    }
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count;
}

static double median(const comparison_row *row, size_t field)
{
    double values[COMPARISON_MAX_SEEDS];
    int count = collect(row, field, values);
    return count ? (values[(count - 1) / 2] + values[count / 2]) / 2 : NAN;
}

/* The steps of a run that did not diverge; NaN where all have. */
static double steps_of(const comparison_row *row)
{
    for (int i = 0; i < row->run_count; i++) {
        if (!row->runs[i].result.diverged) return (double)row->runs[i].result.end.step;
    }
    return NAN;
}

static bool any(const comparison *from, size_t field)
{
    bool found = false;
    for (int i = 0; i < from->row_count; i++) found = found || isfinite(median(&from->rows[i], field));
    return found;
}

static void put(text *to, int width, const char *format, double value)
{
    char word[32];
    snprintf(word, sizeof word, format, value);
    psgd__text_add(to, "  %*s", width, isfinite(value) ? word : "-");
}

static void put_notes(const comparison_row *row, text *to)
{
    int diverged = 0;
    int64_t skipped = 0;
    for (int i = 0; i < row->run_count; i++) {
        diverged += row->runs[i].result.diverged;
        skipped += row->runs[i].result.skipped;
    }
    const char *before = "  ";
    if (diverged) {
        psgd__text_add(to, "%sdiverged on %d of %d seeds", before, diverged, row->run_count);
        before = "; ";
    }
    if (skipped) {
        psgd__text_add(to, "%s%lld steps skipped", before, (long long)skipped);
        before = "; ";
    }
    diverged = 0;
    for (int i = 0; i < row->trial_count; i++) diverged += row->trials[i].result.diverged;
    if (row->trial_count) psgd__text_add(to, "%sbest of %d learning rates", before, row->trial_count);
    if (diverged) psgd__text_add(to, ", of which %d diverged", diverged);
}

#define FIELD(name) offsetof(metrics_summary, name)

void psgd__comparison_table(const comparison *from, text *to)
{
    int width = 9;
    bool error = any(from, FIELD(test_error)), perplexity = any(from, FIELD(test_perplexity)), seeds = false;
    for (int i = 0; i < from->row_count; i++) {
        int length = (int)strlen(from->rows[i].label);
        width = length > width ? length : width;
        seeds = seeds || from->rows[i].run_count > 1;
    }
    psgd__text_add(to, "%-*s  %10s  %13s", width, "optimizer", "lr", "training loss");
    if (seeds) psgd__text_add(to, "  %11s  %11s", "min", "max");
    psgd__text_add(to, "  %11s", "test loss");
    if (error) psgd__text_add(to, "  %10s", "test error");
    if (perplexity) psgd__text_add(to, "  %10s", "perplexity");
    psgd__text_add(to, "  %8s  %8s\n", "seconds", "ms/step");
    for (int i = 0; i < from->row_count; i++) {
        const comparison_row *row = &from->rows[i];
        double losses[COMPARISON_MAX_SEEDS], seconds = median(row, FIELD(end.seconds));
        int count = collect(row, FIELD(loss), losses);
        psgd__text_add(to, "%-*s  %10s", width, row->label, row->run_count ? row->runs[0].rate : "-");
        put(to, 13, "%.6g", median(row, FIELD(loss)));
        if (seeds) put(to, 11, "%.5g", count ? losses[0] : NAN);
        if (seeds) put(to, 11, "%.5g", count ? losses[count - 1] : NAN);
        put(to, 11, "%.6g", median(row, FIELD(test_loss)));
        if (error) put(to, 10, "%.2f %%", 100 * median(row, FIELD(test_error)));
        if (perplexity) put(to, 10, "%.2f", median(row, FIELD(test_perplexity)));
        put(to, 8, "%.1f", seconds);
        put(to, 8, "%.3g", 1e3 * seconds / steps_of(row));
        put_notes(row, to);
        psgd__text_add(to, "\n");
    }
}

static void put_run(text *to, const comparison_run *run, bool first)
{
    const metrics_summary *result = &run->result;
    psgd__json_string(to, first ? "{" : ",{", "folder", run->folder);
    psgd__json_string(to, ",", "lr", run->rate);
    psgd__text_add(to, ",\"seed\":\"%" PRIu64 "\",\"steps\":%lld,\"diverged\":%s,\"skipped\":%lld", run->seed,
                   (long long)result->end.step, result->diverged ? "true" : "false", (long long)result->skipped);
    psgd__json_number(to, ",", "seconds", DIGITS, result->end.seconds);
    psgd__json_number(to, ",", "loss", DIGITS, result->loss);
    psgd__json_number(to, ",", "test_loss", DIGITS, result->test_loss);
    if (isfinite(result->valid_error)) psgd__json_number(to, ",", "valid_error", DIGITS, result->valid_error);
    if (isfinite(result->valid_loss)) psgd__json_number(to, ",", "valid_loss", DIGITS, result->valid_loss);
    if (isfinite(result->test_error)) psgd__json_number(to, ",", "test_error", DIGITS, result->test_error);
    if (isfinite(result->test_perplexity))
        psgd__json_number(to, ",", "test_perplexity", DIGITS, result->test_perplexity);
    psgd__text_add(to, "}");
}

static void put_runs(text *to, const char *name, const comparison_run *runs, int count)
{
    psgd__text_add(to, ",\n \"%s\":[", name);
    for (int i = 0; i < count; i++) put_run(to, &runs[i], i == 0);
    psgd__text_add(to, "]");
}

psgd_status psgd__comparison_check(const comparison *now, const char *folder)
{
    char path[4096];
    unsigned char *bytes;
    int64_t count;
    snprintf(path, sizeof path, "%s/%s", folder, COMPARISON_FILE);
    if (access(path, F_OK) != 0) return PSGD_OK;
    PSGD_TRY(psgd__file_read_whole(now->context, path, &bytes, &count));
    cJSON *was = cJSON_ParseWithLength((const char *)bytes, (size_t)count);
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(was, "model"));
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(was, "data"));
    bool same = model && data && !strcmp(model, now->model) && !strcmp(data, now->data);
    psgd_status status = same ? PSGD_OK
                              : psgd__fail(PSGD_ERR_ARGUMENT,
                                           "%s has a comparison of another model or other data; give another folder "
                                           "(--out)",
                                           folder);
    cJSON_Delete(was);
    psgd__free(now->context, bytes);
    return status;
}

psgd_status psgd__comparison_write(const comparison *from, const char *folder)
{
    text path = {.context = from->context}, json = {.context = from->context};
    file_writer file = {0};
    psgd__text_add(&path, "%s/%s", folder, COMPARISON_FILE);
    psgd__json_string(&json, "{", "model", from->model);
    psgd__json_string(&json, ",", "data", from->data);
    psgd__text_add(&json, ",\"optimizers\":[\n");
    for (int i = 0; i < from->row_count; i++) {
        const comparison_row *row = &from->rows[i];
        psgd__json_string(&json, i ? ",\n{" : "{", "optimizer", row->label);
        psgd__json_string(&json, ",", "lr", row->run_count ? row->runs[0].rate : "");
        put_runs(&json, "trials", row->trials, row->trial_count);
        put_runs(&json, "runs", row->runs, row->run_count);
        psgd__text_add(&json, "}");
    }
    psgd__text_add(&json, "\n]}\n");
    psgd_status status = path.failed || json.failed
                             ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the results of a comparison")
                             : psgd__file_create(from->context, path.chars, &file);
    if (status == PSGD_OK) status = psgd__file_write(&file, json.chars, json.length);
    if (status == PSGD_OK) status = psgd__file_publish(&file);
    if (status != PSGD_OK) psgd__file_abandon(&file);
    psgd__text_free(&path);
    psgd__text_free(&json);
    return status;
}
