/* Which preconditioners run side by side, a thread each. */
#include "precond/precond.h"

/* Numbers below which the loops of one tensor are not worth two threads, and flops below which its products are not. */
enum { SMALL_TENSOR = 1 << 16, SMALL_PRODUCTS = 20000000 };

bool psgd__precond_runs_beside(const psgd_precond *self)
{
    bool apart = self->work == &self->own || (self->work->stride > 0 && self->work_bytes <= self->work->stride);
    return apart && self->n <= SMALL_TENSOR && self->flops <= SMALL_PRODUCTS && self->work_bytes <= WORK_SMALL;
}
