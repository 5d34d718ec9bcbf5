/* Tensors as segments of one vector: gathered into the workspace, where the ordinary calls find them. */
#include "precond/precond.h"
#include <psgd/joint.h>

#include <string.h>

static psgd_status total_of(int count, const int64_t *sizes, int64_t *total)
{
    *total = 0;
    if (count < 1 || !sizes) return psgd__fail(PSGD_ERR_ARGUMENT, "a joint preconditioner needs at least one tensor");
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 1 || !psgd__add_fits(*total, sizes[i], total)) {
            return psgd__fail(PSGD_ERR_ARGUMENT,
                              "tensor %d has %lld elements; it must have at least 1, and all of them "
                              "together a number that can be counted",
                              i, (long long)sizes[i]);
        }
    }
    return PSGD_OK;
}

psgd_status psgd_precond_create_joint(const psgd_context *context, const char *source, int count, const int64_t *sizes,
                                      psgd_dtype dtype, const psgd_options *options, psgd_precond **precond)
{
    if (!precond) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_precond_create_joint: precond is NULL");
    *precond = NULL;
    precond_settings settings = {0};
    PSGD_TRY(psgd__precond_read(dtype, options, &settings));
    int64_t total;
    PSGD_TRY(total_of(count, sizes, &total));
    precond_segments segments = {.count = count, .sizes = psgd__alloc(context, count, sizeof sizes[0])};
    if (!segments.sizes) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the sizes of %d tensors", count);
    memcpy(segments.sizes, sizes, (size_t)count * sizeof sizes[0]);
    return psgd__precond_create(context, source, 1, &total, dtype, &settings, NULL, &segments, precond);
}

/* The gathered vector at this place of the workspace. */
static char *gather(const psgd_precond *self, int64_t place, const void *const *from)
{
    char *all = psgd__work_at(self->work, place), *at = all;
    for (int i = 0; i < self->segments.count; i++) {
        size_t bytes = (size_t)self->segments.sizes[i] * psgd_dtype_size(self->dtype);
        memcpy(at, from[i], bytes);
        at += bytes;
    }
    return all;
}

static psgd_status check_segments(const psgd_precond *self, const void *const *x, const char *name)
{
    if (!self || self->segments.count == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "segments are for a preconditioner from psgd_precond_create_joint");
    }
    if (!x) return psgd__fail(PSGD_ERR_ARGUMENT, "%s is missing", name);
    for (int i = 0; i < self->segments.count; i++) {
        if (!x[i]) return psgd__fail(PSGD_ERR_ARGUMENT, "%s of tensor %d is NULL", name, i);
    }
    return PSGD_OK;
}

/* v, where it is not integrated out, and h. */
static psgd_status gather_pair(const psgd_precond *self, const void *const *v, const void *const *h, char *gathered[2])
{
    PSGD_TRY(check_segments(self, h, "h"));
    bool with_v = !self->settings.integrate;
    if (with_v) PSGD_TRY(check_segments(self, v, "v"));
    gathered[0] = with_v ? gather(self, self->segments.at_v, v) : NULL;
    gathered[1] = gather(self, self->segments.at_h, h);
    return PSGD_OK;
}

psgd_status psgd_precond_update_segments(psgd_precond *self, const void *const *v, const void *const *h)
{
    char *pair[2];
    PSGD_TRY(gather_pair(self, v, h, pair));
    return psgd_precond_update(self, pair[0], pair[1]);
}

psgd_status psgd_precond_criterion_segments(psgd_precond *self, const void *const *v, const void *const *h,
                                            double *value)
{
    char *pair[2];
    PSGD_TRY(gather_pair(self, v, h, pair));
    return psgd_precond_criterion(self, pair[0], pair[1], value);
}

psgd_status psgd_precond_apply_segments(psgd_precond *self, psgd_operator what, const void *const *x, void *const *y)
{
    PSGD_TRY(check_segments(self, x, "x"));
    PSGD_TRY(check_segments(self, (const void *const *)y, "y"));
    char *all = gather(self, self->segments.at_h, x), *at = all;
    PSGD_TRY(psgd_precond_apply(self, what, all, all));
    for (int i = 0; i < self->segments.count; i++) {
        size_t bytes = (size_t)self->segments.sizes[i] * psgd_dtype_size(self->dtype);
        memcpy(y[i], at, bytes);
        at += bytes;
    }
    return PSGD_OK;
}

int psgd_precond_segment_count(const psgd_precond *self)
{
    return self ? self->segments.count : 0;
}

int64_t psgd_precond_segment_size(const psgd_precond *self, int segment)
{
    return segment >= 0 && segment < psgd_precond_segment_count(self) ? self->segments.sizes[segment] : 0;
}
