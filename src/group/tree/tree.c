/* A group as text and as costs, from a dry run: nothing of its size is allocated. */
#include "group/describe.h"
#include "group/composite/tiles.h"
#include "group/group.h"

#include <math.h>

static void add_line(text *to, const group *self, int depth, int64_t count);

/* Tiles have up to four sizes: one line for each, with how many there are. */
static void add_tiles(text *to, const group *self, const tile_grid *grid, int depth)
{
    int64_t large[2] = {grid->rows % grid->down, grid->columns % grid->across};
    int64_t count[2][2] = {{large[0] ? large[0] : grid->down, large[0] ? grid->down - large[0] : 0},
                           {large[1] ? large[1] : grid->across, large[1] ? grid->across - large[1] : 0}};
    for (int lower = 0; lower < 2; lower++) {
        for (int narrower = 0; narrower < 2; narrower++) {
            int64_t alike = count[0][lower] * count[1][narrower];
            int64_t at = (lower ? grid->down - 1 : 0) * grid->across + (narrower ? grid->across - 1 : 0);
            if (alike > 0) add_line(to, self->child[at], depth, alike);
        }
    }
}

static void add_line(text *to, const group *self, int depth, int64_t count)
{
    char digits[32];
    const char *name = self->ops->kind.name;
    const tile_grid *grid = psgd__tiles_grid(self);
    psgd__text_add(to, "%*s", 2 * depth, "");
    if (count > 0) psgd__text_add(to, "%lld x ", (long long)count);
    psgd__text_add(to, "%s%s:%lld", self->transposed ? "t " : "", name, (long long)self->n);
    int used = 0;
    for (int64_t at = to->length - 1; at >= 0 && to->chars[at] != '\n'; at--) used++;
    psgd__text_add(to, "%*s%s\n", used < 40 ? 40 - used : 1, "", psgd__thousands(self->ops->size(self), digits));
    if (grid) add_tiles(to, self, grid, depth + 1);
    for (int i = 0; i < self->child_count && !grid; i++) add_line(to, self->child[i], depth + 1, 0);
}

/* Any other group is a tile of its own; the caller knows its shape. */
static void list_tiles(const group *root, description *to)
{
    const tile_grid *grid = psgd__tiles_grid(root);
    to->tile_count = grid ? root->child_count : 1;
    for (int k = 0; k < to->tile_count && k < to->room; k++) {
        const group *part = grid ? root->child[k] : root;
        group_cost cost = {0};
        tile_place t = grid ? tile_at(grid, k) : (tile_place){.columns = 1};
        part->ops->cost(part, &cost);
        to->tiles[k] = (psgd_tile){.row = t.row,
                                   .column = t.column,
                                   .rows = t.rows,
                                   .columns = t.columns,
                                   .bytes = part->total_bytes,
                                   .update_flops = cost.update_flops,
                                   .apply_flops = cost.apply_flops};
    }
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
    if (to->tree) add_line(to->tree, root, 0, 0);
    list_tiles(root, to);
    psgd__group_free(root);
    return PSGD_OK;
}
