/* Running a graph: values forward, gradients backward, and their derivatives along v in the same pass. */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

typedef struct slabs {
    const char *theta, *v;
    char *gradient, *hv;
} slabs;

static psgd_status check_run(const psgd_graph *self, const void *theta, const double *loss)
{
    if (!self || !theta || !loss) return psgd__fail(PSGD_ERR_ARGUMENT, "a run needs a graph, theta and loss");
    if (!self->finished) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_finish comes before a run");
    return PSGD_OK;
}

/* Points the parameters of every op at the caller's slabs and fills in the rest of the calls. */
static void bind_slabs(psgd_graph *self, const slabs *to, bool training)
{
    size_t number = psgd_dtype_size(self->dtype);
    for (int i = 0; i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        node->call.training = training;
        node->call.seed = self->seed;
        node->call.step = self->step;
        for (int k = 0; node->op && k < node->call.input_count; k++) {
            int parameter = self->nodes[node->input[k]].parameter;
            if (parameter < 0) continue;
            size_t at = (size_t)self->parameters[parameter].offset * number;
            psgd_operand *tensor = &node->call.input[k];
            tensor->value = (char *)to->theta + at;
            tensor->tangent = to->v ? (char *)to->v + at : NULL;
            tensor->gradient = to->gradient ? to->gradient + at : NULL;
            tensor->tangent_gradient = to->hv ? to->hv + at : NULL;
            tensor->place = self->parameters[parameter].place;
        }
    }
}

static psgd_status forward(psgd_graph *self, bool tangents)
{
    for (int i = 0; i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        if (!node->op) continue;
        psgd_status status = node->op->forward(&node->call);
        if (status != PSGD_OK) return psgd__fail_in(status, "%s (node %d)", node->op->name, i);
        if (tangents && node->used && node->call.output.live) node->op->tangent(&node->call);
    }
    return PSGD_OK;
}

static void set_number(psgd_dtype dtype, void *to, double number)
{
    if (dtype == PSGD_F64) {
        *(double *)to = number;
    } else {
        *(float *)to = (float)number;
    }
}

static psgd_status backward(psgd_graph *self, const slabs *to)
{
    size_t number = psgd_dtype_size(self->dtype);
    for (int i = 0; i < self->parameter_count; i++) {
        const graph_parameter *p = &self->parameters[i];
        if (p->used && !p->by_rows) continue;
        size_t at = (size_t)p->offset * number;
        size_t bytes = (size_t)((p->by_rows ? p->count : p->shape[0]) * p->shape[1]) * number;
        memset(to->gradient + at, 0, bytes);
        if (to->hv) memset(to->hv + at, 0, bytes);
    }
    if (self->final) PSGD_TRY(self->final(self->final_data, -1));
    PSGD_TRY(psgd__graph_tell(self, -1));
    psgd_operand *loss = &self->nodes[self->loss].call.output;
    set_number(self->dtype, loss->gradient, 1);
    set_number(self->dtype, loss->tangent_gradient, 0);
    for (int i = self->loss; i >= 0; i--) {
        graph_node *node = &self->nodes[i];
        if (!node->op || !node->used || !node->call.output.live) continue;
        if (self->watcher) psgd__graph_show(self, node);
        node->op->backward(&node->call);
        if (to->hv) node->op->tangent_backward(&node->call);
        PSGD_TRY(psgd__graph_tell(self, i));
    }
    return PSGD_OK;
}

static psgd_status run(psgd_graph *self, const slabs *to, double *loss)
{
    PSGD_TRY(psgd__graph_find_rows(self));
    bind_slabs(self, to, to->gradient);
    PSGD_TRY(forward(self, to->v));
    if (to->gradient) PSGD_TRY(backward(self, to));
    const void *value = self->nodes[self->loss].call.output.value;
    *loss = self->dtype == PSGD_F64 ? *(const double *)value : (double)*(const float *)value;
    return PSGD_OK;
}

psgd_status psgd_graph_loss(psgd_graph *self, const void *theta, double *loss)
{
    PSGD_TRY(check_run(self, theta, loss));
    return run(self, &(slabs){.theta = theta}, loss);
}

psgd_status psgd_graph_gradient(psgd_graph *self, const void *theta, void *gradient, double *loss)
{
    PSGD_TRY(check_run(self, theta, loss));
    if (!gradient) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_gradient: gradient is NULL");
    return run(self, &(slabs){.theta = theta, .gradient = gradient}, loss);
}

psgd_status psgd_graph_hessian(psgd_graph *self, const void *theta, const void *v, void *gradient, void *hv,
                               double *loss)
{
    PSGD_TRY(check_run(self, theta, loss));
    if (!v || !gradient || !hv) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_hessian: v, gradient and hv must not be NULL");
    }
    return run(self, &(slabs){.theta = theta, .v = v, .gradient = gradient, .hv = hv}, loss);
}

void psgd_graph_carry(psgd_graph *self)
{
    for (int i = 0; self && self->finished && i < self->count; i++) {
        graph_node *node = &self->nodes[i];
        if (node->op && node->op->carry) node->op->carry(&node->call);
    }
}

void psgd_graph_reset(psgd_graph *self)
{
    if (!self || !self->finished) return;
    memset(self->state, 0, (size_t)self->state_size * psgd_dtype_size(self->dtype));
}

int64_t psgd_graph_state(psgd_graph *self, void **state)
{
    if (!self || !self->finished) return 0;
    if (state) *state = self->state;
    return self->state_size;
}

psgd_status psgd_graph_set_samples(psgd_graph *self, psgd_node input, const void *samples)
{
    if (!self || !samples || !self->finished || input < 0 || input >= self->count || self->nodes[input].op ||
        self->nodes[input].parameter >= 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_graph_set_samples needs a finished graph, one of its inputs and "
                                             "samples");
    }
    const psgd_operand *to = &self->nodes[input].call.output;
    int64_t n = to->shape[to->ndim - 1], features = to->size / n;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < features; i++) {
            if (self->dtype == PSGD_F64) {
                ((double *)to->value)[i * n + j] = ((const double *)samples)[j * features + i];
            } else {
                ((float *)to->value)[i * n + j] = ((const float *)samples)[j * features + i];
            }
        }
    }
    return PSGD_OK;
}
