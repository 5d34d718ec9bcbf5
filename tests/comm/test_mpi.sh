#!/bin/sh
# libpsgd-mpi under mpirun: sums with the bits of the tree, agreements, and a stop that ends all ranks.
set -eu
build=$2
program=$build/tests/mpi_check
[ -x "$program" ] || { echo "skipped: built without MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PSGD_NUM_THREADS=1
case $(mpirun --version) in
*"Open MPI"*) flags="--bind-to none --oversubscribe" ;;
*) flags= ;;
esac
for ranks in 1 2 3 4 8; do
    [ "$(mpirun $flags -n $ranks "$program")" = "$ranks ranks" ]
done

# The example learns, and says the same on any number of ranks.
one=$(mpirun $flags -n 1 "$build/examples/example_ranks")
for ranks in 2 4 8; do
    [ "$(mpirun $flags -n $ranks "$build/examples/example_ranks")" = "$one" ]
done
! timeout 30 mpirun $flags -n 3 "$program" stop >/dev/null 2>&1
