#include "optim/method/method.h"

#define ENTRY(name) &METHOD_OPS(name),

static const method_ops *const methods[] = {METHODS(ENTRY)};

int PSGD_TYPED(psgd__method_count)(void)
{
    return (int)(sizeof methods / sizeof methods[0]);
}

const method_ops *psgd__method_at(int index)
{
    return methods[index];
}

const method_kind *PSGD_TYPED(psgd__method_kind)(int index)
{
    return &methods[index]->kind;
}
