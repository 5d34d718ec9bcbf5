/* The loop: steps, records, validation, checkpoints. */
#include "core/clock.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    double mean = now->record_count ? now->record_sum / (double)now->record_count : NAN;
    PSGD_TRY(write_point(s, true, &(train_score){.loss = mean}));
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
    metric values[TASK_MAX_METRICS + 1];
    if (!s->log) return PSGD_OK;
    PSGD_TRY(score_test(self, valid, &test));
    int count = t->ops->final(t, valid, &test, psgd_optimizer_skipped(self->optimizer), values);
    values[count++] = (metric){"cpu_seconds", self->now.cpu};
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
    if (!isfinite(valid->loss)) {
        return psgd__fail(PSGD_ERR_NOT_FINITE, "the run diverged at step %lld: its %s loss is %g", (long long)now->step,
                          self->task->ops->validation, valid->loss);
    }
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

/* What follows a step: records first, then the checkpoint that they belong to. The loss of a skipped step, which may
 * not be finite, is in no mean. */
static psgd_status after_step(session *s, double loss, bool taken, bool stopping)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    const train_settings *settings = &self->config.settings;
    bool last = now->step == self->total, whole = at_epoch_end(self) || last;
    bool record = now->step % settings->log_every == 0 || whole;
    if (taken) {
        PSGD_TRY(psgd__train_check(self, loss, record));
        now->record_sum += loss;
        now->epoch_sum += loss;
        now->record_count++;
        now->epoch_count++;
    }
    if (record) PSGD_TRY(write_training(s));
    if (whole) PSGD_TRY(end_epoch(s));
    int64_t every = settings->checkpoint_every;
    bool due = every > 0 ? now->step % every == 0 || last : whole;
    return s->log && (due || stopping) ? psgd__checkpoint_write(self) : PSGD_OK;
}

/* A sentence about the first step that is skipped: the run goes on, and stops by itself where it does not recover. */
static void warn_of_skip(const session *s)
{
    char sentence[512];
    const psgd_optimizer *optimizer = s->self->optimizer;
    if (!s->watch || !s->watch->warn || psgd_optimizer_skipped(optimizer) != 1) return;
    snprintf(sentence, sizeof sentence,
             "step %lld was skipped: %s; too many in a row (option max-skipped) end the run, others are counted",
             (long long)s->self->now.step, psgd_optimizer_note(optimizer));
    s->watch->warn(s->watch->data, sentence);
}

static psgd_status one_step(session *s, bool *stopped)
{
    trainer *self = s->self;
    int64_t skipped = psgd_optimizer_skipped(self->optimizer);
    double loss, began = psgd__seconds(), used = psgd__cpu_seconds();
    psgd_status status = psgd__train_step(self, &loss);
    self->now.cpu += psgd__cpu_seconds() - used;
    self->now.seconds += psgd__seconds() - began;
    bool taken = psgd_optimizer_skipped(self->optimizer) == skipped;
    if (!taken) warn_of_skip(s);
    PSGD_TRY(status);
    *stopped = s->watch && s->watch->stop && *s->watch->stop;
    PSGD_TRY(after_step(s, loss, taken, *stopped));
    if (s->watch && s->watch->step) s->watch->step(s->watch->data, self->now.step, self->total, loss);
    return PSGD_OK;
}

static psgd_status train(session *s, bool *stopped)
{
    trainer *self = s->self;
    psgd_status status = s->log && !self->resumed ? psgd__checkpoint_write(self) : PSGD_OK;
    if (status != PSGD_OK) { /* the folder is as it was: the same command may be tried again */
        psgd__train_forget(self);
        return status;
    }
    while (status == PSGD_OK && self->now.step < self->total && !*stopped) status = one_step(s, stopped);
    *stopped = *stopped && self->now.step < self->total;
    if (status != PSGD_ERR_NOT_FINITE || !s->log) return status;
    metric values[] = {{"diverged", 1},
                       {"skipped_steps", (double)psgd_optimizer_skipped(self->optimizer)},
                       {"cpu_seconds", self->now.cpu}};
    PSGD_TRY(psgd__metrics_final(s->log, when(self), values, 3));
    return status;
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
    PSGD_TRY(psgd__train_log(self, &s->log));
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
        status = psgd__train_log(self, &s.log);
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
