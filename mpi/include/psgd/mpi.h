/* A psgd_comm over MPI, in libpsgd-mpi: cc $(pkg-config --cflags --libs psgd-mpi). Open MPI and MPICH are tested. */
#ifndef PSGD_MPI_H
#define PSGD_MPI_H

#include <mpi.h>

#include <psgd/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All ranks of the communicator, which is duplicated, call this after MPI_Init, and psgd_comm_free before MPI_Finalize.
 * Use the comm from the thread that initialised MPI; with MPI_THREAD_SERIALIZED or more from MPI_Init_thread, sums also
 * overlap the backward pass (psgd_optimizer_ready). psgd_comm_stop is MPI_Abort. */
psgd_status psgd_mpi_comm(const psgd_context *context, MPI_Comm communicator, psgd_comm **comm);

#ifdef __cplusplus
}
#endif
#endif
