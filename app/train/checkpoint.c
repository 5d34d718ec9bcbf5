/* A run in one file, written by rename: head, settings, parameters, the optimizer's state, a checksum. */
#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"
#include "data/format/gzip.h"
#include "train/trainer.h"
#include <psgd/optim.h>

#include <stdio.h>
#include <string.h>

static const char magic[8] = "psgdrun2";

typedef struct checkpoint_head {
    char magic[8];
    int64_t bytes, text_bytes, theta_bytes, state_bytes, optimizer_bytes, step;
    double seconds;
    train_sums sums;
} checkpoint_head;

static uint64_t checksum_parts(const char *const *parts, const int64_t *bytes, int count)
{
    uint64_t sum = CHECKSUM_START;
    for (int i = 0; i < count; i++) sum = psgd__checksum_add(sum, parts[i], bytes[i]);
    return sum;
}

psgd_status psgd__checkpoint_write(const trainer *self, double seconds)
{
    char path[4096];
    int64_t image_bytes = psgd_optimizer_state_bytes(self->optimizer);
    char *image = psgd__alloc(self->context, image_bytes, 1);
    if (!image)
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld bytes of a checkpoint", (long long)image_bytes);
    snprintf(path, sizeof path, "%s/%s", self->settings.out, CHECKPOINT_FILE);
    checkpoint_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, magic, sizeof magic);
    head.text_bytes = (int64_t)strlen(self->text) + 1;
    head.theta_bytes = self->parameters * (int64_t)psgd_dtype_size(self->dtype);
    void *state;
    head.state_bytes = psgd_graph_state(self->full.graph, &state) * (int64_t)psgd_dtype_size(self->dtype);
    head.optimizer_bytes = image_bytes;
    head.step = self->step;
    head.seconds = seconds;
    head.sums = self->sums;
    head.bytes = (int64_t)(sizeof head + sizeof(uint64_t)) + head.text_bytes + head.theta_bytes + head.state_bytes +
                 image_bytes;
    const char *const parts[] = {(const char *)&head, self->text, self->theta, state, image};
    const int64_t bytes[] = {(int64_t)sizeof head, head.text_bytes, head.theta_bytes, head.state_bytes, image_bytes};
    file_writer file;
    psgd_status status = psgd_optimizer_state_save(self->optimizer, image);
    uint64_t sum = checksum_parts(parts, bytes, 5);
    if (status == PSGD_OK) status = psgd__file_create(self->context, path, &file);
    if (status == PSGD_OK) {
        for (int i = 0; status == PSGD_OK && i < 5; i++) status = psgd__file_write(&file, parts[i], bytes[i]);
        if (status == PSGD_OK) status = psgd__file_write(&file, &sum, sizeof sum);
        if (status == PSGD_OK) {
            status = psgd__file_publish(&file);
        } else {
            psgd__file_abandon(&file);
        }
    }
    psgd__free(self->context, image);
    return status;
}

typedef struct opened {
    unsigned char *bytes;
    checkpoint_head head;
    const char *text, *theta, *state, *optimizer;
} opened;

/* The whole file, its sizes and its checksum looked at. */
static psgd_status open_checkpoint(const psgd_context *context, const char *folder, opened *to)
{
    char path[4096];
    int64_t count;
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    PSGD_TRY(psgd__file_read(context, path, &to->bytes, &count));
    const checkpoint_head *head = &to->head;
    int64_t body = (int64_t)(sizeof *head + sizeof(uint64_t));
    uint64_t sum;
    if (count >= body) memcpy(&to->head, to->bytes, sizeof to->head);
    if (count < body || memcmp(head->magic, magic, sizeof magic) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is not the checkpoint of a run", path);
    }
    bool sizes = head->text_bytes > 0 && head->theta_bytes > 0 && head->optimizer_bytes > 0 && head->state_bytes >= 0 &&
                 head->text_bytes < count && head->theta_bytes < count && head->optimizer_bytes < count &&
                 head->state_bytes < count;
    if (!sizes || head->bytes != count ||
        head->bytes != body + head->text_bytes + head->theta_bytes + head->state_bytes + head->optimizer_bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s should have %lld bytes and has %lld: it is truncated or damaged", path,
                          (long long)head->bytes, (long long)count);
    }
    to->text = (const char *)to->bytes + sizeof *head;
    to->theta = to->text + head->text_bytes;
    to->state = to->theta + head->theta_bytes;
    to->optimizer = to->state + head->state_bytes;
    memcpy(&sum, to->optimizer + head->optimizer_bytes, sizeof sum);
    const char *const parts[] = {(const char *)head, to->text, to->theta, to->state, to->optimizer};
    const int64_t bytes[] = {(int64_t)sizeof *head, head->text_bytes, head->theta_bytes, head->state_bytes,
                             head->optimizer_bytes};
    if (checksum_parts(parts, bytes, 5) != sum || to->text[head->text_bytes - 1]) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is damaged: its checksum is wrong", path);
    }
    return PSGD_OK;
}

psgd_status psgd__checkpoint_settings(const psgd_context *context, const char *folder, char **chars)
{
    opened file = {0};
    psgd_status status = open_checkpoint(context, folder, &file);
    if (status == PSGD_OK) {
        *chars = psgd__strdup(context, file.text);
        if (!*chars) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    }
    psgd__free(context, file.bytes);
    return status;
}

psgd_status psgd__checkpoint_read(trainer *self, const char *folder)
{
    opened file = {0};
    psgd_status status = open_checkpoint(self->context, folder, &file);
    int64_t own = self->parameters * (int64_t)psgd_dtype_size(self->dtype);
    void *state;
    int64_t own_state = psgd_graph_state(self->full.graph, &state) * (int64_t)psgd_dtype_size(self->dtype);
    if (status == PSGD_OK && (file.head.theta_bytes != own || file.head.state_bytes != own_state)) {
        status = psgd__fail(PSGD_ERR_FORMAT,
                            "the checkpoint in %s is of another model, or for another number of classes: it has %lld "
                            "bytes of parameters, not %lld",
                            folder, (long long)file.head.theta_bytes, (long long)own);
    }
    if (status == PSGD_OK) {
        status = psgd_optimizer_state_load(self->optimizer, file.head.optimizer_bytes, file.optimizer);
    }
    if (status == PSGD_OK) {
        memcpy(self->theta, file.theta, (size_t)own);
        memcpy(state, file.state, (size_t)own_state);
        self->step = file.head.step;
        self->seconds = file.head.seconds;
        self->sums = file.head.sums;
        self->resumed = true;
    }
    psgd__free(self->context, file.bytes);
    return status;
}
