/* Row parameters: which rows of a matrix the tokens of a run select.
 *
 * The list is built from the inputs before a run and sorted, so it does not depend on the order of the tokens. The cost
 * is a sort of the tokens; the matrix itself is not read. */
#include "graph/graph.h"
#include "graph/ops.h"

#include <stdlib.h>

/* Whether input k of a node is the matrix of an embedding whose tokens are an input of the graph. */
static bool reads_rows(const psgd_graph *self, const graph_node *node, int k)
{
    return node->op == PSGD_PICK(self->dtype, &psgd__op_embedding) && k == 1 && !self->nodes[node->input[0]].op &&
           self->nodes[node->input[0]].parameter < 0;
}

static psgd_status plan_parameter(psgd_graph *self, int index)
{
    graph_parameter *p = &self->parameters[index];
    for (int i = 0; i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        for (int k = 0; node->op && k < node->call.input_count; k++) {
            if (node->input[k] != p->node) continue;
            if (!reads_rows(self, node, k)) {
                return psgd__fail(PSGD_ERR_ARGUMENT,
                                  "%s (node %d) reads the row parameter %s: only an embedding of an input may",
                                  node->op->name, i, p->name);
            }
            node->call.add[k] = true;
            p->max += self->nodes[node->input[0]].call.output.size;
        }
    }
    if (p->max > p->shape[0]) p->max = p->shape[0];
    p->index = psgd__alloc(self->context, p->max, sizeof *p->index);
    p->place = psgd__alloc(self->context, p->shape[0], sizeof *p->place);
    if (!p->index || !p->place) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the rows of %s", p->name);
    for (int64_t i = 0; i < p->shape[0]; i++) p->place[i] = -1;
    return PSGD_OK;
}

psgd_status psgd__graph_plan_rows(psgd_graph *self)
{
    for (int i = 0; i < self->parameter_count; i++) {
        if (self->parameters[i].by_rows) PSGD_TRY(plan_parameter(self, i));
    }
    return PSGD_OK;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Appends the words of one embedding that are not in the list yet. */
static psgd_status add_words(psgd_graph *self, const graph_node *node, graph_parameter *p)
{
    const psgd_operand *tokens = &self->nodes[node->input[0]].call.output;
    for (int64_t i = 0; i < tokens->size; i++) {
        double token = self->dtype == PSGD_F64 ? ((const double *)tokens->value)[i]
                                               : (double)((const float *)tokens->value)[i];
        if (!(token >= 0 && token < (double)p->shape[0] && token == (double)(int64_t)token)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "token %g at entry %lld is not a whole number from 0 to %lld", token,
                              (long long)i, (long long)(p->shape[0] - 1));
        }
        if (p->place[(int64_t)token] >= 0) continue;
        p->place[(int64_t)token] = 0;
        p->index[p->count++] = (int64_t)token;
    }
    return PSGD_OK;
}

static psgd_status find_parameter(psgd_graph *self, graph_parameter *p)
{
    for (int64_t i = 0; i < p->count; i++) p->place[p->index[i]] = -1;
    p->count = 0;
    for (int i = 0; i < self->count; i++) {
        const graph_node *node = &self->nodes[i];
        for (int k = 0; node->op && k < node->call.input_count; k++) {
            if (node->input[k] == p->node) PSGD_TRY(add_words(self, node, p));
        }
    }
    qsort(p->index, (size_t)p->count, sizeof *p->index, ascending);
    for (int64_t i = 0; i < p->count; i++) p->place[p->index[i]] = i;
    return PSGD_OK;
}

psgd_status psgd__graph_find_rows(psgd_graph *self)
{
    for (int i = 0; i < self->parameter_count; i++) {
        if (self->parameters[i].by_rows) PSGD_TRY(find_parameter(self, &self->parameters[i]));
    }
    return PSGD_OK;
}

psgd_status psgd_graph_rows(psgd_graph *self, int parameter, psgd_rows *rows)
{
    if (!self || !rows || !self->finished || psgd_graph_max_rows(self, parameter) == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_rows needs a finished graph, one of its row parameters and "
                                             "rows");
    }
    graph_parameter *p = &self->parameters[parameter];
    PSGD_TRY(find_parameter(self, p));
    *rows = (psgd_rows){.count = p->count, .index = p->index};
    return PSGD_OK;
}

int64_t psgd_graph_max_rows(const psgd_graph *self, int parameter)
{
    return self && parameter >= 0 && parameter < self->parameter_count ? self->parameters[parameter].max : 0;
}
