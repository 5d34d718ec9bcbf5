#include "cli/ranks.h"
#include "core/status.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef PSGD_HAVE_MPI
#include <psgd/mpi.h>
#endif

static psgd_comm *world, *kind, *both; /* all ranks; those of the same kind, and all for what passes between kinds */

psgd_comm *cli_comm(void)
{
    return world;
}

/* Open MPI, MPICH and launchers that speak PMI or PMIx. Without one of them MPI is left alone: it would only take
 * time. */
static const char *ranks_started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK"};
    for (int i = 0; i < 4; i++) {
        if (getenv(names[i])) return getenv(names[i]);
    }
    return NULL;
}

#ifdef PSGD_HAVE_MPI
psgd_status cli_comm_open(void)
{
    int level;
    if (!ranks_started()) return PSGD_OK;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    PSGD_TRY(psgd_mpi_comm(NULL, MPI_COMM_WORLD, &world));
    if (psgd_comm_rank(world) > 0 && !freopen("/dev/null", "w", stdout)) {
        return psgd__fail(PSGD_ERR_IO, "/dev/null cannot be opened");
    }
    return PSGD_OK;
}

static psgd_status divide(int64_t count)
{
    MPI_Comm part = MPI_COMM_NULL;
    int rank = psgd_comm_rank(world);
    MPI_Comm_split(MPI_COMM_WORLD, rank >= psgd_comm_size(world) - count, rank, &part);
    psgd_status status = psgd_mpi_comm(NULL, part, &kind);
    MPI_Comm_free(&part);
    return status == PSGD_OK ? psgd_mpi_comm(NULL, MPI_COMM_WORLD, &both) : status;
}

void cli_comm_close(void)
{
    int started = 0;
    psgd_comm_free(kind);
    psgd_comm_free(both);
    psgd_comm_free(world);
    world = kind = both = NULL;
    MPI_Initialized(&started);
    if (started) MPI_Finalize();
}
#else
static psgd_status divide(int64_t count)
{
    (void)count; /* there is one rank, and this is not called */
    return PSGD_OK;
}

psgd_status cli_comm_open(void)
{
    const char *size = ranks_started();
    if (!size || atoi(size) < 2) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED,
                      "this psgd was built without MPI, so mpirun cannot make ranks of it; install "
                      "libopenmpi-dev and build again");
}

void cli_comm_close(void)
{
}
#endif

psgd_status cli_comm_divide(int64_t count, psgd_comm **own, psgd_comm **all)
{
    int size = psgd_comm_size(world);
    if (size <= count) {
        return psgd__fail(
            PSGD_ERR_ARGUMENT,
            "--curvature-ranks %lld needs at least %lld ranks, and there %s %d: start them with mpirun -n",
            (long long)count, (long long)count + 1, size == 1 ? "is" : "are", size);
    }
    PSGD_TRY(divide(count));
    *own = kind;
    *all = both;
    return PSGD_OK;
}
