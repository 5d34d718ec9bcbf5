/* The curves of a report as figures for papers, through the plot module. */
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/text.h"
#include "report/plot.h"
#include "report/words.h"

static bool in_task(const report *from, int run, const char *task)
{
    return !strcmp(from->runs[run]->task, task);
}

static const metrics_curve *curve_in(const report *from, int run, const char *task, const char *what)
{
    return in_task(from, run, task) ? psgd__metrics_curve(from->runs[run], what) : NULL;
}

/* The runs of a task that have this metric. */
static int count_runs(const report *from, const char *task, const char *what)
{
    int count = 0;
    for (int i = 0; i < from->run_count; i++) count += curve_in(from, i, task, what) != NULL;
    return count;
}

/* The first metric that most runs of a task have. */
static psgd_status choose_metric(const report *from, const char *task, text *chosen)
{
    int max = 0;
    for (int i = 0; i < from->run_count; i++) {
        for (int c = 0; in_task(from, i, task) && c < from->runs[i]->curve_count; c++) {
            const metrics_curve *curve = &from->runs[i]->curves[c];
            if (!curve->split) continue;
            text name = {.context = from->context};
            psgd__text_add(&name, "%s %s", curve->split, curve->name);
            if (name.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a figure");
            int runs = count_runs(from, task, name.chars);
            if (runs > max) {
                psgd__text_free(chosen);
                *chosen = name;
                max = runs;
            } else {
                psgd__text_free(&name);
            }
        }
    }
    if (max > 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "the runs of '%s' have logged no values to draw", task);
}

static double place(const metrics_time *when, const char *against)
{
    return !strcmp(against, "epoch") ? when->epoch : !strcmp(against, "seconds") ? when->seconds : (double)when->step;
}

/* A log axis where all values are above 0 and span two decades. It ends close to the values: the next powers of ten
 * would leave most of a decade empty. */
static plot_axis values_axis(const char *label, const plot_series *series, int count)
{
    double low = INFINITY, high = 0;
    for (int s = 0; s < count; s++) {
        for (int64_t i = 0; i < series[s].count; i++) {
            if (isnan(series[s].y[i])) continue;
            low = fmin(low, series[s].y[i]);
            high = fmax(high, series[s].y[i]);
        }
    }
    plot_axis axis = {.label = label, .log = low > 0 && high > 100 * low};
    double air = pow(high / low, 0.03);
    if (axis.log && isfinite(high)) axis.min = low / air, axis.max = high * air;
    return axis;
}

/* From 0 to the last point. */
static plot_axis places_axis(const char *label, const plot_series *series, int count)
{
    plot_axis axis = {.label = label};
    for (int s = 0; s < count; s++) {
        for (int64_t i = 0; i < series[s].count; i++) axis.max = fmax(axis.max, series[s].x[i]);
    }
    return axis;
}

static psgd_status draw_task(const report *from, const char *task, const char *what, const report_view *view,
                             const char *stem)
{
    int64_t size = 0;
    for (int i = 0; i < from->run_count; i++) {
        const metrics_curve *curve = curve_in(from, i, task, what);
        if (curve) size += curve->count;
    }
    int count = count_runs(from, task, what), made = 0;
    double *x = psgd__alloc(from->context, size, sizeof *x), *at = x;
    plot_series *series = psgd__alloc(from->context, count, sizeof *series);
    char(*labels)[256] = psgd__alloc(from->context, count, sizeof *labels);
    psgd_status status = PSGD_OK;
    if (!x || !series || !labels) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the figure '%s'", stem);
    for (int i = 0; status == PSGD_OK && i < from->run_count; i++) {
        const metrics_curve *curve = curve_in(from, i, task, what);
        if (!curve) continue;
        for (int64_t k = 0; k < curve->count; k++) at[k] = place(&curve->when[k], view->against);
        psgd__report_label(from, i, labels[made], sizeof labels[made]);
        series[made] = (plot_series){.label = labels[made],
                                     .style = curve->count == 1 ? PLOT_POINTS : PLOT_LINE,
                                     .colour = made,
                                     .count = curve->count,
                                     .x = at,
                                     .y = curve->value};
        made++;
        at += curve->count;
    }
    if (status == PSGD_OK) {
        char shown[256];
        psgd__words_metric(what, shown, sizeof shown);
        plot_panel panel = {.x = places_axis(view->against, series, made),
                            .y = values_axis(shown, series, made),
                            .series = series,
                            .series_count = made};
        plot_figure figure = {.title = view->title ? view->title : task, .rows = 1, .columns = 1, .panels = &panel};
        status = psgd__plot_write(from->context, &figure, stem);
    }
    psgd__free(from->context, x);
    psgd__free(from->context, series);
    psgd__free(from->context, labels);
    return status;
}

/* stem, or stem-task where there are several tasks. */
static void name_figure(text *name, const char *stem, const char *task, bool several)
{
    psgd__text_add(name, several ? "%s-%s" : "%s", stem, task);
    int64_t from = (int64_t)strlen(stem);
    for (int64_t i = from; i < name->length; i++) {
        if (name->chars[i] == '/' || name->chars[i] == ' ') name->chars[i] = '-';
    }
}

static psgd_status figure_of_task(const report *from, const char *task, const report_view *view, const char *stem,
                                  bool several, text *written)
{
    text name = {.context = from->context}, chosen = {.context = from->context};
    psgd_status status = PSGD_OK;
    name_figure(&name, stem, task, several);
    if (view->metric)
        psgd__text_add(&chosen, "%s", view->metric);
    else
        status = choose_metric(from, task, &chosen);
    if (status == PSGD_OK && (name.failed || chosen.failed))
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the figure '%s'", stem);
    bool drawn = status == PSGD_OK && count_runs(from, task, chosen.chars) > 0;
    if (drawn) status = draw_task(from, task, chosen.chars, view, name.chars);
    if (drawn && status == PSGD_OK) psgd__text_add(written, "written: %s.svg, %s.png\n", name.chars, name.chars);
    psgd__text_free(&name);
    psgd__text_free(&chosen);
    return status;
}

psgd_status psgd__report_figure(const report *from, const report_view *view, const char *stem, text *written)
{
    const char *what = view->metric, *against = view->against;
    if (strcmp(against, "step") != 0 && strcmp(against, "epoch") != 0 && strcmp(against, "seconds") != 0)
        return psgd__fail(PSGD_ERR_ARGUMENT, "curves go against step, epoch or seconds, not '%s'", against);
    bool several = false, found = !what;
    for (int i = 0; what && i < from->run_count; i++) found = found || psgd__metrics_curve(from->runs[i], what);
    if (!found)
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "no run has logged '%s'; a metric is a split and a name, as in 'valid perplexity'", what);
    for (int i = 1; i < from->run_count; i++) several = several || !in_task(from, i, from->runs[0]->task);
    for (int i = 0; i < from->run_count; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++) seen = seen || in_task(from, j, from->runs[i]->task);
        if (!seen) PSGD_TRY(figure_of_task(from, from->runs[i]->task, view, stem, several, written));
    }
    return PSGD_OK;
}
