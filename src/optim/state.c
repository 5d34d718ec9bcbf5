/* The state of an optimizer as bytes, in sections:
 *
 *   shared:    header | counters | a joint preconditioner | checksum
 *   a tensor:  header | the method's state | its preconditioner | checksum
 *
 * With the option delay the pairs in flight follow each preconditioner.
 *
 * The whole state is all sections in order, and a file is the whole state. Values are stored as in memory, so training
 * resumes bit-for-bit. Everything is checked before anything changes; should a part still not fit, the former state is
 * restored. */
#include "optim/optim.h"
#include "comm/comm.h"
#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = "psgdopt2";

typedef struct section_header {
    char magic[8], method[24];
    int64_t bytes; /* of the section */
    int64_t dtype, tensors, size;
    int64_t seed;                        /* shared */
    int64_t ndim, shape[OPTIM_MAX_DIMS]; /* of a tensor */
    int64_t state_bytes, precond_bytes;  /* of what follows */
    int64_t steps, taken;                /* of a tensor */
} section_header;

/* What a section holds, apart from its header. */
typedef struct section {
    void *state;
    psgd_precond *precond;
    int64_t in_force; /* bytes of its state; those of pairs in flight follow */
    section_header head;
} section;

static section section_of(const psgd_optimizer *self, int tensor)
{
    section s;
    memset(&s, 0, sizeof s); /* padding too: it is part of the checksum */
    section_header *head = &s.head;
    memcpy(head->magic, magic, sizeof magic);
    snprintf(head->method, sizeof head->method, "%s", self->kind->name);
    head->dtype = self->dtype;
    if (tensor == PSGD_SHARED_STATE) {
        s.state = (void *)&self->now;
        s.precond = self->joint;
        s.in_force = psgd_precond_state_bytes(self->joint);
        head->tensors = self->part_count;
        head->size = self->total;
        head->seed = self->settings.seed;
        head->state_bytes = sizeof self->now;
    } else {
        const part *p = &self->parts[tensor];
        s.state = p->state;
        s.precond = p->precond;
        s.in_force = p->precond ? psgd_precond_state_bytes(p->precond) : p->precond_bytes;
        head->tensors = 1;
        head->size = p->n;
        head->ndim = p->ndim;
        memcpy(head->shape, p->shape, sizeof head->shape);
        head->state_bytes = p->state_size * (int64_t)psgd_dtype_size(self->dtype);
        head->steps = p->steps;
        head->taken = p->taken;
    }
    head->precond_bytes = s.in_force + psgd__async_bytes(self, s.in_force);
    head->bytes = (int64_t)(sizeof *head + sizeof(uint64_t)) + head->state_bytes + head->precond_bytes;
    return s;
}

static bool exists(const psgd_optimizer *self, int tensor)
{
    return self && tensor >= PSGD_SHARED_STATE && tensor < self->part_count;
}

int64_t psgd_optimizer_tensor_state_bytes(const psgd_optimizer *self, int tensor)
{
    return exists(self, tensor) ? section_of(self, tensor).head.bytes : 0;
}

/* A section as this rank has it. */
static psgd_status save_section(const psgd_optimizer *self, int tensor, void *bytes)
{
    PSGD_TRY(psgd__async_drain((psgd_optimizer *)self));
    section s = section_of(self, tensor);
    char *at = bytes;
    memcpy(at, &s.head, sizeof s.head);
    at += sizeof s.head;
    if (s.head.state_bytes) memcpy(at, s.state, (size_t)s.head.state_bytes);
    at += s.head.state_bytes;
    if (s.precond) PSGD_TRY(psgd_precond_state_save(s.precond, at));
    if (s.in_force) PSGD_TRY(psgd__async_save(self, tensor < 0 ? 0 : tensor, s.in_force, at + s.in_force));
    at += s.head.precond_bytes;
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, bytes, at - (char *)bytes);
    memcpy(at, &sum, sizeof sum);
    return PSGD_OK;
}

/* All ranks. The section of a tensor that another rank owns comes from there to rank 0. */
static psgd_status fetch_section(const psgd_optimizer *self, int tensor, void *bytes)
{
    psgd_comm *comm = self->ranks->comm;
    int owner = self->parts[tensor].owner;
    int64_t count = psgd_optimizer_tensor_state_bytes(self, tensor);
    bool sends = psgd_comm_rank(comm) == owner;
    psgd_status status = PSGD_OK;
    char *own = sends ? psgd__alloc(self->context, count, 1) : NULL;
    if (sends) {
        status = own ? save_section(self, tensor, own)
                     : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of state", (long long)count);
    }
    status = psgd_comm_agree(comm, status);
    if (status == PSGD_OK) status = psgd__comm_send(comm, owner, 0, count, sends ? own : bytes);
    psgd__free(self->context, own);
    return status;
}

/* All ranks. A section as rank 0 has it, with the tiles that others have. */
static psgd_status save_tiles(const psgd_optimizer *self, int tensor, char *bytes)
{
    psgd_comm *comm = self->ranks->comm;
    bool first = psgd_comm_rank(comm) == 0;
    section_header head = section_of(self, tensor).head;
    char *state = bytes ? bytes + sizeof head : NULL, *precond = bytes ? state + head.state_bytes : NULL;
    PSGD_TRY(psgd_comm_agree(comm, first ? save_section(self, tensor, bytes) : PSGD_OK));
    PSGD_TRY(psgd__ranks_fetch_tiles(self, tensor, state, precond));
    if (!first) return PSGD_OK;
    int64_t body = head.bytes - (int64_t)sizeof(uint64_t);
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, bytes, body);
    memcpy(bytes + body, &sum, sizeof sum);
    return PSGD_OK;
}

psgd_status psgd_optimizer_tensor_state_save(const psgd_optimizer *self, int tensor, void *bytes)
{
    bool first = self && (!self->ranks || psgd_comm_rank(self->ranks->comm) == 0);
    if (!exists(self, tensor) || (first && !bytes)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "state_save needs an optimizer, one of its tensors (not %d) and a buffer",
                          tensor);
    }
    PSGD_TRY(psgd__async_drain((psgd_optimizer *)self)); /* all ranks: replies may be under way to each of them */
    if (self->ranks && tensor >= 0 && self->parts[tensor].spread) return save_tiles(self, tensor, bytes);
    if (self->ranks && tensor >= 0 && self->parts[tensor].owner > 0) return fetch_section(self, tensor, bytes);
    return first ? save_section(self, tensor, bytes) : PSGD_OK;
}

/* A section at the start of these bytes is whole. */
static psgd_status check_bytes(const char *bytes, int64_t count, section_header *head)
{
    uint64_t sum;
    if (count >= (int64_t)(sizeof *head + sizeof sum)) memcpy(head, bytes, sizeof *head);
    if (count < (int64_t)(sizeof *head + sizeof sum) || memcmp(head->magic, magic, sizeof magic) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "these %lld bytes are not the state of an optimizer", (long long)count);
    }
    if (head->bytes > count || head->bytes < (int64_t)(sizeof *head + sizeof sum)) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state should have %lld bytes and has %lld: it is truncated or damaged",
                          (long long)head->bytes, (long long)count);
    }
    int64_t body = head->bytes - (int64_t)sizeof sum;
    memcpy(&sum, bytes + body, sizeof sum);
    return psgd__checksum_add(CHECKSUM_START, bytes, body) == sum
               ? PSGD_OK
               : psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: its checksum is wrong");
}

static bool is_count(int64_t count)
{
    return count >= 0 && count <= INT64_C(1) << 53;
}

/* Counters that an optimizer can have. In integer, methods keep positions in rings of settings.memory entries. */
static bool are_counters(const psgd_optimizer *self, const char *bytes)
{
    optim_counters now;
    memcpy(&now, bytes, sizeof now);
    bool sane = is_count(now.step) && is_count(now.skipped) && is_count(now.skipped_in_row) &&
                is_count(now.evaluations) && is_count(now.products) && is_count(now.fits) &&
                !isnan(now.best_validation) && isfinite(now.plateau);
    for (int i = 0; i < 16; i++) sane = sane && !isnan(now.scalar[i]);
    for (int i = 0; i < 8; i++) sane = sane && now.integer[i] >= 0 && now.integer[i] <= self->settings.memory;
    return sane;
}

static bool are_finite(psgd_dtype dtype, int64_t bytes, const char *state)
{
    int64_t size = (int64_t)psgd_dtype_size(dtype);
    for (int64_t i = 0; i < bytes; i += size) {
        double wide;
        float single;
        memcpy(dtype == PSGD_F64 ? (void *)&wide : (void *)&single, state + i, (size_t)size);
        if (!isfinite(dtype == PSGD_F64 ? wide : (double)single)) return false;
    }
    return true;
}

/* Refuses values that no optimizer can have, although the checksum is valid. */
static psgd_status check_values(const psgd_optimizer *self, int tensor, const section_header *head, const char *state)
{
    bool sane = tensor == PSGD_SHARED_STATE ? are_counters(self, state)
                                            : is_count(head->steps) && is_count(head->taken) &&
                                                  are_finite(self->dtype, head->state_bytes, state);
    return sane ? PSGD_OK : psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: it holds values that no state has");
}

/* The section is of an optimizer and a tensor like this one. */
static psgd_status check_section(const psgd_optimizer *self, int tensor, const char *bytes, int64_t count)
{
    section_header head, own = section_of(self, tensor).head;
    PSGD_TRY(check_bytes(bytes, count, &head));
    head.method[sizeof head.method - 1] = 0;
    if (strcmp(head.method, own.method)) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is of %s, not of %s", head.method, own.method);
    }
    if (head.dtype != own.dtype || head.tensors != own.tensors || head.size != own.size) {
        return psgd__fail(
            PSGD_ERR_FORMAT,
            "the state is of %lld tensors with %lld elements of type %s, not of %lld with %lld of type %s",
            (long long)head.tensors, (long long)head.size, head.dtype == PSGD_F64 ? "f64" : "f32",
            (long long)own.tensors, (long long)own.size, psgd_dtype_name(self->dtype));
    }
    if (head.ndim != own.ndim || memcmp(head.shape, own.shape, sizeof own.shape) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is of a tensor of another shape");
    }
    if (head.state_bytes != own.state_bytes || head.precond_bytes != own.precond_bytes || head.bytes != own.bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state was saved with another group or other options of %s", own.method);
    }
    return check_values(self, tensor, &head, bytes + sizeof head);
}

static psgd_status load_section(psgd_optimizer *self, int tensor, const char *bytes)
{
    PSGD_TRY(psgd__async_drain(self));
    section s = section_of(self, tensor);
    section_header head;
    memcpy(&head, bytes, sizeof head);
    const char *state = bytes + sizeof head, *at = state + head.state_bytes;
    if (s.precond) PSGD_TRY(psgd_precond_state_load(s.precond, s.in_force, at));
    if (s.in_force) PSGD_TRY(psgd__async_load(self, tensor < 0 ? 0 : tensor, s.in_force, at + s.in_force));
    if (head.state_bytes) memcpy(s.state, state, (size_t)head.state_bytes);
    if (tensor == PSGD_SHARED_STATE) {
        self->settings.seed = head.seed;
    } else {
        self->parts[tensor].steps = head.steps;
        self->parts[tensor].taken = head.taken;
    }
    return PSGD_OK;
}

static psgd_status name_section(const psgd_optimizer *self, int tensor, psgd_status status)
{
    if (status == PSGD_OK || tensor == PSGD_SHARED_STATE) return status;
    return psgd__fail_in(status, "%s", self->parts[tensor].name);
}

/* These bytes are the sections from first to last, and nothing follows them. */
static psgd_status check_sections(const psgd_optimizer *self, int first, int last, int64_t count, const char *bytes)
{
    for (int i = first; i <= last; i++) {
        PSGD_TRY(name_section(self, i, check_section(self, i, bytes, count)));
        int64_t own = psgd_optimizer_tensor_state_bytes(self, i);
        bytes += own;
        count -= own;
    }
    if (count == 0) return PSGD_OK;
    return name_section(self, first, psgd__fail(PSGD_ERR_FORMAT, "the state is followed by something else"));
}

static psgd_status load_sections(psgd_optimizer *self, int first, int last, const char *bytes)
{
    for (int i = first; i <= last; i++) {
        PSGD_TRY(name_section(self, i, load_section(self, i, bytes)));
        bytes += psgd_optimizer_tensor_state_bytes(self, i);
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_tensor_state_load(psgd_optimizer *self, int tensor, int64_t count, const void *bytes)
{
    if (!exists(self, tensor) || !bytes) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "state_load needs an optimizer, one of its tensors (not %d) and bytes",
                          tensor);
    }
    PSGD_TRY(check_sections(self, tensor, tensor, count, bytes));
    return load_sections(self, tensor, tensor, bytes);
}

int64_t psgd_optimizer_state_bytes(const psgd_optimizer *self)
{
    int64_t bytes = 0;
    for (int i = PSGD_SHARED_STATE; self && i < self->part_count; i++) bytes += section_of(self, i).head.bytes;
    return bytes;
}

psgd_status psgd_optimizer_state_save(const psgd_optimizer *self, void *bytes)
{
    bool first = self && (!self->ranks || psgd_comm_rank(self->ranks->comm) == 0);
    if (!self || (first && !bytes)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "state_save needs an optimizer and a buffer");
    }
    char *at = bytes;
    for (int i = PSGD_SHARED_STATE; i < self->part_count; i++) {
        PSGD_TRY(psgd_optimizer_tensor_state_save(self, i, first ? at : NULL));
        if (first) at += psgd_optimizer_tensor_state_bytes(self, i);
    }
    return PSGD_OK;
}

/* Memory for the state. */
static psgd_status make_room(const psgd_optimizer *self, char **bytes)
{
    int64_t count = psgd_optimizer_state_bytes(self);
    *bytes = psgd__alloc(self->context, count, 1);
    return *bytes ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of state", (long long)count);
}

/* The state as far as this rank has it. */
static psgd_status copy_state(const psgd_optimizer *self, char **bytes)
{
    PSGD_TRY(make_room(self, bytes));
    char *at = *bytes;
    for (int i = PSGD_SHARED_STATE; i < self->part_count; i++) {
        PSGD_TRY(save_section(self, i, at));
        at += psgd_optimizer_tensor_state_bytes(self, i);
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_state_load(psgd_optimizer *self, int64_t count, const void *bytes)
{
    if (!self || !bytes) return psgd__fail(PSGD_ERR_ARGUMENT, "state_load needs an optimizer and bytes");
    int last = self->part_count - 1;
    char *before = NULL;
    psgd_status status = check_sections(self, PSGD_SHARED_STATE, last, count, bytes);
    if (status == PSGD_OK) status = copy_state(self, &before);
    bool changed = status == PSGD_OK;
    if (changed) status = load_sections(self, PSGD_SHARED_STATE, last, bytes);
    if (self->ranks) status = psgd_comm_agree(self->ranks->comm, status);
    /* before is a state of this very object, so loading it cannot fail. */
    if (changed && status != PSGD_OK) (void)load_sections(self, PSGD_SHARED_STATE, last, before);
    psgd__free(self->context, before);
    return status;
}

static psgd_status write_file(const psgd_optimizer *self, const char *path, const char *bytes)
{
    file_writer file = {0};
    psgd_status status = psgd__file_create(self->context, path, &file);
    if (status == PSGD_OK) status = psgd__file_write(&file, bytes, psgd_optimizer_state_bytes(self));
    if (status == PSGD_OK) status = psgd__file_publish(&file);
    if (status != PSGD_OK) psgd__file_abandon(&file);
    return status;
}

psgd_status psgd_optimizer_save(const psgd_optimizer *self, const char *path)
{
    if (!self || !path) return psgd__fail(PSGD_ERR_ARGUMENT, "save needs an optimizer and a path");
    char *bytes = NULL;
    psgd_comm *comm = self->ranks ? self->ranks->comm : NULL;
    bool first = psgd_comm_rank(comm) == 0;
    psgd_status status = psgd_comm_agree(comm, first ? make_room(self, &bytes) : PSGD_OK);
    if (status == PSGD_OK) status = psgd_optimizer_state_save(self, bytes);
    if (status == PSGD_OK && first) status = write_file(self, path, bytes);
    psgd__free(self->context, bytes);
    return psgd_comm_agree(comm, status);
}

psgd_status psgd_optimizer_load(psgd_optimizer *self, const char *path)
{
    if (!self || !path) return psgd__fail(PSGD_ERR_ARGUMENT, "load needs an optimizer and a path");
    unsigned char *bytes = NULL;
    int64_t count = 0;
    psgd_status status = psgd__file_read_whole(self->context, path, &bytes, &count);
    if (status == PSGD_OK) {
        status = psgd_optimizer_state_load(self, count, bytes);
        if (status != PSGD_OK) status = psgd__fail_in(status, "%s", path);
    }
    psgd__free(self->context, bytes);
    return status;
}
