/* A group spec: the sizes of a tensor on the first line, the spec after it. What is accepted must also work. */
#include "fuzz.h"

#include <math.h>

enum { ELEMENTS = 64 };

static void use(psgd_dtype dtype, const char *spec, int ndim, const int64_t *shape, int64_t elements)
{
    const psgd_context *context = fuzz_context(false);
    psgd_precond *precond;
    double v[ELEMENTS], h[ELEMENTS], condition;
    if (psgd_precond_create(context, spec, ndim, shape, dtype, NULL, &precond) != PSGD_OK) return;
    FUZZ_ASSERT(psgd_precond_size(precond) == elements);
    FUZZ_ASSERT(psgd_normal_fill(dtype, 1, 0, 0, 0, elements, v) == PSGD_OK);
    FUZZ_ASSERT(psgd_normal_fill(dtype, 1, 1, 0, 0, elements, h) == PSGD_OK);
    FUZZ_ASSERT(psgd_precond_update(precond, v, h) == PSGD_OK);
    FUZZ_ASSERT(psgd_precond_apply(precond, PSGD_APPLY_P, v, h) == PSGD_OK);
    FUZZ_ASSERT(fuzz_finite(dtype, elements, h));
    FUZZ_ASSERT(psgd_precond_condition(precond, &condition) == PSGD_OK && condition >= 1 - 1e-3);
    int64_t bytes = psgd_precond_state_bytes(precond);
    char *state = malloc((size_t)bytes);
    FUZZ_ASSERT(state && psgd_precond_state_save(precond, state) == PSGD_OK);
    FUZZ_ASSERT(psgd_precond_state_load(precond, bytes, state) == PSGD_OK);
    free(state);
    psgd_precond_free(precond);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const psgd_context *context = fuzz_context(false);
    if (size > 2000) return 0;
    char *line = fuzz_text(data, size), *spec = strchr(line, '\n'), *tree, *at = line;
    int64_t shape[9], elements = 1, stored, bytes;
    int ndim = 0;
    while (spec && at < spec && ndim < 9) {
        char *end;
        shape[ndim] = strtoll(at, &end, 10);
        if (end == at || end > spec) break;
        if (__builtin_mul_overflow(elements, shape[ndim], &elements)) elements = 0;
        at = end;
        ndim++;
    }
    if (spec) {
        for (int dtype = PSGD_F32; dtype <= PSGD_F64; dtype++) {
            double cost[4];
            psgd_status known = psgd_group_cost(context, spec + 1, ndim, shape, (psgd_dtype)dtype, &stored, &bytes,
                                                cost, cost + 1, cost + 2, cost + 3);
            if (known == PSGD_OK) FUZZ_ASSERT(stored >= 0 && bytes >= 0 && isfinite(cost[0]) && cost[0] >= 0);
            if (psgd_group_tree(context, spec + 1, ndim, shape, (psgd_dtype)dtype, &tree) == PSGD_OK) {
                FUZZ_ASSERT(known == PSGD_OK);
                psgd_text_free(context, tree);
            }
            if (elements > 0 && elements <= ELEMENTS) use((psgd_dtype)dtype, spec + 1, ndim, shape, elements);
        }
    }
    free(line);
    return 0;
}
