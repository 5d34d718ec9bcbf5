#!/bin/sh
# pip install, of the source distribution and editable, puts a psgd that works into a fresh environment. One wheel serves
# every Python 3 and holds nothing but the package and its library.
set -eu
unset PYTHONPATH PSGD_LIBRARY
source=$1
build=$2

skip() {
    echo "skipped: $1"
    exit 77
}

python=/usr/bin/python3
"$python" -c 'import numpy, venv, ensurepip' 2>/dev/null || skip "Debian's python3-numpy or python3-venv is missing"
grep -q '^PSGD_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "the same in every build; once is enough"
blas=$(sed -n 's/^PSGD_BLAS:[A-Z]*=//p' "$build/CMakeCache.txt")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv --system-site-packages "$scratch/venv"
PATH=$scratch/venv/bin:$PATH
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
python -c 'import scikit_build_core' 2>/dev/null ||
    python -m pip -q --retries 1 --timeout 20 install scikit-build-core >"$scratch/log" 2>&1 ||
    skip "scikit-build-core is neither installed nor to be had by pip"

# It compiles and works; how fast it is others say, but for PSGD_LONG_TESTS.
printf '#!/bin/sh\nexec %s "$@" -O0\n' "${CMAKE_C_COMPILER_LAUNCHER:-}" >"$scratch/plain"
chmod +x "$scratch/plain"
[ -n "${PSGD_LONG_TESTS:-}" ] || export CMAKE_C_COMPILER_LAUNCHER="$scratch/plain"

# pip builds where it is told: what it leaves there must not land in the source.
mkdir "$scratch/source" "$scratch/dist"
cd "$source"
cp -r CMakeLists.txt LICENSE pyproject.toml cmake include src python tests "$scratch/source"
rm -f "$scratch/source/python/psgd/libpsgd.so"
cd "$scratch/source"
python -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' "$scratch/dist" >/dev/null
cd "$scratch"
tar -xzf dist/psgd-*.tar.gz
mv psgd-*/ sdist
[ ! -e sdist/tests ] && [ ! -e sdist/python/tests ]

# works FOLDER: the package, of the version of the C library, is imported from there.
works() {
    python - "$1" <<'END'
import sys
from importlib.metadata import version
import numpy, psgd
assert sys.argv[1] in psgd.__file__, psgd.__file__
assert psgd.__version__ == version("psgd"), (psgd.__version__, version("psgd"))
precond = psgd.Preconditioner("tri", 3, "float64")
precond.update(numpy.ones(3), numpy.ones(3) * 2)
assert precond.updates == 1
print("psgd", psgd.__version__, "in", psgd.__file__)
END
}

pip="python -m pip -q"
offline="--no-index --no-build-isolation --config-settings build-dir=$scratch/build"
offline="$offline --config-settings cmake.define.PSGD_BLAS=${blas:-auto}"
$pip wheel $offline --no-deps -w dist ./sdist
wheel=$(echo dist/psgd-*.whl)
case $wheel in
*-py3-none-linux_*.whl) ;;
*) echo "the wheel is called $wheel" && exit 1 ;;
esac
python - "$wheel" >files <<'END'
import sys, zipfile
print(*(name for name in zipfile.ZipFile(sys.argv[1]).namelist() if not name.endswith(".py")), sep="\n")
END
grep -qx psgd/libpsgd.so files
grep -qx psgd/py.typed files
strays=$(grep -v '^psgd-[0-9.]*dist-info/\|^psgd/libpsgd.so$\|^psgd/py.typed$' files || true)
[ -z "$strays" ] || { echo "in the wheel: $strays"; exit 1; }

$pip install --no-index "$wheel"
works site-packages
$pip uninstall -y psgd

# Editable: the modules of the source, and the library of the installation.
$pip install $offline --no-deps -e ./sdist
works sdist/python
