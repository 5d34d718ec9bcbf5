/* The optimizer, and what a method must provide.
 *
 * optimizer.c, optimizer_create.c and take_step.c check every argument, step/step.c does what all methods share
 * (non-finite values, schedules, the fit of the preconditioners, clipping, weight decay), a method turns gradients into
 * directions. To add one: a file with its table, a name in method.h. */
#ifndef PSGD_OPTIM_OPTIM_H
#define PSGD_OPTIM_OPTIM_H

#include <stdbool.h>

#include "core/dtype.h"
#include "core/options.h"
#include "core/workspace.h"
#include "optim/async.h"
#include "optim/half_arrays.h"
#include "optim/ranks.h"
#include "precond/precond.h"
#include <psgd/optim.h>
#include <psgd/plan.h>

enum {
    OPTIM_MAX_DIMS = 32,
    OPTIM_NAME = 96,
    OPTIM_NOTE = 192,
    OPTIM_SMALL = 10000,
    OPTIM_FEW = 128,
    OPTIM_HARDLY_ANY = 16
};

typedef enum whiten_choice { WHITEN_GRADIENT, WHITEN_MOMENTUM } whiten_choice;
typedef enum clip_choice { CLIP_ABSOLUTE, CLIP_SQRT } clip_choice;
typedef enum probe_choice { PROBE_NORMAL, PROBE_PRECONDITIONED, PROBE_MIXED } probe_choice;
typedef enum apply_choice { APPLY_P, APPLY_P2, APPLY_INVERSE_FISHER, APPLY_Q } apply_choice;

typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_PLATEAU } schedule_kind;

/* How a learning rate changes over time. */
typedef struct schedule {
    int kind;      /* enum schedule_kind */
    int64_t every; /* step: multiply by factor every so many steps */
    double factor;
    double floor; /* cosine: ends at floor times the start */
} schedule;

typedef enum defaults_choice { DEFAULTS_TUNED, DEFAULTS_PAPER } defaults_choice;

typedef struct optim_settings {
    int defaults; /* enum defaults_choice */
    double lr;
    schedule lr_schedule, step_schedule;
    int64_t warmup, total;
    double momentum, beta1, beta2, epsilon;
    bool nesterov, epsilon_inside;
    int whiten; /* enum whiten_choice */
    int apply;  /* enum apply_choice */
    int probe;  /* enum probe_choice */
    double clip_gradient, clip, clip_element, clip_relative, clip_recent, clip_rms;
    int clip_by; /* enum clip_choice */
    double l2, decay;
    int64_t update_every, update_anneal;
    int64_t delay, workers, worker_threads;
    bool delay_free;
    double update_probability, update_floor;
    int64_t seed, first_tensor, parameters, max_skipped;
    bool check;
    int64_t memory, inverse_every, cg_iterations;
    double cg_tolerance, power;
    bool joint;
    const char *group; /* only while creating */
    precond_settings fit;
} optim_settings;

extern const option_row psgd__optim_options[];
extern const int psgd__optim_option_count;

/* The default of an option where it depends on the method and, for psgd, on the type of its criterion and on whose
 * defaults are asked for; NULL where it does not. */
const char *psgd__optim_default(const char *method, int type, bool paper, const char *option);
bool psgd__optim_by_method(const char *option); /* whether it does for some method */

/* Where the parameters are few in all, replaces the general defaults by those for so few. */
psgd_status psgd__optim_fit_few(const psgd_options *options, int64_t parameters, optim_settings *set);

/* Settings from defaults and a list of options, which may be NULL. */
psgd_status psgd__optim_read(const char *method, int type, const psgd_options *options, optim_settings *set);

/* What untyped code knows about a method. */
typedef struct method_kind {
    const char *name, *summary;
    bool fits;     /* has a preconditioner for each tensor */
    bool products; /* takes (v, Hv) on update steps; with fits: as the criterion says */
    bool searches; /* only by iterate: it evaluates the objective where it needs to */
    bool nesterov; /* always */
    bool observes; /* takes activations */
    bool rows;     /* takes row-sparse gradients; the state of absent rows stays */
} method_kind;

typedef struct part {
    char name[OPTIM_NAME];
    int ndim;
    int64_t shape[OPTIM_MAX_DIMS];
    int64_t n, from; /* elements, and where they start in a slab of all tensors */
    void *state;     /* the method's, in the slab */
    int64_t state_size;
    psgd_precond *precond;
    int64_t steps, taken;  /* that it took part in: all, and those that were not skipped */
    bool present, due;     /* on this step: it has a gradient; its preconditioner is to be fitted */
    bool fitted;           /* on this step */
    double factor;         /* of its direction, on this step: from clip-rms */
    int64_t rows_max;      /* in a row-sparse gradient; 0: there are none */
    void *packed;          /* [1 + state_size / n][rows_max][n / shape[0]]: parameters and state of those rows */
    const psgd_rows *rows; /* while a step runs on packed: n and state are then those of the rows */
    int owner;             /* the rank that advances it; -1: every rank does */
    bool spread;           /* its tiles have owners; owner is -1 */
    int64_t whole;         /* then: where it starts among such tensors */
    int bucket;            /* with which its gradient is summed over the ranks */
    int64_t precond_bytes; /* of the state of its preconditioner, wherever that is */
} part;

/* Every scalar that changes from step to step and belongs to no tensor: one block in a saved state. */
typedef struct optim_counters {
    int64_t step, skipped, skipped_in_row, evaluations, products, fits;
    double best_validation, plateau; /* +inf before the first; the factor that plateaus have made so far */
    double first_rms;                /* of theta at the first step, or of d where that is zero; -1 before it */
    double recent;                   /* moving average of ||d||; 0 before the first step */
    int64_t surprised;               /* ||d|| of the last step exceeded clip-recent */
    double scalar[16];               /* the method's own */
    int64_t integer[8];
} optim_counters;

struct psgd_optimizer {
    const psgd_context *context;
    psgd_dtype dtype; /* of its state: f32 or f64 */
    optim_settings settings;
    optim_settings with_products; /* replace settings when an objective with products is bound */
    bool undecided;               /* no criterion was named: an objective with products makes it Newton */
    psgd_plan *plan;              /* only while creating */
    const method_kind *kind;
    const void *ops; /* method_ops of the dtype */
    int part_count;
    part *parts;
    int64_t total, largest;
    int64_t scratch; /* the method's offset in the workspace */
    workspace work;
    void *state; /* slab */
    int64_t state_size;
    void *direction;           /* [total], where a step cannot be taken in one pass */
    void *probe;               /* [largest * pairs], where v is drawn here; for small tensors a slice per thread */
    int64_t probe_stride;      /* from slice to slice */
    psgd_precond *joint;       /* of all tensors, with the option joint; those of the parts are NULL then */
    void *clipped;             /* [total], with the option clip-gradient: the gradients that the method sees */
    const void **clipped_list; /* [part_count] into it */
    void *packed;              /* slab of the parts' packed */
    void **row_theta;          /* [part_count] while a step runs on rows */
    optim_ranks *ranks;        /* NULL: a single rank */
    optim_async *async;        /* NULL: fits are made in their step */
    optim_counters now;
    char note[OPTIM_NOTE];

    /* After bind. */
    psgd_objective objective;
    void *closure;                                          /* slab for the arrays below */
    void **gradient, **v, **h, **spare, **pair_v, **pair_h; /* [part_count] each; pair_*: pairs of them */

    optim_half *half; /* NULL: the caller's arrays are of dtype */
};

static inline bool optim_uses_products(const psgd_optimizer *self)
{
    return self->kind->fits ? self->settings.fit.criterion == CRITERION_NEWTON : self->kind->products;
}

/* This rank advances the tensor. */
static inline bool optim_is_mine(const psgd_optimizer *self, const part *p)
{
    return !self->ranks || p->owner < 0 || p->owner == psgd_comm_rank(self->ranks->comm);
}

/* Whether method and options support gradients of so many rows of a tensor of that name; 0: whole ones. */
psgd_status psgd__optim_check_rows(const method_kind *kind, const optim_settings *set, const char *name, int64_t rows);

/* The fit of a tensor's preconditioner, or of its second moment of products, is due on the coming step. */
bool psgd__optim_update_due(const psgd_optimizer *self, int tensor);

/* The factor of a schedule on a learning rate at a step (from 0). */
double psgd__optim_schedule(const psgd_optimizer *self, const schedule *s, int64_t step);

/* Elements in a row of the first dimension. */
int64_t psgd__part_width(const part *p);

/* Whether v of the coming step, of all tensors, has covariance P rather than I. */
bool psgd__optim_probes_p(const psgd_optimizer *self);

/* A step was taken, or skipped, by the tensors that are present. */
void psgd__optim_count(psgd_optimizer *self, bool taken);

/* Counts a skipped step; PSGD_ERR_NOT_FINITE where there have been too many in a row. */
psgd_status psgd__optim_skip(psgd_optimizer *self, const char *format, ...) PSGD_PRINTF(2, 3);

#define OPTIM_TYPED(type)                                                                                              \
    int psgd__method_count_##type(void);                                                                               \
    const method_kind *psgd__method_kind_##type(int index);                                                            \
    psgd_status psgd__optim_build_##type(psgd_optimizer *self, int method);                                            \
    psgd_status psgd__optim_step_##type(psgd_optimizer *self, void *const *theta, const void *const *gradient,         \
                                        const void *const *v, const void *const *h);                                   \
    psgd_status psgd__optim_check_##type(const psgd_optimizer *self, const psgd_rows *const *rows,                     \
                                         const void *const *gradient, const void *const *v, const void *const *h);     \
    psgd_status psgd__optim_iterate_##type(psgd_optimizer *self, void *const *theta, double *loss);                    \
    psgd_status psgd__optim_build_rows_##type(psgd_optimizer *self);                                                   \
    psgd_status psgd__optim_build_clip_##type(psgd_optimizer *self);                                                   \
    psgd_status psgd__optim_step_rows_##type(psgd_optimizer *self, void *const *theta, const psgd_rows *const *rows,   \
                                             const void *const *gradient, const void *const *v, const void *const *h); \
    psgd_status psgd__optim_draw_##type(const psgd_optimizer *self, int tensor, const psgd_rows *rows, void *v);       \
    void psgd__optim_evaluate_delayed_##type(const optim_async *async, async_request *request, int worker);            \
    void psgd__optim_fit_delayed_##type(const optim_async *async, const async_request *request);                       \
    psgd_status psgd__optim_bind_curvature_##type(psgd_optimizer *self, psgd_comm *all, int curvature_ranks,           \
                                                  const psgd_curvature *curvature);                                    \
    void psgd__optim_free_curvature_##type(optim_async *async);                                                        \
    psgd_status psgd__optim_ask_curvature_##type(optim_async *async, void *const *theta);                              \
    psgd_status psgd__optim_take_curvature_##type(optim_async *async, int64_t step);                                   \
    psgd_status psgd__optim_serve_curvature_##type(psgd_optimizer *self);                                              \
    psgd_status psgd__optim_end_curvature_##type(psgd_optimizer *self);                                                \
    void psgd__optim_position_##type(const psgd_optimizer *self, const void *const *theta, void *const *position);     \
    psgd_status psgd__optim_observe_##type(psgd_optimizer *self, int tensor, int64_t count, const void *activations,   \
                                           const void *output_gradients);

OPTIM_TYPED(f32)
OPTIM_TYPED(f64)

/* The typed function for the dtype of an optimizer. */
#define OPTIM_CALL(self, function, ...) PSGD_PICK((self)->dtype, psgd__optim_##function)(__VA_ARGS__)

#endif
