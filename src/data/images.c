/* A folder of class folders of JPEGs, as ImageNet has them: images:DIR with DIR/train/<class>/.. and DIR/test/ or
 * DIR/val/, or DIR/<class>/.. with a share held out. Classes are numbered in the order of their names.
 *
 * Pictures are decoded when they are asked for, on all threads, at the smallest scale of libturbojpeg that is large
 * enough; the short side is resized and the centre cropped to height x width. Pixels go from 0 to 1, [3, h, w]. */
#include "data/gzip.h"
#include "data/source.h"
#include "la/parallel.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <turbojpeg.h>

typedef struct image_file {
    char *path;
    int label;
} image_file;

typedef struct image_source {
    source base;
    image_file *files;
    int64_t file_count, file_room;
    int64_t *kept;
} image_source;

static void images_close(source *base)
{
    image_source *self = (image_source *)base;
    for (int64_t i = 0; i < self->file_count; i++) psgd__free(base->context, self->files[i].path);
    psgd__free(base->context, self->files);
    psgd__free(base->context, self->kept);
    psgd__free(base->context, self);
}

/* Pixel (row, column) of the crop from a decoded picture, by bilinear interpolation. */
typedef struct picture {
    const unsigned char *rgb;
    int width, height;
    double scale, top, left; /* place in the picture = start + scale * (place in the crop) */
} picture;

static void sample_pixel(const picture *p, int64_t row, int64_t column, float rgb[3])
{
    double y = p->top + p->scale * ((double)row + 0.5) - 0.5, x = p->left + p->scale * ((double)column + 0.5) - 0.5;
    y = y < 0 ? 0 : y > p->height - 1 ? p->height - 1 : y;
    x = x < 0 ? 0 : x > p->width - 1 ? p->width - 1 : x;
    int y0 = (int)y, x0 = (int)x, y1 = y0 + 1 < p->height ? y0 + 1 : y0, x1 = x0 + 1 < p->width ? x0 + 1 : x0;
    double fy = y - y0, fx = x - x0;
    for (int c = 0; c < 3; c++) {
        double above = (1 - fx) * p->rgb[3 * (y0 * p->width + x0) + c] + fx * p->rgb[3 * (y0 * p->width + x1) + c];
        double below = (1 - fx) * p->rgb[3 * (y1 * p->width + x0) + c] + fx * p->rgb[3 * (y1 * p->width + x1) + c];
        rgb[c] = (float)(((1 - fy) * above + fy * below) / 255);
    }
}

/* The smallest scaled size that still covers the crop. */
static void choose_scale(int64_t height, int64_t width, int *w, int *h)
{
    int count, full_w = *w, full_h = *h;
    const tjscalingfactor *factors = tjGetScalingFactors(&count);
    for (int i = 0; factors && i < count; i++) {
        int sw = TJSCALED(full_w, factors[i]), sh = TJSCALED(full_h, factors[i]);
        if (factors[i].num > factors[i].denom || sw < width || sh < height || sw >= *w) continue;
        *w = sw;
        *h = sh;
    }
}

static psgd_status decode(tjhandle handle, const char *path, const unsigned char *bytes, int64_t count, int64_t height,
                          int64_t width, unsigned char **rgb, int *w, int *h)
{
    int subsampling, colours;
    if (tjDecompressHeader3(handle, bytes, (unsigned long)count, w, h, &subsampling, &colours)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not a JPEG that can be read: %s", path, tjGetErrorStr2(handle));
    }
    if (*w < 1 || *h < 1) return psgd__fail(PSGD_ERR_FORMAT, "%s ends before its picture begins", path);
    choose_scale(height, width, w, h);
    *rgb = malloc((size_t)*w * (size_t)*h * 3);
    if (!*rgb) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the picture %s", path);
    bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
    if (cmyk) return psgd__fail(PSGD_ERR_UNSUPPORTED, "%s is a CMYK picture", path);
    if (tjDecompress2(handle, bytes, (unsigned long)count, *rgb, *w, 0, *h, TJPF_RGB, TJFLAG_ACCURATEDCT) &&
        tjGetErrorCode(handle) == TJERR_FATAL) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is damaged: %s", path, tjGetErrorStr2(handle));
    }
    return PSGD_OK;
}

static psgd_status read_one(const image_source *self, const char *path, int64_t n, int64_t j, float *x)
{
    unsigned char *bytes = NULL, *rgb = NULL;
    int64_t count, height = self->base.sample[1], width = self->base.sample[2];
    int w = 0, h = 0;
    tjhandle handle = tjInitDecompress();
    psgd_status status = handle ? psgd__file_read(self->base.context, path, &bytes, &count)
                                : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to decode %s", path);
    if (status == PSGD_OK) status = decode(handle, path, bytes, count, height, width, &rgb, &w, &h);
    if (status == PSGD_OK) {
        double scale_y = (double)h / (double)height, scale_x = (double)w / (double)width;
        double scale = scale_y < scale_x ? scale_y : scale_x;
        picture p = {rgb, w, h, scale, (h - scale * (double)height) / 2, (w - scale * (double)width) / 2};
        for (int64_t at = 0; at < height * width; at++) {
            float pixel[3];
            sample_pixel(&p, at / width, at % width, pixel);
            for (int c = 0; c < 3; c++) x[(c * height * width + at) * n + j] = pixel[c];
        }
    }
    free(rgb);
    psgd__free(self->base.context, bytes);
    if (handle) tjDestroy(handle);
    return status;
}

typedef struct reading {
    const image_source *self;
    const int64_t *index;
    int64_t n;
    float *x, *y;
    psgd_status *status;
    char (*sentence)[256];
} reading;

enum { MOST_AT_ONCE = 64 };

static void read_task(void *data, int64_t j)
{
    reading *r = data;
    const image_file *file = &r->self->files[r->self->kept[r->index[j]]];
    r->status[j % MOST_AT_ONCE] = read_one(r->self, file->path, r->n, j, r->x);
    if (r->status[j % MOST_AT_ONCE] != PSGD_OK) {
        snprintf(r->sentence[j % MOST_AT_ONCE], 256, "%.255s", psgd_last_error());
    }
    r->y[j] = (float)file->label;
}

typedef struct shifted {
    reading *all;
    int64_t from;
} shifted;

static void read_shifted(void *data, int64_t i)
{
    const shifted *s = data;
    read_task(s->all, s->from + i);
}

static psgd_status images_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    psgd_status status[MOST_AT_ONCE];
    char sentence[MOST_AT_ONCE][256];
    reading r = {(const image_source *)base, index, n, x, y, status, sentence};
    for (int64_t from = 0; from < n; from += MOST_AT_ONCE) {
        int64_t count = n - from < MOST_AT_ONCE ? n - from : MOST_AT_ONCE;
        psgd__la_parallel(count, 1e9, read_shifted, &(shifted){&r, from});
        for (int64_t i = 0; i < count; i++) {
            int64_t at = (from + i) % MOST_AT_ONCE;
            if (status[at] != PSGD_OK) return psgd__fail(status[at], "%s", sentence[at]);
        }
    }
    return PSGD_OK;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_jpeg(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static int is_plain_jpeg(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && is_jpeg(entry);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static psgd_status add_file(image_source *self, const char *path, int label)
{
    const psgd_context *context = self->base.context;
    if (self->file_count == self->file_room) {
        int64_t room = self->file_room ? 2 * self->file_room : 1024;
        image_file *grown = psgd__alloc(context, room, sizeof *grown);
        if (!grown) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of pictures");
        if (self->files) memcpy(grown, self->files, (size_t)self->file_count * sizeof *grown);
        psgd__free(context, self->files);
        self->files = grown;
        self->file_room = room;
    }
    char *copy = psgd__strdup(context, path);
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of pictures");
    self->files[self->file_count++] = (image_file){copy, label};
    return PSGD_OK;
}

static psgd_status add_class(image_source *self, const char *folder, int label)
{
    struct dirent **names;
    char path[4096];
    int count = scandir(folder, &names, is_plain_jpeg, alphasort);
    psgd_status status = count > 0 ? PSGD_OK
                                   : psgd__fail(PSGD_ERR_FORMAT, "the class folder %s has no .jpg or .jpeg", folder);
    for (int i = 0; i < count; i++) {
        int used = snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (status == PSGD_OK && used < (int)sizeof path) status = add_file(self, path, label);
        free(names[i]);
    }
    if (count >= 0) free(names);
    return status;
}

static psgd_status list_folder(image_source *self, const char *folder)
{
    struct dirent **names;
    char path[4096];
    int count = scandir(folder, &names, is_visible, alphasort);
    if (count < 0) return psgd__fail(PSGD_ERR_IO, "cannot read the folder %s", folder);
    psgd_status status = PSGD_OK;
    for (int i = 0; i < count; i++) {
        int used = snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        bool class = used < (int)sizeof path && is_folder(path);
        if (status == PSGD_OK && class) status = add_class(self, path, (int)self->base.classes++);
        free(names[i]);
    }
    free(names);
    if (status == PSGD_OK && self->base.classes == 0) {
        status = psgd__fail(PSGD_ERR_FORMAT, "there are no class folders in %s", folder);
    }
    return status;
}

/* folder/train or folder/test or folder/val where there are such, else folder itself, of which a share is held out. */
static psgd_status fill(image_source *self, const char *folder, source_split split, const source_settings *settings)
{
    char path[4096], other[4096];
    snprintf(path, sizeof path, "%s/train", folder);
    bool split_by_folder = is_folder(path);
    if (split_by_folder && split == SPLIT_TEST) {
        snprintf(path, sizeof path, "%s/test", folder);
        snprintf(other, sizeof other, "%s/val", folder);
        if (!is_folder(path)) memcpy(path, other, sizeof path);
    }
    PSGD_TRY(list_folder(self, split_by_folder ? path : folder));
    self->kept = psgd__alloc(self->base.context, self->file_count, sizeof *self->kept);
    if (!self->kept) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of pictures");
    double share = split_by_folder ? (split == SPLIT_TEST ? 1 : 0) : settings->holdout;
    self->base.count = psgd__source_hold_out(settings->seed, share, split, self->file_count, self->kept);
    if (self->base.count > 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "%s: holding out a share of %g of %lld pictures leaves nothing", folder,
                      settings->holdout, (long long)self->file_count);
}

static psgd_status images_open(const psgd_context *context, const char *argument, source_split split,
                               const source_settings *settings, source **opened)
{
    image_source *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source images");
    int64_t height = settings->height ? settings->height : 32, width = settings->width ? settings->width : 32;
    self->base = (source){.context = context,
                          .modes = 3,
                          .sample = {3, height, width},
                          .features = 3 * height * width,
                          .read = images_read,
                          .close = images_close};
    psgd_status status = fill(self, argument, split, settings);
    if (status != PSGD_OK) {
        images_close(&self->base);
        return status;
    }
    *opened = &self->base;
    return PSGD_OK;
}

const source_kind psgd__source_images = {
    .name = "images",
    .argument = "DIR",
    .summary = "JPEGs in class folders, DIR/train/CLASS/*.jpg and DIR/test/.., or DIR/CLASS/..",
    .open = images_open,
};
