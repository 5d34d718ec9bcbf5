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
nm -D "$build/libpsgd.so" | grep -q __asan_init &&
    skip "a library built with ASan cannot be loaded into a plain Python"

export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error::DeprecationWarning:psgd
cd "$source/python" || exit 1
PSGD_LIBRARY="$build/libpsgd.so" PYTHONPATH="$source/python" \
    "$python" -m pytest -q -p no:cacheprovider -rs tests
