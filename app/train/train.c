/* The loop: steps, records, validation, checkpoints. */
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* From where a run starts or resumes to where it ends or is stopped. */
typedef struct session {
    trainer *self;
    const train_watch *watch;
    metrics_log *log; /* NULL: a run without a folder */
} session;

static metrics_time when(const trainer *self)
{
    const train_progress *now = &self->now;
    return (metrics_time){now->step, (double)now->step / (double)self->task->steps_per_epoch, now->seconds};
}

static bool at_epoch_end(const trainer *self)
{
    return self->now.step % self->task->steps_per_epoch == 0;
}

static psgd_status write_point(session *s, bool training, const train_score *score)
{
    const trainer *self = s->self;
    const task *t = self->task;
    metric values[TASK_MAX_METRICS];
    if (!s->log) return PSGD_OK;
    int count = t->ops->point(t, training, score, psgd_optimizer_rate(self->optimizer), values);
    return psgd__metrics_point(s->log, when(self), training ? "train" : t->ops->validation, values, count);
}

static psgd_status write_health(session *s)
{
    const trainer *self = s->self;
    for (int i = 0; i < self->tensors; i++) {
        const psgd_precond *precond = psgd_optimizer_precond(self->optimizer, i);
        double condition;
        if (!precond) continue;
        PSGD_TRY(psgd_precond_condition(precond, &condition));
        metric values[] = {{"updates", (double)psgd_precond_updates(precond)},
                           {"skipped", (double)psgd_precond_skipped(precond)},
                           {"condition", condition}};
        const char *name = psgd_graph_parameter_name(self->task->full.graph, i);
        PSGD_TRY(psgd__metrics_health(s->log, when(self), name, "", values, 3));
    }
    return PSGD_OK;
}

/* The mean loss since the last record. */
static psgd_status write_training(session *s)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    int64_t every = self->config.settings.log_every, health = self->task->ops->health_every;
    if (!s->log) return PSGD_OK;
    PSGD_TRY(write_point(s, true, &(train_score){.loss = now->record_sum / (double)now->record_count}));
    now->record_sum = 0;
    now->record_count = 0;
    bool due = health > 0 && now->step % every == 0 && now->step / every % health == 0;
    return due ? write_health(s) : PSGD_OK;
}

/* The validation split with the weights of this step. */
static psgd_status score_valid(trainer *self, train_score *valid)
{
    PSGD_TRY(self->task->ops->score(self->task, false, self->theta, valid));
    self->now.valid = valid->loss;
    return PSGD_OK;
}

/* The test split with the weights that the validation leaves as the best; the same split where there are only two. */
static psgd_status score_test(trainer *self, const train_score *valid, train_score *test)
{
    *test = *valid;
    return self->best ? self->task->ops->score(self->task, true, psgd__train_weights(self), test) : PSGD_OK;
}

static psgd_status write_final(session *s, const train_score *valid)
{
    trainer *self = s->self;
    const task *t = self->task;
    train_score test;
    metric values[TASK_MAX_METRICS];
    if (!s->log) return PSGD_OK;
    PSGD_TRY(score_test(self, valid, &test));
    int count = t->ops->final(t, valid, &test, psgd_optimizer_skipped(self->optimizer), values);
    return psgd__metrics_final(s->log, when(self), values, count);
}

psgd_status psgd__trainer_evaluate(trainer *self, train_score *valid, train_score *test)
{
    PSGD_TRY(score_valid(self, valid));
    PSGD_TRY(score_test(self, valid, test));
    if (!self->best) valid->loss = valid->perplexity = NAN;
    return PSGD_OK;
}

/* Schedules and best weights look at whole epochs only, so that a run that was ended within one and then resumed with
 * more steps makes the same ones as a run that was not. */
static psgd_status validate(session *s, train_score *valid)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    PSGD_TRY(score_valid(self, valid));
    if (!at_epoch_end(self)) return PSGD_OK;
    PSGD_TRY(psgd_optimizer_validate(self->optimizer, valid->loss));
    if (!self->best || !(valid->loss < now->best)) return PSGD_OK;
    now->best = valid->loss;
    memcpy(self->best, self->theta, (size_t)self->parameters * psgd_dtype_size(self->config.dtype));
    return PSGD_OK;
}

static psgd_status end_epoch(session *s)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    train_score valid;
    PSGD_TRY(validate(s, &valid));
    PSGD_TRY(write_point(s, false, &valid));
    if (s->watch && s->watch->epoch) {
        double train = now->epoch_count ? now->epoch_sum / (double)now->epoch_count : NAN;
        s->watch->epoch(s->watch->data, now->step / self->task->steps_per_epoch, train, self->task->ops->validation,
                        &valid, now->seconds);
    }
    if (at_epoch_end(self)) {
        now->epoch_sum = 0;
        now->epoch_count = 0;
    }
    return now->step < self->total ? PSGD_OK : write_final(s, &valid);
}

/* What follows a step: records first, then the checkpoint that they belong to. */
static psgd_status after_step(session *s, double loss, bool stopping)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    const train_settings *settings = &self->config.settings;
    bool last = now->step == self->total, whole = at_epoch_end(self) || last;
    now->record_sum += loss;
    now->epoch_sum += loss;
    now->record_count++;
    now->epoch_count++;
    if (now->step % settings->log_every == 0 || whole) PSGD_TRY(write_training(s));
    if (whole) PSGD_TRY(end_epoch(s));
    int64_t every = settings->checkpoint_every;
    bool due = every > 0 ? now->step % every == 0 || last : whole;
    return s->log && (due || stopping) ? psgd__checkpoint_write(self) : PSGD_OK;
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
    if (access(path, F_OK) != 0) return PSGD_OK;
    psgd_status status = psgd__metrics_read(self->context, folder, &run);
    bool ours = status == PSGD_OK && run->curve_count == 0 && !run->finished;
    if (status == PSGD_OK) psgd__metrics_free(run);
    if (ours) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT,
                      "%s has a run of something else, or of another version: there is a %s, but no %s; give another "
                      "folder",
                      folder, METRICS_FILE, CHECKPOINT_FILE);
}

static psgd_status open_log(trainer *self, metrics_log **log)
{
    const train_settings *set = &self->config.settings;
    const task *t = self->task;
    metrics_setting settings[TRAIN_MAX_SETTINGS + TASK_MAX_FACTS];
    int created;
    if (!set->out) return PSGD_OK;
    if (self->resumed) return psgd__metrics_resume(self->context, set->out, self->now.step, log);
    PSGD_TRY(check_folder(self, set->out));
    PSGD_TRY(psgd__folder_create(set->out, &created));
    char *copy = psgd__strdup(self->context, self->config.text);
    if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the settings of a run");
    int count = psgd__config_split(copy, settings);
    for (int i = 0; i < t->fact_count; i++) settings[count++] = t->facts[i];
    metrics_header header = {.run = set->name ? set->name : set->out,
                             .method = set->optimizer,
                             .task = set->task ? set->task : self->config.kind->name,
                             .seed = (uint64_t)set->seed,
                             .settings = settings,
                             .setting_count = count};
    psgd_status status = psgd__metrics_create(self->context, set->out, &header, log);
    psgd__free(self->context, copy);
    return status;
}

static psgd_status train(session *s, bool *stopped)
{
    trainer *self = s->self;
    if (s->log && !self->resumed) PSGD_TRY(psgd__checkpoint_write(self));
    while (self->now.step < self->total && !*stopped) {
        double loss, began = psgd__seconds();
        PSGD_TRY(psgd__train_step(self, &loss));
        self->now.seconds += psgd__seconds() - began;
        *stopped = s->watch && s->watch->stop && *s->watch->stop;
        PSGD_TRY(after_step(s, loss, *stopped));
        if (s->watch && s->watch->step) s->watch->step(s->watch->data, self->now.step, self->total, loss);
    }
    *stopped = *stopped && self->now.step < self->total;
    return PSGD_OK;
}

/* A run that was stopped and is now to end where it is, or before, has no last record yet. */
static psgd_status close_run(session *s)
{
    trainer *self = s->self;
    metrics_run *run;
    train_score valid;
    if (!self->config.settings.out || !self->resumed) return PSGD_OK;
    PSGD_TRY(psgd__metrics_read(self->context, self->config.settings.out, &run));
    bool finished = run->finished;
    psgd__metrics_free(run);
    if (finished) return PSGD_OK;
    PSGD_TRY(open_log(self, &s->log));
    PSGD_TRY(score_valid(self, &valid));
    return write_final(s, &valid);
}

psgd_status psgd__trainer_run(trainer *self, const train_watch *watch, bool *stopped)
{
    session s = {.self = self, .watch = watch};
    *stopped = false;
    PSGD_TRY(psgd__train_bind(self));
    psgd_status status;
    if (self->now.step < self->total) {
        status = open_log(self, &s.log);
        if (status == PSGD_OK) status = train(&s, stopped);
    } else {
        status = close_run(&s);
    }
    psgd__metrics_close(s.log);
    if (status == PSGD_OK && !*stopped && self->config.settings.out) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", self->config.settings.out, WEIGHTS_FILE);
        status = psgd__trainer_save_weights(self, path);
    }
    return status;
}
