#ifndef PSGD_CLI_DRAW_H
#define PSGD_CLI_DRAW_H

#include "cli/cli.h"

/* An image of Q of a spec, one panel for each factor, before them Q itself where that is small. files (may be NULL)
 * names .npy files with the factors, separated by commas, as psgd fit writes them: then the values are drawn, else the
 * pattern of what may be non-zero. */
int cli_draw(const psgd_context *context, const char *spec, int ndim, const int64_t *shape, const char *files,
             const char *path);

#endif
