/* JSON as it is written: by the metrics log and by the page. */
#ifndef PSGD_REPORT_JSON_H
#define PSGD_REPORT_JSON_H

#include "core/text.h"

/* Each adds before, "name" and a colon, and then the value: a string that cannot end the script element it may stand
 * in, or a number with this many digits, null where it is not finite. */
void psgd__json_string(text *to, const char *before, const char *name, const char *value);
void psgd__json_number(text *to, const char *before, const char *name, int digits, double value);

void psgd__json_value(text *to, int digits, double value);

#endif
