/* Options by name: what would otherwise be a settings struct that freezes the ABI.
 *
 * A list of name = value pairs. Names and values are checked by the call that takes the list, which answers an unknown
 * name with the nearest known one. Later settings of a name replace earlier ones. */
#ifndef PSGD_OPTIONS_H
#define PSGD_OPTIONS_H

#include <psgd/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct psgd_options psgd_options;

psgd_status psgd_options_create(const psgd_context *context, psgd_options **options);
void psgd_options_free(psgd_options *options);

psgd_status psgd_options_set(psgd_options *options, const char *name, const char *value);
psgd_status psgd_options_set_number(psgd_options *options, const char *name, double value);

#ifdef __cplusplus
}
#endif
#endif
