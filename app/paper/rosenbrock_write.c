/* What comes out of the runs on Rosenbrock's function: a table, logs for psgd report, the figure. */
#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "paper/rosenbrock.h"
#include "report/metrics.h"
#include "report/plot.h"

#include <math.h>
#include <string.h>

enum { POINTS = ROSENBROCK_ITERATIONS + 1 };

typedef double curve[POINTS];

static psgd_status write_csv(const rosenbrock_runs *runs, const char *folder)
{
    char path[4096];
    file_writer file;
    snprintf(path, sizeof path, "%s/rosenbrock.csv", folder);
    PSGD_TRY(psgd__file_create(NULL, path, &file));
    psgd_status status = psgd__file_write(&file, "method,seed,iteration,value\n", 28);
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        for (int seed = 0; seed < ROSENBROCK_SEEDS; seed++) {
            for (int i = 0; i < POINTS && status == PSGD_OK; i++) {
                char row[96];
                int length = psgd__print(row, sizeof row, "%s,%d,%d,%.17g\n", psgd__rosenbrock_methods[m].name, seed, i,
                                         (*runs)[m][seed][i]);
                status = psgd__file_write(&file, row, length);
            }
        }
    }
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

static psgd_status write_log(const rosenbrock_runs *runs, int index, const char *folder)
{
    const rosenbrock_method *method = &psgd__rosenbrock_methods[index];
    char lr[32];
    metrics_setting settings[16] = {{"lr", lr}, {"values", "medians over the seeds"}};
    int count = 2;
    psgd__print(lr, sizeof lr, "%g", method->lr);
    for (const char *const *at = method->options; *at && count < 16; at += 2) {
        settings[count++] = (metrics_setting){at[0], at[1]};
    }
    metrics_header header = {.run = method->name,
                             .method = method->method,
                             .task = "rosenbrock",
                             .settings = settings,
                             .setting_count = count};
    metrics_log *log;
    double quartiles[3] = {0};
    PSGD_TRY(psgd__metrics_create(NULL, folder, &header, &log));
    psgd_status status = PSGD_OK;
    for (int i = 0; status == PSGD_OK && i <= ROSENBROCK_ITERATIONS; i++) {
        psgd__rosenbrock_quartiles(runs, index, i, quartiles);
        status = psgd__metrics_point(log, (metrics_time){.step = i}, "train", (metric[]){{"loss", quartiles[1]}}, 1);
    }
    if (status == PSGD_OK) {
        status = psgd__metrics_final(log, (metrics_time){.step = ROSENBROCK_ITERATIONS},
                                     (metric[]){{"train_loss", quartiles[1]}}, 1);
    }
    psgd__metrics_close(log);
    return status;
}

/* Medians over the seeds, with the quartiles as bands where a method draws random numbers. */
static psgd_status write_figure(const rosenbrock_runs *runs, const char *folder)
{
    char stem[4096];
    curve *curves = psgd__alloc(NULL, 1 + 3 * ROSENBROCK_METHODS, sizeof(curve));
    if (!curves) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the figure");
    plot_series series[2 * ROSENBROCK_METHODS];
    int count = 0;
    for (int i = 0; i < POINTS; i++) curves[0][i] = i;
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        curve *own = curves + 1 + 3 * m;
        for (int i = 0; i < POINTS; i++) {
            double q[3];
            psgd__rosenbrock_quartiles(runs, m, i, q);
            /* On a log axis there is no zero: what is below the frame ends there. */
            for (int k = 0; k < 3; k++) own[k][i] = fmax(q[k], 1e-32);
        }
        if (psgd__rosenbrock_methods[m].options[0]) {
            series[count++] = (plot_series){.style = PLOT_BAND,
                                            .colour = m,
                                            .opacity = 0.2,
                                            .count = POINTS,
                                            .x = curves[0],
                                            .y = own[0],
                                            .upper = own[2]};
        }
        series[count++] = (plot_series){.label = psgd__rosenbrock_methods[m].title,
                                        .colour = m,
                                        .width = 2,
                                        .count = POINTS,
                                        .x = curves[0],
                                        .y = own[1]};
    }
    plot_panel panel = {.x = {.label = "iteration", .min = 0, .max = 400},
                        .y = {.label = "function value", .log = true, .min = 1e-30, .max = 10},
                        .series = series,
                        .series_count = count};
    plot_figure figure = {.title = "Rosenbrock's function from (−1, 1): median of 21 seeds, quartiles shaded",
                          .rows = 1,
                          .columns = 1,
                          .panels = &panel};
    snprintf(stem, sizeof stem, "%s/rosenbrock", folder);
    psgd_status status = psgd__plot_write(NULL, &figure, stem);
    psgd__free(NULL, curves);
    return status;
}

psgd_status psgd__rosenbrock_write(const rosenbrock_runs *runs, const char *folder)
{
    PSGD_TRY(write_csv(runs, folder));
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        char path[4096];
        int created;
        snprintf(path, sizeof path, "%s/rosenbrock/%s", folder, psgd__rosenbrock_methods[m].name);
        for (char *c = strrchr(path, '/'); *c; c++) *c = *c == ' ' ? '-' : *c;
        PSGD_TRY(psgd__folder_create(path, &created));
        PSGD_TRY(write_log(runs, m, path));
    }
    return write_figure(runs, folder);
}
