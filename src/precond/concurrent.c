/* Which preconditioners run as tasks of the thread pool, a thread each. */
#include "precond/precond.h"

/* Elements below which the loops of one tensor are not worth two threads, and flops below which its products are not.
 */
enum { SMALL_TENSOR = 1 << 16 };
static const double SMALL_PRODUCTS = 2e7;

bool psgd__precond_concurrent(const psgd_precond *self)
{
    bool apart = self->work == &self->own || (self->work->stride > 0 && self->work_bytes <= self->work->stride);
    return apart && self->n <= SMALL_TENSOR && self->work_bytes <= WORK_SMALL;
}

bool psgd__precond_is_heavy(const psgd_precond *self)
{
    return self->shared_flops > SMALL_PRODUCTS;
}
