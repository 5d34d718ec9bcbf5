/* The caller's own groups, kept in a list that hangs on the context. */
#ifndef PSGD_GROUP_USER_GROUP_H
#define PSGD_GROUP_USER_GROUP_H

#include "group/kind.h"
#include <psgd/dtype.h>
#include <psgd/user_group.h>

typedef struct user_entry {
    struct user_entry *next;
    char *name, *summary, *formula; /* owned */
    group_kind kind;
    psgd_user_group table[2]; /* by psgd_dtype; bytes = 0: there is none for this type */
    void *ops[2];             /* the group_ops of that type */
} user_entry;

int psgd__user_count(const psgd_context *context);
const user_entry *psgd__user_at(const psgd_context *context, int index);

/* The ops of the library over a table. The size of a group_ops, and one filled in there. */
int64_t psgd__user_ops_bytes_f32(void);
int64_t psgd__user_ops_bytes_f64(void);
void psgd__user_ops_fill_f32(void *ops, const user_entry *entry);
void psgd__user_ops_fill_f64(void *ops, const user_entry *entry);

#endif
