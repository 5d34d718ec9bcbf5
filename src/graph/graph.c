/* Building a graph. Every argument is validated here; planning and running trust it. */
#include "graph/graph.h"
#include "la/isa.h"

#include <stdio.h>
#include <string.h>

psgd_status psgd_graph_create(const psgd_context *context, psgd_dtype dtype, psgd_graph **graph)
{
    if (!graph) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_create: graph is NULL");
    *graph = NULL;
    PSGD_TRY(psgd__check_dtype(dtype));
    PSGD_TRY(psgd__isa_check());
    psgd_graph *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a graph");
    self->context = context;
    self->dtype = dtype;
    self->loss = -1;
    *graph = self;
    return PSGD_OK;
}

void psgd_graph_free(psgd_graph *self)
{
    if (!self) return;
    for (int i = 0; i < self->count; i++) psgd__free(self->context, (void *)self->nodes[i].call.options);
    for (int i = 0; i < self->parameter_count; i++) {
        psgd__free(self->context, self->parameters[i].name);
        psgd__free(self->context, self->parameters[i].index);
        psgd__free(self->context, self->parameters[i].place);
    }
    psgd__free(self->context, self->nodes);
    psgd__free(self->context, self->parameters);
    psgd__free(self->context, self->arena);
    psgd__free(self->context, self->rows);
    psgd__free(self->context, self);
}

psgd_node psgd__graph_refuse(psgd_graph *self, psgd_status status)
{
    if (self->failure == PSGD_OK) {
        self->failure = status;
        snprintf(self->sentence, sizeof self->sentence, "%.500s", psgd_last_error());
    }
    return -1;
}

/* Doubles the array when it is full. */
static bool grow(const psgd_context *context, void **items, int count, int *room, size_t bytes)
{
    if (count < *room) return true;
    int more = *room ? 2 * *room : 16;
    char *grown = psgd__alloc(context, more, bytes);
    if (!grown) return false;
    if (*items) memcpy(grown, *items, (size_t)count * bytes);
    psgd__free(context, *items);
    *items = grown;
    *room = more;
    return true;
}

const char *psgd__shape_text(const psgd_operand *tensor, char buffer[160])
{
    int used = snprintf(buffer, 160, "[");
    for (int i = 0; i < tensor->ndim && used < 150; i++) {
        used += snprintf(buffer + used, (size_t)(160 - used), "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    }
    snprintf(buffer + (used < 158 ? used : 158), 2, "]");
    return buffer;
}

/* The tensor's size from its shape; fails where a dimension is below 1 or the product overflows. */
static psgd_status measure(psgd_operand *tensor)
{
    if (tensor->ndim < 1 || tensor->ndim > PSGD_MAX_DIMS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a shape has 1 to %d dimensions, not %d", PSGD_MAX_DIMS, tensor->ndim);
    }
    char shape[160];
    tensor->size = 1;
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 1 || !psgd__mul_fits(tensor->size, tensor->shape[i], &tensor->size)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "the shape %s has a size below 1 or too many elements",
                              psgd__shape_text(tensor, shape));
        }
    }
    return PSGD_OK;
}

static graph_node *append(psgd_graph *self)
{
    if (!grow(self->context, (void **)&self->nodes, self->count, &self->room, sizeof *self->nodes)) {
        psgd__graph_refuse(self, psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for node %d of the graph", self->count));
        return NULL;
    }
    graph_node *node = &self->nodes[self->count];
    *node = (graph_node){.parameter = -1};
    node->call.node = self->count;
    return node;
}

/* Whether nodes may still be added; if not, records the failure. */
static bool open_for(psgd_graph *self, const char *what)
{
    if (!self || self->failure != PSGD_OK) return false;
    if (!self->finished) return true;
    psgd__graph_refuse(self, psgd__fail(PSGD_ERR_ARGUMENT, "%s: the graph is finished", what));
    return false;
}

psgd_node psgd_graph_input(psgd_graph *self, int ndim, const int64_t *shape)
{
    if (!open_for(self, "input")) return -1;
    psgd_operand tensor = {.ndim = ndim};
    for (int i = 0; shape && i < ndim && i < PSGD_MAX_DIMS; i++) tensor.shape[i] = shape[i];
    psgd_status status = shape ? measure(&tensor) : psgd__fail(PSGD_ERR_ARGUMENT, "shape is NULL");
    if (status != PSGD_OK) return psgd__graph_refuse(self, psgd__fail_in(status, "input (node %d)", self->count));
    graph_node *node = append(self);
    if (!node) return -1;
    node->call.output = tensor;
    return self->count++;
}

static psgd_status add_parameter(psgd_graph *self, const char *name, const psgd_operand *tensor)
{
    for (int i = 0; i < self->parameter_count; i++) {
        if (!strcmp(self->parameters[i].name, name)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "there is a parameter %s already", name);
        }
    }
    int64_t end;
    if (!psgd__add_fits(self->slab, tensor->size, &end)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "parameter %s: too many elements", name);
    }
    char *copy = psgd__strdup(self->context, name);
    if (!copy || !grow(self->context, (void **)&self->parameters, self->parameter_count, &self->parameter_room,
                       sizeof *self->parameters)) {
        psgd__free(self->context, copy);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for parameter %s", name);
    }
    self->parameters[self->parameter_count++] = (graph_parameter){
        .name = copy, .shape = {tensor->shape[0], tensor->shape[1]}, .offset = self->slab, .node = self->count};
    self->slab = end;
    return PSGD_OK;
}

psgd_node psgd_graph_parameter(psgd_graph *self, const char *name, int64_t rows, int64_t columns)
{
    if (!open_for(self, "parameter")) return -1;
    psgd_operand tensor = {.ndim = 2, .shape = {rows, columns}, .live = true};
    psgd_status status = name ? measure(&tensor) : psgd__fail(PSGD_ERR_ARGUMENT, "a parameter needs a name");
    if (status != PSGD_OK) {
        return psgd__graph_refuse(self, psgd__fail_in(status, "parameter %s", name ? name : ""));
    }
    graph_node *node = append(self);
    if (!node) return -1;
    status = add_parameter(self, name, &tensor);
    if (status != PSGD_OK) return psgd__graph_refuse(self, status);
    node->call.output = tensor;
    node->parameter = self->parameter_count - 1;
    return self->count++;
}

psgd_node psgd_graph_row_parameter(psgd_graph *self, const char *name, int64_t rows, int64_t columns)
{
    psgd_node node = psgd_graph_parameter(self, name, rows, columns);
    if (node >= 0) self->parameters[self->nodes[node].parameter].by_rows = true;
    return node;
}

/* Prefixes the message with "affine (node 3) of [784, 64], [10, 784]: ". */
static psgd_node refuse_op(psgd_graph *self, psgd_status status, const psgd_op *op, const psgd_op_call *call)
{
    char shapes[400] = "", one[160];
    for (int i = 0, used = 0; i < call->input_count && used < 380; i++) {
        used += snprintf(shapes + used, sizeof shapes - (size_t)used, "%s%s", i ? ", " : "",
                         psgd__shape_text(&call->input[i], one));
    }
    return psgd__graph_refuse(self, psgd__fail_in(status, "%s (node %d) of %s", op->name, self->count, shapes));
}

static psgd_status bind_inputs(psgd_graph *self, graph_node *node, int count, const psgd_node *inputs)
{
    if (count < 1 || count > PSGD_MAX_INPUTS) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an op has 1 to %d inputs, not %d", PSGD_MAX_INPUTS, count);
    }
    if (!inputs) return psgd__fail(PSGD_ERR_ARGUMENT, "the list of inputs is NULL");
    for (int i = 0; i < count; i++) {
        if (inputs[i] < 0 || inputs[i] >= self->count) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "there is no node %d", inputs[i]);
        }
        node->input[i] = inputs[i];
        node->call.input[i] = self->nodes[inputs[i]].call.output;
        if (node->call.input[i].live) node->call.output.live = true;
    }
    node->call.input_count = count;
    return PSGD_OK;
}

psgd_node psgd_graph_op(psgd_graph *self, const psgd_op *op, int input_count, const psgd_node *inputs,
                        const void *options, size_t option_bytes)
{
    if (!open_for(self, op ? op->name : "op")) return -1;
    if (!op || !op->check || !op->forward || !op->tangent || !op->backward || !op->tangent_backward) {
        return psgd__graph_refuse(self, psgd__fail(PSGD_ERR_ARGUMENT, "an op needs a check and four kernels"));
    }
    graph_node *node = append(self);
    if (!node) return -1;
    psgd_op_call *call = &node->call;
    psgd_status status = bind_inputs(self, node, input_count, inputs);
    if (status != PSGD_OK) return psgd__graph_refuse(self, psgd__fail_in(status, "%s", op->name));
    if (option_bytes > 0 && !options) {
        return psgd__graph_refuse(self, psgd__fail(PSGD_ERR_ARGUMENT, "%s: options is NULL", op->name));
    }
    if (option_bytes > 0) {
        void *copy = psgd__alloc(self->context, (int64_t)option_bytes, 1);
        if (!copy) return psgd__graph_refuse(self, psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %s", op->name));
        memcpy(copy, options, option_bytes);
        call->options = copy;
    }
    node->op = op;
    status = op->check(call);
    if (status == PSGD_OK) status = measure(&call->output);
    if (status != PSGD_OK) {
        psgd__free(self->context, (void *)call->options);
        return refuse_op(self, status, op, call);
    }
    return self->count++;
}

/* Undoes a finish that has failed, so that it can be called again. */
static void forget_plan(psgd_graph *self)
{
    self->loss = -1;
    for (int i = 0; i < self->count; i++) {
        self->nodes[i].used = false;
        memset(self->nodes[i].call.add, 0, sizeof self->nodes[i].call.add);
    }
    for (int i = 0; i < self->parameter_count; i++) {
        graph_parameter *p = &self->parameters[i];
        psgd__free(self->context, p->index);
        psgd__free(self->context, p->place);
        p->index = p->place = NULL;
        p->max = 0;
        p->used = false;
    }
    psgd__free(self->context, self->arena);
    self->arena = NULL;
}

psgd_status psgd_graph_finish(psgd_graph *self, psgd_node loss)
{
    if (!self) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_finish: graph is NULL");
    if (self->failure != PSGD_OK) return psgd__fail(self->failure, "%s", self->sentence);
    if (self->finished) return psgd__fail(PSGD_ERR_ARGUMENT, "the graph is finished already");
    if (loss < 0 || loss >= self->count) return psgd__fail(PSGD_ERR_ARGUMENT, "there is no node %d", loss);
    const psgd_operand *tensor = &self->nodes[loss].call.output;
    if (tensor->size != 1 || !self->nodes[loss].op) {
        char shape[160];
        return psgd__fail(PSGD_ERR_ARGUMENT, "the loss must be the result of an op and have one element; node %d is %s",
                          loss, psgd__shape_text(tensor, shape));
    }
    if (!tensor->live) return psgd__fail(PSGD_ERR_ARGUMENT, "the loss depends on no parameter");
    self->loss = loss;
    psgd_status status = psgd__graph_plan(self);
    if (status == PSGD_OK) status = psgd__graph_plan_rows(self);
    if (status != PSGD_OK) forget_plan(self);
    self->finished = status == PSGD_OK;
    return status;
}

void *psgd_graph_values(psgd_graph *self, psgd_node node)
{
    if (!self || !self->finished || node < 0 || node >= self->count) return NULL;
    return self->nodes[node].call.output.value;
}

int psgd_graph_shape(const psgd_graph *self, psgd_node node, const int64_t **shape)
{
    if (!self || node < 0 || node >= self->count) return 0;
    if (shape) *shape = self->nodes[node].call.output.shape;
    return self->nodes[node].call.output.ndim;
}

void psgd_graph_set_step(psgd_graph *self, uint64_t seed, uint64_t step)
{
    if (!self) return;
    self->seed = seed;
    self->step = step;
}

int64_t psgd_graph_parameters(const psgd_graph *self)
{
    return self ? self->slab : 0;
}

int psgd_graph_parameter_count(const psgd_graph *self)
{
    return self ? self->parameter_count : 0;
}

psgd_node psgd_graph_parameter_node(const psgd_graph *self, int index)
{
    return self && index >= 0 && index < self->parameter_count ? self->parameters[index].node : -1;
}

const char *psgd_graph_parameter_name(const psgd_graph *self, int index)
{
    return self && index >= 0 && index < self->parameter_count ? self->parameters[index].name : NULL;
}

const int64_t *psgd_graph_parameter_shape(const psgd_graph *self, int index)
{
    return self && index >= 0 && index < self->parameter_count ? self->parameters[index].shape : NULL;
}

int64_t psgd_graph_parameter_offset(const psgd_graph *self, int index)
{
    return self && index >= 0 && index < self->parameter_count ? self->parameters[index].offset : 0;
}

int64_t psgd_graph_bytes(const psgd_graph *self)
{
    return self ? self->arena_bytes : 0;
}

/* A gradient costs three forward passes, a gradient with Hv nine. */
double psgd_graph_flops(const psgd_graph *self, bool hessian)
{
    double forward = 0;
    for (int i = 0; self && i < self->count; i++) forward += self->nodes[i].op ? self->nodes[i].call.flops : 0;
    return forward * (hessian ? 9 : 3);
}
