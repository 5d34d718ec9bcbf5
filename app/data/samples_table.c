#include "data/samples_table.h"
#include "core/checksum.h"

#include <math.h>

typedef struct samples_table {
    source base;
    samples_type type;
    void *x, *y;
    int64_t *kept; /* the rows of this split; NULL: all of them */
} samples_table;

static float value_at(samples_type type, const void *values, int64_t i)
{
    return type == SAMPLES_BYTE ? (float)((const unsigned char *)values)[i] : ((const float *)values)[i];
}

static psgd_status table_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const samples_table *self = (const samples_table *)base;
    float scale = self->type == SAMPLES_BYTE ? 255 : 1;
    for (int64_t j = 0; j < n; j++) {
        int64_t row = self->kept ? self->kept[index[j]] : index[j], at = row * base->features;
        for (int64_t i = 0; i < base->features; i++) x[i * n + j] = value_at(self->type, self->x, at + i) / scale;
        y[j] = value_at(self->type, self->y, row);
    }
    return PSGD_OK;
}

static void table_close(source *base)
{
    samples_table *self = (samples_table *)base;
    psgd__free(base->context, self->x);
    psgd__free(base->context, self->y);
    psgd__free(base->context, self->kept);
    psgd__free(base->context, self);
}

/* As many as the largest label says where all are whole numbers from 0, else 1: y is a number. */
static int64_t count_classes(samples_type type, int64_t count, const void *y)
{
    float max = 0;
    for (int64_t i = 0; i < count; i++) {
        float label = value_at(type, y, i);
        if (label < 0 || label != floorf(label) || label > 1e6f) return 1;
        max = label > max ? label : max;
    }
    return (int64_t)max + 1;
}

/* How many of the classes are the label of a sample; -1 without memory. */
static int64_t count_occurring(const psgd_context *context, int64_t classes, int64_t count, const float *y)
{
    bool *seen = psgd__alloc(context, classes, sizeof *seen);
    int64_t occurring = 0;
    if (!seen) return -1;
    for (int64_t i = 0; i < count; i++) seen[(int64_t)y[i]] = true;
    for (int64_t k = 0; k < classes; k++) occurring += seen[k];
    psgd__free(context, seen);
    return occurring;
}

static uint64_t checksum_of(samples_type type, int64_t features, int64_t count, const void *x, const void *y)
{
    int64_t element = type == SAMPLES_BYTE ? 1 : sizeof(float);
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, x, features * count * element);
    return psgd__checksum_add(sum, y, count * element);
}

psgd_status psgd__samples_open(const source_request *request, samples_type type, int ndim, const int64_t *sample,
                               int64_t count, void *x, void *y, source **opened)
{
    const psgd_context *context = request->context;
    const source_settings *settings = request->settings;
    samples_table *self = psgd__alloc(context, 1, sizeof *self);
    int64_t *kept = type == SAMPLES_FLOAT ? psgd__alloc(context, count, sizeof *kept) : NULL;
    if (!self || (type == SAMPLES_FLOAT && !kept)) {
        void *all[] = {self, kept, x, y};
        for (int i = 0; i < 4; i++) psgd__free(context, all[i]);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the source %s", request->kind->name);
    }
    *self = (samples_table){.type = type, .x = x, .y = y, .kept = kept};
    source *base = &self->base;
    *base = (source){.context = context, .ndim = ndim, .features = 1, .read = table_read, .close = table_close};
    for (int i = 0; i < ndim; i++) {
        base->sample[i] = sample[i];
        base->features *= sample[i];
    }
    base->checksum = checksum_of(type, base->features, count, x, y);
    base->classes = base->occurring = settings->regression ? 1 : count_classes(type, count, y);
    if (base->classes > 1 && type == SAMPLES_FLOAT) {
        base->occurring = count_occurring(context, base->classes, count, y);
    }
    if (base->occurring < 0) {
        table_close(base);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the classes of the source %s", request->kind->name);
    }
    base->count = kept ? psgd__source_hold_out(settings->seed, settings->holdout, request->split, count, kept) : count;
    if (base->count < 1) {
        table_close(base);
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "%s: holding out a share of %g of %lld samples leaves none to %s; another --holdout may help",
                          request->argument, settings->holdout, (long long)count,
                          request->split == SPLIT_TEST ? "test" : "train on");
    }
    *opened = base;
    return PSGD_OK;
}
