/* What a log records of a run: its settings, those that were given and the values of all others. */
#include "core/file.h"
#include "core/memory.h"
#include "train/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether there is not one whole line: the first record of the log did not reach the disk. */
static bool is_unbegun(const char *path)
{
    char start[16] = "";
    struct stat about;
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "r") : NULL;
    if (!file) return false;
    size_t count = fread(start, 1, sizeof start - 1, file);
    bool ours = !strncmp(start, "{\"kind\":\"header\"", count < sizeof start ? count : sizeof start);
    int c = 0;
    while (ours && (c = getc(file)) != EOF && c != '\n') continue;
    fclose(file);
    return ours && c != '\n';
}

/* A log without a checkpoint is left of a run that did not get to its first one, or is not ours to overwrite. */
static psgd_status check_folder(const trainer *self, const char *folder)
{
    char path[4096];
    metrics_run *run;
    snprintf(path, sizeof path, "%s/%s", folder, CHECKPOINT_FILE);
    if (access(path, F_OK) == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there is a run in %s already; psgd resume %s continues it", folder,
                          folder);
    }
    snprintf(path, sizeof path, "%s/%s", folder, METRICS_FILE);
    if (access(path, F_OK) != 0 || is_unbegun(path)) return PSGD_OK;
    psgd_status status = psgd__metrics_read(self->context, folder, &run);
    bool ours = status == PSGD_OK && run->curve_count == 0 && !run->finished;
    if (status == PSGD_OK) psgd__metrics_free(run);
    if (ours) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT,
                      "%s has a run of something else, or of another version: there is a %s, but no %s; give another "
                      "folder",
                      folder, METRICS_FILE, CHECKPOINT_FILE);
}

enum { MAX_DEFAULTS = 256 };

/* Settings that were not given. */
typedef struct default_list {
    const metrics_setting *given;
    int given_count, count;
    metrics_setting list[MAX_DEFAULTS];
    char value[MAX_DEFAULTS][sizeof((psgd_option_info *)0)->default_value];
} default_list;

static bool in_list(const metrics_setting *list, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(list[i].name, name)) return true;
    }
    return false;
}

/* The value that the run has: of the model or the trainer where these have set it, else that of the table. */
static void add_default(default_list *to, const psgd_option_info *option, const psgd_options *set)
{
    const char *own = psgd__options_find(set, option->name);
    bool known = in_list(to->given, to->given_count, option->name) || in_list(to->list, to->count, option->name);
    if (known || (!own && !*option->default_value) || to->count == MAX_DEFAULTS) return;
    memcpy(to->value[to->count], option->default_value, sizeof to->value[0]);
    to->list[to->count] = (metrics_setting){option->name, own ? own : to->value[to->count]};
    to->count++;
}

static bool of_preconditioner(const char *name)
{
    psgd_option_info option;
    for (int i = 0; psgd_precond_option(i, &option); i++) {
        if (!strcmp(option.name, name)) return true;
    }
    return !strcmp(name, "group") || !strcmp(name, "joint");
}

static void find_defaults(const trainer *self, default_list *to)
{
    psgd_option_info option;
    const train_config *config = &self->config;
    bool fits = psgd_optimizer_precond(self->optimizer, 0) != NULL;
    for (int i = 0; psgd__option_at(psgd__train_options, psgd__train_option_count, i, &option); i++) {
        add_default(to, &option, config->own_list);
    }
    for (int i = 0; psgd__option_at(psgd__model_options, psgd__model_option_count, i, &option); i++) {
        add_default(to, &option, config->model_list);
    }
    for (int i = 0; psgd_optimizer_setting(self->optimizer, i, &option); i++) {
        if (fits || !of_preconditioner(option.name)) add_default(to, &option, config->optimizer);
    }
}

/* Starts the log, or writes the settings of a resumed run over those in it. */
static psgd_status write_header(trainer *self, metrics_setting *settings, int count, metrics_log **log)
{
    const train_settings *set = &self->config.settings;
    default_list *others = psgd__alloc(self->context, 1, sizeof *others);
    if (!others) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    others->given = settings;
    others->given_count = count;
    find_defaults(self, others);
    for (int i = 0; i < self->task->fact_count; i++) settings[count++] = self->task->facts[i];
    metrics_header header = {.run = set->name ? set->name : set->out,
                             .method = set->optimizer,
                             .task = set->task ? set->task : self->config.kind->name,
                             .seed = (uint64_t)set->seed,
                             .settings = settings,
                             .setting_count = count,
                             .defaults = others->list,
                             .default_count = others->count};
    psgd_status status = self->resumed ? psgd__metrics_replace_header(self->context, set->out, &header)
                                       : psgd__metrics_create(self->context, set->out, &header, log);
    psgd__free(self->context, others);
    return status;
}

static psgd_status describe_run(trainer *self, metrics_log **log)
{
    metrics_setting settings[TRAIN_MAX_SETTINGS + TASK_MAX_FACTS];
    char *copy = psgd__strdup(self->context, self->config.text);
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    psgd_status status = write_header(self, settings, psgd__config_split(copy, settings), log);
    psgd__free(self->context, copy);
    return status;
}

static psgd_status start_log(trainer *self, metrics_log **log)
{
    const char *folder = self->config.settings.out;
    PSGD_TRY(check_folder(self, folder));
    PSGD_TRY(psgd__folder_create(folder, &self->created));
    PSGD_TRY(psgd__folder_lock(folder, &self->lock));
    psgd_status status = describe_run(self, log);
    if (status != PSGD_OK) psgd__train_forget(self);
    return status;
}

psgd_status psgd__train_log(trainer *self, metrics_log **log)
{
    const char *folder = self->config.settings.out;
    if (!folder) return PSGD_OK;
    if (!self->resumed) return start_log(self, log);
    PSGD_TRY(psgd__folder_lock(folder, &self->lock));
    psgd__folder_sweep(folder);
    if (self->changed) PSGD_TRY(describe_run(self, log));
    return psgd__metrics_resume(self->context, folder, self->now.step, log);
}

void psgd__train_forget(const trainer *self)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", self->config.settings.out, METRICS_FILE);
    unlink(path);
    psgd__folder_remove(self->config.settings.out, self->created);
}
