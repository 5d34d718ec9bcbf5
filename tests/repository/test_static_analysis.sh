#!/bin/sh
# cppcheck finds nothing. What it is told to leave out, and why: scripts/cppcheck-suppressions.
set -eu
cd "$1"
command -v cppcheck >/dev/null || { echo "cppcheck is not installed"; exit 77; }
if grep -q '^PSGD_SANITIZE:STRING=.' "$2/CMakeCache.txt"; then
    echo "skipped: the sources are the same in every build"
    exit 77
fi
# With -j it looks at one file at a time: across files it takes the names that PSGD_TYPED makes for one another.
cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability,performance --inline-suppr \
    --suppressions-list=scripts/cppcheck-suppressions -j 2 -I include -I src -I app -DPSGD_TYPED_SOURCE \
    -DPSGD_ISA=portable -D__GNUC__=12 src app
