/* Sections: weights, best (where the task keeps best weights), state (carried by the graph), optimizer, settings, and
 * what the task must find again (the vocabulary of a text). Arrays come first: they can be used where they are. */
#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"

static const char magic[8] = "psgdrun5";

enum { SECTIONS = 6 };

typedef struct section {
    char name[16];
    int64_t bytes;
} section;

typedef struct checkpoint_head {
    char magic[8];
    int64_t bytes; /* of the file */
    train_progress now;
    section table[SECTIONS];
} checkpoint_head;

typedef struct piece {
    const char *name;
    const void *data;
    int64_t bytes;
} piece;

static psgd_status write_pieces(file_writer *file, checkpoint_head *head, const piece *pieces)
{
    uint64_t sum = psgd__checksum_add(CHECKSUM_START, head, sizeof *head);
    PSGD_TRY(psgd__file_write(file, head, sizeof *head));
    for (int i = 0; i < SECTIONS; i++) {
        sum = psgd__checksum_add(sum, pieces[i].data, pieces[i].bytes);
        PSGD_TRY(psgd__file_write(file, pieces[i].data, pieces[i].bytes));
    }
    return psgd__file_write(file, &sum, sizeof sum);
}

static psgd_status write_file(const trainer *self, const piece *pieces)
{
    char path[4096];
    file_writer file;
    checkpoint_head head;
    memset(&head, 0, sizeof head); /* padding too: it is part of the checksum */
    memcpy(head.magic, magic, sizeof magic);
    head.now = self->now;
    head.bytes = (int64_t)(sizeof head + sizeof(uint64_t));
    for (int i = 0; i < SECTIONS; i++) {
        head.bytes += pieces[i].bytes;
        head.table[i].bytes = pieces[i].bytes;
        if (pieces[i].name) snprintf(head.table[i].name, sizeof head.table[i].name, "%s", pieces[i].name);
    }
    snprintf(path, sizeof path, "%s/%s", self->config.settings.out, CHECKPOINT_FILE);
    PSGD_TRY(psgd__file_create(self->context, path, &file));
    psgd_status status = write_pieces(&file, &head, pieces);
    if (status == PSGD_OK) return psgd__file_publish(&file);
    psgd__file_abandon(&file);
    return status;
}

psgd_status psgd__checkpoint_write(const trainer *self)
{
    const task *t = self->task;
    int64_t element = (int64_t)psgd_dtype_size(self->config.dtype), weights = self->parameters * element;
    int64_t image_bytes = psgd_optimizer_state_bytes(self->optimizer);
    void *state;
    int64_t state_bytes;
    psgd_comm *comm = self->config.comm;
    bool writes = psgd_comm_rank(comm) == 0;
    char *image = writes ? psgd__alloc(self->context, image_bytes, 1) : NULL;
    psgd_status status = PSGD_OK;
    if (writes && !image) {
        status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of a checkpoint", (long long)image_bytes);
    }
    status = psgd_comm_agree(comm, status);
    if (status == PSGD_OK) status = psgd__micro_state(self, &state, &state_bytes);
    if (status == PSGD_OK) status = psgd_optimizer_state_save(self->optimizer, image);
    if (status != PSGD_OK || !writes) {
        psgd__free(self->context, image);
        return psgd_comm_agree(comm, status);
    }
    const piece pieces[SECTIONS] = {
        {"weights", self->theta, weights},
        {"best", self->best, self->best ? weights : 0},
        {"state", state, state_bytes},
        {"optimizer", image, image_bytes},
        {"settings", self->config.text, (int64_t)strlen(self->config.text) + 1},
        {t->identity, t->identity_bytes, t->identity_size},
    };
    status = write_file(self, pieces);
    psgd__free(self->context, image);
    return psgd_comm_agree(comm, status);
}

static psgd_status check_file(const char *path, const unsigned char *bytes, int64_t count)
{
    checkpoint_head head;
    const int64_t body = (int64_t)(sizeof head + sizeof(uint64_t));
    if (count >= 8 && !memcmp(bytes, magic, 7) && memcmp(bytes, magic, 8) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s was written by another version of psgd, and this one cannot read it",
                          path);
    }
    if (count < body || memcmp(bytes, magic, sizeof magic) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not the checkpoint of a run", path);
    }
    memcpy(&head, bytes, sizeof head);
    int64_t sum = body;
    bool sizes = head.bytes == count;
    for (int i = 0; i < SECTIONS; i++) {
        sizes = sizes && head.table[i].bytes >= 0 && head.table[i].bytes <= count;
        if (sizes) sum += head.table[i].bytes;
    }
    if (!sizes || sum != count) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s should have %lld bytes and has %lld: it is truncated or damaged", path,
                          (long long)head.bytes, (long long)count);
    }
    uint64_t own = psgd__checksum_add(CHECKSUM_START, bytes, sizeof head), kept;
    const unsigned char *at = bytes + sizeof head;
    for (int i = 0; i < SECTIONS; at += head.table[i++].bytes) own = psgd__checksum_add(own, at, head.table[i].bytes);
    memcpy(&kept, at, sizeof kept);
    if (own != kept) return psgd__fail(PSGD_ERR_FORMAT, "%s is damaged: its checksum is wrong", path);
    return PSGD_OK;
}

/* Whether these are counters that a run can have reached. */
static bool is_progress(const train_progress *now)
{
    const int64_t max = INT64_C(1) << 53;
    return now->step >= 0 && now->step <= max && now->record_count >= 0 && now->record_count <= now->step &&
           now->epoch_count >= 0 && now->epoch_count <= now->step && isfinite(now->seconds) && now->seconds >= 0 &&
           isfinite(now->cpu) && now->cpu >= 0 && !isnan(now->best);
}

psgd_status psgd__checkpoint_open(const psgd_context *context, const char *folder, checkpoint *file)
{
    char path[4096];
    int64_t count, size;
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    *file = (checkpoint){.context = context, .folder = folder};
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return psgd__fail(PSGD_ERR_IO, "%s is not the folder of a run: it has no %s", folder, CHECKPOINT_FILE);
    }
    PSGD_TRY(psgd__file_read_whole(context, path, &file->bytes, &count));
    PSGD_TRY(check_file(path, file->bytes, count));
    checkpoint_head head;
    memcpy(&head, file->bytes, sizeof head);
    file->now = head.now;
    if (!is_progress(&file->now)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is damaged: its counters are those of no run", path);
    }
    char *lines = psgd__checkpoint_section(file, "settings", &size);
    if (!lines || lines[size - 1]) return psgd__fail(PSGD_ERR_FORMAT, "%s has no settings", path);
    file->setting_count = psgd__config_split(lines, file->settings);
    return PSGD_OK;
}

void psgd__checkpoint_close(checkpoint *file)
{
    psgd__free(file->context, file->bytes);
}

void *psgd__checkpoint_section(const checkpoint *file, const char *name, int64_t *bytes)
{
    checkpoint_head head;
    memcpy(&head, file->bytes, sizeof head);
    unsigned char *at = file->bytes + sizeof head;
    for (int i = 0; i < SECTIONS; at += head.table[i++].bytes) {
        *bytes = head.table[i].bytes;
        if (*bytes > 0 && !strncmp(head.table[i].name, name, sizeof head.table[i].name)) return at;
    }
    *bytes = 0;
    return NULL;
}

psgd_status psgd__checkpoint_array(const checkpoint *file, const char *name, psgd_dtype dtype, const void **data,
                                   int64_t *bytes)
{
    const unsigned char *at = psgd__checkpoint_section(file, name, bytes);
    *data = at;
    if (!at || (at - file->bytes) % (int64_t)psgd_dtype_size(dtype) == 0) return PSGD_OK;
    return psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in %s is damaged: its sections are not in order", file->folder);
}

/* An array of this many bytes, or a sentence. */
static psgd_status expect(const checkpoint *file, const trainer *self, const char *name, int64_t expected,
                          const void **data)
{
    int64_t bytes;
    PSGD_TRY(psgd__checkpoint_array(file, name, self->config.dtype, data, &bytes));
    if (bytes == expected) return PSGD_OK;
    return psgd__fail(
        PSGD_ERR_FORMAT,
        "the checkpoint in %s is of another model, dtype, batch of a text or number of classes: it has %lld bytes of "
        "%s, not %lld",
        file->folder, (long long)bytes, name, (long long)expected);
}

static bool are_finite(psgd_dtype dtype, int64_t bytes, const void *x)
{
    for (int64_t i = 0; i < bytes / (int64_t)psgd_dtype_size(dtype); i++) {
        if (!isfinite(dtype == PSGD_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i])) return false;
    }
    return true;
}

static psgd_status check_identity(const checkpoint *file, const trainer *self)
{
    const task *t = self->task;
    int64_t bytes;
    if (!t->identity || (self->data_given && !t->identity_binds)) return PSGD_OK;
    const void *kept = psgd__checkpoint_section(file, t->identity, &bytes);
    if (!kept && !t->identity_binds) return PSGD_OK;
    if (kept && bytes == t->identity_size && !memcmp(kept, t->identity_bytes, (size_t)bytes)) return PSGD_OK;
    if (!t->identity_binds) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s has changed since the checkpoint in %s was written; take another folder, or resume with "
                          "--data, which allows other data",
                          self->config.settings.data, file->folder);
    }
    return psgd__fail(PSGD_ERR_FORMAT,
                      "the %s of the checkpoint in %s is not that of %s; give the same data, or another folder",
                      t->identity, file->folder, self->config.settings.data);
}

psgd_status psgd__checkpoint_restore(const checkpoint *file, trainer *self)
{
    int64_t element = (int64_t)psgd_dtype_size(self->config.dtype), weights = self->parameters * element, bytes;
    void *own_state;
    int64_t state_bytes;
    const void *theta = NULL, *best = NULL, *state = NULL;
    PSGD_TRY(psgd__micro_state(self, &own_state, &state_bytes));
    psgd_status status = check_identity(file, self);
    if (status == PSGD_OK) status = expect(file, self, "weights", weights, &theta);
    if (status == PSGD_OK) status = expect(file, self, "best", self->best ? weights : 0, &best);
    if (status == PSGD_OK) status = expect(file, self, "state", state_bytes, &state);
    if (status == PSGD_OK &&
        (!are_finite(self->config.dtype, weights, theta) || (best && !are_finite(self->config.dtype, weights, best)))) {
        status = psgd__fail(PSGD_ERR_FORMAT, "the checkpoint in %s is damaged: it has weights that are not finite",
                            file->folder);
    }
    PSGD_TRY(psgd__train_agree(self, status));
    const void *image = psgd__checkpoint_section(file, "optimizer", &bytes);
    status = psgd_optimizer_state_load(self->optimizer, bytes, image);
    PSGD_TRY(self->config.all ? psgd__train_agree(self, status) : status);
    memcpy(self->theta, theta, (size_t)weights);
    if (best) memcpy(self->best, best, (size_t)weights);
    if (state) psgd__micro_set_state(self, state);
    self->now = file->now;
    self->resumed = true;
    return PSGD_OK;
}
