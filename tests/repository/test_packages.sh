#!/bin/sh
# make and make install name missing packages and install nothing; make deps says what it installs, then does.
set -eu
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PSGD_SKIP_PACKAGES MAKEFLAGS MAKELEVEL 2>/dev/null || true

# A system on which nothing is installed, whose installer only takes notes.
mkdir "$folder/bin"
printf '#!/bin/sh\nexit 1\n' >"$folder/bin/dpkg-query"
printf '#!/bin/sh\necho 1000\n' >"$folder/bin/id"
printf '#!/bin/sh\necho "$*" >>"%s/calls"\n' "$folder" >"$folder/bin/sudo"
printf '#!/bin/sh\necho "apt-get $*" >>"%s/calls"\n' "$folder" >"$folder/bin/apt-get"
chmod +x "$folder"/bin/*
PATH=$folder/bin:$PATH

for target in all install fuzz mutants; do
    if make -C "$source" "$target" PREFIX="$folder/prefix" >"$folder/said" 2>&1; then
        echo "make $target went on without packages"
        exit 1
    fi
    grep -q 'Packages are missing:.* libcmocka-dev\|Packages are missing: gcc .* zlib1g-dev' "$folder/said"
    grep -q '^make deps.* installs them, by: sudo apt-get install ' "$folder/said"
    [ ! -e "$folder/calls" ] || { echo "make $target called:"; cat "$folder/calls"; exit 1; }
done

make -C "$source" deps >"$folder/said" 2>&1
grep -q '^These packages are missing and will be installed now: gcc ' "$folder/said"
grep -q 'apt-get install .* libopenblas-openmp-dev ' "$folder/calls"

PSGD_SKIP_PACKAGES=1 "$source/scripts/install-packages" build check
