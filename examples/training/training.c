/* A training loop with your own gradients: least squares over random batches, W 4 x 6 (the last column is the bias),
 * PSGD with the Fisher criterion on kron(tri,tri). It needs no Hessian-vector products. */
#include <psgd/psgd.h>
#include <stdio.h>
#include <stdlib.h>

enum { OUT = 4, IN = 6, BATCH = 32, STEPS = 600 };

static double uniform(void)
{
    return 2.0 * rand() / RAND_MAX - 1;
}

/* Mean of |Wx - Tx|^2 / 2 over a batch, and its gradient. */
static double batch_loss(const double *W, const double *T, double *gradient)
{
    double loss = 0;
    for (int i = 0; i < OUT * IN; i++) gradient[i] = 0;
    for (int b = 0; b < BATCH; b++) {
        double x[IN];
        for (int j = 0; j < IN; j++) x[j] = j < IN - 1 ? uniform() * (1 << j) : 1; /* features of different scales */
        for (int i = 0; i < OUT; i++) {
            double error = 0;
            for (int j = 0; j < IN; j++) error += (W[i * IN + j] - T[i * IN + j]) * x[j];
            for (int j = 0; j < IN; j++) gradient[i * IN + j] += error * x[j] / BATCH;
            loss += error * error / (2 * BATCH);
        }
    }
    return loss;
}

int main(void)
{
    const int64_t shape[] = {OUT, IN};
    const psgd_tensor tensor = {.spec = "kron(tri,tri)", .ndim = 2, .shape = shape};
    double W[OUT * IN] = {0}, T[OUT * IN], g[OUT * IN], loss = 0;
    psgd_options *options;
    psgd_optimizer *optimizer;
    for (int i = 0; i < OUT * IN; i++) T[i] = uniform();
    if (psgd_options_create(NULL, &options) != PSGD_OK || psgd_options_set(options, "criterion", "fisher") != PSGD_OK ||
        psgd_options_set(options, "damping", "1e-3") != PSGD_OK || psgd_options_set(options, "lr", "0.05") != PSGD_OK ||
        psgd_options_set(options, "step", "0.1") != PSGD_OK ||
        psgd_options_set(options, "lr-schedule", "cosine") != PSGD_OK ||
        psgd_options_set_number(options, "total", STEPS) != PSGD_OK ||
        psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, options, &optimizer) != PSGD_OK) {
        return fprintf(stderr, "%s\n", psgd_last_error()), 1;
    }
    for (int step = 0; step < STEPS; step++) {
        loss = batch_loss(W, T, g);
        if (psgd_optimizer_step(optimizer, (void *[]){W}, (const void *[]){g}, NULL, NULL) != PSGD_OK) {
            return fprintf(stderr, "%s\n", psgd_last_error()), 1;
        }
        if (step % 100 == 0) printf("step %d, loss %g\n", step, loss);
    }
    printf("step %d, loss %g, %lld steps skipped\n", STEPS, loss, (long long)psgd_optimizer_skipped(optimizer));
    psgd_optimizer_free(optimizer);
    psgd_options_free(options);
    return !(loss < 1e-3);
}
