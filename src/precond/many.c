/* Many tensors at once: the small ones side by side. */
#include "la/beside.h"
#include "precond/precond.h"

enum { SMALL_TENSOR = 1 << 16 }; /* numbers below which the loops of one tensor are not worth two threads */

typedef struct many {
    psgd_precond *const *preconds;
    const void *const *v, *const *h;
    psgd_status *status;
} many;

static bool runs_beside(const psgd_precond *self)
{
    bool apart = self->work == &self->own || (self->work->stride > 0 && self->work_bytes <= self->work->stride);
    return apart && self->n <= SMALL_TENSOR && self->work_bytes <= WORK_SMALL;
}

static void update_one(const many *m, int i)
{
    m->status[i] = psgd_precond_update(m->preconds[i], m->v[i], m->h[i]);
}

static void update_small(void *data, int i)
{
    const many *m = data;
    if (runs_beside(m->preconds[i])) update_one(m, i);
}

static int thread_count(int count, psgd_precond *const *preconds)
{
    int threads = psgd__thread_count();
    for (int i = 0; i < count; i++) {
        const workspace *work = preconds[i]->work;
        bool shared = runs_beside(preconds[i]) && work != &preconds[i]->own;
        if (shared && threads > work->slices) threads = work->slices;
    }
    return threads;
}

/* A failed update has changed nothing and fails again: repeating it on this thread leaves its sentence here. */
psgd_status psgd__precond_update_many(int count, psgd_precond *const *preconds, const void *const *v,
                                      const void *const *h, psgd_status *status)
{
    many m = {preconds, v, h, status};
    psgd__side_by_side(count, thread_count(count, preconds), update_small, &m);
    for (int i = 0; i < count; i++) {
        if (!runs_beside(preconds[i])) update_one(&m, i);
    }
    for (int i = 0; i < count; i++) {
        if (status[i] == PSGD_OK) continue;
        update_one(&m, i);
        return status[i];
    }
    return PSGD_OK;
}
