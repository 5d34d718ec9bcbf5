#!/bin/sh
# psgd group --check and --load: built-in specs keep the laws, the example does, and what cannot be loaded is said.
set -eu
psgd=$2/psgd
own=$2/examples/toeplitz.so

for spec in identity scale diag tri tril dense norm bnorm xmat 't(norm)' 'block(tri,identity:1)' 't(block(dense:2,norm))'; do
    "$psgd" group --check "$spec" --shape 7 | grep -q 'all laws hold'
done
"$psgd" group --check 'kron(tri,scale,xmat)' --shape 3x4x5 --dtype f64 | grep -q 'all laws hold'
"$psgd" group --load "$own" --check 'kron(tri,toeplitz)' --shape 6x9 | grep -q 'all laws hold'
"$psgd" group --load "$own" --list | grep -q '^toeplitz'
"$2/examples/example_own_group" | grep -q 'laws broken: 0'

status=0
message=$("$psgd" group --load /nowhere/none.so tri --shape 3 2>&1) || status=$?
[ "$status" = 1 ]
echo "$message" | grep -q none.so
status=0
"$psgd" group --check toeplitz --shape 3 2>/dev/null || status=$?
[ "$status" = 2 ]
