/* Run by test_mpi.sh under mpirun: sums over ranks have the bits of the same sums over threads, shares and agreements
 * work, and messages may be larger than a chunk. Prints one line on rank 0. */
#include <psgd/mpi.h>
#include <psgd/psgd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 200003 };

static float term(int rank, int64_t i)
{
    uint32_t x = (uint32_t)(rank * 7919 + i * 104729 + 13) * 2654435761u;
    return (float)((double)(x >> 8) / 16777216 - 0.5) * (float)(1 << (x & 15));
}

static float tree(int from, int count, int64_t i)
{
    if (count == 1) return term(from, i);
    int left = 1;
    while (2 * left < count) left *= 2;
    return tree(from, left, i) + tree(from + left, count - left, i);
}

static void require(int holds, const char *what, int rank)
{
    if (holds) return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, psgd_last_error());
    MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    psgd_comm *comm;
    static float x[COUNT];
    require(psgd_mpi_comm(NULL, MPI_COMM_WORLD, &comm) == PSGD_ERR_ARGUMENT, "a comm before MPI_Init", 0);
    MPI_Init(&argc, &argv);
    require(psgd_mpi_comm(NULL, MPI_COMM_WORLD, &comm) == PSGD_OK, "comm", 0);
    int rank = psgd_comm_rank(comm), size = psgd_comm_size(comm);
    for (int64_t i = 0; i < COUNT; i++) x[i] = term(rank, i);
    require(psgd_comm_sum(comm, PSGD_F32, COUNT, x) == PSGD_OK, "sum", rank);
    for (int64_t i = 0; i < COUNT; i++) {
        float expected = tree(0, size, i);
        require(!memcmp(&x[i], &expected, sizeof expected), "the sum has other bits", rank);
    }
    int32_t word = rank == size - 1 ? 42 : 0;
    require(psgd_comm_broadcast(comm, size - 1, sizeof word, &word) == PSGD_OK && word == 42, "broadcast", rank);
    require(psgd_comm_barrier(comm) == PSGD_OK && psgd_comm_agree(comm, PSGD_OK) == PSGD_OK, "agree", rank);
    if (rank == size - 1) psgd_comm_fail(PSGD_ERR_IO, "no such shard");
    psgd_status status = psgd_comm_agree(comm, rank == size - 1 ? PSGD_ERR_IO : PSGD_OK);
    char expected[64];
    snprintf(expected, sizeof expected, "rank %d: no such shard", size - 1);
    require(status == PSGD_ERR_IO && (size == 1 || !strcmp(psgd_last_error(), expected)), "disagree", rank);
    if (argc > 1 && !strcmp(argv[1], "stop")) {
        if (rank == size - 1) psgd_comm_stop(comm, "stops");
        while (psgd_comm_barrier(comm) == PSGD_OK) continue;
    }
    if (rank == 0) printf("%d ranks\n", size);
    psgd_comm_free(comm);
    MPI_Finalize();
    return 0;
}
