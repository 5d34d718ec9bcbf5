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

# The same over MPICH, where both are installed.
source=$1
if [ "$(mpirun --version | head -1 | cut -c1-8)" != "HYDRA bu" ] && command -v mpicc.mpich >/dev/null &&
    command -v mpirun.mpich >/dev/null; then
    other=$(mktemp -d)
    trap 'rm -rf "$other"' EXIT
    private=$(sed -n 's/^Libs.private: //p' "$build/psgd.pc")
    for name in tests/comm/mpi_check examples/ranks/ranks; do
        mpicc.mpich -std=c17 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$source/include" -I"$source/mpi/include" -I"$source/src" \
            "$source/mpi/mpi_comm.c" "$source/$name.c" -o "$other/${name##*/}" "$build/libpsgd.a" $private -lpthread -lm
    done
    for ranks in 1 2 4; do
        [ "$(mpirun.mpich -n $ranks "$other/mpi_check")" = "$ranks ranks" ]
        [ "$(mpirun.mpich -n $ranks "$other/ranks")" = "$one" ]
    done
fi
