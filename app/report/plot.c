/* The figure becomes a gnuplot script with its data inside. Nothing that comes from data is ever evaluated by gnuplot
 * or by a shell. */
#include "report/plot.h"
#include "core/file.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Distinguishable with colour blindness (Okabe and Ito), and their counterparts on a dark page. */
static const struct {
    const char *light, *dark;
} palette[] = {{"0072b2", "4c9be8"}, {"d55e00", "f0833a"}, {"009e73", "2dba8c"}, {"cc79a7", "e29ac3"},
               {"e69f00", "e6b422"}, {"56b4e9", "6ee7f7"}, {"444444", "d0d7de"}};

enum { COLOURS = sizeof palette / sizeof palette[0] };

static const char *colour_of(const plot_series *series)
{
    return series->colour < 0 ? "888888" : palette[series->colour % COLOURS].light;
}

/* Adds before, the word as a string of gnuplot's, and after. Between single quotes gnuplot evaluates nothing: neither
 * backslashes nor, in backquotes, commands of the shell. Control characters would end the line or the string. */
static void add_quoted(text *to, const char *before, const char *word, const char *after)
{
    psgd__text_add(to, "%s'", before);
    for (; *word; word++) {
        unsigned char c = (unsigned char)*word;
        if (c == '\n') {
            psgd__text_add(to, "'.\"\\n\".'");
        } else if (c == '\'') {
            psgd__text_add(to, "''");
        } else {
            psgd__text_add(to, "%c", c < 32 || c == 127 ? ' ' : c);
        }
    }
    psgd__text_add(to, "'%s", after);
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

/* Pixels to the right of the only panel for a legend that covers no data; 0 where there is none. */
static int legend_width(const plot_figure *figure)
{
    size_t longest = 0;
    if (figure->rows * figure->columns != 1) return 0;
    for (int i = 0; i < figure->panels[0].series_count; i++) {
        const char *label = figure->panels[0].series[i].label;
        if (label && strlen(label) > longest) longest = strlen(label);
    }
    return longest ? 60 + 8 * (int)longest : 0;
}

static void add_series(text *to, const plot_series *series, int index)
{
    double opacity = series->opacity > 0 ? series->opacity : 1, width = series->width > 0 ? series->width : 1.5;
    char colour[16];
    snprintf(colour, sizeof colour, "#%02x%s", (int)lrint(255 * (1 - opacity)), colour_of(series));
    switch (series->style) {
    case PLOT_LINE:
        psgd__text_add(to, "$data%d using 1:2 with lines lw %g lc rgb '%s' dt %d", index, width, colour,
                       series->colour < 0 ? 1 : 1 + series->colour / COLOURS % 5);
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

/* Everything after the data. */
static void add_page(text *to, const plot_figure *figure, const char *terminal)
{
    int legend = legend_width(figure), height = figure->height > 0 ? figure->height : 540;
    int width = (figure->width > 0 ? figure->width : 900 - legend / 2) + legend;
    double top = 28; /* pixels above the panels */
    for (const char *line = figure->title; line; line = strchr(line + 1, '\n')) top += 20;
    if (figure->title && figure->panels[0].title) top += 18;
    psgd__text_add(to, "set terminal %s size %d,%d background rgb '#ffffff' enhanced\n", terminal, width, height);
    psgd__text_add(to, "set encoding utf8\nset border 3 lw 1 lc rgb '#666666'\n"
                       "set tics nomirror textcolor rgb '#333333'\nset grid lt 1 lw 0.6 lc rgb '#e4e4e4'\n"
                       "set mxtics 1\nset mytics 1\nset samples 2\n");
    /* Placed by its left end: gnuplot takes text to be wider than it is. */
    if (legend) psgd__text_add(to, "set key at screen %g, screen 0.5 left center\n", 1 - (double)legend / width);
    psgd__text_add(to,
                   "set key vertical Left reverse noenhanced samplen 2\n"
                   "set multiplot layout %d,%d margins screen %g,%g,%g,%g spacing screen %g,%g",
                   figure->rows, figure->columns, 90.0 / width, 1 - (18.0 + legend) / width, 56.0 / height,
                   1 - top / height, (figure->shared ? 24.0 : 78.0) / width, (figure->shared ? 30.0 : 80.0) / height);
    if (figure->title) add_quoted(to, " title ", figure->title, " noenhanced");
    psgd__text_add(to, "\n");
    for (int i = 0, data = 0; i < figure->rows * figure->columns; i++) {
        add_panel(to, figure, i, data);
        data += figure->panels[i].series_count;
    }
    psgd__text_add(to, "unset multiplot\n");
}

/* The first line that it wrote. */
static psgd_status tell_failure(FILE *complaints)
{
    char line[200] = "";
    rewind(complaints);
    while (fgets(line, sizeof line, complaints) && !line[strspn(line, " \t^\n")]) continue;
    line[strcspn(line, "\n")] = 0;
    return psgd__fail(PSGD_ERR_IO, "gnuplot failed to draw a figure%s%s", *line ? ": " : "", line);
}

/* gnuplot with these files as its standard input, output and error: none has a name that data could be part of. Its
 * warnings (an axis with one value, say) are dropped. */
static psgd_status run_gnuplot(FILE *script, FILE *image, FILE *complaints)
{
    char program[] = "gnuplot", input[] = "-", *words[] = {program, input, NULL};
    pid_t child = -1;
    int outcome = 0;
    posix_spawn_file_actions_t files;
    int error = posix_spawn_file_actions_init(&files);
    if (!error) {
        error = posix_spawn_file_actions_adddup2(&files, fileno(script), STDIN_FILENO);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, fileno(image), STDOUT_FILENO);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, fileno(complaints), STDERR_FILENO);
        if (!error) error = posix_spawnp(&child, program, &files, NULL, words, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    if (error) {
        return psgd__fail(PSGD_ERR_IO, "cannot start gnuplot, which draws the figures (package gnuplot-nox): %s",
                          strerror(error));
    }
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) return PSGD_OK;
    return tell_failure(complaints);
}

static void add_script(text *to, const plot_figure *figure, const char *terminal)
{
    for (int i = 0, data = 0; i < figure->rows * figure->columns; i++) {
        const plot_panel *panel = &figure->panels[i];
        for (int k = 0; k < panel->series_count; k++) add_data(to, &panel->series[k], data++);
    }
    add_page(to, figure, terminal);
}

/* Colours of the SVG where the reader's pages are dark. Rules of a style sheet win over gnuplot's attributes, which it
 * writes as "rgb(%3d, %3d, %3d)"; the first rectangle is the background. */
static void add_dark(text *to)
{
    psgd__text_add(to, "<style>@media (prefers-color-scheme: dark) {\n#gnuplot_canvas > rect { fill: #0d1117 } "
                       "text { fill: #e6edf3 } .gridline { stroke: #30363d } path[stroke='rgb(102, 102, 102)'] "
                       "{ stroke: #8b949e }\n");
    for (int i = 0; i < COLOURS; i++) {
        char light[32];
        long rgb = strtol(palette[i].light, NULL, 16);
        snprintf(light, sizeof light, "rgb(%3ld, %3ld, %3ld)", rgb >> 16, rgb >> 8 & 255, rgb & 255);
        psgd__text_add(to, "[stroke='%s'] { stroke: #%s } [fill='%s'] { fill: #%s } [color='%s'] { color: #%s }\n",
                       light, palette[i].dark, light, palette[i].dark, light, palette[i].dark);
    }
    psgd__text_add(to, "}</style>");
}

/* The bytes, with the style in place of gnuplot's title, which browsers would show under the pointer. */
static psgd_status write_start(const psgd_context *context, const char *bytes, int64_t count, file_writer *file)
{
    static const char mark[] = "<title>Gnuplot</title>";
    const char *at = strstr(bytes, mark);
    if (!at) return psgd__file_write(file, bytes, count);
    text style = {.context = context};
    add_dark(&style);
    psgd_status status = style.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw a figure") : PSGD_OK;
    if (status == PSGD_OK) status = psgd__file_write(file, bytes, at - bytes);
    if (status == PSGD_OK) status = psgd__file_write(file, style.chars, style.length);
    psgd__text_free(&style);
    at += sizeof mark - 1;
    return status == PSGD_OK ? psgd__file_write(file, at, count - (at - bytes)) : status;
}

static psgd_status refuse(const char *path)
{
    return psgd__fail(PSGD_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

/* The image to its file, which is not yet under its name. */
static psgd_status store(const psgd_context *context, FILE *image, const char *path, file_writer *file)
{
    char bytes[65536];
    PSGD_TRY(psgd__file_create(context, path, file));
    int64_t total = 0;
    rewind(image);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes - 1, image)) > 0; total += (int64_t)got) {
        bytes[got] = 0;
        PSGD_TRY(total ? psgd__file_write(file, bytes, (int64_t)got) : write_start(context, bytes, (int64_t)got, file));
    }
    if (ferror(image)) return refuse(path);
    return total > 0 ? psgd__file_finish(file) : psgd__fail(PSGD_ERR_IO, "gnuplot failed to draw a figure");
}

static psgd_status draw(const psgd_context *context, const plot_figure *figure, const char *terminal, const char *path,
                        file_writer *file)
{
    text script = {.context = context};
    add_script(&script, figure, terminal);
    if (script.failed) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw %s", path);
    FILE *input = tmpfile(), *image = tmpfile(), *complaints = tmpfile();
    bool ready = input && image && complaints &&
                 fwrite(script.chars, 1, (size_t)script.length, input) == (size_t)script.length && fflush(input) == 0;
    psgd_status status = ready ? PSGD_OK : refuse(path);
    if (ready) rewind(input);
    if (status == PSGD_OK) status = run_gnuplot(input, image, complaints);
    if (status == PSGD_OK) status = store(context, image, path, file);
    if (input) fclose(input);
    if (image) fclose(image);
    if (complaints) fclose(complaints);
    psgd__text_free(&script);
    return status;
}

psgd_status psgd__plot_write(const psgd_context *context, const plot_figure *figure, const char *stem)
{
    enum { KINDS = 2 };
    static const struct {
        const char *suffix, *terminal;
    } kinds[KINDS] = {{".svg", "svg font 'sans,13'"}, {".png", "pngcairo font 'sans,10'"}};
    file_writer files[KINDS] = {0};
    psgd_status status = PSGD_OK;
    for (int i = 0; status == PSGD_OK && i < KINDS; i++) {
        text path = {.context = context};
        psgd__text_add(&path, "%s%s", stem, kinds[i].suffix);
        status = path.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw %s", stem)
                             : draw(context, figure, kinds[i].terminal, path.chars, &files[i]);
        psgd__text_free(&path);
    }
    for (int i = 0; status == PSGD_OK && i < KINDS; i++) status = psgd__file_publish(&files[i]);
    for (int i = 0; i < KINDS; i++) psgd__file_abandon(&files[i]);
    return status;
}
