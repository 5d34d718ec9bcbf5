/* Your own model: a small network on a synthetic task, trained with PSGD on exact Hessian-vector products.
 *
 *   cc own_model.c $(pkg-config --cflags --libs psgd) -lm && ./a.out
 */
#include <psgd/psgd.h>

#include <math.h>
#include <stdio.h>

enum { N = 64, HIDDEN = 16, PARAMETERS = HIDDEN * 3 + HIDDEN + 1 };

int main(void)
{
    psgd_graph *g;
    psgd_optimizer *optimizer;
    psgd_options *options;
    float theta[PARAMETERS], gradient[PARAMETERS], v[PARAMETERS], h[PARAMETERS];
    double loss = 0;
    psgd_graph_create(NULL, PSGD_F32, &g);
    psgd_node x = psgd_graph_input(g, 2, (int64_t[]){2, N}), t = psgd_graph_input(g, 2, (int64_t[]){1, N});
    psgd_node W1 = psgd_graph_parameter(g, "W1", HIDDEN, 3), W2 = psgd_graph_parameter(g, "W2", 1, HIDDEN + 1);
    psgd_node y = psgd_graph_affine(g, psgd_graph_tanh(g, psgd_graph_affine(g, x, W1)), W2);
    psgd_status status = psgd_graph_finish(g, psgd_graph_squared(g, y, t));

    psgd_tensor tensors[] = {{.ndim = 2, .shape = (int64_t[]){HIDDEN, 3}},
                             {.ndim = 2, .shape = (int64_t[]){1, HIDDEN + 1}}};
    psgd_options_create(NULL, &options);
    psgd_options_set(options, "group", "kron(tri,tri)");
    psgd_options_set(options, "lr", "0.2");
    psgd_options_set(options, "clip", "1");
    if (status == PSGD_OK) status = psgd_optimizer_create(NULL, "psgd", 2, tensors, PSGD_F32, options, &optimizer);
    psgd_normal_fill(PSGD_F32, 1, 0, 0, 0, PARAMETERS, theta);
    void *at[] = {theta, theta + HIDDEN * 3};
    const void *dt[] = {gradient, gradient + HIDDEN * 3}, *vt[] = {v, v + HIDDEN * 3}, *ht[] = {h, h + HIDDEN * 3};
    for (int step = 0; step < 500 && status == PSGD_OK; step++) {
        float *in = psgd_graph_values(g, x), *target = psgd_graph_values(g, t);
        psgd_normal_fill(PSGD_F32, 2, 0, (uint64_t)step, 0, 2 * N, in); /* a new batch: learn the product */
        for (int j = 0; j < N; j++) target[j] = sinf(in[j]) * in[N + j];
        for (int i = 0; i < 2; i++) psgd_optimizer_draw(optimizer, i, (void *)vt[i]);
        status = psgd_graph_hessian(g, theta, v, gradient, h, &loss);
        if (status == PSGD_OK) status = psgd_optimizer_step(optimizer, at, dt, vt, ht);
        if (step % 100 == 99) printf("step %d: loss %.4f\n", step + 1, loss);
    }
    if (status != PSGD_OK) return fprintf(stderr, "%s\n", psgd_last_error()), 1;
    psgd_options_free(options);
    psgd_optimizer_free(optimizer);
    psgd_graph_free(g);
    return 0;
}
