/* The built-in kinds, for untyped code: they are the same for both number types. */
#ifndef PSGD_GROUP_BUILTIN_H
#define PSGD_GROUP_BUILTIN_H

#include "group/kind.h"

int psgd__builtin_count_f32(void);
int psgd__builtin_count_f64(void);
const group_kind *psgd__builtin_kind_f32(int index);
const group_kind *psgd__builtin_kind_f64(int index);

#endif
