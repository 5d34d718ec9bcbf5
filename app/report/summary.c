#include "report/summary.h"

#include <math.h>
#include <string.h>

static double final_value(const metrics_run *run, const char *name, double otherwise)
{
    for (int i = 0; i < run->final_count; i++) {
        if (!strcmp(run->final[i].name, name)) return run->final[i].value;
    }
    return otherwise;
}

static double last_loss(const metrics_run *run)
{
    const metrics_curve *curve = psgd__metrics_curve(run, "train loss");
    double sum = 0, steps = 0;
    for (int64_t i = curve ? curve->count - 1 : -1; i >= 0 && 20 * steps < (double)run->last.step; i--) {
        double own = (double)(curve->when[i].step - (i > 0 ? curve->when[i - 1].step : 0));
        sum += own * curve->value[i];
        steps += own;
    }
    return steps > 0 ? sum / steps : NAN;
}

metrics_summary psgd__metrics_summary(const metrics_run *run)
{
    bool diverged = final_value(run, "diverged", 0) == 1;
    bool is_text = isfinite(final_value(run, "test_perplexity", NAN)); /* whose validation text is no choice */
    return (metrics_summary){
        .finished = run->finished,
        .diverged = diverged,
        .loss = diverged ? NAN : last_loss(run),
        .valid_error = final_value(run, "valid_error", NAN),
        .valid_loss = is_text ? NAN : final_value(run, "valid_loss", NAN),
        .test_loss = final_value(run, "test_loss", NAN),
        .test_error = final_value(run, "test_error", NAN),
        .test_perplexity = final_value(run, "test_perplexity", NAN),
        .skipped = (int64_t)final_value(run, "skipped_steps", 0),
        .end = run->last,
    };
}
