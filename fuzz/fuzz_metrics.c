/* A metrics log: read, made into a page, resumed. */
#include "fuzz.h"

#include "core/file.h"
#include "core/memory.h"
#include "report/report.h"
#include "report/summary.h"

#include <math.h>

/* Whatever is in the log, the page is one document: nothing ends its script before its time. */
static void check_page(const char *path)
{
    unsigned char *bytes;
    int64_t count;
    int ends = 0;
    FUZZ_ASSERT(psgd__file_read_whole(NULL, path, &bytes, &count) == PSGD_OK && count > 0);
    char *page = fuzz_text(bytes, (size_t)count);
    FUZZ_ASSERT(strlen(page) == (size_t)count);
    for (const char *at = page; (at = strstr(at, "</script")); at++) ends++;
    static int usual;
    if (!usual) usual = ends;
    FUZZ_ASSERT(ends == usual);
    free(page);
    psgd__free(NULL, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const psgd_context *context = fuzz_context(true);
    metrics_run *run;
    metrics_log *log;
    const char *path = fuzz_write(METRICS_FILE, data, size);
    if (psgd__metrics_read(context, path, &run) == PSGD_OK) {
        FUZZ_ASSERT(run->run && run->method && run->task);
        (void)psgd__metrics_summary(run);
        for (int i = 0; i < run->curve_count; i++) FUZZ_ASSERT(run->curves[i].count > 0 && run->curves[i].name);
        psgd__metrics_free(run);
        report page = {.context = context};
        FUZZ_ASSERT(psgd__report_add(&page, path) == PSGD_OK);
        char out[128];
        snprintf(out, sizeof out, "%s/page.html", fuzz_folder());
        if (psgd__report_page(&page, out) == PSGD_OK) check_page(out);
        psgd__report_free(&page);
    }
    if (psgd__metrics_resume(context, fuzz_folder(), 5, &log) == PSGD_OK) {
        metric value = {"loss", 1.5};
        FUZZ_ASSERT(psgd__metrics_point(log, (metrics_time){6, 1, 1}, "train", &value, 1) == PSGD_OK);
        psgd__metrics_close(log);
    }
    return 0;
}
