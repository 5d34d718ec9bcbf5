/* A stretch of one mode of a tensor: what slice reads and concat writes. */
#ifndef PSGD_GRAPH_OP_AXIS_RANGE_H
#define PSGD_GRAPH_OP_AXIS_RANGE_H

#include "graph/op.h"

/* The stretch as rows: count of them, length numbers each, pitch apart in the larger tensor, from its number start. */
typedef struct range_rows {
    int64_t count, length, ld, start;
} range_rows;

static inline range_rows range_of(const psgd_operand *whole, int mode, int64_t from, int64_t size)
{
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < whole->ndim; i++) {
        if (i < mode) outer *= whole->shape[i];
        if (i > mode) inner *= whole->shape[i];
    }
    return (range_rows){outer, size * inner, whole->shape[mode] * inner, from * inner};
}

/* part <- the stretch of whole, or the stretch of whole <- [it +] part. */
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
