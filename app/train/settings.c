#include "train/settings.h"

#include <string.h>

#include "core/text.h"
#include "train/task.h"

const char *psgd__setting_find(int count, const train_setting *list, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(list[i].name, name)) return list[i].value;
    }
    return NULL;
}

/* Options of a schedule, and the schedules that they are for: values of lr-schedule, or lr-epochs or lr-end, which make
 * schedules step of their own. */
static const struct schedule_option {
    const char *name, *of[4];
} schedule_options[] = {
    {"lr-every", {"step"}}, {"lr-factor", {"step", "plateau", "lr-epochs"}}, {"lr-floor", {"cosine"}}};
enum { SCHEDULE_OPTIONS = sizeof schedule_options / sizeof schedule_options[0] };

static bool is_for(const struct schedule_option *option, const char *schedule)
{
    for (int i = 0; option->of[i]; i++) {
        if (!strcmp(option->of[i], schedule)) return true;
    }
    return false;
}

/* An option of another schedule than this one that the list has; NULL: none. */
static const struct schedule_option *find_other(const psgd_options *list, const char *schedule)
{
    for (int i = 0; i < SCHEDULE_OPTIONS; i++) {
        const struct schedule_option *option = &schedule_options[i];
        if (psgd__options_find(list, option->name) && !is_for(option, schedule)) return option;
    }
    return NULL;
}

/* Without a name it is cosine. */
static psgd_status check_named(const psgd_options *options)
{
    const char *schedule = psgd__options_find(options, "lr-schedule");
    if (!schedule) schedule = "cosine";
    const struct schedule_option *other = find_other(options, schedule);
    if (!other) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "--%s is for --lr-schedule %s, and that of this run is %s", other->name,
                      other->of[0], schedule);
}

psgd_status psgd__settings_check_schedule(const train_config *config)
{
    bool by_epochs = config->settings.lr_epochs > 0, by_end = config->settings.lr_end > 0;
    if (!by_epochs && !by_end) return check_named(config->optimizer);
    const char *own = by_epochs ? "lr-epochs" : "lr-end";
    const char *named = psgd__options_find(config->optimizer, "lr-schedule");
    const struct schedule_option *option = find_other(config->optimizer, own);
    const char *other = option                           ? option->name
                        : named && strcmp(named, "step") ? "lr-schedule"
                        : by_epochs && by_end            ? "lr-end"
                                                         : NULL;
    if (!other) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "--%s and --%s both say how lr falls: leave one of them out", own, other);
}

/* The schedule that a setting asks for; NULL: it asks for none. */
static const char *schedule_of(const train_setting *setting)
{
    double value;
    bool own = !strcmp(setting->name, "lr-epochs") || !strcmp(setting->name, "lr-end");
    if (!strcmp(setting->name, "lr-schedule")) return setting->value;
    return own && psgd__parse_number(setting->value, &value) && value > 0 ? setting->name : NULL;
}

static bool replaces(const train_setting *later, const train_setting *old)
{
    const char *schedule = schedule_of(later);
    if (!strcmp(later->name, old->name) || (schedule && schedule_of(old))) return true;
    for (int i = 0; schedule && i < SCHEDULE_OPTIONS; i++) {
        if (!strcmp(schedule_options[i].name, old->name)) return !is_for(&schedule_options[i], schedule);
    }
    return !strcmp(later->name, "data") && !psgd__task_takes_jpegs(later->value) && psgd__task_is_of_jpegs(old->name);
}

bool psgd__setting_is_replaced(const train_setting *old, int count, const train_setting *later)
{
    for (int i = 0; i < count; i++) {
        if (replaces(&later[i], old)) return true;
    }
    return false;
}
