/* The loop: steps, records, validation, checkpoints. */
#include "core/clock.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The part of a run from its start or resumption to its end or interruption. */
typedef struct session {
    trainer *self;
    const train_watch *watch;
    bool records;     /* the run has a folder */
    metrics_log *log; /* NULL: it has none, or another rank writes */
    double saved;     /* when the last checkpoint was written */
} session;

/* All ranks. What has become of a write, which is rank 0's. */
static psgd_status written(const session *s, psgd_status status)
{
    return psgd_comm_agree(s->self->config.comm, status);
}

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
    psgd_status status = PSGD_OK;
    if (!s->records) return PSGD_OK;
    if (s->log) {
        int count = t->ops->point(t, training, score, psgd_optimizer_rate(self->optimizer), values);
        status = psgd__metrics_point(s->log, when(self), training ? "train" : t->validation, values, count);
    }
    return written(s, status);
}

/* All ranks. The group of a preconditioner, which only its owner has. */
static psgd_status read_spec(const trainer *self, int tensor, char *spec, size_t room)
{
    const psgd_precond *own = psgd_optimizer_precond(self->optimizer, tensor);
    int owner = psgd_optimizer_owner(self->optimizer, tensor);
    memset(spec, 0, room);
    if (own) snprintf(spec, room, "%s", psgd_precond_spec(own));
    return psgd_comm_broadcast(self->config.comm, owner < 0 ? 0 : owner, (int64_t)room, spec);
}

static psgd_status write_health(session *s)
{
    const trainer *self = s->self;
    psgd_status status = PSGD_OK;
    for (int i = 0; i < self->tensors; i++) {
        double health[3];
        if (!psgd_optimizer_precond(self->optimizer, i) && psgd_optimizer_owner(self->optimizer, i) < 0) continue;
        PSGD_TRY(psgd_optimizer_health(self->optimizer, i, &health[0], &health[1], &health[2]));
        metric values[] = {{"updates", health[0]}, {"skipped", health[1]}, {"condition", health[2]}};
        const char *name = psgd_graph_parameter_name(self->task->full.graph, i);
        char spec[512];
        PSGD_TRY(read_spec(self, i, spec, sizeof spec));
        if (s->log && status == PSGD_OK) status = psgd__metrics_health(s->log, when(self), name, spec, values, 3);
    }
    return written(s, status);
}

/* The mean loss since the last record. */
static psgd_status write_training(session *s)
{
    trainer *self = s->self;
    train_progress *now = &self->now;
    int64_t every = self->config.settings.log_every, health = self->task->ops->health_every;
    if (!s->records) return PSGD_OK;
    double mean = now->record_count ? now->record_sum / (double)now->record_count : NAN;
    PSGD_TRY(write_point(s, true, &(train_score){.loss = mean}));
    now->record_sum = 0;
    now->record_count = 0;
    if (health == 0) return PSGD_OK;
    bool due = at_epoch_end(self) || (now->step % every == 0 && now->step / every % health == 0);
    return due ? write_health(s) : PSGD_OK;
}

/* The validation split with the weights of this step. */
static psgd_status score_valid(trainer *self, train_score *valid)
{
    PSGD_TRY(self->task->ops->score(self->task, false, self->theta, valid));
    self->now.valid = valid->loss;
    return PSGD_OK;
}

static bool validates_apart(const trainer *self)
{
    return strcmp(self->task->validation, "test") != 0;
}

/* The test split with the weights that the validation leaves as the best; the same split where there are only two. */
static psgd_status score_test(trainer *self, const train_score *valid, train_score *test)
{
    *test = *valid;
    if (!validates_apart(self)) return PSGD_OK;
    return self->task->ops->score(self->task, true, psgd__train_weights(self), test);
}

static psgd_status write_final(session *s, const train_score *valid)
{
    trainer *self = s->self;
    const task *t = self->task;
    train_score test;
    metric values[TASK_MAX_METRICS + 1];
    psgd_status status = PSGD_OK;
    if (!s->records) return PSGD_OK;
    PSGD_TRY(score_test(self, valid, &test));
    if (s->log) {
        int count = t->ops->final(t, valid, &test, psgd_optimizer_skipped(self->optimizer), values);
        values[count++] = (metric){"cpu_seconds", self->now.cpu};
        status = psgd__metrics_final(s->log, when(self), values, count);
    }
    return written(s, status);
}

psgd_status psgd__trainer_evaluate(trainer *self, train_score *valid, train_score *test)
{
    PSGD_TRY(score_valid(self, valid));
    PSGD_TRY(score_test(self, valid, test));
    if (!validates_apart(self)) valid->loss = valid->perplexity = NAN;
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
        return psgd__fail(
            PSGD_ERR_NOT_FINITE,
            "the run diverged at step %lld: its %s loss is not finite; a smaller --lr, or --clip, may help",
            (long long)now->step, self->task->validation);
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
        s->watch->epoch(s->watch->data, now->step / self->task->steps_per_epoch, train, self->task->validation, &valid,
                        now->seconds);
    }
    if (at_epoch_end(self)) {
        now->epoch_sum = 0;
        now->epoch_count = 0;
    }
    return now->step < self->total ? PSGD_OK : write_final(s, &valid);
}

/* All ranks. Syncing a checkpoint to disk may take longer than an epoch: where their distance is not given in steps,
 * there is at most one a second by the clock of rank 0. */
static psgd_status find_due(const session *s, bool whole, bool *due)
{
    const trainer *self = s->self;
    int64_t every = self->config.settings.checkpoint_every, step = self->now.step;
    *due = s->records && (every > 0 ? step % every == 0 || step == self->total : whole);
    if (!*due || every > 0 || step == self->total) return PSGD_OK;
    *due = psgd__seconds() - s->saved >= 1;
    return psgd_comm_broadcast(self->config.comm, 0, sizeof *due, due);
}

static psgd_status save(session *s)
{
    PSGD_TRY(psgd__checkpoint_write(s->self));
    s->saved = psgd__seconds();
    return PSGD_OK;
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
    bool due;
    PSGD_TRY(find_due(s, whole, &due));
    return due || (s->records && stopping) ? save(s) : PSGD_OK;
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

/* All ranks. An interrupt of any of them is one of all. */
static psgd_status find_stop(const session *s, bool *stopped)
{
    double stop = s->watch && s->watch->stop && *s->watch->stop;
    PSGD_TRY(psgd_comm_sum(s->self->config.comm, PSGD_F64, 1, &stop));
    *stopped = stop > 0;
    return PSGD_OK;
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
    PSGD_TRY(find_stop(s, stopped));
    PSGD_TRY(after_step(s, loss, taken, *stopped));
    if (s->watch && s->watch->step) s->watch->step(s->watch->data, self->now.step, self->total, loss);
    return PSGD_OK;
}

static psgd_status train(session *s, bool *stopped)
{
    trainer *self = s->self;
    psgd_status status = s->records && !self->resumed ? save(s) : PSGD_OK;
    if (status != PSGD_OK) { /* the folder is as it was: the same command may be tried again */
        if (s->log) psgd__train_forget(self);
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

/* The log of a run that has a folder, on rank 0. */
static psgd_status open_log(session *s)
{
    bool writes = s->records && psgd_comm_rank(s->self->config.comm) == 0;
    return written(s, writes ? psgd__train_log(s->self, &s->log) : PSGD_OK);
}

static psgd_status find_finished(const trainer *self, bool *finished)
{
    metrics_run *run;
    PSGD_TRY(psgd__metrics_read(self->context, self->config.settings.out, &run));
    *finished = run->finished;
    psgd__metrics_free(run);
    return PSGD_OK;
}

/* A run that was stopped and is now to end where it is, or before, has no last record yet. */
static psgd_status close_run(session *s)
{
    trainer *self = s->self;
    train_score valid;
    bool finished = false;
    if (!s->records || !self->resumed) return PSGD_OK;
    PSGD_TRY(written(s, find_finished(self, &finished)));
    PSGD_TRY(psgd_comm_broadcast(self->config.comm, 0, sizeof finished, &finished));
    if (finished) return PSGD_OK;
    PSGD_TRY(open_log(s));
    PSGD_TRY(score_valid(self, &valid));
    return write_final(s, &valid);
}

static psgd_status save_weights(const trainer *self)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", self->config.settings.out, WEIGHTS_FILE);
    bool writes = psgd_comm_rank(self->config.comm) == 0;
    return psgd_comm_agree(self->config.comm, writes ? psgd__trainer_save_weights(self, path) : PSGD_OK);
}

psgd_status psgd__trainer_run(trainer *self, const train_watch *watch, bool *stopped)
{
    session s = {.self = self, .watch = watch, .records = self->config.settings.out};
    *stopped = false;
    if (self->serves) return psgd__train_serve_curvature(self);
    psgd_status status = psgd__train_bind(self);
    if (status != PSGD_OK) return status;
    if (self->now.step < self->total) {
        status = open_log(&s);
        if (status == PSGD_OK) status = train(&s, stopped);
    } else {
        status = close_run(&s);
    }
    psgd__metrics_close(s.log);
    if (status == PSGD_OK && !*stopped && s.records) status = save_weights(self);
    return psgd__train_end_curvature(self, status);
}
