/* What psgd group shows: a group as text and costs, and the laws that every group keeps, tried on random elements. */
#ifndef PSGD_GROUP_DESCRIBE_H
#define PSGD_GROUP_DESCRIBE_H

#include "core/dtype.h"
#include "core/text.h"
#include "group/spec.h"
#include <psgd/group.h>

typedef struct description {
    int64_t size, bytes;
    double update_flops, update_bytes, apply_flops, apply_bytes;
    text *tree; /* lines are added here; may be NULL */
    int room, tile_count;
    psgd_tile *tiles; /* [room]; may be NULL */
} description;

psgd_status psgd__group_describe_f32(const psgd_context *context, const spec_tree *tree, description *to);
psgd_status psgd__group_describe_f64(const psgd_context *context, const spec_tree *tree, description *to);

typedef struct check_result {
    text *lines; /* one for each law and part */
    int broken;
    int64_t tried;
} check_result;

psgd_status psgd__group_check_f32(const psgd_context *context, const spec_tree *tree, uint64_t seed, check_result *to);
psgd_status psgd__group_check_f64(const psgd_context *context, const spec_tree *tree, uint64_t seed, check_result *to);

#endif
