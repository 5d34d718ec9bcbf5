#include "cli/ranks.h"
#include "core/status.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef PSGD_HAVE_MPI
#include <psgd/mpi.h>
#endif

static psgd_comm *world;

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

void cli_comm_close(void)
{
    int started = 0;
    psgd_comm_free(world);
    world = NULL;
    MPI_Initialized(&started);
    if (started) MPI_Finalize();
}
#else
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
