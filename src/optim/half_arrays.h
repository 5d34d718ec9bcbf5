/* An optimizer over arrays of a half precision type: its state and all arithmetic are f32.
 *
 * A step widens the caller's arrays into slabs, is taken there as any step of an f32 optimizer, and rounds the
 * parameters back stochastically, by bits that are a function of (seed, tensor, step, entry). */
#ifndef PSGD_OPTIM_HALF_ARRAYS_H
#define PSGD_OPTIM_HALF_ARRAYS_H

#include <psgd/optim.h>
#include <psgd/rows.h>

typedef struct optim_half {
    psgd_dtype dtype;                   /* of the caller's arrays */
    float *slab;                        /* of the arrays below */
    float *drawn;                       /* [largest tensor * pairs] */
    void **theta, **gradient, **v, **h; /* [tensors] of floats; v and h only where products are taken */
    void **list;                        /* what a step takes: [4 * tensors] */
} optim_half;

/* The lists of one step. */
typedef struct half_lists {
    void *const *theta;
    const void *const *gradient, *const *v, *const *h;
} half_lists;

/* When everything else of an optimizer is known. */
psgd_status psgd__half_build(psgd_optimizer *self, psgd_dtype dtype);
void psgd__half_free(psgd_optimizer *self);

/* PSGD_ERR_UNSUPPORTED, with its sentence, where an optimizer has arrays of a half type. */
psgd_status psgd__half_refuse(const psgd_optimizer *self, const char *what);

/* The caller's arrays as floats. theta may be NULL. */
half_lists psgd__half_lists(const psgd_optimizer *self, const psgd_rows *const *rows, half_lists given);

/* Parameters back into the caller's arrays, after the step numbered step. */
void psgd__half_store(const psgd_optimizer *self, const psgd_rows *const *rows, int64_t step, void *const *theta);

/* v of a tensor, or of some of its rows, rounded to nearest. */
psgd_status psgd__half_draw(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v);

#endif
