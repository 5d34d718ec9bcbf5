#include "cli/cli.h"

#include <math.h>

#include "report/progress.h"
#include "train/train.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

typedef struct view {
    progress bar, scores; /* of steps, and of the batches of an evaluation */
    int64_t scored;
    FILE *lines;
} view;

static void show_step(void *data, int64_t done, int64_t total, double loss)
{
    progress *bar = &((view *)data)->bar;
    psgd__progress_note(bar, "loss %.4f", loss);
    psgd__progress_show(bar, done, total);
}

static void show_epoch(void *data, int64_t epoch, double train_loss, const char *split, const train_score *score,
                       double seconds)
{
    view *self = data;
    psgd__progress_end(&self->bar);
    fprintf(self->lines, "epoch %lld: training loss %.5f, %s loss %.5f", (long long)epoch, train_loss, split,
            score->loss);
    if (isfinite(score->error)) fprintf(self->lines, ", error %.2f %%", 100 * score->error);
    if (isfinite(score->perplexity)) fprintf(self->lines, ", perplexity %.2f", score->perplexity);
    fprintf(self->lines, ", %.1f s\n", seconds);
    fflush(self->lines);
}

static void show_warning(void *data, const char *sentence)
{
    view *self = data;
    psgd__progress_end(&self->bar);
    fprintf(stderr, "psgd: warning: %s\n", sentence);
}

/* A bar of its own: that of the steps stands still meanwhile. */
static void show_score(void *data, int64_t done, int64_t total)
{
    view *self = data;
    if (!self->scores.to || done < self->scored) {
        psgd__progress_end(&self->bar);
        psgd__progress_start(&self->scores, stderr, "evaluation, batch");
    }
    self->scored = done;
    psgd__progress_show(&self->scores, done, total);
    if (done < total) return;
    psgd__progress_end(&self->scores);
    self->scores.to = NULL;
}

psgd_status cli_evaluate(trainer *self, train_score *valid, train_score *test)
{
    view shown = {.lines = stdout};
    psgd__trainer_watch_scores(self, show_score, &shown);
    psgd_status status = psgd__trainer_evaluate(self, valid, test);
    psgd__progress_end(&shown.scores);
    psgd__trainer_watch_scores(self, NULL, NULL);
    return status;
}

void cli_report_reading(const trainer *self, FILE *lines)
{
    train_reading reading = psgd__trainer_reading(self);
    if (reading.passed_over == 0) return;
    fprintf(lines, "%lld images could not be read and were passed over; the first: %s\n",
            (long long)reading.passed_over, reading.first_bad);
}

static void report_messages(const trainer *self, FILE *lines)
{
    double seconds, waited;
    psgd__trainer_messages(self, &seconds, &waited);
    if (seconds <= 0) return;
    fprintf(lines, "sums over %d ranks: %.3g s, of which %.0f %% were hidden behind the backward pass\n",
            psgd__trainer_state(self).ranks, seconds, waited < seconds ? 100 * (1 - waited / seconds) : 0);
}

psgd_status cli_run_trainer(trainer *self, FILE *lines, bool *stopped)
{
    view shown = {.lines = lines};
    struct sigaction catch = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &catch, NULL);
    sigaction(SIGTERM, &catch, NULL);
    psgd__progress_start(&shown.bar, stderr, "step");
    train_watch watch = {
        .step = show_step, .epoch = show_epoch, .warn = show_warning, .data = &shown, .stop = &interrupted};
    if (psgd_comm_rank(cli_comm()) > 0) watch = (train_watch){.stop = &interrupted}; /* rank 0 shows */
    if (psgd_comm_rank(cli_comm()) == 0) psgd__trainer_watch_scores(self, show_score, &shown);
    psgd_status status = psgd__trainer_run(self, &watch, stopped);
    psgd__progress_end(&shown.scores);
    psgd__progress_end(&shown.bar);
    psgd__trainer_watch_scores(self, NULL, NULL);
    if (status == PSGD_OK) cli_report_reading(self, lines);
    if (status == PSGD_OK) report_messages(self, lines);
    return status;
}
