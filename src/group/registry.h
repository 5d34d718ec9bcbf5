/* The groups that a context knows: the built-in ones, then the caller's own. */
#ifndef PSGD_GROUP_REGISTRY_H
#define PSGD_GROUP_REGISTRY_H

#include "group/kind.h"
#include <psgd/context.h>

int psgd__group_kind_count(const psgd_context *context);
const group_kind *psgd__group_kind_at(const psgd_context *context, int index);

#endif
