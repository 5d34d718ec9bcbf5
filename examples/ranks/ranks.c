/* A model of your own over MPI: softmax regression on synthetic data, W 8 x 21 (the last column is the bias), PSGD with
 * the Fisher criterion on kron(dense,dense). Each rank has its part of the batch; theta has the same bits on 1, 2, 4
 * and 8 ranks.    mpirun -n 4 ./ranks */
#include <math.h>
#include <psgd/mpi.h>
#include <psgd/psgd.h>
#include <stdio.h>

enum { OUT = 8, IN = 21, SIZE = OUT * IN, BATCH = 64, PIECES = 8, EACH = BATCH / PIECES, STEPS = 300 };

/* Adds loss and gradient of sample i of a step: x is normal, its class the largest of eight sums of its entries. */
static double add_sample(const double *W, int step, int i, double *gradient)
{
    double x[IN], z[OUT], sum = 0, best = -1e30;
    int label = 0;
    psgd_normal_fill(PSGD_F64, 1, 0, (uint64_t)(step * BATCH + i), 0, IN - 1, x);
    x[IN - 1] = 1;
    for (int k = 0; k < OUT; k++) {
        double own = x[k] + x[(3 * k + 1) % (IN - 1)] - x[(7 * k + 5) % (IN - 1)];
        if (own > best) best = own, label = k;
        z[k] = 0;
        for (int j = 0; j < IN; j++) z[k] += W[k * IN + j] * x[j];
    }
    for (int k = 0; k < OUT; k++) sum += exp(z[k]);
    for (int k = 0; k < OUT; k++) {
        double slope = (exp(z[k]) / sum - (k == label)) / BATCH;
        for (int j = 0; j < IN; j++) gradient[k * IN + j] += slope * x[j];
    }
    return (log(sum) - z[label]) / BATCH;
}

int main(int argc, char **argv)
{
    const psgd_tensor tensor = {.spec = "kron(dense,dense)", .ndim = 2, .shape = (int64_t[]){OUT, IN}};
    double W[SIZE] = {0}, term[SIZE + 1], memory[4][SIZE + 1], first = 0, *g = memory[0];
    void *part[] = {memory[0], memory[1], memory[2], memory[3]};
    psgd_comm *comm;
    psgd_optimizer *optimizer;
    MPI_Init(&argc, &argv);
    if (psgd_mpi_comm(NULL, MPI_COMM_WORLD, &comm) != PSGD_OK ||
        psgd_optimizer_create_comm(NULL, comm, "psgd-fisher", 1, &tensor, PSGD_F64, NULL, &optimizer) != PSGD_OK) {
        return fprintf(stderr, "%s\n", psgd_last_error()), MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int rank = psgd_comm_rank(comm), own = PIECES / psgd_comm_size(comm);
    for (int step = 0; step <= STEPS; step++) {
        for (int p = 0; p < own; p++) { /* this rank's pieces of the batch, in the order of the tree */
            for (int k = 0; k <= SIZE; k++) term[k] = 0;
            for (int i = 0; i < EACH; i++) term[SIZE] += add_sample(W, step, (rank * own + p) * EACH + i, term);
            psgd_tree_add(PSGD_F64, SIZE + 1, p, term, part);
        }
        psgd_tree_end(PSGD_F64, SIZE + 1, own, part);
        if (psgd_comm_sum(comm, PSGD_F64, 1, &g[SIZE]) != PSGD_OK || /* the loss; the optimizer sums the gradient */
            psgd_optimizer_step(optimizer, (void *[]){W}, (const void *[]){g}, NULL, NULL) != PSGD_OK) {
            return fprintf(stderr, "%s\n", psgd_last_error()), MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (step == 0) first = g[SIZE];
        if (rank == 0 && step % 100 == 0) printf("step %d, loss %.17g\n", step, g[SIZE]);
    }
    int learned = g[SIZE] < first / 3;
    psgd_optimizer_free(optimizer);
    psgd_comm_free(comm);
    MPI_Finalize();
    return !learned;
}
