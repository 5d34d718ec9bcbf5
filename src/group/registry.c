/* Looking groups up by index, and registering the caller's own. */
#include "group/registry.h"
#include "core/context.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/status.h"

#include <ctype.h>
#include <string.h>

int psgd__group_kind_count(const psgd_context *context)
{
    int count = BUILTIN_COUNT;
    for (const user_entry *at = context ? context->group_list : NULL; at; at = at->next) count++;
    return count;
}

const user_entry *psgd__user_at(const psgd_context *context, int index)
{
    const user_entry *at = context->group_list;
    while (index-- > 0) at = at->next;
    return at;
}

const group_kind *psgd__group_kind_at(const psgd_context *context, int index)
{
    return index < BUILTIN_COUNT ? psgd__builtin_kind_f64(index) : &psgd__user_at(context, index - BUILTIN_COUNT)->kind;
}

static void free_entry(const psgd_context *context, user_entry *entry)
{
    psgd__free(context, entry->name);
    psgd__free(context, entry->summary);
    psgd__free(context, entry->formula);
    psgd__free(context, entry->ops[PSGD_F32]);
    psgd__free(context, entry->ops[PSGD_F64]);
    psgd__free(context, entry);
}

static void release_groups(psgd_context *context)
{
    for (user_entry *at = context->group_list, *next; at; at = next) {
        next = at->next;
        free_entry(context, at);
    }
}

static psgd_status check_name(const psgd_context *context, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > 40 || !islower((unsigned char)name[0])) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the name of a group is 1 to 40 lower case letters, digits and _");
    }
    for (const char *c = name; *c; c++) {
        if (islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_') continue;
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "the group name '%s' has '%c' in it; take lower case letters, digits and _", name, *c);
    }
    for (int i = 0; i < psgd__group_kind_count(context); i++) {
        if (!strcmp(psgd__group_kind_at(context, i)->name, name)) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "there is a group '%s' already; choose another name", name);
        }
    }
    return PSGD_OK;
}

/* The table as this version knows it: what an older caller did not have is NULL. */
static psgd_status copy_table(const char *name, const psgd_user_group *from, psgd_user_group *to)
{
    *to = (psgd_user_group){0};
    if (!from) return PSGD_OK;
    if (from->bytes < offsetof(psgd_user_group, summary)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "group '%s': bytes must be sizeof(psgd_user_group), not %zu", name,
                          from->bytes);
    }
    memcpy(to, from, from->bytes < sizeof *to ? from->bytes : sizeof *to);

    const char *missing = !to->size      ? "size"
                          : !to->r_size  ? "r_size"
                          : !to->reset   ? "reset"
                          : !to->mul     ? "mul"
                          : !to->mul_t   ? "mul_t"
                          : !to->solve   ? "solve"
                          : !to->solve_t ? "solve_t"
                          : !to->project ? "project"
                          : !to->r_max   ? "r_max"
                          : !to->r_mul   ? "r_mul"
                          : !to->r_mul_t ? "r_mul_t"
                          : !to->inside  ? "inside"
                          : !to->retract ? "retract"
                                         : NULL;
    if (!missing) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "group '%s': the function %s is required and is NULL", name, missing);
}

static psgd_status fill_entry(const psgd_context *context, user_entry *entry, const char *name)
{
    const psgd_user_group *any = &entry->table[entry->table[PSGD_F64].bytes ? PSGD_F64 : PSGD_F32];
    entry->name = psgd__strdup(context, name);
    entry->summary = psgd__strdup(context, any->summary ? any->summary : "the caller's own");
    entry->formula = psgd__strdup(context, any->formula ? any->formula : "its own");
    entry->ops[PSGD_F32] = psgd__alloc(context, psgd__user_ops_bytes_f32(), 1);
    entry->ops[PSGD_F64] = psgd__alloc(context, psgd__user_ops_bytes_f64(), 1);
    if (!entry->name || !entry->summary || !entry->formula || !entry->ops[PSGD_F32] || !entry->ops[PSGD_F64]) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to keep the group '%s'", name);
    }
    entry->kind = (group_kind){
        .name = entry->name, .summary = entry->summary, .formula = entry->formula, .unprotected = true};
    psgd__user_ops_fill_f32(entry->ops[PSGD_F32], entry);
    psgd__user_ops_fill_f64(entry->ops[PSGD_F64], entry);
    return PSGD_OK;
}

psgd_status psgd_context_add_group(psgd_context *context, const char *name, const psgd_user_group *f32,
                                   const psgd_user_group *f64)
{
    if (!context) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a group needs a context to live in; psgd_context_create makes one");
    }
    if (!f32 && !f64) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_context_add_group: both tables are NULL");
    PSGD_TRY(check_name(context, name));

    psgd_user_group tables[2];
    PSGD_TRY(copy_table(name, f32, &tables[PSGD_F32]));
    PSGD_TRY(copy_table(name, f64, &tables[PSGD_F64]));
    user_entry *entry = psgd__alloc(context, 1, sizeof *entry);
    if (!entry) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory to keep the group '%s'", name);
    memcpy(entry->table, tables, sizeof tables);
    psgd_status status = fill_entry(context, entry, name);
    if (status != PSGD_OK) {
        free_entry(context, entry);
        return status;
    }
    user_entry **last = (user_entry **)&context->group_list;
    while (*last) last = &(*last)->next;
    *last = entry;
    context->release_groups = release_groups;
    return PSGD_OK;
}
