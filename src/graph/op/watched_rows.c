/* What a watcher sees of an affine map or a convolution: rows of the matrix's inputs and of output gradients, one per
 * sample and, in a convolution, per position. */
#include "graph/op.h"

#include <math.h>

/* x [in, n] to rows [n, in + 1], dy [out, n] to rows [n, out]. */
static void affine_rows(const psgd_op_call *call, real *x_rows, real *d_rows)
{
    int64_t in = tensor_features(&call->input[0]), out = call->output.shape[0], n = call->output.shape[1];
    const real *x = X(call, 0), *dy = DY(call);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < in; i++) x_rows[j * (in + 1) + i] = x[i * n + j];
        x_rows[j * (in + 1) + in] = 1;
        for (int64_t i = 0; i < out; i++) d_rows[j * out + i] = (real)n * dy[i * n + j];
    }
}

/* Row (oy, ox, sample) holds the window there, zero outside the image. */
static void window_rows(const psgd_op_call *call, int64_t oy, int64_t ox, real scale, real *rows)
{
    const convolution_options *o = call->options;
    const int64_t *shape = call->input[0].shape;
    int64_t c = shape[0], h = shape[1], w = shape[2], n = shape[3], ld = o->kh * o->kw * c + 1;
    for (int64_t tap = 0; tap < o->kh * o->kw; tap++) {
        int64_t iy = oy * o->stride - o->padding + tap / o->kw, ix = ox * o->stride - o->padding + tap % o->kw;
        bool inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
        for (int64_t k = 0; k < c; k++) {
            const real *x = X(call, 0) + (inside ? ((k * h + iy) * w + ix) * n : 0);
            for (int64_t j = 0; j < n; j++) rows[j * ld + tap * c + k] = inside ? scale * x[j] : 0;
        }
    }
    for (int64_t j = 0; j < n; j++) rows[j * ld + ld - 1] = scale;
}

static void convolution_rows(const psgd_op_call *call, real *x_rows, real *d_rows)
{
    const int64_t *y = call->output.shape;
    int64_t out = y[0], places = y[1] * y[2], n = y[3], ld = call->input[1].shape[1];
    const real *dy = DY(call);
    real scale = (real)pow((double)places, 0.25);
    for (int64_t p = 0; p < places; p++) {
        window_rows(call, p / y[2], p % y[2], scale, x_rows + p * n * ld);
        for (int64_t i = 0; i < out; i++) {
            for (int64_t j = 0; j < n; j++) {
                d_rows[(p * n + j) * out + i] = scale * (real)n * dy[(i * places + p) * n + j];
            }
        }
    }
}

int64_t PSGD_TYPED(psgd__graph_rows)(const psgd_op *op, const psgd_op_call *call, void *x_rows, void *d_rows)
{
    bool affine = op == &OP(affine);
    if (!affine && op != &OP(convolution)) return 0;
    if (x_rows && affine) affine_rows(call, x_rows, d_rows);
    if (x_rows && !affine) convolution_rows(call, x_rows, d_rows);
    return call->output.size / call->output.shape[0];
}
