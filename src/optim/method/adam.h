/* What adam and adamw share; they differ in the default of the option decay. */
#ifndef PSGD_OPTIM_METHOD_ADAM_H
#define PSGD_OPTIM_METHOD_ADAM_H

#include "optim/method/method.h"

#define psgd__adam_size    PSGD_TYPED(psgd__adam_size)
#define psgd__adam_advance PSGD_TYPED(psgd__adam_advance)

int64_t psgd__adam_size(const psgd_optimizer *self, const part *p);
void psgd__adam_advance(const method_args *a);

#endif
