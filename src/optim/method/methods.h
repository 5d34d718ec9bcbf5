/* Every method. To add one: a file with its table, its name here. */
#ifndef PSGD_OPTIM_METHOD_METHODS_H
#define PSGD_OPTIM_METHOD_METHODS_H

#include "optim/method/method.h"

#define METHODS(each)                                                                                                  \
    each(psgd) each(sgd) each(momentum) each(nesterov) each(adagrad) each(rmsprop) each(adam) each(adamw)              \
        each(sparse_adam) each(esgd) each(kfac) each(lbfgs) each(newton_cg)

#define METHOD_OPS(name)     PSGD_TYPED(psgd__##name##_method)
#define DECLARE_METHOD(name) extern const method_ops METHOD_OPS(name);
METHODS(DECLARE_METHOD)

#endif
