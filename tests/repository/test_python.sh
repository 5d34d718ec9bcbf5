#!/bin/sh
# The Python package on the library of this build.
set -u
source=$1
build=$2

skip() {
    echo "skipped: $1"
    exit 77
}

for candidate in /usr/bin/python3 python3; do
    "$candidate" -c 'import numpy, pytest' 2>/dev/null && python=$candidate && break
done
[ -n "${python:-}" ] || skip "no Python with numpy and pytest (Debian: python3-numpy python3-pytest)"
# A library with the sanitizers in it needs them in the process from the start. Leaks are Python's own.
if nm -D "$build/libpsgd.so" | grep -q __asan_init; then
    preload="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)"
    export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
    LD_PRELOAD=$preload "$python" -c 'import numpy' 2>/dev/null || skip "the sanitizers cannot be loaded into this Python"
fi

"$python" -c 'import sys, torch; print("torch", torch.__version__, "on Python", sys.version.split()[0])' 2>/dev/null ||
    echo "there is no torch (Debian: python3-torch): its tests are skipped"

export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error::DeprecationWarning:psgd
cd "$source/python" || exit 1
PSGD_LIBRARY="$build/libpsgd.so" PYTHONPATH="$source/python" LD_PRELOAD="${preload:-}" \
    "$python" -m pytest -q --capture=sys -p no:cacheprovider -W "ignore:Using backward:UserWarning" -rs tests
