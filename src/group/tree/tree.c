/* A group as text and as costs, from a dry run: nothing of its size is allocated. */
#include "group/describe.h"
#include "group/group.h"

#include <math.h>

static void add_line(text *to, const group *self, int depth)
{
    char digits[32];
    const char *name = self->ops->kind.name;
    psgd__text_add(to, "%*s%s%s:%lld", 2 * depth, "", self->transposed ? "t " : "", name, (long long)self->n);
    int used = 0;
    for (int64_t at = to->length - 1; at >= 0 && to->chars[at] != '\n'; at--) used++;
    psgd__text_add(to, "%*s%s\n", used < 40 ? 40 - used : 1, "", psgd__thousands(self->ops->size(self), digits));
    for (int i = 0; i < self->child_count; i++) add_line(to, self->child[i], depth + 1);
}

psgd_status PSGD_TYPED(psgd__group_describe)(const psgd_context *context, const spec_tree *tree, description *to)
{
    workspace work = {.context = context};
    group_args args = {.context = context, .pairs = 1, .work = &work, .dry = true};
    group *root;
    PSGD_TRY(psgd__group_create(&args, tree, &root));

    double n = (double)root->n, tensor = n * sizeof(real);
    group_cost cost = {.update_bytes = 2 * tensor, .apply_bytes = 2 * tensor}; /* read v and h; read g, write Pg */
    root->ops->cost(root, &cost);
    to->size = root->ops->size(root);
    to->bytes = root->total_bytes;
    to->update_flops = cost.update_flops;
    to->update_bytes = cost.update_bytes;
    to->apply_flops = cost.apply_flops;
    to->apply_bytes = cost.apply_bytes;
    if (to->tree) add_line(to->tree, root, 0);
    psgd__group_free(root);
    return PSGD_OK;
}
