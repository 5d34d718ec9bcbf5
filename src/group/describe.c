/* The public face of specs. */
#include "core/memory.h"
#include "group/describe.h"
#include "group/registry.h"
#include <psgd/group.h>

static const group_kind *kind_at(const psgd_context *context, int index)
{
    return index >= 0 && index < psgd__group_kind_count(context) ? psgd__group_kind_at(context, index) : NULL;
}

const char *psgd_group_name(const psgd_context *context, int index)
{
    const group_kind *kind = kind_at(context, index);
    return kind ? kind->name : NULL;
}

const char *psgd_group_summary(const psgd_context *context, int index)
{
    const group_kind *kind = kind_at(context, index);
    return kind ? kind->summary : NULL;
}

const char *psgd_group_formula(const psgd_context *context, int index)
{
    const group_kind *kind = kind_at(context, index);
    return kind ? kind->formula : NULL;
}

static psgd_status describe(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                            psgd_dtype dtype, description *to)
{
    spec_tree tree;
    PSGD_TRY(psgd__spec_read(context, source, ndim, shape, dtype, &tree));
    psgd_status status = PSGD_PICK(dtype, psgd__group_describe)(context, &tree, to);
    psgd__spec_free(&tree);
    return status;
}

psgd_status psgd_group_cost(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                            psgd_dtype dtype, int64_t *size, int64_t *bytes, double *update_flops, double *update_bytes,
                            double *apply_flops, double *apply_bytes)
{
    description d = {0};
    PSGD_TRY(describe(context, source, ndim, shape, dtype, &d));
    if (size) *size = d.size;
    if (bytes) *bytes = d.bytes;
    if (update_flops) *update_flops = d.update_flops;
    if (update_bytes) *update_bytes = d.update_bytes;
    if (apply_flops) *apply_flops = d.apply_flops;
    if (apply_bytes) *apply_bytes = d.apply_bytes;
    return PSGD_OK;
}

psgd_status psgd_group_tiles(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                             psgd_dtype dtype, int room, psgd_tile *tiles, int *count)
{
    if (!count || (tiles && room < 0)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_group_tiles needs a count, and room of at least 0, not %d", room);
    }
    description d = {.room = tiles ? room : 0, .tiles = tiles};
    PSGD_TRY(describe(context, source, ndim, shape, dtype, &d));
    *count = d.tile_count;
    if (d.tile_count > 1 || d.room < 1) return PSGD_OK;
    tiles[0].rows = shape[0];
    for (int k = 1; k < ndim; k++) tiles[0].columns *= shape[k];
    return PSGD_OK;
}

psgd_status psgd_group_tree(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                            psgd_dtype dtype, char **tree)
{
    if (!tree) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_group_tree: tree is NULL");
    *tree = NULL;
    text lines = {.context = context};
    description d = {.tree = &lines};
    psgd_status status = describe(context, source, ndim, shape, dtype, &d);
    if (status == PSGD_OK && lines.failed) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the tree of a group");
    if (status != PSGD_OK) {
        psgd__text_free(&lines);
        return status;
    }
    *tree = lines.chars;
    return PSGD_OK;
}

psgd_status psgd_group_check(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                             psgd_dtype dtype, uint64_t seed, int *broken, char **report)
{
    if (!broken) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_group_check: broken is NULL");
    if (report) *report = NULL;
    spec_tree tree;
    text lines = {.context = context};
    check_result result = {.lines = &lines};
    PSGD_TRY(psgd__spec_read(context, source, ndim, shape, dtype, &tree));
    psgd_status status = PSGD_PICK(dtype, psgd__group_check)(context, &tree, seed, &result);
    psgd__spec_free(&tree);
    if (status == PSGD_OK && lines.failed) status = psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the report");
    *broken = result.broken;
    if (status == PSGD_OK && report) {
        *report = lines.chars;
    } else {
        psgd__text_free(&lines);
    }
    return status;
}

void psgd_text_free(const psgd_context *context, char *chars)
{
    psgd__free(context, chars);
}
