/* Products on the workers: those of the caller, or of a bound objective. */
#include "optim/optim.h"

#include <string.h>

int psgd_optimizer_slots(const psgd_optimizer *self)
{
    return self && self->async ? self->async->slot_count : 0;
}

int psgd_optimizer_workers(const psgd_optimizer *self)
{
    return self && self->async ? self->async->worker_count : 0;
}

/* Theta for each slot; v, h and, for an objective, a gradient for each worker. */
static psgd_status allocate(psgd_optimizer *self)
{
    optim_async *async = self->async;
    enum { OF_WORKER = 3 };
    int64_t element = (int64_t)psgd_dtype_size(self->dtype), slab, lists, bytes;
    int64_t count = async->slot_count + OF_WORKER * (int64_t)async->worker_count, parts = async->part_count;
    int64_t pointers = async->slot_count + count * parts;
    bool fits = psgd__mul_fits(self->total, element, &slab) && psgd__add_fits(slab, 63, &slab) &&
                psgd__mul_fits(slab / 64 * 64, count, &bytes);
    slab = slab / 64 * 64;
    lists = (pointers * (int64_t)sizeof(void *) + 63) / 64 * 64;
    char *block = fits && psgd__add_fits(bytes, lists, &bytes) ? psgd__alloc(self->context, bytes, 1) : NULL;
    if (!block) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the copies of theta that products need");
    psgd__free(self->context, async->copies);
    async->copies = block;
    async->theta = (void ***)(void *)block;
    void **list = (void **)(void *)block + async->slot_count;
    char *array = block + lists;
    for (int64_t k = 0; k < count; k++, list += parts, array += slab) {
        for (int i = 0; i < parts; i++) list[i] = array + async->parts[i].from * element;
        if (k < async->slot_count) {
            async->theta[k] = list;
            continue;
        }
        async_worker *worker = &async->workers[(k - async->slot_count) / OF_WORKER];
        void ***own[OF_WORKER] = {&worker->v, &worker->h, &worker->gradient};
        *own[(k - async->slot_count) % OF_WORKER] = list;
    }
    return PSGD_OK;
}

psgd_status psgd_optimizer_bind_product(psgd_optimizer *self, const psgd_delayed_product *product)
{
    if (!self || !product || !product->product) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "bind_product needs an optimizer and a product");
    }
    if (!self->async) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "products are the workers' with the option delay only, which is 0 here");
    }
    if (!optim_uses_products(self)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "criterion fisher takes no Hessian-vector products");
    }
    if (self->ranks) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "over several ranks products are sums, which the caller makes; workers fit alone");
    }
    PSGD_TRY(psgd__async_drain(self));
    PSGD_TRY(allocate(self));
    self->async->product = *product;
    return PSGD_OK;
}

static int evaluate_objective(void *data, int slot, int worker, const void *const *theta, const void *const *v,
                              void *const *h)
{
    const optim_async *async = data;
    const psgd_objective *objective = &async->self->objective;
    double loss;
    (void)slot;
    return objective->product(objective->data, theta, v, &loss, async->workers[worker].gradient, h);
}

psgd_status psgd__async_bind_objective(psgd_optimizer *self)
{
    bool can = self->async && optim_uses_products(self) && !self->ranks;
    if (can && self->objective.product) {
        psgd_delayed_product product = {.product = evaluate_objective, .data = self->async};
        return psgd_optimizer_bind_product(self, &product);
    }
    if (self->async) self->async->product = (psgd_delayed_product){0};
    return PSGD_OK;
}
