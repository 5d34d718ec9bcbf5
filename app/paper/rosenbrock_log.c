/* The runs on Rosenbrock's function as metric logs, for psgd report. */
#include "paper/rosenbrock.h"

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "report/metrics.h"

static psgd_status write_log(const rosenbrock_runs *runs, int index, const char *folder)
{
    const rosenbrock_method *method = &psgd__rosenbrock_methods[index];
    char lr[32];
    metrics_setting settings[16] = {{"lr", lr}, {"values", "medians over the seeds"}};
    int count = 2;
    snprintf(lr, sizeof lr, "%g", method->lr);
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
    if (status == PSGD_OK)
        status = psgd__metrics_final(log, (metrics_time){.step = ROSENBROCK_ITERATIONS},
                                     (metric[]){{"train_loss", quartiles[1]}}, 1);
    psgd__metrics_close(log);
    return status;
}

psgd_status psgd__rosenbrock_logs(const rosenbrock_runs *runs, const char *folder)
{
    psgd_status status = PSGD_OK;
    for (int m = 0; status == PSGD_OK && m < ROSENBROCK_METHODS; m++) {
        text path = {0};
        int created;
        psgd__text_add(&path, "%s/rosenbrock/%s", folder, psgd__rosenbrock_methods[m].name);
        if (path.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the logs");
        for (char *c = path.chars + strlen(folder); *c; c++) *c = *c == ' ' ? '-' : *c;
        status = psgd__folder_create(path.chars, &created);
        if (status == PSGD_OK) status = write_log(runs, m, path.chars);
        psgd__text_free(&path);
    }
    return status;
}
