/* The laws that every group keeps, tried on random elements. */
#ifndef PSGD_GROUP_CHECK_H
#define PSGD_GROUP_CHECK_H

#include "core/text.h"
#include "group/spec.h"

typedef struct check_result {
    text *lines; /* one for each law and part */
    int broken;
    int64_t tried;
} check_result;

psgd_status psgd__group_check_f32(const psgd_context *context, const spec_tree *tree, uint64_t seed, check_result *to);
psgd_status psgd__group_check_f64(const psgd_context *context, const spec_tree *tree, uint64_t seed, check_result *to);

#endif
