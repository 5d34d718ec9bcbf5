/* The figure becomes a gnuplot script with its data inside. */
#include "report/plot.h"
#include "core/file.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Told apart by people who see colours differently (Okabe and Ito), on a light background. */
static const char *const palette[] = {"0072b2", "d55e00", "009e73", "cc79a7", "e69f00", "56b4e9", "444444"};

static const char *colour_of(const plot_series *series)
{
    enum { COUNT = sizeof palette / sizeof palette[0] };
    return series->colour < 0 ? "888888" : palette[series->colour % COUNT];
}

/* Adds before, "word" as gnuplot quotes it, and after. */
static void add_quoted(text *to, const char *before, const char *word, const char *after)
{
    psgd__text_add(to, "%s\"", before);
    for (; *word; word++) {
        bool escaped = *word == '\n' || *word == '"' || *word == '\\';
        psgd__text_add(to, escaped ? "\\%c" : "%c", *word == '\n' ? 'n' : *word);
    }
    psgd__text_add(to, "\"%s", after);
}

static void add_data(text *to, const plot_series *series, int index)
{
    psgd__text_add(to, "$data%d << EOD\n", index);
    for (int64_t i = 0; i < series->count; i++) {
        double upper = series->style == PLOT_BAND ? series->upper[i] : 0;
        if (isnan(series->y[i]) || isnan(upper)) {
            psgd__text_add(to, "\n");
        } else if (series->style != PLOT_LEVEL) {
            psgd__text_add(to, "%.6g %.6g %.6g\n", series->x[i], series->y[i], upper);
        }
    }
    psgd__text_add(to, "EOD\n");
}

static void add_axis(text *to, char name, const plot_axis *axis, bool outer)
{
    const char *format = !outer ? "" : axis->format ? axis->format : axis->log ? "10^{%T}" : "%g";
    psgd__text_add(to, axis->log ? "set logscale %c\n" : "unset logscale %c\n", name);
    psgd__text_add(to, "set format %c", name);
    add_quoted(to, " ", format, "\n");
    psgd__text_add(to, "set %clabel", name);
    add_quoted(to, " ", outer && axis->label ? axis->label : "", " noenhanced\n");
    psgd__text_add(to, "set %crange ", name);
    if (axis->min == axis->max) {
        psgd__text_add(to, "[*:*] %s\n", axis->reverse ? "reverse" : "noreverse");
    } else {
        double low = axis->reverse ? axis->max : axis->min, high = axis->reverse ? axis->min : axis->max;
        psgd__text_add(to, "[%.6g:%.6g] noreverse\n", low, high);
    }
}

static void add_series(text *to, const plot_series *series, int index)
{
    double opacity = series->opacity > 0 ? series->opacity : 1, width = series->width > 0 ? series->width : 1.5;
    char colour[16];
    snprintf(colour, sizeof colour, "#%02x%s", (int)lrint(255 * (1 - opacity)), colour_of(series));
    switch (series->style) {
    case PLOT_LINE:
        psgd__text_add(to, "$data%d using 1:2 with lines lw %g lc rgb '%s'", index, width, colour);
        break;
    case PLOT_POINTS:
        psgd__text_add(to, "$data%d using 1:2 with points pt 7 ps 0.4 lc rgb '%s'", index, colour);
        break;
    case PLOT_BAND:
        psgd__text_add(to, "$data%d using 1:2:3 with filledcurves fs solid noborder fc rgb '%s'", index, colour);
        break;
    case PLOT_LEVEL:
        psgd__text_add(to, "%.9g with lines dt 2 lw %g lc rgb '%s'", series->y[0], width, colour);
        break;
    }
    if (series->label) {
        add_quoted(to, " title ", series->label, "");
    } else {
        psgd__text_add(to, " notitle");
    }
}

static void add_panel(text *to, const plot_figure *figure, int index, int first_data)
{
    const plot_panel *panel = &figure->panels[index];
    bool left = index % figure->columns == 0, bottom = index / figure->columns == figure->rows - 1;
    add_quoted(to, "set title ", panel->title ? panel->title : "", " noenhanced offset 0,-0.5\n");
    add_axis(to, 'x', &panel->x, bottom || !figure->shared);
    add_axis(to, 'y', &panel->y, left || !figure->shared);
    for (int i = 0; i < panel->series_count; i++) {
        psgd__text_add(to, i ? ", " : "plot ");
        add_series(to, &panel->series[i], first_data + i);
    }
    psgd__text_add(to, panel->series_count ? "\n" : "");
}

/* One terminal's worth: everything after the data. */
static void add_page(text *to, const plot_figure *figure, const char *terminal, const char *path)
{
    int width = figure->width > 0 ? figure->width : 900, height = figure->height > 0 ? figure->height : 540;
    double top = 28; /* pixels above the panels */
    for (const char *line = figure->title; line; line = strchr(line + 1, '\n')) top += 20;
    psgd__text_add(to, "set terminal %s size %d,%d background rgb '#ffffff' enhanced\n", terminal, width, height);
    add_quoted(to, "set output ", path, "\n");
    psgd__text_add(to,
                   "set encoding utf8\nset border 3 lw 1 lc rgb '#666666'\nset tics nomirror textcolor rgb '#333333'\n"
                   "set grid lt 1 lw 0.6 lc rgb '#e4e4e4'\nset key top right noenhanced samplen 2\n"
                   "set mxtics 1\nset mytics 1\nset samples 2\n"
                   "set multiplot layout %d,%d margins screen %g,%g,%g,%g spacing screen %g,%g",
                   figure->rows, figure->columns, 78.0 / width, 1 - 18.0 / width, 56.0 / height, 1 - top / height,
                   (figure->shared ? 24.0 : 78.0) / width, (figure->shared ? 30.0 : 80.0) / height);
    if (figure->title) add_quoted(to, " title ", figure->title, " noenhanced");
    psgd__text_add(to, "\n");
    for (int i = 0, data = 0; i < figure->rows * figure->columns; i++) {
        add_panel(to, figure, i, data);
        data += figure->panels[i].series_count;
    }
    psgd__text_add(to, "unset multiplot\nset output\n");
}

/* Runs gnuplot on the script. What it has to complain of goes to the standard error of the process. */
static psgd_status run_gnuplot(const char *script)
{
    char program[] = "gnuplot", *words[] = {program, (char *)script, NULL};
    pid_t child = -1;
    int error = posix_spawnp(&child, program, NULL, NULL, words, environ), outcome = 0;
    if (error) {
        return psgd__fail(PSGD_ERR_IO, "cannot start gnuplot, which draws the figures (package gnuplot-nox): %s",
                          strerror(error));
    }
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_IO, "gnuplot failed to draw a figure");
}

static psgd_status take_place(const char *partial, const char *path)
{
    if (rename(partial, path) == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

static void add_script(text *to, const plot_figure *figure, const char *const images[2])
{
    for (int i = 0, data = 0; i < figure->rows * figure->columns; i++) {
        const plot_panel *panel = &figure->panels[i];
        for (int k = 0; k < panel->series_count; k++) add_data(to, &panel->series[k], data++);
    }
    add_page(to, figure, "svg font 'sans,13'", images[0]);
    add_page(to, figure, "pngcairo font 'sans,10'", images[1]);
}

static psgd_status draw(const psgd_context *context, const plot_figure *figure, const char *path,
                        const char *const images[2])
{
    text script = {.context = context};
    file_writer file;
    add_script(&script, figure, images);
    if (script.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw %s", path);
    psgd_status status = psgd__file_create(context, path, &file);
    if (status == PSGD_OK) {
        status = psgd__file_write(&file, script.chars, script.length);
        if (status == PSGD_OK) status = psgd__file_finish(&file);
        if (status == PSGD_OK) status = run_gnuplot(file.partial);
        psgd__file_abandon(&file);
    }
    psgd__text_free(&script);
    return status;
}

psgd_status psgd__plot_write(const psgd_context *context, const plot_figure *figure, const char *stem)
{
    enum { SVG, PNG, PARTIAL_SVG, PARTIAL_PNG, NAMES };
    static const char *const suffixes[NAMES] = {".svg", ".png", ".partial.svg", ".partial.png"};
    text names[NAMES];
    bool failed = false;
    for (int i = 0; i < NAMES; i++) {
        names[i] = (text){.context = context};
        psgd__text_add(&names[i], "%s%s", stem, suffixes[i]);
        failed = failed || names[i].failed;
    }
    psgd_status status = failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw %s", stem) : PSGD_OK;
    if (status == PSGD_OK) {
        const char *images[2] = {names[PARTIAL_SVG].chars, names[PARTIAL_PNG].chars};
        status = draw(context, figure, names[SVG].chars, images);
        if (status == PSGD_OK) status = take_place(images[0], names[SVG].chars);
        if (status == PSGD_OK) status = take_place(images[1], names[PNG].chars);
        if (status != PSGD_OK) unlink(images[0]);
        if (status != PSGD_OK) unlink(images[1]);
    }
    for (int i = 0; i < NAMES; i++) psgd__text_free(&names[i]);
    return status;
}
