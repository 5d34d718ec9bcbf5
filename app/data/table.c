#include "data/table.h"

#include <math.h>

typedef struct table_source {
    source base;
    float *x, *y;
    int64_t *kept; /* the rows of this split */
} table_source;

static psgd_status table_read(source *base, int64_t n, const int64_t *index, float *x, float *y)
{
    const table_source *self = (const table_source *)base;
    for (int64_t j = 0; j < n; j++) {
        int64_t row = self->kept[index[j]];
        for (int64_t i = 0; i < base->features; i++) x[i * n + j] = self->x[row * base->features + i];
        y[j] = self->y[row];
    }
    return PSGD_OK;
}

static void table_close(source *base)
{
    table_source *self = (table_source *)base;
    psgd__free(base->context, self->x);
    psgd__free(base->context, self->y);
    psgd__free(base->context, self->kept);
    psgd__free(base->context, self);
}

/* As many as the largest label says where all are whole numbers from 0, else 1: y is a number. */
static int64_t count_classes(int64_t count, const float *y)
{
    float max = 0;
    for (int64_t i = 0; i < count; i++) {
        if (y[i] < 0 || y[i] != floorf(y[i]) || y[i] > 1e6f) return 1;
        max = y[i] > max ? y[i] : max;
    }
    return (int64_t)max + 1;
}

psgd_status psgd__table_open(const psgd_context *context, const char *what, int ndim, const int64_t *sample,
                             int64_t count, float *x, float *y, source_split split, const source_settings *settings,
                             source **opened)
{
    table_source *self = psgd__alloc(context, 1, sizeof *self);
    int64_t *kept = psgd__alloc(context, count, sizeof *kept);
    if (!self || !kept) {
        void *all[] = {self, kept, x, y};
        for (int i = 0; i < 4; i++) psgd__free(context, all[i]);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %s", what);
    }
    *self = (table_source){.base = {.context = context, .ndim = ndim, .features = 1}, .x = x, .y = y, .kept = kept};
    source *base = &self->base;
    base->read = table_read;
    base->close = table_close;
    for (int i = 0; i < ndim; i++) {
        base->sample[i] = sample[i];
        base->features *= sample[i];
    }
    base->classes = count_classes(count, y);
    base->count = psgd__source_hold_out(settings->seed, settings->holdout, split, count, kept);
    if (base->count < 1) {
        table_close(base);
        return psgd__fail(PSGD_ERR_ARGUMENT, "%s: holding out a share of %g of %lld samples leaves nothing", what,
                          settings->holdout, (long long)count);
    }
    *opened = base;
    return PSGD_OK;
}
