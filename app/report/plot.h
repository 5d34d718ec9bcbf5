/* Figures: panels of lines, points and bands in, an SVG and a PNG out, drawn by gnuplot. */
#ifndef PSGD_REPORT_PLOT_H
#define PSGD_REPORT_PLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include <psgd/context.h>

typedef enum plot_style {
    PLOT_LINE,
    PLOT_POINTS,
    PLOT_BAND, /* filled between y and upper */
    PLOT_LEVEL /* a dashed horizontal line at y[0]; x is not looked at */
} plot_style;

typedef struct plot_series {
    const char *label; /* NULL: not in the key */
    plot_style style;
    int colour;            /* in the palette, from 0; negative: grey */
    double opacity, width; /* 0: 1, and a width of 1.5 */
    int64_t count;
    const double *x, *y, *upper; /* NaN leaves a gap */
} plot_series;

typedef struct plot_axis {
    const char *label;  /* may be NULL */
    const char *format; /* of the numbers, as gnuplot wants it; NULL: powers of ten on a log axis, else "%g" */
    bool log, reverse;
    double min, max; /* equal: automatic */
} plot_axis;

typedef struct plot_panel {
    const char *title; /* may be NULL */
    plot_axis x, y;
    const plot_series *series;
    int series_count;
} plot_panel;

typedef struct plot_figure {
    const char *title; /* may be NULL, may have several lines */
    int rows, columns;
    const plot_panel *panels; /* row by row */
    bool shared;              /* numbers and labels of axes on the left and at the bottom only */
    int width, height;        /* in pixels; 0: 900 x 540 */
} plot_figure;

/* Writes stem.svg and stem.png, both or neither. */
psgd_status psgd__plot_write(const psgd_context *context, const plot_figure *figure, const char *stem);

#endif
