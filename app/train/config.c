#include "train/config.h"

#include <string.h>

#include "core/memory.h"

static bool in_table(const option_row *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(rows[i].name, name)) return true;
    }
    return false;
}

/* Each setting to the list of the first table that has its name; what no table has is the optimizer's to refuse. */
static psgd_status sort_setting(train_config *self, const char *name, const char *value)
{
    if (!strcmp(name, "model")) return PSGD_OK;
    if (in_table(psgd__train_options, psgd__train_option_count, name)) {
        if (!strcmp(name, "seed")) PSGD_TRY(psgd_options_set(self->optimizer, name, value));
        return psgd_options_set(self->own_list, name, value);
    }
    bool of_model = in_table(psgd__model_options, psgd__model_option_count, name);
    return psgd_options_set(of_model ? self->model_list : self->optimizer, name, value);
}

static psgd_status find_model(train_config *self, int count, const train_setting *list)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(list[i].name, "model")) PSGD_TRY(psgd__model_find(list[i].value, &self->kind));
    }
    return self->kind ? PSGD_OK : psgd__fail(PSGD_ERR_ARGUMENT, "a run needs a model");
}

/* An option that the model does not use would otherwise be ignored silently. */
static psgd_status check_model_options(const train_config *self)
{
    for (int i = 0; i < psgd__model_option_count; i++) {
        const char *value = psgd__options_find(self->model_list, psgd__model_options[i].name);
        if (value) PSGD_TRY(psgd__model_check_option(self->kind, &psgd__model_options[i], value));
    }
    return PSGD_OK;
}

static psgd_status keep_text(train_config *self, int count, const train_setting *list)
{
    text all = {.context = self->context};
    for (int i = 0; i < count; i++) {
        if (strpbrk(list[i].name, "=\n") || strchr(list[i].value, '\n')) {
            psgd__text_free(&all);
            return psgd__fail(PSGD_ERR_ARGUMENT, "a setting must not contain a line break");
        }
        psgd__text_add(&all, "%s=%s\n", list[i].name, list[i].value);
    }
    self->text = all.chars;
    return all.failed ? psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run") : PSGD_OK;
}

/* A rank's micro-batches must be a node of the tree in which they are added (psgd/comm.h). */
static psgd_status check_micro_batches(const train_config *self)
{
    const train_settings *s = &self->settings;
    int64_t count = s->micro_batches, ranks = psgd_comm_size(self->comm), each = count / ranks;
    bool fits = self->all && psgd_comm_rank(self->all) >= psgd_comm_size(self->all) - self->curvature_ranks;
    if (ranks > 1 && (count % ranks != 0 || (each & (each - 1)) != 0)) {
        return psgd__fail(
            PSGD_ERR_ARGUMENT,
            "%lld %sranks with %lld micro-batches: the number of micro-batches must be a power of two times "
            "the ranks; run on another number, or start a run with --micro-batches %lld",
            (long long)ranks, fits ? "curvature " : "", (long long)count, (long long)(ranks * (ranks > 4 ? 1 : 2)));
    }
    if (count > s->batch) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a batch of %lld cannot be cut into %lld micro-batches",
                          (long long)s->batch, (long long)count);
    }
    if (s->hv_batch > 0 && s->hv_batch < s->batch && s->hv_batch < count) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "hv-batch %lld is less than one sample for each of %lld micro-batches",
                          (long long)s->hv_batch, (long long)count);
    }
    return PSGD_OK;
}

psgd_status psgd__config_read(const psgd_context *context, int count, const train_setting *list, train_config *self)
{
    self->context = context;
    PSGD_TRY(psgd_options_create(context, &self->own_list));
    PSGD_TRY(psgd_options_create(context, &self->model_list));
    PSGD_TRY(psgd_options_create(context, &self->optimizer));
    PSGD_TRY(find_model(self, count, list));
    for (const model_default *d = self->kind->defaults; d && d->name; d++) {
        PSGD_TRY(sort_setting(self, d->name, d->value));
    }
    PSGD_TRY(keep_text(self, count, list));
    for (int i = 0; i < count; i++) PSGD_TRY(sort_setting(self, list[i].name, list[i].value));
    option_table own = {psgd__train_options, psgd__train_option_count, &self->settings};
    option_table models = {psgd__model_options, psgd__model_option_count, &self->model};
    PSGD_TRY(psgd__options_read(self->own_list, &own, 1));
    PSGD_TRY(psgd__options_read(self->model_list, &models, 1));
    PSGD_TRY(check_model_options(self));
    if (!self->settings.data) return psgd__fail(PSGD_ERR_ARGUMENT, "a run needs --data, as in --data digits");
    if (self->settings.hv_batch > self->settings.batch) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "hv-batch must be at most the batch of %lld, not %lld",
                          (long long)self->settings.batch, (long long)self->settings.hv_batch);
    }
    PSGD_TRY(check_micro_batches(self));
    self->dtype = self->settings.dtype == 1 ? PSGD_F64 : PSGD_F32;
    return PSGD_OK;
}

void psgd__config_free(train_config *self)
{
    psgd_options_free(self->own_list);
    psgd_options_free(self->model_list);
    psgd_options_free(self->optimizer);
    psgd__free(self->context, self->text);
}

const char *psgd__config_method(const train_config *config)
{
    const char *name = config->settings.optimizer;
    return strcmp(name, "psgd") != 0 || psgd__options_find(config->optimizer, "criterion") ? name : "psgd-newton";
}

int psgd__config_split(char *lines, train_setting list[TRAIN_MAX_SETTINGS])
{
    int count = 0;
    for (char *equals, *end; count < TRAIN_MAX_SETTINGS; lines = end + 1) {
        equals = strchr(lines, '=');
        end = strchr(lines, '\n');
        if (!equals || !end || equals > end) break;
        *equals = *end = 0;
        list[count++] = (train_setting){lines, equals + 1};
    }
    return count;
}
