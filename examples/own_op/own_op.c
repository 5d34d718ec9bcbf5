/* Your own op in a graph: softplus, y = log(1 + e^x), by a check and four kernels.
 *
 *   cc own_op.c $(pkg-config --cflags --libs psgd) -lm && ./a.out
 *
 * With s = 1 / (1 + e^-x):   forward            y = log(1 + e^x)
 *                            tangent            ty = s tx
 *                            backward           dx = s dy
 *                            tangent_backward   tdx = s tdy + s (1 - s) tx dy
 *
 * The program compares the gradient along a direction and Hv with finite differences of losses and gradients. */
#include <psgd/psgd.h>

#include <math.h>
#include <stdio.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static psgd_status softplus_check(psgd_op_call *call)
{
    call->output.ndim = call->input[0].ndim;
    for (int i = 0; i < call->output.ndim; i++) call->output.shape[i] = call->input[0].shape[i];
    return PSGD_OK;
}

static psgd_status softplus_forward(psgd_op_call *call)
{
    const double *x = call->input[0].value;
    double *y = call->output.value;
    for (int64_t i = 0; i < call->output.size; i++) y[i] = fmax(x[i], 0) + log1p(exp(-fabs(x[i])));
    return PSGD_OK;
}

static void softplus_tangent(psgd_op_call *call)
{
    const double *x = call->input[0].value, *tx = call->input[0].tangent;
    double *ty = call->output.tangent;
    for (int64_t i = 0; i < call->output.size; i++) ty[i] = sigmoid(x[i]) * tx[i];
}

static void softplus_backward(psgd_op_call *call)
{
    const double *x = call->input[0].value, *dy = call->output.gradient;
    double *dx = call->input[0].gradient;
    for (int64_t i = 0; i < call->output.size; i++) dx[i] = (call->add[0] ? dx[i] : 0) + sigmoid(x[i]) * dy[i];
}

static void softplus_tangent_backward(psgd_op_call *call)
{
    const double *x = call->input[0].value, *tx = call->input[0].tangent;
    const double *dy = call->output.gradient, *tdy = call->output.tangent_gradient;
    double *tdx = call->input[0].tangent_gradient;
    for (int64_t i = 0; i < call->output.size; i++) {
        double s = sigmoid(x[i]), own = s * tdy[i] + s * (1 - s) * tx[i] * dy[i];
        tdx[i] = (call->add[0] ? tdx[i] : 0) + own;
    }
}

static const psgd_op softplus = {
    .name = "softplus",
    .check = softplus_check,
    .forward = softplus_forward,
    .tangent = softplus_tangent,
    .backward = softplus_backward,
    .tangent_backward = softplus_tangent_backward,
};

enum { IN = 3, OUT = 4, N = 5, PARAMETERS = OUT * (IN + 1) };

int main(void)
{
    psgd_graph *g;
    double theta[PARAMETERS], v[PARAMETERS], gradient[PARAMETERS], h[PARAMETERS], near[PARAMETERS], other[PARAMETERS];
    double step = 1e-5, loss, before, after, slope = 0, curvature = 0;
    psgd_graph_create(NULL, PSGD_F64, &g);
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){IN, N}), W = psgd_graph_parameter(g, "W", OUT, IN + 1);
    psgd_node a = psgd_graph_affine(g, x, W), y = psgd_graph_op(g, &softplus, 1, &a, NULL, 0);
    if (psgd_graph_finish(g, psgd_graph_l2(g, y, 1)) != PSGD_OK) return fprintf(stderr, "%s\n", psgd_last_error()), 1;

    psgd_normal_fill(PSGD_F64, 1, 0, 0, 0, IN * N, psgd_graph_values(g, x));
    psgd_normal_fill(PSGD_F64, 1, 0, 1, 0, PARAMETERS, theta);
    psgd_normal_fill(PSGD_F64, 1, 0, 2, 0, PARAMETERS, v);
    psgd_graph_hessian(g, theta, v, gradient, h, &loss);
    for (int i = 0; i < PARAMETERS; i++) theta[i] += step * v[i];
    psgd_graph_gradient(g, theta, near, &after);
    for (int i = 0; i < PARAMETERS; i++) theta[i] -= 2 * step * v[i];
    psgd_graph_gradient(g, theta, other, &before);
    for (int i = 0; i < PARAMETERS; i++) {
        slope += gradient[i] * v[i];
        curvature = fmax(curvature, fabs(h[i] - (near[i] - other[i]) / (2 * step)));
    }
    printf("loss %.6f\n", loss);
    printf("gradient along v: %.6f, by differences %.6f\n", slope, (after - before) / (2 * step));
    printf("Hv: largest difference %.1e\n", curvature);
    psgd_graph_free(g);
    return 0;
}
