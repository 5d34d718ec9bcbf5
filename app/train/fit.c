/* Everything that can be wrong with the input is found before the folder is created, and all files are whole on the
 * disk under other names before the first one gets its own. */
#include "train/fit.h"
#include "core/memory.h"
#include "data/format/npy.h"

#include <math.h>
#include <string.h>

enum { MAX_FILES = NPY_MAX_DIMS + 2 }; /* factors, PG and the report */

typedef struct fit {
    const psgd_context *context;
    const fit_job *job;
    text *summary;
    psgd_precond *precond;
    npy_file v, h, g;
    int64_t n, size, total, pairs; /* elements of a tensor, bytes of one, pairs in the files, pairs an update */
    char *v_now, *h_now;           /* the pairs of one update */
    char *spare;                   /* one tensor of G, or one factor of Q */
    file_writer files[MAX_FILES];
    int file_count;
    file_writer *report;
    psgd_health *health; /* for the report */
    int folders;         /* that were created */
} fit;

static psgd_status open_tensors(fit *f, const char *path, npy_file *npy, int64_t *count)
{
    PSGD_TRY(psgd__npy_open(f->context, path, npy));
    return psgd__npy_check_shape(npy, f->job->ndim, f->job->shape, count);
}

static psgd_status open_inputs(fit *f)
{
    const fit_job *job = f->job;
    int64_t count;
    PSGD_TRY(open_tensors(f, job->h, &f->h, &f->total));
    if (job->v) {
        PSGD_TRY(open_tensors(f, job->v, &f->v, &count));
        if (count != f->total) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s has %lld tensors and %s has %lld; each v belongs to one h", job->v,
                              (long long)count, job->h, (long long)f->total);
        }
    }
    if (job->apply) PSGD_TRY(open_tensors(f, job->apply, &f->g, &count));
    if (job->v) PSGD_TRY(psgd__npy_check_finite(&f->v, job->dtype));
    PSGD_TRY(psgd__npy_check_finite(&f->h, job->dtype));
    return job->apply ? psgd__npy_check_finite(&f->g, job->dtype) : PSGD_OK;
}

static bool factor_fits(const fit *f, int factor)
{
    return psgd_precond_factor_size(f->precond, factor) <= FIT_WIDEST;
}

static psgd_status make_room(fit *f)
{
    int64_t max = f->n, batch;
    for (int i = 0; i < psgd_precond_factor_count(f->precond); i++) {
        int64_t width = psgd_precond_factor_size(f->precond, i);
        if (factor_fits(f, i) && width * width > max) max = width * width;
    }
    bool fits = psgd__mul_fits(f->n, f->pairs, &batch);
    f->spare = psgd__alloc(f->context, max, (size_t)f->size);
    f->v_now = fits ? psgd__alloc(f->context, batch, (size_t)f->size) : NULL;
    f->h_now = fits ? psgd__alloc(f->context, batch, (size_t)f->size) : NULL;
    if (f->spare && f->v_now && f->h_now) return PSGD_OK;
    return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for pairs of %lld numbers", (long long)f->n);
}

static psgd_status open_file(fit *f, const char *folder, const char *name, file_writer **file)
{
    text path = {.context = f->context};
    psgd__text_add(&path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    if (path.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to write %s", name);
    *file = &f->files[f->file_count];
    psgd_status status = psgd__file_create(f->context, path.chars, *file);
    if (status == PSGD_OK) f->file_count++;
    psgd__text_free(&path);
    return status;
}

static void add_number(text *line, const char *before, double number)
{
    char digits[32] = "null";
    if (isfinite(number)) psgd__print(digits, sizeof digits, "%.17g", number);
    psgd__text_add(line, "%s%s", before, digits);
}

/* The running average of the criterion; of each factor the condition and the extremes of the diagonal. */
static psgd_status add_health(fit *f, double value, text *line)
{
    static const char *const names[] = {"conditions", "least_diagonals", "most_diagonals"};
    double found[3][NPY_MAX_DIMS];
    int factors = psgd_precond_factor_count(f->precond);
    if (isfinite(value)) PSGD_TRY(psgd_health_add(f->health, value));
    add_number(line, ", \"criterion_average\": ", psgd_health_average(f->health));
    for (int i = 0; i < factors; i++) {
        PSGD_TRY(psgd_precond_factor_health(f->precond, i, &found[0][i], &found[1][i], &found[2][i]));
    }
    for (int k = 0; k < 3; k++) {
        psgd__text_add(line, ", \"%s\": [", names[k]);
        for (int i = 0; i < factors; i++) add_number(line, i ? ", " : "", found[k][i]);
        psgd__text_add(line, "]");
    }
    return PSGD_OK;
}

/* The mean of the criterion over the pairs of this update, and the condition, both with the new Q. */
static psgd_status report_update(fit *f, int64_t count)
{
    double sum = 0, value, condition;
    bool with_v = psgd_precond_needs_v(f->precond);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * f->n * f->size;
        PSGD_TRY(psgd_precond_criterion(f->precond, with_v ? f->v_now + at : NULL, f->h_now + at, &value));
        sum += value;
    }
    PSGD_TRY(psgd_precond_condition(f->precond, &condition));

    text line = {.context = f->context};
    psgd__text_add(&line, "{\"update\": %lld", (long long)psgd_precond_updates(f->precond));
    add_number(&line, ", \"criterion\": ", sum / (double)count);
    add_number(&line, ", \"condition\": ", condition);
    psgd_status status = add_health(f, sum / (double)count, &line);
    psgd__text_add(&line, "}\n");
    if (status == PSGD_OK && line.failed) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a line of the report");
    }
    if (status == PSGD_OK) status = psgd__file_write(f->report, line.chars, line.length);
    psgd__text_free(&line);
    return status;
}

static psgd_status read_pairs(fit *f, int64_t first, int64_t count)
{
    const fit_job *job = f->job;
    PSGD_TRY(psgd__npy_read(&f->h, first * f->n, count * f->n, job->dtype, f->h_now));
    if (job->v) return psgd__npy_read(&f->v, first * f->n, count * f->n, job->dtype, f->v_now);
    for (int64_t i = 0; i < count && psgd_precond_needs_v(f->precond); i++) {
        uint64_t step = (uint64_t)(first + i);
        PSGD_TRY(psgd_normal_fill(job->dtype, job->seed, 0, step, 0, f->n, f->v_now + i * f->n * f->size));
    }
    return PSGD_OK;
}

static psgd_status make_updates(fit *f)
{
    for (int64_t first = 0, count; first < f->total; first += count) {
        count = f->total - first < f->pairs ? f->total - first : f->pairs;
        PSGD_TRY(read_pairs(f, first, count));
        psgd_status status = psgd_precond_update_pairs(f->precond, count, f->v_now, f->h_now);
        if (status != PSGD_OK) return psgd__fail_in(status, "pair %lld", (long long)first);
        if (f->report) PSGD_TRY(report_update(f, count));
        if (f->job->progress) f->job->progress(f->job->progress_data, first + count, f->total);
    }
    return PSGD_OK;
}

static psgd_status write_applied(fit *f)
{
    const fit_job *job = f->job;
    file_writer *file = NULL;
    PSGD_TRY(open_file(f, job->out, "PG.npy", &file));
    PSGD_TRY(psgd__npy_write_header(file, job->dtype, f->g.ndim, f->g.shape));
    for (int64_t i = 0; i < f->g.shape[0]; i++) {
        PSGD_TRY(psgd__npy_read(&f->g, i * f->n, f->n, job->dtype, f->spare));
        PSGD_TRY(psgd_precond_apply(f->precond, PSGD_APPLY_P, f->spare, f->spare));
        PSGD_TRY(psgd__file_write(file, f->spare, f->n * f->size));
    }
    psgd__text_add(f->summary, "wrote %s\n", file->path);
    return psgd__file_finish(file);
}

static psgd_status write_factor(fit *f, int factor)
{
    char name[32];
    int64_t width = psgd_precond_factor_size(f->precond, factor), shape[2] = {width, width};
    snprintf(name, sizeof name, "Q%d.npy", factor + 1);
    if (!factor_fits(f, factor)) {
        psgd__text_add(f->summary, "did not write %s: it would be %lld wide, and %d is the most\n", name,
                       (long long)width, FIT_WIDEST);
        return PSGD_OK;
    }
    file_writer *file = NULL;
    PSGD_TRY(open_file(f, f->job->out, name, &file));
    PSGD_TRY(psgd__npy_write_header(file, f->job->dtype, 2, shape));
    PSGD_TRY(psgd_precond_factor(f->precond, factor, f->spare));
    PSGD_TRY(psgd__file_write(file, f->spare, width * width * f->size));
    psgd__text_add(f->summary, "wrote %s\n", file->path);
    return psgd__file_finish(file);
}

static psgd_status write_outputs(fit *f)
{
    const psgd_precond *precond = f->precond;
    psgd__text_add(f->summary, "made %lld updates", (long long)psgd_precond_updates(precond));
    if (psgd_precond_skipped(precond) > 0) {
        psgd__text_add(f->summary, "; %lld would have left the group in part and did without that part",
                       (long long)psgd_precond_skipped(precond));
    }
    psgd__text_add(f->summary, "\n");
    if (f->job->apply) PSGD_TRY(write_applied(f));
    for (int i = 0; i < psgd_precond_factor_count(precond); i++) PSGD_TRY(write_factor(f, i));
    if (f->report) {
        psgd__text_add(f->summary, "wrote %s\n", f->report->path);
        PSGD_TRY(psgd__file_finish(f->report));
    }
    for (int i = 0; i < f->file_count; i++) PSGD_TRY(psgd__file_publish(&f->files[i]));
    return PSGD_OK;
}

static psgd_status run(fit *f)
{
    const fit_job *job = f->job;
    PSGD_TRY(psgd_precond_create(f->context, job->group, job->ndim, job->shape, job->dtype, job->options, &f->precond));
    if (job->v && !psgd_precond_needs_v(f->precond)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "--v has no part where v is integrated out; leave out one of the two");
    }
    f->n = psgd_precond_size(f->precond);
    f->size = (int64_t)psgd_dtype_size(job->dtype);
    f->pairs = psgd_precond_max_pairs(f->precond);
    PSGD_TRY(open_inputs(f));
    PSGD_TRY(make_room(f));
    PSGD_TRY(psgd__folder_create(job->out, &f->folders));
    if (job->report) PSGD_TRY(psgd_health_create(f->context, 0.9, &f->health));
    if (job->report) PSGD_TRY(open_file(f, NULL, job->report, &f->report));
    PSGD_TRY(make_updates(f));
    return write_outputs(f);
}

psgd_status psgd__fit_run(const psgd_context *context, const fit_job *job, text *summary)
{
    fit f = {.context = context, .job = job, .summary = summary};
    psgd_status status = run(&f);
    for (int i = 0; i < f.file_count; i++) psgd__file_abandon(&f.files[i]);
    if (status != PSGD_OK) psgd__folder_remove(job->out, f.folders);
    psgd__npy_close(&f.v);
    psgd__npy_close(&f.h);
    psgd__npy_close(&f.g);
    psgd__free(context, f.v_now);
    psgd__free(context, f.h_now);
    psgd__free(context, f.spare);
    psgd_health_free(f.health);
    psgd_precond_free(f.precond);
    return status;
}
