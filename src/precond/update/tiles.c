#include "precond/update/tiles.h"
#include "group/composite/tiles.h"
#include "la/la.h"
#include "precond/update/update.h"

#include <math.h>
#include <string.h>

typedef struct tiles_header {
    char magic[8];
    int64_t bytes, rows, columns, down, across;
    double step;
    int64_t unused;
} tiles_header;

_Static_assert(sizeof(tiles_header) == TILES_HEADER, "psgd__precond_tile_at counts on it");

static const char magic[8] = "psgdT01";

static const tile_grid *grid_of(const psgd_precond *self)
{
    return psgd__tiles_grid(self->root);
}

/* The preconditioner of one tile, over a group that is another's. */
static psgd_status create_tile(const psgd_precond *self, group *root, workspace *work, psgd_precond **created)
{
    psgd_precond *tile = *created = psgd__alloc(self->context, 1, sizeof *tile);
    if (!tile) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a preconditioner of a tile");
    *tile = (psgd_precond){.context = self->context,
                           .dtype = self->dtype,
                           .settings = self->settings,
                           .n = root->n,
                           .own = {.context = self->context},
                           .work = work,
                           .root = root,
                           .is_tile = true,
                           .by_entry = self->by_entry,
                           .waiting = self->settings.init == INIT_FIRST ? START_PAIRS : 0};
    return precond_complete(tile);
}

/* Bytes of the state of a tile that another process holds, from a dry run. */
static psgd_status measure(const psgd_precond *self, const group_args *args, const spec *node, int64_t *bytes)
{
    workspace work = {.context = self->context};
    group_args dry = *args;
    group *root = NULL;
    psgd_precond *tile = NULL;
    dry.spec = node;
    dry.fibres = 1;
    dry.here = NULL;
    dry.work = &work;
    dry.dry = true;
    PSGD_TRY(psgd__group_part(&dry, &root));
    psgd_status status = create_tile(self, root, &work, &tile);
    if (status == PSGD_OK) *bytes = PSGD_TYPED(psgd__precond_state_bytes)(tile);
    psgd_precond_free(tile);
    psgd__group_free(root);
    return status;
}

psgd_status tiles_build(psgd_precond *self, const spec_tree *tree, const group_args *args)
{
    const group *root = self->root;
    const tile_grid *grid = grid_of(self);
    group_args part = *args;
    const spec *node = tree->root;
    for (; node->kind->sizes == SIZES_SAME; node = node->first) part.transposed = !part.transposed;
    self->tiles = psgd__alloc(self->context, root->child_count, sizeof self->tiles[0]);
    self->tile_bytes = psgd__alloc(self->context, root->child_count, sizeof self->tile_bytes[0]);
    if (!self->tiles || !self->tile_bytes) {
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %d tiles", root->child_count);
    }
    tile_place first = tile_at(grid, 0);
    int64_t most = first.rows * first.columns * self->settings.pairs;
    self->tile_count = root->child_count;
    self->at_tile = psgd__work_reserve(self->work, 2 * most, sizeof(real));
    int64_t from = self->work->cursor, end = from;
    for (int k = 0; k < self->tile_count; k++) {
        self->work->cursor = from; /* tiles never run at the same time */
        if (args->here && !args->here[k]) {
            const spec *own = psgd__tiles_spec(node, tile_at(grid, k));
            PSGD_TRY(measure(self, &part, own, &self->tile_bytes[k]));
            continue;
        }
        PSGD_TRY(create_tile(self, root->child[k], self->work, &self->tiles[k]));
        self->tile_bytes[k] = PSGD_TYPED(psgd__precond_state_bytes)(self->tiles[k]);
        self->shared_flops += self->tiles[k]->shared_flops;
        if (self->work->cursor > end) end = self->work->cursor;
    }
    self->work->cursor = end;
    return PSGD_OK;
}

/* Tile k of count matrices, or NULL for NULL. */
static const real *pack(const psgd_precond *self, int k, int which, int64_t count, const real *x)
{
    const tile_grid *grid = grid_of(self);
    tile_place first = tile_at(grid, 0), t = tile_at(grid, k);
    real *room = psgd__work_at(self->work, self->at_tile);
    room += which * first.rows * first.columns * self->settings.pairs;
    if (!x) return NULL;
    for (int64_t c = 0; c < count; c++) {
        tile_copy(grid, t, sizeof(real), (char *)(x + c * self->n), (char *)(room + c * t.rows * t.columns), false);
    }
    return room;
}

static psgd_status check(const psgd_precond *self, int64_t n, const char *name, const real *x)
{
    if (!x || self->vouched || isfinite((double)la_max_abs(n, x))) return PSGD_OK;
    return whiten_refuse(name, n, x);
}

psgd_status tiles_update(psgd_precond *self, int64_t count, const real *v, const real *h)
{
    bool any = false;
    psgd_status last = PSGD_OK;
    if (self->settings.integrate) v = NULL;
    PSGD_TRY(check(self, count * self->n, "h", h));
    PSGD_TRY(check(self, count * self->n, "v", v));
    for (int k = 0; k < self->tile_count; k++) {
        psgd_precond *tile = self->tiles[k];
        if (!tile) continue;
        tile->settings = self->settings; /* an optimizer may have changed them */
        tile->vouched = self->vouched;
        const real *own_v = pack(self, k, 0, count, v), *own_h = pack(self, k, 1, count, h);
        psgd_status status = PSGD_TYPED(psgd__precond_update)(tile, count, own_v, own_h);
        any = any || status == PSGD_OK;
        if (status == PSGD_OK) continue;
        tile->skipped++;
        last = status;
    }
    return any ? PSGD_OK : last;
}

psgd_status tiles_criterion(psgd_precond *self, const real *v, const real *h, double *value)
{
    double sum = 0;
    for (int k = 0; k < self->tile_count; k++) {
        double own;
        if (!self->tiles[k]) continue;
        PSGD_TRY(
            PSGD_TYPED(psgd__precond_criterion)(self->tiles[k], pack(self, k, 0, 1, v), pack(self, k, 1, 1, h), &own));
        sum += own;
    }
    *value = sum;
    return PSGD_OK;
}

static tiles_header header_of(const psgd_precond *self)
{
    const tile_grid *grid = grid_of(self);
    tiles_header head = {.bytes = (int64_t)sizeof head,
                         .rows = grid->rows,
                         .columns = grid->columns,
                         .down = grid->down,
                         .across = grid->across,
                         .step = self->settings.step};
    memcpy(head.magic, magic, sizeof magic);
    for (int k = 0; k < self->tile_count; k++) head.bytes += self->tile_bytes[k];
    return head;
}

int64_t tiles_state_bytes(const psgd_precond *self)
{
    return header_of(self).bytes;
}

void tiles_state_save(const psgd_precond *self, char *bytes)
{
    tiles_header head = header_of(self);
    memcpy(bytes, &head, sizeof head);
    bytes += sizeof head;
    for (int k = 0; k < self->tile_count; k++) {
        if (self->tiles[k]) PSGD_TYPED(psgd__precond_state_save)(self->tiles[k], bytes);
        bytes += self->tile_bytes[k];
    }
}

static psgd_status check_state(const psgd_precond *self, int64_t count, const char *bytes)
{
    tiles_header head, own = header_of(self);
    if (count < (int64_t)sizeof head || (memcpy(&head, bytes, sizeof head), memcmp(head.magic, magic, sizeof magic))) {
        return psgd__fail(PSGD_ERR_FORMAT, "these bytes are not the state of a preconditioner of tiles");
    }
    own.step = head.step;
    if (count != own.bytes || memcmp(&head, &own, sizeof head) != 0) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is that of other tiles, or of another group, dtype or rule");
    }
    if (!(isfinite(head.step) && head.step >= 0)) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: it holds values that no state has");
    }
    bytes += sizeof head;
    for (int k = 0; k < self->tile_count; bytes += self->tile_bytes[k++]) {
        if (!self->tiles[k]) continue;
        PSGD_TRY(PSGD_TYPED(psgd__precond_state_check)(self->tiles[k], self->tile_bytes[k], bytes));
    }
    return PSGD_OK;
}

psgd_status tiles_state_load(psgd_precond *self, int64_t count, const char *bytes)
{
    tiles_header head;
    PSGD_TRY(check_state(self, count, bytes));
    memcpy(&head, bytes, sizeof head);
    self->settings.step = head.step;
    bytes += sizeof head;
    for (int k = 0; k < self->tile_count; bytes += self->tile_bytes[k++]) {
        if (!self->tiles[k]) continue;
        PSGD_TRY(PSGD_TYPED(psgd__precond_state_load)(self->tiles[k], self->tile_bytes[k], bytes));
    }
    return PSGD_OK;
}
