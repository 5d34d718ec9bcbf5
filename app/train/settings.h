/* Settings that exclude each other: those of learning rate schedules, and those that only some data take. */
#ifndef PSGD_TRAIN_SETTINGS_H
#define PSGD_TRAIN_SETTINGS_H

#include "train/config.h"

/* That every option of a schedule is one of the schedule of the run. */
psgd_status psgd__settings_check_schedule(const train_config *config);

/* Whether settings given later, of a run that resumes or of one optimizer of a comparison, take the place of this one:
 * of the same name, or such that it would have no effect with them and be refused. */
bool psgd__setting_is_replaced(const train_setting *old, int count, const train_setting *later);

#endif
