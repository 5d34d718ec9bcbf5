/* A preconditioner as bytes, so that a fit can be stopped and resumes bit-for-bit: Q, what normalisers and guard
 * remember, the average, the counters.
 *
 * A header, then the running values of every unit, the arrays of every group of the tree, and the average. The header
 * holds a hash of the tree's names and sizes: the state of another group is refused before anything has changed. */
#include "core/checksum.h"
#include "group/group.h"
#include "precond/precond.h"
#include "precond/update/tiles.h"

#include <math.h>
#include <string.h>

typedef struct saved_header {
    char magic[8];
    uint64_t tree;
    int64_t bytes, updates, skipped;
    double step;
    int64_t waiting;
    double start;
} saved_header;

static const char magic[8] = "psgdQ03";

enum direction { COUNT, SAVE, CHECK, LOAD };

typedef struct walk {
    enum direction way;
    char *at; /* the next byte */
    int64_t bytes;
    uint64_t tree;
    bool broken; /* CHECK: a value that no state has */
} walk;

static void move(walk *w, void *own, size_t count)
{
    if (w->way == SAVE) memcpy(w->at, own, count);
    if (w->way == LOAD) memcpy(own, w->at, count);
    if (w->at) w->at += count;
    w->bytes += (int64_t)count;
}

static void move_reals(void *data, real *x, int64_t count)
{
    walk *w = data;
    if (w->way == CHECK) {
        for (int64_t i = 0; i < count; i++) {
            real number;
            memcpy(&number, w->at + (size_t)i * sizeof number, sizeof number);
            if (!isfinite((double)number)) w->broken = true;
        }
    }
    move(w, x, (size_t)count * sizeof *x);
}

static void check_running(walk *w)
{
    double running[GROUP_MAX_PARTS];
    memcpy(running, w->at, sizeof running);
    for (int i = 0; i < GROUP_MAX_PARTS; i++) w->broken = w->broken || !(running[i] >= 0 && isfinite(running[i]));
}

static void move_group(walk *w, group *self)
{
    w->tree = psgd__checksum_add(w->tree, self->ops->kind.name, (int64_t)strlen(self->ops->kind.name) + 1);
    w->tree = psgd__checksum_add(w->tree, &self->n, sizeof self->n);
    w->tree = psgd__checksum_add(w->tree, &self->transposed, sizeof self->transposed);
    psgd__group_state(self, move_reals, w);
    for (int i = 0; i < self->child_count; i++) move_group(w, self->child[i]);
}

/* Everything but the header, from or to bytes. */
static walk walk_all(const psgd_precond *self, enum direction way, char *bytes)
{
    walk w = {.way = way, .at = bytes ? bytes + sizeof(saved_header) : NULL, .tree = CHECKSUM_START};
    w.bytes = sizeof(saved_header);
    int64_t size = sizeof(real);
    w.tree = psgd__checksum_add(w.tree, &size, sizeof size);
    int64_t rule = self->settings.rule; /* is hashed, as running values depend on it; eq is left out */
    if (rule != RULE_EQ) w.tree = psgd__checksum_add(w.tree, &rule, sizeof rule);
    for (int i = 0; i < self->unit_count; i++) {
        precond_unit *unit = &self->units[i];
        if (way == CHECK) check_running(&w);
        move(&w, unit->running, sizeof unit->running);
        move(&w, &unit->top, sizeof unit->top);
        move(&w, &unit->bottom, sizeof unit->bottom);
    }
    move_group(&w, self->root);
    if (self->average) move_reals(&w, self->average, self->n);
    return w;
}

int64_t PSGD_TYPED(psgd__precond_state_bytes)(const psgd_precond *self)
{
    return self->tile_count ? tiles_state_bytes(self) : walk_all(self, COUNT, NULL).bytes;
}

void PSGD_TYPED(psgd__precond_state_save)(const psgd_precond *self, void *bytes)
{
    if (self->tile_count) {
        tiles_state_save(self, bytes);
        return;
    }
    walk w = walk_all(self, SAVE, bytes);
    saved_header head = {.tree = w.tree,
                         .bytes = w.bytes,
                         .updates = self->updates,
                         .skipped = self->skipped,
                         .step = self->settings.step,
                         .waiting = self->waiting,
                         .start = self->start};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(bytes, &head, sizeof head);
}

psgd_status PSGD_TYPED(psgd__precond_state_check)(const psgd_precond *self, int64_t count, const void *bytes)
{
    saved_header head;
    walk own = walk_all(self, COUNT, NULL);
    if (count < (int64_t)sizeof head || (memcpy(&head, bytes, sizeof head), memcmp(head.magic, magic, sizeof magic))) {
        return psgd__fail(PSGD_ERR_FORMAT, "these bytes are not the state of a preconditioner");
    }
    if (head.bytes != own.bytes || head.tree != own.tree) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is that of another group, shape, dtype or rule");
    }
    if (count != own.bytes) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state has %lld bytes instead of %lld", (long long)count,
                          (long long)own.bytes);
    }
    const int64_t max = INT64_C(1) << 53;
    bool counts = head.updates >= 0 && head.updates <= max && head.skipped >= 0 && head.skipped <= max;
    bool sane = counts && isfinite(head.step) && head.step >= 0 && head.waiting >= 0 && head.waiting <= START_PAIRS &&
                isfinite(head.start) && head.start >= 0;
    if (!sane || walk_all(self, CHECK, (char *)bytes).broken) {
        return psgd__fail(PSGD_ERR_FORMAT, "the state is damaged: it holds values that no state has");
    }
    return PSGD_OK;
}

psgd_status PSGD_TYPED(psgd__precond_state_load)(psgd_precond *self, int64_t count, const void *bytes)
{
    saved_header head;
    if (self->tile_count) return tiles_state_load(self, count, bytes);
    PSGD_TRY(PSGD_TYPED(psgd__precond_state_check)(self, count, bytes));
    memcpy(&head, bytes, sizeof head);
    walk_all(self, LOAD, (char *)bytes);
    self->updates = head.updates;
    self->skipped = head.skipped;
    self->settings.step = head.step;
    self->waiting = head.waiting;
    self->start = head.start;
    return PSGD_OK;
}

enum { MAX_ARRAYS = 16 }; /* of one group */

typedef struct array_list {
    int count, next;
    real *x[MAX_ARRAYS];
} array_list;

static void note_array(void *data, real *x, int64_t count)
{
    array_list *list = data;
    (void)count;
    if (list->count < MAX_ARRAYS) list->x[list->count++] = x;
}

static void copy_array(void *data, real *x, int64_t count)
{
    array_list *list = data;
    memcpy(x, list->x[list->next++], (size_t)count * sizeof *x);
}

static void copy_group(const group *from, group *to)
{
    array_list list = {0};
    psgd__group_state((group *)from, note_array, &list);
    psgd__group_state(to, copy_array, &list);
    for (int i = 0; i < to->child_count; i++) copy_group(from->child[i], to->child[i]);
}

void PSGD_TYPED(psgd__precond_copy)(const psgd_precond *from, psgd_precond *to)
{
    for (int k = 0; k < to->tile_count; k++) {
        if (to->tiles[k]) PSGD_TYPED(psgd__precond_copy)(from->tiles[k], to->tiles[k]);
    }
    if (to->tile_count == 0) copy_group(from->root, to->root); /* a tile has its own */
    for (int i = 0; i < to->unit_count; i++) {
        precond_unit *unit = &to->units[i];
        memcpy(unit->running, from->units[i].running, sizeof unit->running);
        unit->top = from->units[i].top;
        unit->bottom = from->units[i].bottom;
    }
    if (to->average) memcpy(to->average, from->average, (size_t)to->n * sizeof(real));
    to->updates = from->updates;
    to->skipped = from->skipped;
    to->settings.step = from->settings.step;
    to->waiting = from->waiting;
    to->start = from->start;
}
