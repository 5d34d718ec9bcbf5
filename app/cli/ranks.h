/* The ranks that the command runs on: processes under mpirun, where it was built with MPI. */
#ifndef PSGD_CLI_RANKS_H
#define PSGD_CLI_RANKS_H

#include <stdint.h>

#include <psgd/comm.h>

/* Joins the other ranks, where mpirun has started this process; a failure where it cannot. */
psgd_status cli_comm_open(void);
void cli_comm_close(void);

/* NULL where mpirun has not started this process. */
psgd_comm *cli_comm(void);

/* All ranks. The last count of them become curvature ranks (psgd_optimizer_bind_curvature): *own is of the ranks of the
 * same kind as this one, *all of all. Both are freed by cli_comm_close. */
psgd_status cli_comm_divide(int64_t count, psgd_comm **own, psgd_comm **all);

#endif
