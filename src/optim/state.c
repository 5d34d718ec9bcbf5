/* All of an optimizer's state as one block of bytes, and that block as a file:
 *
 *   header | shapes | the method's slab | the state of each preconditioner | checksum
 *
 * Values are stored as in memory, so training resumes bit-for-bit. Everything is checked before anything changes;
 * should a part still not fit, the former state is restored. */
#include "optim/optim.h"
#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = "psgdopt1";

typedef struct state_header {
    char magic[8], method[24];
    int64_t bytes; /* of the file */
    int64_t dtype, parts, total, state_size, seed;
    optim_counters now;
} state_header;

typedef struct shape_record {
    int64_t ndim, shape[OPTIM_MAX_DIMS], precond_bytes;
} shape_record;

static int64_t slab_bytes(const psgd_optimizer *self)
{
    return self->state_size * (int64_t)psgd_dtype_size(self->dtype);
}

static int64_t image_bytes(const psgd_optimizer *self)
{
    int64_t bytes = (int64_t)(sizeof(state_header) + sizeof(uint64_t)) + slab_bytes(self);
    for (int i = 0; i < self->part_count; i++) {
        bytes += (int64_t)sizeof(shape_record) + psgd_precond_state_bytes(self->parts[i].precond);
    }
    return bytes + psgd_precond_state_bytes(self->joint);
}

static state_header make_header(const psgd_optimizer *self)
{
    state_header head;
    memset(&head, 0, sizeof head); /* padding too: it is part of the checksum */
    memcpy(head.magic, magic, sizeof magic);
    snprintf(head.method, sizeof head.method, "%s", self->kind->name);
    head.bytes = image_bytes(self);
    head.dtype = self->dtype;
    head.parts = self->part_count;
    head.total = self->total;
    head.state_size = self->state_size;
    head.seed = self->settings.seed;
    head.now = self->now;
    return head;
}

static shape_record make_shape(const part *p)
{
    shape_record record = {.ndim = p->tensor.ndim, .precond_bytes = psgd_precond_state_bytes(p->precond)};
    memcpy(record.shape, p->shape, sizeof record.shape);
    return record;
}

int64_t psgd_optimizer_state_bytes(const psgd_optimizer *self)
{
    return self ? image_bytes(self) : 0;
}

psgd_status psgd_optimizer_state_save(const psgd_optimizer *self, void *bytes)
{
    if (!self || !bytes) return psgd__fail(PSGD_ERR_ARGUMENT, "state_save needs an optimizer and a buffer");
    state_header head = make_header(self);
    char *at = bytes;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int i = 0; i < self->part_count; i++, at += sizeof(shape_record)) {
        shape_record record = make_shape(&self->parts[i]);
        memcpy(at, &record, sizeof record);
    }
    memcpy(at, self->state, (size_t)slab_bytes(self));
    at += slab_bytes(self);
    for (int i = 0; i < self->part_count; i++) {
        const psgd_precond *precond = self->parts[i].precond;
        if (!precond) continue;
        PSGD_TRY(psgd_precond_state_save(precond, at));
        at += psgd_precond_state_bytes(precond);
    }
    if (self->joint) {
        PSGD_TRY(psgd_precond_state_save(self->joint, at));
        at += psgd_precond_state_bytes(self->joint);
    }
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, bytes, at - (char *)bytes);
    memcpy(at, &sum, sizeof sum);
    return PSGD_OK;
}

static psgd_status make_image(const psgd_optimizer *self, char **image)
{
    int64_t bytes = image_bytes(self);
    *image = psgd__alloc(self->context, bytes, 1);
    if (!*image) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of state", (long long)bytes);
    return psgd_optimizer_state_save(self, *image);
}

psgd_status psgd_optimizer_save(const psgd_optimizer *self, const char *path)
{
    if (!self || !path) return psgd__fail(PSGD_ERR_ARGUMENT, "save needs an optimizer and a path");
    char *image = NULL;
    file_writer file;
    psgd_status status = make_image(self, &image);
    if (status == PSGD_OK) status = psgd__file_create(self->context, path, &file);
    if (status == PSGD_OK) {
        status = psgd__file_write(&file, image, image_bytes(self));
        if (status == PSGD_OK) {
            status = psgd__file_publish(&file);
        } else {
            psgd__file_abandon(&file);
        }
    }
    psgd__free(self->context, image);
    return status;
}

/* The size, the header and the checksum. */
static psgd_status check_bytes(const void *image, int64_t bytes)
{
    uint64_t sum;
    state_header head;
    if (bytes < (int64_t)(sizeof head + sizeof sum)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%lld bytes are not the state of an optimizer", (long long)bytes);
    }
    int64_t body = bytes - (int64_t)sizeof sum;
    memcpy(&head, image, sizeof head);
    memcpy(&sum, (const char *)image + body, sizeof sum);
    if (memcmp(head.magic, magic, sizeof magic) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "these bytes are not the state of an optimizer");
    }
    if (head.bytes != bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state should have %lld bytes and has %lld: it is truncated or damaged",
                          (long long)head.bytes, (long long)bytes);
    }
    if (psgd__checksum_add(CHECKSUM_START, image, body) != sum) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: its checksum is wrong");
    }
    return PSGD_OK;
}

static psgd_status check_image(const psgd_optimizer *self, const char *image)
{
    state_header head, own = make_header(self);
    memcpy(&head, image, sizeof head);
    head.method[sizeof head.method - 1] = 0;
    if (strcmp(head.method, own.method)) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is of %s, not of %s", head.method, own.method);
    }
    if (head.dtype != own.dtype || head.parts != own.parts || head.total != own.total) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "the state is of %lld tensors with %lld numbers of type %s, not of %lld "
                          "with %lld of type %s",
                          (long long)head.parts, (long long)head.total, psgd_dtype_name((psgd_dtype)head.dtype),
                          (long long)own.parts, (long long)own.total, psgd_dtype_name(self->dtype));
    }
    for (int i = 0; i < self->part_count; i++) {
        shape_record record = make_shape(&self->parts[i]);
        if (memcmp(image + sizeof head + (size_t)i * sizeof record, &record, sizeof record) != 0) {
            return psgd__fail(PSGD_ERR_FORMAT, "the state has another shape or group for tensor %d", i);
        }
    }
    if (head.state_size != own.state_size || head.bytes != own.bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state was saved with other options of %s", own.method);
    }
    return PSGD_OK;
}

static psgd_status put_image(psgd_optimizer *self, const char *image)
{
    state_header head;
    memcpy(&head, image, sizeof head);
    const char *slab = image + sizeof head + (size_t)self->part_count * sizeof(shape_record);
    const char *at = slab + slab_bytes(self);
    for (int i = 0; i < self->part_count; i++) {
        psgd_precond *precond = self->parts[i].precond;
        if (!precond) continue;
        int64_t count = psgd_precond_state_bytes(precond);
        psgd_status status = psgd_precond_state_load(precond, count, at);
        if (status != PSGD_OK) return psgd__fail_in(status, "tensor %d", i);
        at += count;
    }
    if (self->joint) PSGD_TRY(psgd_precond_state_load(self->joint, psgd_precond_state_bytes(self->joint), at));
    memcpy(self->state, slab, (size_t)slab_bytes(self));
    self->now = head.now;
    self->settings.seed = head.seed;
    return PSGD_OK;
}

psgd_status psgd_optimizer_state_load(psgd_optimizer *self, int64_t bytes, const void *image)
{
    if (!self || !image) return psgd__fail(PSGD_ERR_ARGUMENT, "state_load needs an optimizer and bytes");
    char *before = NULL;
    PSGD_TRY(check_bytes(image, bytes));
    PSGD_TRY(check_image(self, image));
    psgd_status status = make_image(self, &before);
    if (status == PSGD_OK) {
        status = put_image(self, image);
        if (status != PSGD_OK) (void)put_image(self, before); /* it was made from this very object */
    }
    psgd__free(self->context, before);
    return status;
}

static psgd_status read_file(const psgd_context *context, const char *path, char **image, int64_t *bytes)
{
    FILE *stream = fopen(path, "rb");
    if (!stream) return psgd__fail(PSGD_ERR_IO, "cannot open %s", path);
    psgd_status status = PSGD_OK;
    *bytes = fseeko(stream, 0, SEEK_END) ? -1 : (int64_t)ftello(stream);
    rewind(stream);
    if (*bytes < 0) {
        status = psgd__fail(PSGD_ERR_IO, "cannot read %s", path);
    } else if (!(*image = psgd__alloc(context, *bytes, 1))) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the %lld bytes of %s", (long long)*bytes, path);
    } else if (fread(*image, 1, (size_t)*bytes, stream) != (size_t)*bytes) {
        status = psgd__fail(PSGD_ERR_IO, "cannot read %s", path);
    }
    fclose(stream);
    return status;
}

psgd_status psgd_optimizer_load(psgd_optimizer *self, const char *path)
{
    if (!self || !path) return psgd__fail(PSGD_ERR_ARGUMENT, "load needs an optimizer and a path");
    char *image = NULL;
    int64_t bytes = 0;
    psgd_status status = read_file(self->context, path, &image, &bytes);
    if (status == PSGD_OK) {
        status = psgd_optimizer_state_load(self, bytes, image);
        if (status != PSGD_OK) status = psgd__fail_in(status, "%s", path);
    }
    psgd__free(self->context, image);
    return status;
}
