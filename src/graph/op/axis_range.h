/* A range of indices along one axis: what slice reads and concat writes. */
#ifndef PSGD_GRAPH_OP_AXIS_RANGE_H
#define PSGD_GRAPH_OP_AXIS_RANGE_H

#include "graph/op.h"

/* The range as count rows of length elements, ld apart in the whole tensor, starting at its element start. */
typedef struct range_rows {
    int64_t count, length, ld, start;
} range_rows;

static inline range_rows range_of(const psgd_operand *whole, int axis, int64_t from, int64_t size)
{
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < whole->ndim; i++) {
        if (i < axis) outer *= whole->shape[i];
        if (i > axis) inner *= whole->shape[i];
    }
    return (range_rows){outer, size * inner, whole->shape[axis] * inner, from * inner};
}

/* part <- [part +] the range of whole; the range of whole <- [it +] part. */
static inline void range_read(const range_rows *r, const real *whole, bool add, real *part)
{
    for (int64_t i = 0; i < r->count; i++) {
        const real *from = whole + r->start + i * r->ld;
        real *to = part + i * r->length;
        for (int64_t j = 0; j < r->length; j++) to[j] = add ? to[j] + from[j] : from[j];
    }
}

static inline void range_write(const range_rows *r, const real *part, bool add, real *whole)
{
    for (int64_t i = 0; i < r->count; i++) {
        const real *from = part + i * r->length;
        real *to = whole + r->start + i * r->ld;
        for (int64_t j = 0; j < r->length; j++) to[j] = add ? to[j] + from[j] : from[j];
    }
}

#endif
