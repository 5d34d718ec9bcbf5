/* The mean over samples of the cross entropy of a softmax: y = (1/n) sum_j log sum_i e^x_ij - x_(label j) j.
 *
 * x is [classes, n]. Of each sample only the largest x, m, and the logarithm of the sum are kept, so the logits are
 * stored once: p = e^(x - m - log sum) is recomputed where it is needed, a chunk of samples at a time.
 * dx = (p - onehot) dy / n, tdx = p (tx - <p, tx>) dy / n + (p - onehot) tdy / n. */
#include "graph/op.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <math.h>

enum { CHUNK = 64 };

typedef struct softmax_memory {
    real *level; /* [n] m + log sum, so that p = exp(x - level) */
    real *mean;  /* [n] <p, tx> */
} softmax_memory;

static softmax_memory memory_of(const psgd_op_call *call)
{
    real *start = call->memory;
    return (softmax_memory){start, start + call->input[0].shape[1]};
}

static psgd_status softmax_check(psgd_op_call *call)
{
    PSGD_TRY(op_inputs(call, 2));
    const psgd_operand *x = &call->input[0], *labels = &call->input[1];
    if (x->ndim != 2 || labels->size != x->shape[1]) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "it takes [classes, n] and n labels");
    }
    if (labels->live) return psgd__fail(PSGD_ERR_ARGUMENT, "the labels must not depend on a parameter");
    op_scalar(call);
    call->memory_bytes = 2 * x->shape[1] * (int64_t)sizeof(real);
    call->flops = 8 * (double)x->size;
    return PSGD_OK;
}

static int64_t chunks(const psgd_op_call *call)
{
    return (call->input[0].shape[1] + CHUNK - 1) / CHUNK;
}

static double work_of(const psgd_op_call *call)
{
    return 16 * (double)call->input[0].size;
}

static int64_t chunk_of(const psgd_op_call *call, int64_t part, int64_t *from)
{
    int64_t n = call->input[0].shape[1];
    *from = part * CHUNK;
    return n - *from < CHUNK ? n - *from : CHUNK;
}

static void find_level(void *data, int64_t part)
{
    psgd_op_call *call = data;
    const la_kernels *k = la_kernel();
    int64_t classes = call->input[0].shape[0], n = call->input[0].shape[1], from;
    int64_t count = chunk_of(call, part, &from);
    const real *x = X(call, 0) + from;
    real max[CHUNK], sum[CHUNK], e[CHUNK], *level = memory_of(call).level + from;
    for (int64_t j = 0; j < count; j++) max[j] = x[j];
    for (int64_t i = 1; i < classes; i++) {
        for (int64_t j = 0; j < count; j++) max[j] = x[i * n + j] > max[j] ? x[i * n + j] : max[j];
    }
    for (int64_t j = 0; j < count; j++) sum[j] = 0;
    for (int64_t i = 0; i < classes; i++) {
        k->exp_minus(count, x + i * n, max, e);
        for (int64_t j = 0; j < count; j++) sum[j] += e[j];
    }
    for (int64_t j = 0; j < count; j++) level[j] = max[j] + (real)log((double)sum[j]);
}

static psgd_status softmax_forward(psgd_op_call *call)
{
    int64_t classes = call->input[0].shape[0], n = call->input[0].shape[1];
    const real *x = X(call, 0), *labels = X(call, 1), *level = memory_of(call).level;
    for (int64_t j = 0; j < n; j++) {
        if (labels[j] >= 0 && labels[j] < (real)classes && labels[j] == (real)(int64_t)labels[j]) continue;
        return psgd__fail(PSGD_ERR_ARGUMENT, "label %g of sample %lld is not a whole number from 0 to %lld",
                          (double)labels[j], (long long)j, (long long)(classes - 1));
    }
    la_parallel(chunks(call), work_of(call), find_level, call);
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)level[j] - (double)x[(int64_t)labels[j] * n + j];
    Y(call)[0] = (real)(sum / (double)n);
    return PSGD_OK;
}

static void find_mean(void *data, int64_t part)
{
    psgd_op_call *call = data;
    const la_kernels *k = la_kernel();
    int64_t classes = call->input[0].shape[0], n = call->input[0].shape[1], from;
    int64_t count = chunk_of(call, part, &from);
    softmax_memory m = memory_of(call);
    real p[CHUNK], sum[CHUNK] = {0};
    for (int64_t i = 0; i < classes; i++) {
        const real *tx = TX(call, 0) + i * n + from;
        k->exp_minus(count, X(call, 0) + i * n + from, m.level + from, p);
        for (int64_t j = 0; j < count; j++) sum[j] += p[j] * tx[j];
    }
    for (int64_t j = 0; j < count; j++) m.mean[from + j] = sum[j];
}

static void softmax_tangent(psgd_op_call *call)
{
    int64_t n = call->input[0].shape[1];
    const real *labels = X(call, 1), *tx = TX(call, 0), *mean = memory_of(call).mean;
    la_parallel(chunks(call), work_of(call), find_mean, call);
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)mean[j] - (double)tx[(int64_t)labels[j] * n + j];
    TY(call)[0] = (real)(sum / (double)n);
}

static void pull_back(void *data, int64_t part)
{
    psgd_op_call *call = data;
    const la_kernels *k = la_kernel();
    int64_t classes = call->input[0].shape[0], n = call->input[0].shape[1], from;
    int64_t count = chunk_of(call, part, &from);
    const real *labels = X(call, 1) + from, *level = memory_of(call).level + from;
    real c = DY(call)[0] / (real)n, p[CHUNK];
    for (int64_t i = 0; i < classes; i++) {
        real *dx = DX(call, 0) + i * n + from;
        k->exp_minus(count, X(call, 0) + i * n + from, level, p);
        if (call->add[0]) {
            for (int64_t j = 0; j < count; j++) dx[j] += c * (p[j] - (real)(labels[j] == (real)i));
        } else {
            for (int64_t j = 0; j < count; j++) dx[j] = c * (p[j] - (real)(labels[j] == (real)i));
        }
    }
}

static void softmax_backward(psgd_op_call *call)
{
    la_parallel(chunks(call), work_of(call), pull_back, call);
}

static void pull_tangent_back(void *data, int64_t part)
{
    psgd_op_call *call = data;
    const la_kernels *k = la_kernel();
    int64_t classes = call->input[0].shape[0], n = call->input[0].shape[1], from;
    int64_t count = chunk_of(call, part, &from);
    const real *labels = X(call, 1) + from;
    softmax_memory m = memory_of(call);
    real c = DY(call)[0] / (real)n, tc = TDY(call)[0] / (real)n, p[CHUNK];
    for (int64_t i = 0; i < classes; i++) {
        real *tdx = TDX(call, 0) + i * n + from;
        const real *tx = TX(call, 0) + i * n + from;
        k->exp_minus(count, X(call, 0) + i * n + from, m.level + from, p);
        for (int64_t j = 0; j < count; j++) {
            real own = c * p[j] * (tx[j] - m.mean[from + j]) + tc * (p[j] - (real)(labels[j] == (real)i));
            tdx[j] = call->add[0] ? tdx[j] + own : own;
        }
    }
}

static void softmax_tangent_backward(psgd_op_call *call)
{
    la_parallel(chunks(call), work_of(call), pull_tangent_back, call);
}

const psgd_op OP(softmax) = {
    OP_TABLE("softmax", softmax_check, softmax_forward, softmax_tangent, softmax_backward, softmax_tangent_backward)};
