/* Settings by name, and those that exclude each other: of learning rate schedules, and of some data alone. */
#ifndef PSGD_TRAIN_SETTINGS_H
#define PSGD_TRAIN_SETTINGS_H

#include "train/config.h"

/* The value in a list; NULL: it has none of this name. */
const char *psgd__setting_find(int count, const train_setting *list, const char *name);

/* That every option of a schedule is one of the schedule of the run. */
psgd_status psgd__settings_check_schedule(const train_config *config);

/* Whether settings given later, of a run that resumes or of one optimizer of a comparison, take the place of this one:
 * of the same name, or such that it would have no effect with them and be refused. */
bool psgd__setting_is_replaced(const train_setting *old, int count, const train_setting *later);

#endif
