#include "group/registry.h"
#include "group/builtin.h"

int psgd__group_kind_count(const psgd_context *context)
{
    (void)context;
    return psgd__builtin_count_f64();
}

const group_kind *psgd__group_kind_at(const psgd_context *context, int index)
{
    (void)context;
    return psgd__builtin_kind_f64(index);
}
