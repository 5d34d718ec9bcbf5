#include "group/registry.h"
#include "group/builtin.h"
#include "group/user_group.h"

int psgd__group_kind_count(const psgd_context *context)
{
    return psgd__builtin_count_f64() + psgd__user_count(context);
}

const group_kind *psgd__group_kind_at(const psgd_context *context, int index)
{
    int builtin = psgd__builtin_count_f64();
    return index < builtin ? psgd__builtin_kind_f64(index) : &psgd__user_at(context, index - builtin)->kind;
}
