/* The state of an optimizer: a byte that names the method and one for the group, then edits of a whole state
 * (fuzz_edit), whose checksums are repaired. A state that is refused changes nothing; after one that is accepted the
 * parameters stay finite. */
#include "fuzz.h"

static const char *const groups[] = {"diag",
                                     "kron(tri,dense)",
                                     "scan",
                                     "kron(norm,xmat)",
                                     "splu(2)",
                                     "lra(1)",
                                     "sum(lra(1):3,diag:3)",
                                     "kron(tril,block(tri:2,scale))"};
enum { GROUPS = sizeof groups / sizeof groups[0], TENSORS = 2 };
static const int64_t shapes[TENSORS][2] = {{2, 3}, {3, 0}};
static double theta[TENSORS][6];

static int bowl(void *data, const void *const *at, double *loss, void *const *gradient)
{
    (void)data;
    *loss = 0;
    for (int i = 0; i < TENSORS; i++) {
        for (int j = 0; j < (i ? 3 : 6); j++) {
            double x = ((const double *)at[i])[j];
            *loss += x * x * (j + 1) / 2;
            if (gradient) ((double *)gradient[i])[j] = x * (j + 1);
        }
    }
    return 0;
}

static void step(psgd_optimizer *o)
{
    static const psgd_objective objective = {.gradient = bowl};
    void *to[TENSORS];
    const void *gs[TENSORS], *hs[TENSORS];
    double g[TENSORS][6], loss;
    for (int i = 0; i < TENSORS; i++) {
        to[i] = theta[i];
        gs[i] = hs[i] = g[i];
        for (int j = 0; j < 6; j++) g[i][j] = theta[i][j] * (j + 1);
    }
    if (psgd_optimizer_needs_objective(o)) {
        (void)psgd_optimizer_bind(o, &objective);
        (void)psgd_optimizer_iterate(o, to, &loss);
    } else {
        (void)psgd_optimizer_step(o, to, gs, gs, hs);
    }
}

static psgd_optimizer *make(int method, int group)
{
    psgd_optimizer *made;
    psgd_tensor tensors[TENSORS];
    psgd_options *options;
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = (psgd_tensor){.ndim = 2 - i, .shape = shapes[i], .spec = i ? "tri" : groups[group]};
        for (int j = 0; j < 6; j++) theta[i][j] = 1 + i + 0.25 * j;
    }
    FUZZ_ASSERT(psgd_options_create(NULL, &options) == PSGD_OK);
    FUZZ_ASSERT(psgd_options_set(options, "max-skipped", "1000") == PSGD_OK);
    psgd_status status = psgd_optimizer_create(NULL, psgd_method_name(method), TENSORS, tensors, PSGD_F64, options,
                                               &made);
    FUZZ_ASSERT(status == PSGD_OK);
    psgd_options_free(options);
    for (int t = 0; t < 2; t++) step(made);
    return made;
}

static char *saved(const psgd_optimizer *o)
{
    char *bytes = malloc((size_t)psgd_optimizer_state_bytes(o));
    FUZZ_ASSERT(bytes && psgd_optimizer_state_save(o, bytes) == PSGD_OK);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int methods = 0;
    if (size < 2) return 0;
    while (psgd_method_name(methods)) methods++;
    psgd_optimizer *o = make(data[0] % methods, data[1] % GROUPS);
    char *before = saved(o);
    size_t whole = (size_t)psgd_optimizer_state_bytes(o), count = whole;
    char *changed = fuzz_edit(data + 2, size - 2, before, &count);
    fuzz_repair_optimizer(changed, count);
    char *exact = malloc(count ? count : 1);
    FUZZ_ASSERT(exact);
    memcpy(exact, changed, count);
    if (psgd_optimizer_state_load(o, (int64_t)count, exact) != PSGD_OK) {
        char *after = saved(o);
        FUZZ_ASSERT(!memcmp(before, after, whole));
        free(after);
    } else {
        for (int t = 0; t < 3; t++) step(o);
        for (int i = 0; i < TENSORS; i++) FUZZ_ASSERT(fuzz_finite(PSGD_F64, 6, theta[i]));
    }
    free(exact);
    free(changed);
    free(before);
    psgd_optimizer_free(o);
    return 0;
}
