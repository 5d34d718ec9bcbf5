#!/bin/sh
# pip install . without a network puts a psgd that works into a fresh environment.
set -eu
unset PYTHONPATH PSGD_LIBRARY
source=$1
build=$2

skip() {
    echo "skipped: $1"
    exit 77
}

python=/usr/bin/python3
"$python" -c 'import numpy, setuptools, wheel, venv, ensurepip' 2>/dev/null ||
    skip "Debian's python3-numpy, python3-setuptools, python3-wheel or python3-venv is missing"
nm -D "$build/libpsgd.so" | grep -q __asan_init &&
    skip "a library built with ASan cannot be loaded into a plain Python"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# pip builds where it is told: what it leaves there must not land in the source.
mkdir "$scratch/source"
cd "$source"
cp -r CMakeLists.txt LICENSE MANIFEST.in pyproject.toml setup.py setup.cfg python "$scratch/source"
"$python" -m venv --system-site-packages "$scratch/venv"
PSGD_CMAKE_BUILD=$build "$scratch/venv/bin/python" -m pip -q --disable-pip-version-check install --no-index \
    --no-build-isolation "$scratch/source"

cd "$scratch"
"$scratch/venv/bin/python" - <<'END'
import numpy, psgd
assert "site-packages" in psgd.__file__, psgd.__file__
precond = psgd.Preconditioner("tri", 3, "float64")
precond.update(numpy.ones(3), numpy.ones(3) * 2)
assert precond.updates == 1
print("psgd", psgd.__version__, "in", psgd.__file__)
END
