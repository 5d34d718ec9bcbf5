/* psgd group --draw FILE.svg: the panels with a title, a caption under each and what the colours mean, on a page that
 * is light or dark as the reader's. Cells of one colour in a row are one rectangle, the fainter the closer to 0. */
#include "cli/cli.h"
#include "cli/draw.h"
#include "core/file.h"

#include <string.h>

enum { CELLS = 128, SIDE = 240, GAP = 24, TOP = 44, CAPTION = 22, FOOT = 52 };

/* The ends of the palette, and both on a dark page. */
#define BLUE   "#00549f"
#define ORANGE "#cc5500"
static const char style[] = "<style>@media (prefers-color-scheme: dark) { .page { fill: #0d1117 } text { fill: #e6edf3 "
                            "} .note { fill: #9da7b1 } "
                            "[fill='" BLUE "'] { fill: #4c9be8 } [fill='" ORANGE "'] { fill: #f0833a } }</style>\n";

static void put_panel(const draw_matrix *m, int left, text *to)
{
    uint8_t palette[256][3];
    int cells = m->n < CELLS ? (int)m->n : CELLS;
    double max = cli_draw_max(m), cell = (double)SIDE / cells;
    cli_draw_palette(palette);
    for (int y = 0; y < cells; y++) {
        for (int x = 0, end; x < cells; x = end) {
            uint8_t shade = cli_draw_cell(m, max, cells, y, x);
            const uint8_t *c = palette[shade];
            for (end = x + 1; end < cells && cli_draw_cell(m, max, cells, y, end) == shade; end++) continue;
            if (c[0] == 255 && c[1] == 255 && c[2] == 255) continue;
            bool negative = c[0] > c[2]; /* orange has no blue in it, and blue no red */
            psgd__text_add(to, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'", left + x * cell,
                           TOP + y * cell, (end - x) * cell, cell, negative ? ORANGE : BLUE);
            double depth = (255 - c[negative ? 2 : 0]) / 255.0;
            if (depth < 1) psgd__text_add(to, " fill-opacity='%.3f'", depth);
            psgd__text_add(to, "/>\n");
        }
    }
    psgd__text_add(to, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#888'/>\n", left, TOP, SIDE,
                   SIDE);
}

static void put_caption(const drawing *d, int panel, int left, text *to)
{
    char name[64] = "Q";
    long long n = (long long)d->panels[panel].n;
    int factors = d->count - d->whole;
    if (d->whole && panel == 0) {
        snprintf(name, sizeof name, factors == 2 ? "Q = Q1 \xe2\x8a\x97 Q2" : "Q, the product of all");
    } else if (factors > 1) {
        snprintf(name, sizeof name, "Q%d, along dimension %d", panel - d->whole + 1, panel - d->whole + 1);
    }
    psgd__text_add(to, "<text x='%d' y='%d' text-anchor='middle'>%s, %lld \xc3\x97 %lld</text>\n", left + SIDE / 2,
                   TOP + SIDE + CAPTION, name, n, n);
}

psgd_status cli_draw_svg(const drawing *d, const char *path)
{
    text to = {0};
    int wide = GAP + d->count * (SIDE + GAP), width = wide > 560 ? wide : 560, height = TOP + SIDE + FOOT;
    int first = (width - wide) / 2 + GAP;
    psgd__text_add(&to,
                   "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
                   "font-family='sans-serif' font-size='14' fill='#222' shape-rendering='crispEdges'>\n%s<rect "
                   "class='page' width='100%%' "
                   "height='100%%' fill='#fff'/>\n<text x='%d' y='28' text-anchor='middle' font-size='16'>%s on ",
                   width, height, width, height, style, width / 2, d->spec);
    for (int i = 0; i < d->ndim; i++) psgd__text_add(&to, "%s%lld", i ? " \xc3\x97 " : "", (long long)d->shape[i]);
    psgd__text_add(&to, "</text>\n");
    for (int i = 0; i < d->count; i++) {
        put_panel(&d->panels[i], first + i * (SIDE + GAP), &to);
        put_caption(d, i, first + i * (SIDE + GAP), &to);
    }
    psgd__text_add(
        &to, "<text x='%d' y='%d' text-anchor='middle' font-size='12' class='note' fill='#555'>%s</text>\n</svg>\n",
        width / 2, height - 10,
        d->values ? "blue: positive, orange: negative; the stronger, the larger"
                  : "blue: entries that may be non-zero; empty: always zero");
    file_writer file;
    psgd_status status = to.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw %s", d->spec) : PSGD_OK;
    if (status == PSGD_OK) status = psgd__file_create(NULL, path, &file);
    if (status == PSGD_OK) {
        status = psgd__file_write(&file, to.chars, to.length);
        if (status == PSGD_OK) status = psgd__file_finish(&file);
        if (status == PSGD_OK) status = psgd__file_publish(&file);
        if (status != PSGD_OK) psgd__file_abandon(&file);
    }
    psgd__text_free(&to);
    return status;
}
