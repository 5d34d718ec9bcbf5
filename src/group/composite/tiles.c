/* Tiles, spec "tiles(G,a,b)": a matrix cut into a x b tiles, each with a G of its own. In the order of the tiles'
 * entries this is a direct sum, so it is a group, and each tile is normalised on its own; large matrices become several
 * pieces of work that may be shared out.
 *
 * A tile is no view of the matrix, since its rows are apart: it is copied out, G acts, and it is copied back. An op
 * costs what it costs the tiles, and these copies. */
#include "group/composite/tiles.h"

typedef struct tiles {
    group base;
    tile_grid grid;
    int64_t packed; /* in the workspace: FOUR tiles, pairs times */
} tiles;

enum { FOUR = 4 }; /* A, B, h and v */

const tile_grid *psgd__tiles_grid(const group *self)
{
    return self->ops == &GROUP_OPS(tiles) ? &((const tiles *)self)->grid : NULL;
}

const spec *psgd__tiles_spec(const spec *node, tile_place t)
{
    const spec *child = node->first;
    int lower = t.rows < (node->rows + node->down - 1) / node->down;
    int narrower = t.columns < (node->columns + node->across - 1) / node->across;
    for (int skip = 2 * lower + narrower; skip > 0; skip--) child = child->next;
    return child;
}

/* Tiles never run at the same time, so their scratch is the same. */
static psgd_status create_parts(const group_args *args, tiles *self)
{
    group_args part = *args;
    group *base = &self->base;
    workspace *work = args->work;
    int64_t from = work->cursor, end = from, count = tile_count(&self->grid);
    base->child = psgd__alloc(args->context, count, sizeof base->child[0]);
    if (!base->child) {
        psgd__group_free(base);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld tiles", (long long)count);
    }
    part.here = NULL;
    while (base->child_count < count) {
        int k = base->child_count;
        group **child = &base->child[k];
        part.spec = psgd__tiles_spec(args->spec, tile_at(&self->grid, k));
        work->cursor = from;
        bool here = !args->here || args->here[k];
        psgd_status status = here ? psgd__group_part(&part, child) : GROUP_OPS(identity).create(&part, child);
        if (status != PSGD_OK) {
            psgd__group_free(base);
            return status;
        }
        if (work->cursor > end) end = work->cursor;
        base->child_count++;
    }
    work->cursor = end;
    return PSGD_OK;
}

static psgd_status tiles_create(const group_args *args, group **created)
{
    const spec *node = args->spec;
    tiles *self = psgd__group_base(args, &GROUP_OPS(tiles), sizeof *self);
    if (!self) return PSGD_ERR_NO_MEMORY;
    *created = &self->base;
    self->grid = (tile_grid){node->rows, node->columns, node->down, node->across};
    tile_place first = tile_at(&self->grid, 0);
    self->packed = psgd__work_reserve(args->work, FOUR * first.rows * first.columns * args->pairs, sizeof(real));
    return create_parts(args, self);
}

static void tiles_reset(group *self, double scale)
{
    for (int i = 0; i < self->child_count; i++) self->child[i]->ops->reset(self->child[i], scale);
}

static real *room(const group *self, int which)
{
    const tiles *own = (const tiles *)self;
    tile_place first = tile_at(&own->grid, 0);
    return (real *)psgd__work_at(self->work, own->packed) + which * first.rows * first.columns * self->pairs;
}

/* Columns from .. from + width - 1 of tile k of one n x inner matrix, each entry of which is a row of fibres. */
static void copy_columns(const group *self, int k, int64_t inner, int64_t from, int64_t width, real *x, real *packed,
                         bool back)
{
    const tile_grid *grid = &((const tiles *)self)->grid;
    tile_place t = tile_at(grid, k);
    if (width == inner) {
        tile_copy(grid, t, inner * (int64_t)sizeof(real), (char *)x, (char *)packed, back);
        return;
    }
    for (int64_t e = 0; e < t.rows * t.columns; e++) {
        int64_t entry = (t.row + e / t.columns) * grid->columns + t.column + e % t.columns;
        real *one = x + entry * inner + from, *other = packed + e * width;
        memcpy(back ? one : other, back ? other : one, (size_t)width * sizeof(real));
    }
}

typedef void (*tile_op)(const group *part, group_act act, view X);

/* As many columns at a time as there is room for. */
static void each_tile(const group *self, view X, tile_op op, group_act act)
{
    real *packed = room(self, 0);
    for (int k = 0; k < self->child_count; k++) {
        const group *part = self->child[k];
        for (int64_t p = 0; p < X.blocks * X.outer; p++) {
            for (int64_t from = 0, width; from < X.inner; from += width) {
                width = smaller(self->pairs, X.inner - from);
                copy_columns(self, k, X.inner, from, width, view_matrix(&X, p), packed, false);
                op(part, act, view_columns(packed, part->n, width));
                copy_columns(self, k, X.inner, from, width, view_matrix(&X, p), packed, true);
            }
        }
    }
}

static void act_on(const group *part, group_act act, view X)
{
    part->ops->act(part, act, X);
}

static void tiles_act(const group *self, group_act act, view X)
{
    each_tile(self, X, act_on, act);
}

static void square_on(const group *part, group_act act, view X)
{
    (void)act;
    psgd__group_square(part, X);
}

static void tiles_square(const group *self, view X)
{
    each_tile(self, X, square_on, ACT_MUL);
}

/* All fibres of one of the views of a pair; an empty one stays so. */
static view pack(const group *self, int k, int which, view X)
{
    real *packed = room(self, which);
    int64_t n = self->child[k]->n, count = X.blocks * X.outer;
    if (!X.x) return view_over(view_rows(NULL, n, 1), NULL);
    for (int64_t p = 0; p < count; p++) {
        copy_columns(self, k, X.inner, 0, X.inner, view_matrix(&X, p), packed + p * n * X.inner, false);
    }
    return (view){.x = packed, .n = n, .inner = X.inner, .outer = count, .ld = n * X.inner, .blocks = 1};
}

static psgd_status tiles_units(group *self, const group_pair *pair, group_unit visit, void *data)
{
    for (int k = 0; k < self->child_count; k++) {
        group_pair part = *pair;
        part.A = pack(self, k, 0, pair->A);
        part.B = pack(self, k, 1, pair->B);
        part.h = pack(self, k, 2, pair->h);
        part.v = pack(self, k, 3, pair->v);
        PSGD_TRY(psgd__group_units(self->child[k], &part, visit, data));
    }
    return PSGD_OK;
}

static double tiles_energy(const group *self, group_image M)
{
    double total = 0;
    for (int k = 0; k < self->child_count; k++) total += psgd__group_energy(self->child[k], M);
    return total;
}

static void tiles_cost(const group *self, group_cost *cost)
{
    double copies = 2 * (double)self->n * sizeof(real);
    psgd__parts_cost(self, cost);
    cost->update_bytes += 2 * copies;
    cost->apply_bytes += 2 * copies;
}

static const group_fused tiles_fused = {.square = tiles_square};

const group_ops GROUP_OPS(tiles) = {
    .kind = {.name = "tiles",
             .summary = "tiles(G,a,b): a matrix cut into a x b tiles, each with a G of its own",
             .formula = "of the tiles",
             .min_children = 1,
             .max_children = 4,
             .place = PLACE_MATRIX,
             .sizes = SIZES_TILES,
             .holds_tensors = true,
             .self_adjoint = true},
    .fused = &tiles_fused,
    .create = tiles_create,
    .reset = tiles_reset,
    .act = tiles_act,
    .size = psgd__group_size,
    .cost = tiles_cost,
    .rescale = psgd__group_rescale,
    .units = tiles_units,
    .energy = tiles_energy,
};
