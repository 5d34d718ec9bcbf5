/* A run in front of a person: a progress bar, a line an epoch, Ctrl-C. */
#ifndef PSGD_CLI_RUN_TRAINER_H
#define PSGD_CLI_RUN_TRAINER_H

#include <stdio.h>

#include "train/train.h"

/* Trains to the end, or to an interrupt: the step is finished, the run saved, *stopped. Lines go to this stream. */
psgd_status cli_run_trainer(trainer *self, FILE *lines, bool *stopped);

/* Images that could not be read, where there are any. */
void cli_report_reading(const trainer *self, FILE *lines);

#endif
