/* What a method must provide, for one dtype. step.c has checked that its inputs are finite. */
#ifndef PSGD_OPTIM_METHOD_METHOD_H
#define PSGD_OPTIM_METHOD_METHOD_H

#include "la/fused/optimizer_step.h"
#include "optim/optim.h"
#include "optim/search.h"

#define method_ops  PSGD_TYPED(method_ops)
#define method_args PSGD_TYPED(method_args)

/* One tensor of one step. */
typedef struct method_args {
    psgd_optimizer *self;
    part *part;
    int64_t step;      /* of this tensor, from 1, skipped ones left out */
    step_rule rule;    /* keep, rate and l2 of this step: out <- keep x - rate d, where l2 x was added to g */
    const real *g, *x; /* [n] */
    const real *v, *h; /* [pairs][n] on update steps where the method takes products and there is one, else NULL */
    real *out;         /* [n]: x itself, or the direction, with keep = 0 and rate = -1 */
    bool update;       /* this is an update step */
} method_args;

typedef struct method_ops {
    method_kind kind;

    /* REQUIRED unless kind.searches */
    void (*advance)(const method_args *a); /* updates the method's state; out <- keep x - rate d */

    /* OPTIONAL */
    int arrays;                                                 /* of the tensor's size, that are its state */
    int64_t (*size)(const psgd_optimizer *self, const part *p); /* of that state instead; zero at the start */
    void (*reserve)(psgd_optimizer *self);                      /* scratch in the workspace */
    void (*leave_out)(psgd_optimizer *self, const part *p);     /* instead of advance: it has no gradient */
    void (*finish)(psgd_optimizer *self, bool pairs); /* after advance of all; there is what a fit needs; needs whole */
    bool (*concurrent)(const part *p); /* advance may run at the same time as that of other tensors, each in a slice of
                                          scratch */
    bool (*heavy)(const part *p);      /* of these, one whose products are worth several threads */
    bool whole;                        /* advance needs all of g before it writes: out must not be x */
    void (*position)(const psgd_optimizer *self, const part *p, const real *x, real *to);
    psgd_status (*observe)(psgd_optimizer *self, part *p, int64_t count, const real *a, const real *d);
    psgd_status (*iterate)(psgd_optimizer *self, void *const *theta, double *loss); /* REQUIRED if kind.searches */
} method_ops;

/* Every method. To add one: a file with its table, its name here. */
#define METHODS(each)                                                                                                  \
    each(psgd) each(sgd) each(momentum) each(nesterov) each(adagrad) each(rmsprop) each(adam) each(adamw)              \
        each(sparse_adam) each(esgd) each(kfac) each(lbfgs) each(newton_cg)

#define METHOD_OPS(name)     PSGD_TYPED(psgd__##name##_method)
#define DECLARE_METHOD(name) extern const method_ops METHOD_OPS(name);
METHODS(DECLARE_METHOD)

#define psgd__method_at     PSGD_TYPED(psgd__method_at)
#define psgd__evaluate      PSGD_TYPED(psgd__evaluate)
#define psgd__product       PSGD_TYPED(psgd__product)
#define psgd__parts_dot     PSGD_TYPED(psgd__parts_dot)
#define psgd__search        PSGD_TYPED(psgd__search)
#define psgd__parts_copy    PSGD_TYPED(psgd__parts_copy)
#define psgd__parts_scale   PSGD_TYPED(psgd__parts_scale)
#define psgd__parts_axpy    PSGD_TYPED(psgd__parts_axpy)
#define psgd__parts_max     PSGD_TYPED(psgd__parts_max)
#define psgd__clip_gradient PSGD_TYPED(psgd__clip_gradient)

const method_ops *psgd__method_at(int index);

/* Over all tensors: x'y, y <- x, x <- c x, y <- y + c x, max |x|. */
double psgd__parts_dot(const psgd_optimizer *self, void *const *x, void *const *y);
void psgd__parts_copy(const psgd_optimizer *self, void *const *x, void *const *y);
void psgd__parts_scale(const psgd_optimizer *self, double c, void *const *x);
void psgd__parts_axpy(const psgd_optimizer *self, double c, void *const *x, void *const *y);
double psgd__parts_max(const psgd_optimizer *self, const void *const *x);

/* *gradient <- the gradients that the method sees: as they are or, with the option clip-gradient, those with a joint
 * norm of at most that much. Tensors without a gradient are NULL in both. *max, a bound of |entry|, follows. */
psgd_status psgd__clip_gradient(psgd_optimizer *self, const void *const **gradient, double *max);

/* The bound objective, counted. Loss and gradient; the product of H with v, exact or by finite differences of
 * gradients, where g is the gradient at theta. Non-finite values are not looked for here. */
psgd_status psgd__evaluate(psgd_optimizer *self, void *const *theta, double *loss, void *const *gradient);
psgd_status psgd__product(psgd_optimizer *self, void *const *theta, void *const *g, void *const *v, double *loss,
                          void *const *h);

/* A line search from theta along d, with value, slope and first of s given. Leaves the last point evaluated in spare
 * and its gradient in h. */
psgd_status psgd__search(psgd_optimizer *self, void *const *theta, void *const *d, line_search *s);

#endif
