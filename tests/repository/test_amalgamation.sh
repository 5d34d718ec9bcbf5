#!/bin/sh
# scripts/amalgamate: the quickstart compiles from psgd.c and psgd.h alone, without BLAS, and says what it should.
set -eu
source=$1
if grep -q '^PSGD_SANITIZE:STRING=.' "$2/CMakeCache.txt"; then
    echo "skipped: the same in every build; once is enough"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$source/scripts/amalgamate" "$folder"
cd "$folder"
sed 's|<psgd/psgd.h>|"psgd.h"|' "$source/examples/quickstart/quickstart.c" >quickstart.c
cc ${PSGD_LONG_TESTS:+-O2} -c psgd.c # it compiles and works; how fast it is others say
cc quickstart.c psgd.o -lm -lpthread
said=$(./a.out)
[ "$said" = "P times the gradient: 1.01 1.00 0.99 (Newton: 1 1 1)" ] || { echo "it says: $said"; exit 1; }
strays=$(nm -g --defined-only psgd.o | awk '$3 !~ /^psgd_/ {print $3}')
[ -z "$strays" ] || { echo "names without our prefix: $strays"; exit 1; }
