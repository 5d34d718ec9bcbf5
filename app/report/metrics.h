/* The metrics log of a run: JSON lines, one record a line, written as training goes. docs/metrics.md is the format.
 *
 * A run is a folder with METRICS_FILE in it. Steps never decrease down the file, so that a resumed run can cut the log
 * back to its checkpoint and continue it as if it had never stopped. Distinct logs may be used from distinct threads.
 */
#ifndef PSGD_REPORT_METRICS_H
#define PSGD_REPORT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/context.h>

#define METRICS_FILE "metrics.jsonl"

enum { METRICS_VERSION = 1 };

typedef struct metrics_setting {
    const char *name, *value; /* as the user would write them: {"group", "scan"} */
} metrics_setting;

typedef struct metrics_header {
    const char *run;    /* shown in legends; unique among the runs of one report */
    const char *method; /* "sgd", "psgd-newton": runs of one method share its place in tables */
    const char *task;   /* "wikitext2", "rosenbrock": what was trained; may be NULL */
    uint64_t seed;
    const metrics_setting *settings; /* as given */
    int setting_count;
    const metrics_setting *defaults; /* the values of those that were not given */
    int default_count;
} metrics_header;

typedef struct metric {
    const char *name; /* "loss", "perplexity", "accuracy", "step_size", ... */
    double value;     /* a value that is not finite is written as null */
} metric;

/* Where in the run a record belongs. */
typedef struct metrics_time {
    int64_t step;
    double epoch;   /* passes over the training data so far, 0.5 is half of the first */
    double seconds; /* of training so far, over all resumptions */
} metrics_time;

typedef struct metrics_log metrics_log;

/* Starts folder/METRICS_FILE anew, making the folder where it is missing, and writes the header. */
psgd_status psgd__metrics_create(const psgd_context *context, const char *folder, const metrics_header *header,
                                 metrics_log **log);

/* Writes another header over that of an existing log; the file is replaced atomically. */
psgd_status psgd__metrics_replace_header(const psgd_context *context, const char *folder, const metrics_header *header);

/* Resumes an existing log: cuts off every record of a step after this one, the final record and an unfinished
 * last line. The record of the step itself stays: write records before the checkpoint of their step. A missing log is
 * an error. */
psgd_status psgd__metrics_resume(const psgd_context *context, const char *folder, int64_t step, metrics_log **log);
void psgd__metrics_close(metrics_log *log); /* NULL is fine */

/* Values of one split: "train", "valid", "test". Each record is on disk, as far as the process is concerned, when the
 * call returns. */
psgd_status psgd__metrics_point(metrics_log *log, metrics_time when, const char *split, const metric *values,
                                int count);

/* The state of one preconditioner: "updates", "skipped", "condition", "scale", ... */
psgd_status psgd__metrics_health(metrics_log *log, metrics_time when, const char *tensor, const char *group,
                                 const metric *values, int count);

/* The last record of a run that ended by itself, with the values for the table: "test_perplexity", ... */
psgd_status psgd__metrics_final(metrics_log *log, metrics_time when, const metric *values, int count);

/* A log, read. */
typedef struct metrics_curve {
    char *split;  /* NULL for the health of a preconditioner */
    char *tensor; /* NULL for a split */
    char *group;  /* of the tensor, or NULL */
    char *name;   /* of the metric */
    int64_t count, room;
    metrics_time *when; /* [count] */
    double *value;      /* [count], NaN for null */
} metrics_curve;

typedef struct metrics_run {
    const psgd_context *context;
    char *run, *method, *task; /* task is "" where there is none */
    uint64_t seed;
    metrics_setting *settings, *defaults;
    int setting_count, default_count;
    metrics_curve *curves; /* in the order in which they first appear */
    int curve_count;
    int64_t curve_room;
    bool finished; /* there is a final record: final_* are its values */
    metric *final;
    int final_count;
    metrics_time last; /* of the last record */
} metrics_run;

/* Reads path: a log, or a folder with one. An unfinished last line is left out; anything else that is not a record is
 * an error that names the line. */
psgd_status psgd__metrics_read(const psgd_context *context, const char *path, metrics_run **run);
void psgd__metrics_free(metrics_run *run); /* NULL is fine */

/* The curve of "valid perplexity", the metric perplexity of the split valid, or NULL. */
const metrics_curve *psgd__metrics_curve(const metrics_run *run, const char *what);

#endif
