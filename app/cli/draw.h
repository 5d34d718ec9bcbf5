/* What psgd group --draw draws: square matrices in a row, and how their entries are coloured. */
#ifndef PSGD_CLI_DRAW_H
#define PSGD_CLI_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include <psgd/status.h>

enum { MAX_PANELS = 33 };

typedef struct draw_matrix {
    int64_t n;
    double *x;
} draw_matrix;

/* The factors of Q, before them their Kronecker product where that is small. */
typedef struct drawing {
    draw_matrix panels[MAX_PANELS];
    int count;
    const char *spec;
    int ndim;
    const int64_t *shape;
    bool values, whole; /* entries of files, not a pattern; the first panel is the product of the others */
} drawing;

/* White at 128, darker orange below it, darker blue above; 0 and 1 are the edge and the page. */
void cli_draw_palette(uint8_t palette[256][3]);

double cli_draw_max(const draw_matrix *m); /* max |entry| */

/* The colour of cell (y, x) of a matrix shown as size x size cells: the largest of the entries that share it. */
uint8_t cli_draw_cell(const draw_matrix *m, double max, int size, int y, int x);

psgd_status cli_draw_svg(const drawing *d, const char *path);

#endif
