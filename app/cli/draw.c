/* psgd group --draw: matrices as coloured squares. White is zero; blue is positive, orange negative, the darker the
 * larger, by the square root of the value so that small entries show. */
#include "cli/cli.h"
#include "cli/draw.h"
#include "data/format/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 2048, WHOLE = 640, PANEL = 480, MARGIN = 16, ZERO = 128, EDGE = 0, PAGE = 1 };

void cli_draw_palette(uint8_t palette[256][3])
{
    static const double blue[3] = {0, 84, 159}, orange[3] = {204, 85, 0};
    for (int i = 0; i < 256; i++) {
        double depth = i < ZERO ? (double)(ZERO - i) / 126 : (double)(i - ZERO) / 127;
        const double *colour = i < ZERO ? orange : blue;
        for (int k = 0; k < 3; k++) palette[i][k] = (uint8_t)lround(255 + depth * (colour[k] - 255));
    }
    memset(palette[EDGE], 0x88, 3);
    memset(palette[PAGE], 0xff, 3);
}

static psgd_status add_panel(drawing *d, int64_t n, double **x)
{
    if (n > WIDEST) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED, "a factor of %lld is too wide to draw; %d is the widest", (long long)n,
                          WIDEST);
    }
    if (d->count == MAX_PANELS) return psgd__fail(PSGD_ERR_UNSUPPORTED, "too many factors to draw");
    *x = calloc((size_t)(n * n), sizeof **x);
    if (!*x) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to draw a factor of %lld", (long long)n);
    d->panels[d->count++] = (draw_matrix){n, *x};
    return PSGD_OK;
}

/* Q after a few random pairs: every entry that may be non-zero is. */
static psgd_status pattern(const psgd_context *context, const char *spec, int ndim, const int64_t *shape, drawing *d)
{
    enum { UPDATES = 12 };
    psgd_precond *precond;
    PSGD_TRY(psgd_precond_create(context, spec, ndim, shape, PSGD_F64, NULL, &precond));
    int64_t n = psgd_precond_size(precond);
    double *pair = malloc(2 * (size_t)n * sizeof *pair), *x = NULL;
    psgd_status status = pair ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a random pair");
    for (int i = 0; i < UPDATES && status == PSGD_OK; i++) {
        status = psgd_normal_fill(PSGD_F64, 1, 0, (uint64_t)i, 0, 2 * n, pair);
        if (status == PSGD_OK) status = psgd_precond_update(precond, pair, pair + n);
    }
    for (int f = 0; f < psgd_precond_factor_count(precond) && status == PSGD_OK; f++) {
        status = add_panel(d, psgd_precond_factor_size(precond, f), &x);
        if (status == PSGD_OK) status = psgd_precond_factor(precond, f, x);
    }
    for (int p = 0; p < d->count; p++) {
        const draw_matrix *m = &d->panels[p];
        for (int64_t i = 0; i < m->n * m->n; i++) m->x[i] = m->x[i] != 0;
    }
    free(pair);
    psgd_precond_free(precond);
    return status;
}

static psgd_status read_matrix(const char *path, drawing *d)
{
    npy_file npy = {0};
    double *x = NULL;
    PSGD_TRY(psgd__npy_open(NULL, path, &npy));
    psgd_status status = npy.ndim == 2 && npy.shape[0] == npy.shape[1]
                             ? add_panel(d, npy.shape[0], &x)
                             : psgd__fail(PSGD_ERR_FORMAT, "%s does not hold one square matrix", path);
    if (status == PSGD_OK) status = psgd__npy_read(&npy, 0, npy.count, PSGD_F64, x);
    psgd__npy_close(&npy);
    return status;
}

static psgd_status values(const char *files, drawing *d)
{
    while (*files) {
        char path[4096];
        size_t length = strcspn(files, ",");
        if (length >= sizeof path) return psgd__fail(PSGD_ERR_ARGUMENT, "a name in --q is too long");
        memcpy(path, files, length);
        path[length] = 0;
        PSGD_TRY(read_matrix(path, d));
        files += length + (files[length] == ',');
    }
    return d->count ? PSGD_OK : psgd__fail(PSGD_ERR_ARGUMENT, "--q needs at least one .npy file");
}

/* The Kronecker product of all panels goes before them where it is small. */
static psgd_status add_whole(drawing *d)
{
    int64_t n = 1;
    double *x = NULL;
    int factors = d->count;
    for (int i = 0; i < factors; i++) n = n <= WHOLE ? n * d->panels[i].n : n;
    if (factors < 2 || n > WHOLE) return PSGD_OK;
    PSGD_TRY(add_panel(d, n, &x));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            int64_t row = i, column = j;
            double value = 1;
            for (int f = factors - 1; f >= 0; f--) {
                int64_t m = d->panels[f].n;
                value *= d->panels[f].x[row % m * m + column % m];
                row /= m;
                column /= m;
            }
            x[i * n + j] = value;
        }
    }
    draw_matrix whole = d->panels[factors];
    d->whole = true;
    memmove(d->panels + 1, d->panels, (size_t)factors * sizeof d->panels[0]);
    d->panels[0] = whole;
    return PSGD_OK;
}

/* Pixels along a side of a panel: whole cells where they fit, else cells share pixels. */
static int side(const draw_matrix *m)
{
    return m->n <= PANEL ? (int)(PANEL / m->n * m->n) : PANEL;
}

static uint8_t colour(double x, double max)
{
    if (!(fabs(x) > 0) || !(max > 0)) return ZERO;
    double depth = sqrt(fabs(x) / max);
    return (uint8_t)(x > 0 ? ZERO + lround(1 + 126 * depth) : ZERO - lround(1 + 125 * depth));
}

double cli_draw_max(const draw_matrix *m)
{
    double max = 0;
    for (int64_t i = 0; i < m->n * m->n; i++) max = fmax(max, fabs(m->x[i]));
    return max;
}

uint8_t cli_draw_cell(const draw_matrix *m, double max, int size, int y, int x)
{
    int64_t i0 = y * m->n / size, i1 = (y + 1) * m->n / size, j0 = x * m->n / size, j1 = (x + 1) * m->n / size;
    double entry = m->x[i0 * m->n + j0];
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
            if (fabs(m->x[i * m->n + j]) > fabs(entry)) entry = m->x[i * m->n + j];
        }
    }
    return colour(entry, max);
}

static void paint(const draw_matrix *m, int left, int width, uint8_t *pixels)
{
    int size = side(m);
    double max = cli_draw_max(m);
    for (int y = -1; y <= size; y++) {
        for (int x = -1; x <= size; x++) {
            uint8_t *to = pixels + (size_t)(MARGIN + y) * (size_t)width + (size_t)(left + x);
            bool edge = y < 0 || x < 0 || y == size || x == size;
            *to = edge ? EDGE : cli_draw_cell(m, max, size, y, x);
        }
    }
}

static psgd_status write_image(const drawing *d, const char *path)
{
    uint8_t palette[256][3];
    int width = MARGIN, height = 0;
    for (int i = 0; i < d->count; i++) {
        width += side(&d->panels[i]) + MARGIN;
        height = side(&d->panels[i]) > height ? side(&d->panels[i]) : height;
    }
    height += 2 * MARGIN;
    uint8_t *pixels = malloc((size_t)width * (size_t)height);
    if (!pixels) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for an image of %d x %d", width, height);
    memset(pixels, PAGE, (size_t)width * (size_t)height);
    cli_draw_palette(palette);
    for (int i = 0, left = MARGIN; i < d->count; i++) {
        paint(&d->panels[i], left, width, pixels);
        left += side(&d->panels[i]) + MARGIN;
    }
    psgd_status status = cli_png_write(path, width, height, pixels, (const uint8_t(*)[3])palette);
    free(pixels);
    return status;
}

/* The files hold the factors of this group, all of them. */
static psgd_status check_sizes(const psgd_context *context, const char *spec, int ndim, const int64_t *shape,
                               const drawing *d)
{
    psgd_precond *precond;
    psgd_status status = PSGD_OK;
    PSGD_TRY(psgd_precond_create(context, spec, ndim, shape, PSGD_F32, NULL, &precond));
    int factors = psgd_precond_factor_count(precond);
    if (d->count != factors) {
        status = cli_wrong_use("%s has %d factor%s, and --q names %d file%s", spec, factors, factors == 1 ? "" : "s",
                               d->count, d->count == 1 ? "" : "s");
    }
    for (int f = 0; f < factors && status == PSGD_OK; f++) {
        int64_t is = d->panels[f].n, wanted = psgd_precond_factor_size(precond, f);
        if (is == wanted) continue;
        status = cli_wrong_use("file %d of --q holds a matrix of side %lld, but factor %d of %s on this shape has %lld",
                               f + 1, (long long)is, f + 1, spec, (long long)wanted);
    }
    psgd_precond_free(precond);
    return status;
}

psgd_status cli_draw(const psgd_context *context, const char *spec, int ndim, const int64_t *shape, const char *files,
                     const char *path)
{
    drawing d = {.spec = spec, .ndim = ndim, .shape = shape, .values = files != NULL};
    const char *dot = strrchr(path, '.');
    psgd_status status = files ? values(files, &d) : pattern(context, spec, ndim, shape, &d);
    if (status == PSGD_OK && files) status = check_sizes(context, spec, ndim, shape, &d);
    if (status == PSGD_OK) status = add_whole(&d);
    bool svg = dot && !strcmp(dot, ".svg");
    if (status == PSGD_OK) status = svg ? cli_draw_svg(&d, path) : write_image(&d, path);
    for (int i = 0; i < d.count; i++) free(d.panels[i].x);
    return status;
}
