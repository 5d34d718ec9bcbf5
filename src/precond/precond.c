/* The public face of the preconditioner: everything is checked here, and the typed half trusts it. */
#include "precond/precond.h"
#include "la/isa.h"

#include <math.h>

#define TYPED_CALL(self, function, ...) PSGD_PICK((self)->dtype, psgd__precond_##function)(__VA_ARGS__)

/* Elements below which the loops of one tensor are not worth two threads, and flops below which its products are not.
 */
enum { SMALL_TENSOR = 1 << 16 };
static const double SMALL_PRODUCTS = 2e7;

static psgd_status check_settings(const precond_settings *s)
{
    if (s->norm != NORM_NONE && s->step >= 1) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "option step must be below 1 with a normalised update, not %g", s->step);
    }
    if (s->criterion == CRITERION_FISHER) {
        if (s->unbiased && s->pairs > 1) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "option unbiased takes one pair an update, not %lld",
                              (long long)s->pairs);
        }
        return PSGD_OK;
    }
    const char *name = s->damping > 0 ? "damping" : s->unbiased ? "unbiased" : NULL;
    if (!name) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "option %s belongs to the fisher criterion; newton takes h as it is given",
                      name);
}

static psgd_status build(psgd_precond *self, const char *source, int ndim, const int64_t *shape, bool shared)
{
    spec_tree tree;
    psgd_status status = psgd__spec_read(self->context, source, ndim, shape, self->dtype, &tree);
    if (status == PSGD_OK) {
        self->spec = tree.text;
        tree.text = NULL;
        self->n = tree.root->n;
        bool chosen = self->settings.norm == NORM_AUTO;
        status = psgd__rule_resolve(&tree, &self->settings);
        self->by_entry = chosen && self->settings.rule == RULE_EQ;
        if (status == PSGD_OK) status = TYPED_CALL(self, build, self, &tree);
    }
    psgd__spec_free(&tree);
    if (self->segments.count && status == PSGD_OK) {
        int64_t size = self->n * self->settings.pairs; /* the typed half has counted them */
        self->segments.at_v = psgd__work_reserve(self->work, size, psgd_dtype_size(self->dtype));
        self->segments.at_h = psgd__work_reserve(self->work, size, psgd_dtype_size(self->dtype));
    }
    self->work_bytes = self->work->cursor;
    if (status == PSGD_OK && !shared) status = psgd__work_commit(self->work);
    return status;
}

psgd_status psgd__precond_create(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                                 psgd_dtype dtype, const precond_settings *settings, workspace *shared,
                                 const precond_segments *segments, psgd_precond **precond)
{
    psgd_precond *self = psgd__alloc(context, 1, sizeof *self);
    if (!self) {
        if (segments) psgd__free(context, segments->sizes);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a preconditioner");
    }
    self->context = context;
    self->dtype = dtype;
    self->settings = *settings;
    self->own.context = context;
    self->work = shared ? shared : &self->own;
    if (segments) self->segments = *segments;
    psgd__work_begin(self->work);

    psgd_status status = check_settings(settings);
    if (status == PSGD_OK) status = build(self, source, ndim, shape, shared != NULL);
    if (status == PSGD_OK && settings->rows != ROWS_NONE) status = TYPED_CALL(self, check_rows, self);
    if (status != PSGD_OK) {
        psgd_precond_free(self);
        return status;
    }
    TYPED_CALL(self, reset, self, settings->init_scale);
    self->waiting = settings->init == INIT_FIRST ? START_PAIRS : 0;
    *precond = self;
    return PSGD_OK;
}

psgd_status psgd__precond_read(psgd_dtype dtype, const psgd_options *options, precond_settings *settings)
{
    PSGD_TRY(psgd__check_dtype(dtype));
    PSGD_TRY(psgd__isa_check());
    option_table table = {psgd__precond_options, psgd__precond_option_count, settings};
    return psgd__options_read(options, &table, 1);
}

psgd_status psgd_precond_create(const psgd_context *context, const char *source, int ndim, const int64_t *shape,
                                psgd_dtype dtype, const psgd_options *options, psgd_precond **precond)
{
    if (!precond) return psgd__fail(PSGD_ERR_ARGUMENT, "psgd_precond_create: precond is NULL");
    *precond = NULL;
    precond_settings settings = {0};
    PSGD_TRY(psgd__precond_read(dtype, options, &settings));
    return psgd__precond_create(context, source, ndim, shape, dtype, &settings, NULL, NULL, precond);
}

void psgd_precond_free(psgd_precond *self)
{
    if (!self) return;
    TYPED_CALL(self, release, self);
    psgd__free(self->context, self->spec);
    psgd__free(self->context, self->units);
    psgd__free(self->context, self->average);
    psgd__free(self->context, self->segments.sizes);
    for (int k = 0; k < self->tile_count; k++) psgd_precond_free(self->tiles[k]);
    psgd__free(self->context, self->tiles);
    psgd__free(self->context, self->tile_bytes);
    psgd__work_free(&self->own);
    psgd__free(self->context, self);
}

bool psgd__precond_concurrent(const psgd_precond *self)
{
    bool apart = self->work == &self->own || (self->work->stride > 0 && self->work_bytes <= self->work->stride);
    return apart && self->n <= SMALL_TENSOR && self->work_bytes <= WORK_SMALL;
}

bool psgd__precond_is_heavy(const psgd_precond *self)
{
    return self->shared_flops > SMALL_PRODUCTS;
}

int64_t psgd_precond_max_pairs(const psgd_precond *self)
{
    return self ? self->settings.pairs : 0;
}

int psgd_precond_needs_v(const psgd_precond *self)
{
    return self && !self->settings.integrate;
}

int psgd_precond_option(int index, psgd_option_info *option)
{
    return psgd__option_at(psgd__precond_options, psgd__precond_option_count, index, option);
}

psgd_status psgd_precond_update(psgd_precond *self, const void *v, const void *h)
{
    return psgd_precond_update_pairs(self, 1, v, h);
}

psgd_status psgd_precond_update_pairs(psgd_precond *self, int64_t count, const void *v, const void *h)
{
    if (!self || !h) return psgd__fail(PSGD_ERR_ARGUMENT, "an update needs a preconditioner and h");
    if (!v && !self->settings.integrate) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an update needs v; only the option integrate does without it");
    }
    if (count < 1 || count > self->settings.pairs) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an update takes 1 to %lld pairs (option pairs), not %lld",
                          (long long)self->settings.pairs, (long long)count);
    }
    return TYPED_CALL(self, update, self, count, v, h);
}

static psgd_status check_operator(psgd_operator what)
{
    bool exists = (int)what >= 0 && what <= PSGD_APPLY_QT_INVERSE;
    return exists ? PSGD_OK : psgd__fail(PSGD_ERR_ARGUMENT, "there is no operator %d", (int)what);
}

psgd_status psgd_precond_apply(const psgd_precond *self, psgd_operator what, const void *x, void *y)
{
    if (!self || !x || !y) return psgd__fail(PSGD_ERR_ARGUMENT, "apply needs a preconditioner, x and y");
    PSGD_TRY(check_operator(what));
    TYPED_CALL(self, apply, self, what, x, y);
    return PSGD_OK;
}

psgd_status psgd__rows_check(const psgd_rows *rows, int64_t limit)
{
    if (rows->count < 0 || (rows->count > 0 && !rows->index)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "a list of %lld rows without an index", (long long)rows->count);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        if (rows->index[i] >= (i ? rows->index[i - 1] + 1 : 0) && rows->index[i] < limit) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT,
                          "row %lld at entry %lld: rows must be ascending, each once, and from 0 to %lld",
                          (long long)rows->index[i], (long long)i, (long long)(limit - 1));
    }
    return PSGD_OK;
}

static psgd_status check_list(const psgd_precond *self, const psgd_rows *rows)
{
    if (!self || !rows) return psgd__fail(PSGD_ERR_ARGUMENT, "rows need a preconditioner and their list");
    if (self->settings.rows == ROWS_NONE) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "this preconditioner takes whole arrays; the option rows is none");
    }
    return psgd__rows_check(rows, psgd_precond_factor_size(self, 0));
}

psgd_status psgd_precond_update_rows(psgd_precond *self, const psgd_rows *rows, const void *v, const void *h)
{
    PSGD_TRY(check_list(self, rows));
    if (rows->count > 0 && (!h || (!v && !self->settings.integrate))) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "an update needs h and v; only the option integrate does without v");
    }
    return TYPED_CALL(self, update_rows, self, rows, v, h);
}

psgd_status psgd_precond_apply_rows(const psgd_precond *self, psgd_operator what, const psgd_rows *rows, const void *x,
                                    void *y)
{
    PSGD_TRY(check_list(self, rows));
    if (rows->count > 0 && (!x || !y)) return psgd__fail(PSGD_ERR_ARGUMENT, "apply needs x and y");
    PSGD_TRY(check_operator(what));
    TYPED_CALL(self, apply_rows, self, what, rows, x, y);
    return PSGD_OK;
}

psgd_status psgd_precond_criterion(psgd_precond *self, const void *v, const void *h, double *value)
{
    if (!self || !h || !value || (!v && !self->settings.integrate))
        return psgd__fail(PSGD_ERR_ARGUMENT, "the criterion needs v, h and value");
    return TYPED_CALL(self, criterion, self, v, h, value);
}

psgd_status psgd_precond_condition(const psgd_precond *self, double *condition)
{
    if (!self || !condition) return psgd__fail(PSGD_ERR_ARGUMENT, "the condition needs a preconditioner and a place");
    double smallest, largest;
    PSGD_TRY(TYPED_CALL(self, range, self, &smallest, &largest));
    *condition = largest / smallest;
    return PSGD_OK;
}

int psgd_precond_factor_count(const psgd_precond *self)
{
    return self ? TYPED_CALL(self, factor_count, self) : 0;
}

int64_t psgd_precond_factor_size(const psgd_precond *self, int factor)
{
    if (factor < 0 || factor >= psgd_precond_factor_count(self)) return 0;
    return TYPED_CALL(self, factor_size, self, factor);
}

psgd_status psgd_precond_factor(const psgd_precond *self, int factor, void *Q)
{
    if (!self || !Q || factor < 0 || factor >= psgd_precond_factor_count(self)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there is no factor %d to copy", factor);
    }
    TYPED_CALL(self, factor, self, factor, Q);
    return PSGD_OK;
}

int64_t psgd_precond_element_count(const psgd_precond *self)
{
    return self ? TYPED_CALL(self, elements, self, NULL) : 0;
}

psgd_status psgd_precond_elements(const psgd_precond *self, void *elements)
{
    if (!self || (!elements && psgd_precond_element_count(self) > 0)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "copying the elements of Q needs a preconditioner and room for them");
    }
    TYPED_CALL(self, elements, self, elements);
    return PSGD_OK;
}

int64_t psgd_precond_state_bytes(const psgd_precond *self)
{
    return self ? TYPED_CALL(self, state_bytes, self) : 0;
}

psgd_status psgd_precond_state_save(const psgd_precond *self, void *bytes)
{
    if (!self || !bytes) return psgd__fail(PSGD_ERR_ARGUMENT, "saving a state needs a preconditioner and room for it");
    TYPED_CALL(self, state_save, self, bytes);
    return PSGD_OK;
}

psgd_status psgd_precond_state_load(psgd_precond *self, int64_t count, const void *bytes)
{
    if (!self || !bytes) return psgd__fail(PSGD_ERR_ARGUMENT, "loading a state needs a preconditioner and the bytes");
    return TYPED_CALL(self, state_load, self, count, bytes);
}

psgd_status psgd_precond_set_step(psgd_precond *self, double step)
{
    if (!self || !isfinite(step) || step < 0 || (self->settings.norm != NORM_NONE && step >= 1)) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "the step of a fit must be at least 0 and, normalised, below 1; not %g",
                          step);
    }
    self->settings.step = step;
    return PSGD_OK;
}

int64_t psgd_precond_size(const psgd_precond *self)
{
    return self ? self->n : 0;
}

const char *psgd_precond_spec(const psgd_precond *self)
{
    return self ? self->spec : NULL;
}

int64_t psgd_precond_updates(const psgd_precond *self)
{
    int64_t updates = self ? self->updates : 0;
    for (int k = 0; self && k < self->tile_count; k++) { /* the max over the tiles */
        int64_t own = psgd_precond_updates(self->tiles[k]);
        if (own > updates) updates = own;
    }
    return updates;
}

int64_t psgd__precond_tile_at(const psgd_precond *self, int tile)
{
    int64_t at = TILES_HEADER;
    for (int k = 0; k < tile; k++) at += self->tile_bytes[k];
    return at;
}

int64_t psgd_precond_skipped(const psgd_precond *self)
{
    int64_t skipped = self ? self->skipped : 0;
    for (int k = 0; self && k < self->tile_count; k++) skipped += psgd_precond_skipped(self->tiles[k]);
    return skipped;
}
