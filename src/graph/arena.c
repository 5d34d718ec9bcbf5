/* The arena: one block that holds every array of a graph.
 *
 * Values, tangents and the scratch of ops have a place each. A gradient is live from the last node that reads the value
 * down to the node itself; gradients whose lifetimes do not overlap share memory. */
#include "graph/graph.h"

#include <string.h>

enum { LINE = 64 };

typedef struct arena {
    int64_t bytes; /* -1: overflow */
} arena;

static int64_t rounded(int64_t bytes)
{
    int64_t up;
    if (!psgd__add_fits(bytes, LINE - 1, &up)) return -1;
    return up / LINE * LINE;
}

static int64_t reserve(arena *to, int64_t bytes)
{
    int64_t at = to->bytes, end;
    bytes = rounded(bytes);
    if (at < 0 || bytes < 0 || !psgd__add_fits(at, bytes, &end)) {
        to->bytes = -1;
        return 0;
    }
    to->bytes = end;
    return at;
}

/* Marks what the loss depends on, the last reader of each node, and who writes its gradient first. */
static void trace(psgd_graph *self)
{
    self->nodes[self->loss].used = true;
    self->nodes[self->loss].last_use = self->loss;
    for (int i = self->loss; i >= 0; i--) {
        graph_node *node = &self->nodes[i];
        if (!node->used || !node->op) continue;
        for (int k = 0; k < node->call.input_count; k++) {
            graph_node *from = &self->nodes[node->input[k]];
            node->call.add[k] = from->used;
            if (!from->used) from->last_use = i;
            from->used = true;
            if (from->parameter >= 0) self->parameters[from->parameter].used = true;
        }
    }
}

static bool has_gradient(const graph_node *node)
{
    return node->used && node->op && node->call.output.live;
}

/* The lowest place that overlaps no gradient live at the same time. Later nodes have theirs already. */
static int64_t lowest_place(const psgd_graph *self, int index)
{
    const graph_node *node = &self->nodes[index];
    int64_t place = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = index + 1; i <= node->last_use; i++) {
            const graph_node *other = &self->nodes[i];
            if (!has_gradient(other)) continue;
            bool meets = place < other->gradient_place + other->region && other->gradient_place < place + node->region;
            if (!meets) continue;
            place = other->gradient_place + other->region;
            moved = true;
        }
    }
    return place;
}

static int64_t place_gradients(psgd_graph *self, size_t number)
{
    int64_t max = 0;
    for (int i = self->loss; i >= 0; i--) {
        graph_node *node = &self->nodes[i];
        if (!has_gradient(node)) continue;
        node->region = rounded(node->call.output.size * (int64_t)number);
        node->gradient_place = lowest_place(self, i);
        if (node->gradient_place + node->region > max) max = node->gradient_place + node->region;
    }
    return max;
}

typedef struct places {
    int64_t value, tangent, memory, state;
} places;

/* Runs once to measure the arena and once to set pointers; both passes give the same places. */
static places reserve_node(const graph_node *node, size_t number, arena *to)
{
    const psgd_op_call *call = &node->call;
    int64_t bytes;
    places at = {0};
    if (!psgd__mul_fits(call->output.size, (int64_t)number, &bytes)) to->bytes = -1;
    if (node->parameter < 0) at.value = reserve(to, bytes);
    if (node->op && call->output.live) at.tangent = reserve(to, bytes);
    at.memory = reserve(to, call->memory_bytes);
    return at;
}

static void point(psgd_graph *self, size_t number, int64_t gradients, int64_t tangent_gradients)
{
    arena again = {0};
    int64_t state = 0;
    for (int i = 0; i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        psgd_op_call *call = &node->call;
        places at = reserve_node(node, number, &again);
        if (node->parameter < 0) call->output.value = self->arena + at.value;
        if (node->op && call->output.live) call->output.tangent = self->arena + at.tangent;
        call->memory = self->arena + at.memory;
        call->state = self->state + state * (int64_t)number;
        state += call->state_size;
        if (!has_gradient(node)) continue;
        call->output.gradient = self->arena + gradients + node->gradient_place;
        call->output.tangent_gradient = self->arena + tangent_gradients + node->gradient_place;
    }
    for (int i = 0; i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        for (int k = 0; node->op && k < node->call.input_count; k++) {
            node->call.input[k] = self->nodes[node->input[k]].call.output;
        }
    }
}

psgd_status psgd__graph_plan(psgd_graph *self)
{
    size_t number = psgd_dtype_size(self->dtype);
    arena total = {0};
    self->state_size = 0;
    for (int i = 0; i < self->count; i++) {
        reserve_node(&self->nodes[i], number, &total);
        self->state_size += self->nodes[i].call.state_size;
    }
    trace(self);
    int64_t region = total.bytes < 0 ? 0 : place_gradients(self, number);
    int64_t gradients = reserve(&total, region), tangent_gradients = reserve(&total, region);
    int64_t state = reserve(&total, self->state_size * (int64_t)number);
    self->arena = total.bytes < 0 ? NULL : psgd__alloc(self->context, total.bytes, 1);
    if (!self->arena) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a graph of %lld bytes", (long long)total.bytes);
    }
    self->arena_bytes = total.bytes;
    self->gradient_bytes = region;
    self->state = self->arena + state;
    point(self, number, gradients, tangent_gradients);
    return PSGD_OK;
}

int64_t psgd_graph_resident_bytes(const psgd_graph *self, bool gradient, bool hessian)
{
    if (!self) return 0;
    int64_t bytes = self->arena_bytes - 2 * self->gradient_bytes, tangents = 0;
    for (int i = 0; i < self->count; i++) {
        const psgd_operand *y = &self->nodes[i].call.output;
        if (self->nodes[i].op && y->live) tangents += rounded(y->size * (int64_t)psgd_dtype_size(self->dtype));
    }
    if (!hessian) bytes -= tangents;
    if (gradient) bytes += self->gradient_bytes;
    return hessian ? bytes + self->gradient_bytes : bytes;
}
