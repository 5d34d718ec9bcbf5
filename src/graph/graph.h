/* The graph: a list of nodes in the order of their creation, which is a topological order. */
#ifndef PSGD_GRAPH_GRAPH_H
#define PSGD_GRAPH_GRAPH_H

#include "core/dtype.h"
#include "core/memory.h"
#include "core/status.h"
#include <psgd/graph.h>

typedef struct graph_node {
    const psgd_op *op; /* NULL: an input or a parameter */
    psgd_op_call call; /* output is the node's own tensor, for leaves too */
    int input[PSGD_MAX_INPUTS];
    int parameter;                  /* its index, or -1 */
    bool used;                      /* the loss depends on it */
    int last_use;                   /* the last node on the way to the loss that reads it */
    int64_t gradient_place, region; /* bytes from the start of the gradient regions; bytes of each array */
} graph_node;

typedef struct graph_parameter {
    char *name;
    int64_t shape[2], offset;
    psgd_node node;
    bool used;
    int final_after; /* see final.c */
    /* For row parameters: */
    bool by_rows;
    int64_t count, max; /* rows of the last run, and the longest list possible */
    int64_t *index;     /* [max] */
    int64_t *place;     /* [shape[0]]: -1, or where a row of the matrix is in index */
} graph_parameter;

struct psgd_graph {
    const psgd_context *context;
    psgd_dtype dtype;
    graph_node *nodes;
    int count, room;
    graph_parameter *parameters;
    int parameter_count, parameter_room;
    int64_t slab; /* elements */
    psgd_node loss;
    bool finished;
    psgd_status failure; /* of the first call that failed, with its message */
    char sentence[512];
    char *arena, *state;
    int64_t arena_bytes, gradient_bytes, state_size; /* gradient_bytes: one of the two regions of gradients */
    uint64_t seed, step;
    psgd_graph_watcher watcher;
    void *watcher_data, *rows; /* rows of inputs; rows of gradients from row_gradients on */
    int64_t row_gradients;
    psgd_graph_final final;
    void *final_data;
};

/* Keeps the first failure for psgd_graph_finish; returns -1. */
psgd_node psgd__graph_refuse(psgd_graph *graph, psgd_status status);

/* Assigns every array a place in the arena and sets the nodes' pointers. */
psgd_status psgd__graph_plan(psgd_graph *graph);

/* Calls the watcher for a node whose output gradient is complete. */
void psgd__graph_show(psgd_graph *graph, const graph_node *node);

/* Reports which gradients are final after this node of the backward pass; -1: before the first. */
psgd_status psgd__graph_tell(psgd_graph *graph, int node);

/* Row parameters: allocates their lists; fills them from the tokens now in the inputs. */
psgd_status psgd__graph_plan_rows(psgd_graph *graph);
psgd_status psgd__graph_find_rows(psgd_graph *graph);

/* "[3, 4]" into a buffer. Returns it. */
const char *psgd__shape_text(const psgd_operand *tensor, char buffer[160]);

#endif
