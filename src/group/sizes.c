/* Sizes: those of a shape handed down the tree of a spec, those left out worked out, and what does not fit named. */
#include "core/memory.h"
#include "group/spec.h"

#include <stdio.h>
#include <string.h>

static psgd_status too_large(const spec *node)
{
    return psgd__fail(PSGD_ERR_SPEC, "the sizes in %s at column %d are too large to multiply", node->kind->name,
                      node->column);
}

/* The size that a node has by itself, written or from its parts; -1 where that is open. */
static psgd_status own_size(const spec *node, int64_t *size)
{
    int64_t total = node->kind->sizes == SIZES_MULTIPLY;
    *size = node->size;
    if (node->kind->sizes == SIZES_NONE || node->kind->sizes == SIZES_TILES) return PSGD_OK;
    for (const spec *child = node->first; child; child = child->next) {
        int64_t part;
        PSGD_TRY(own_size(child, &part));
        if (part < 0) return PSGD_OK;
        bool fits = node->kind->sizes == SIZES_MULTIPLY ? psgd__mul_fits(total, part, &total)
                                                        : psgd__add_fits(total, part, &total);
        if (!fits) return too_large(node);
    }
    if (*size >= 0 && *size != total) {
        return psgd__fail(PSGD_ERR_SPEC, "%s at column %d is written with size %lld, but its parts make %lld",
                          node->kind->name, node->column, (long long)*size, (long long)total);
    }
    *size = total;
    return PSGD_OK;
}

static psgd_status assign(spec *node, int64_t n);

/* Parts that add up to n; one of them may be open. */
static psgd_status assign_parts(spec *node, int64_t n)
{
    int64_t known = 0, part;
    spec *open = NULL;
    for (spec *child = node->first; child; child = child->next) {
        PSGD_TRY(own_size(child, &part));
        if (part < 0 && open) {
            return psgd__fail(PSGD_ERR_SPEC,
                              "%s at column %d leaves out the sizes of %s (column %d) and %s (column %d): at "
                              "most one can be worked out",
                              node->kind->name, node->column, open->kind->name, open->column, child->kind->name,
                              child->column);
        }
        if (part < 0) {
            open = child;
        } else if (!psgd__add_fits(known, part, &known)) {
            return too_large(node);
        }
    }
    if (open ? known >= n : known != n) {
        return psgd__fail(PSGD_ERR_SPEC, "%s at column %d needs size %lld, but its parts make %lld%s%s",
                          node->kind->name, node->column, (long long)n, (long long)known,
                          open ? " and leave nothing for " : "", open ? open->kind->name : "");
    }
    for (spec *child = node->first; child; child = child->next) {
        PSGD_TRY(own_size(child, &part));
        PSGD_TRY(assign(child, child == open ? n - known : part));
    }
    return PSGD_OK;
}

/* Factors of a kron that stands in a sum: each must say its size. */
static psgd_status assign_factors(spec *node)
{
    for (spec *child = node->first; child; child = child->next) {
        int64_t part;
        PSGD_TRY(own_size(child, &part));
        if (part < 0) {
            return psgd__fail(PSGD_ERR_SPEC,
                              "%s at column %d is a part of a sum, so its factor %s at column %d needs a size, "
                              "as in kron(tri:3,tri:4)",
                              node->kind->name, node->column, child->kind->name, child->column);
        }
        PSGD_TRY(assign(child, part));
    }
    return PSGD_OK;
}

static psgd_status assign(spec *node, int64_t n)
{
    int64_t own;
    PSGD_TRY(own_size(node, &own));
    if (own >= 0 && own != n) {
        return psgd__fail(PSGD_ERR_SPEC, "%s at column %d has size %lld, but needs %lld", node->kind->name,
                          node->column, (long long)own, (long long)n);
    }
    node->n = n;
    switch (node->kind->sizes) {
    case SIZES_NONE:
    case SIZES_TILES: /* stands where assign_ndim sees it */
        return PSGD_OK;
    case SIZES_SAME:
        return assign(node->first, n);
    case SIZES_ADD:
        return assign_parts(node, n);
    case SIZES_MULTIPLY:
        return assign_factors(node);
    }
    return PSGD_OK;
}

static psgd_status assign_ndim(spec *node, int64_t n, int ndim, const int64_t *shape);

static psgd_status check_tiles(const spec *node, int ndim, const int64_t *shape)
{
    if (ndim != 2) {
        return psgd__fail(PSGD_ERR_SPEC, "%s at column %d cuts a matrix, and the tensor has %d dimension%s",
                          node->kind->name, node->column, ndim, ndim == 1 ? "" : "s");
    }
    if (node->down > shape[0] || node->across > shape[1]) {
        return psgd__fail(PSGD_ERR_SPEC,
                          "%s at column %d cuts a matrix of %lld x %lld into %lld x %lld tiles: too many",
                          node->kind->name, node->column, (long long)shape[0], (long long)shape[1],
                          (long long)node->down, (long long)node->across);
    }
    if (node->down <= SPEC_MAX_TILES && node->across <= SPEC_MAX_TILES / node->down) return PSGD_OK;
    return psgd__fail(PSGD_ERR_SPEC, "%s at column %d makes %lld x %lld tiles; there may be at most %d",
                      node->kind->name, node->column, (long long)node->down, (long long)node->across, SPEC_MAX_TILES);
}

/* Tiles as even as possible, so of two heights and two widths at most. Where all are equal there is no smaller one. */
static psgd_status assign_tiles(spec *node, int ndim, const int64_t *shape)
{
    PSGD_TRY(check_tiles(node, ndim, shape));
    node->rows = shape[0];
    node->columns = shape[1];
    bool uneven[2] = {node->rows % node->down != 0, node->columns % node->across != 0};
    int which = 0;
    for (spec *child = node->first; child; child = child->next, which++) {
        int lower = which / 2, narrower = which % 2;
        int64_t tile[2] = {node->rows / node->down + (uneven[0] && !lower),
                           node->columns / node->across + (uneven[1] && !narrower)};
        PSGD_TRY(assign_ndim(child, tile[0] * tile[1], 2, tile));
    }
    return PSGD_OK;
}

/* A kron at the root takes its sizes from the modes of the tensor. */
static psgd_status assign_ndim(spec *node, int64_t n, int ndim, const int64_t *shape)
{
    for (; node->kind->sizes == SIZES_SAME; node = node->first) node->n = n;
    if (node->kind->sizes == SIZES_TILES) {
        node->n = n;
        return assign_tiles(node, ndim, shape);
    }
    if (node->kind->sizes != SIZES_MULTIPLY) return assign(node, n);
    node->n = n;
    if (node->child_count != ndim) {
        return psgd__fail(PSGD_ERR_SPEC,
                          "%s at column %d has %d factor%s, but the tensor has %d dimension%s: it needs one factor "
                          "for each",
                          node->kind->name, node->column, node->child_count, node->child_count == 1 ? "" : "s", ndim,
                          ndim == 1 ? "" : "s");
    }
    for (spec *child = node->first; child; child = child->next) PSGD_TRY(assign(child, *shape++));
    return PSGD_OK;
}

psgd_status psgd__spec_fit(spec_tree *tree, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    if (!shape) return psgd__fail(PSGD_ERR_ARGUMENT, "the shape of the tensor is missing");
    if (ndim < 1 || ndim > SPEC_MAX_DIMS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a tensor has 1 to %d dimensions, not %d", SPEC_MAX_DIMS, ndim);
    }
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 1) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "dimension %d of the tensor has size %lld; it must be at least 1",
                              i + 1, (long long)shape[i]);
        }
        if (!psgd__mul_fits(n, shape[i], &n) || n > INT64_MAX / 64) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "the tensor has more elements than can be counted");
        }
    }
    return assign_ndim(tree->root, n, ndim, shape);
}
