#!/bin/sh
# Installs into a temporary folder, moves that, and builds the quickstart against it: by pkg-config and by find_package,
# shared and static.
set -eu
source=$1
build=$2
if grep -q '^PSGD_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
    echo "skipped: a build with sanitizers is not for installing"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name libpsgd.so)")
[ -s "$libdir/libpsgd.a" ]
for header in "$source"/include/psgd/*.h; do
    cmp "$header" "$prefix/include/psgd/$(basename "$header")"
done
soname=$(objdump -p "$libdir/libpsgd.so" | sed -n 's/.*SONAME *//p')
version=$(sed -n 's/^Version: //p' "$libdir/pkgconfig/psgd.pc")
[ "$soname" = "libpsgd.so.${version%%.*}" ]
[ "$(readlink "$libdir/libpsgd.so")" = "$soname" ]
[ "$(readlink "$libdir/$soname")" = "libpsgd.so.$version" ]
if grep -q '^PSGD_BUILD_COMMAND:BOOL=ON' "$build/CMakeCache.txt"; then
    [ "$("$prefix/bin/psgd" --version)" = "psgd $version" ]
    [ -s "$prefix/share/man/man1/psgd.1" ]
fi

# The installed tree may be moved.
mv "$prefix" "$folder/moved"
prefix=$folder/moved
libdir=$(dirname "$(find "$prefix" -name libpsgd.so)")
quickstart=$source/examples/quickstart

# prints PROGRAM: it says what the quickstart says. linked PROGRAM: it needs libpsgd.so.
prints() {
    said=$(LD_LIBRARY_PATH=$libdir "$1")
    [ "$said" = "P times the gradient: 1.01 1.00 0.99 (Newton: 1 1 1)" ] || { echo "$1 says: $said"; exit 1; }
}
linked() {
    readelf -d "$1" | grep -q 'NEEDED.*libpsgd'
}

export PKG_CONFIG_PATH="$libdir/pkgconfig"
[ "$(pkg-config --modversion psgd)" = "$version" ]
cc -std=c11 -Wall -Wextra -Werror "$quickstart/quickstart.c" -o "$folder/shared" $(pkg-config --cflags --libs psgd)
prints "$folder/shared"
linked "$folder/shared"

# libpsgd-mpi, where it was built: by pkg-config and by find_package.
if [ -e "$libdir/pkgconfig/psgd-mpi.pc" ]; then
    cmp "$source/mpi/include/psgd/mpi.h" "$prefix/include/psgd/mpi.h"
    cc -std=c11 "$source/examples/ranks/ranks.c" -o "$folder/ranks" $(pkg-config --cflags --libs psgd-mpi) -lm
    readelf -d "$folder/ranks" | grep -q 'NEEDED.*libpsgd-mpi'
    mkdir "$folder/mpi"
    cat >"$folder/mpi/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.21)
project(ranks C)
find_package(psgd REQUIRED COMPONENTS mpi)
add_executable(ranks $source/examples/ranks/ranks.c)
target_link_libraries(ranks psgd::psgd_mpi m)
END
    cmake -S "$folder/mpi" -B "$folder/mpi/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    cmake --build "$folder/mpi/build" >/dev/null
fi

for target in psgd::psgd psgd::psgd_static; do
    cmake -S "$quickstart" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DPSGD_TARGET="$target" >/dev/null
    cmake --build "$folder/cmake" >/dev/null
    prints "$folder/cmake/quickstart"
    case $target in
    *static) ! linked "$folder/cmake/quickstart" ;;
    *) linked "$folder/cmake/quickstart" ;;
    esac
done

# Where only the archive is installed, -lpsgd finds it and pkg-config --static names what it needs.
rm "$libdir"/libpsgd.so*
cc -std=c11 "$quickstart/quickstart.c" -o "$folder/static" $(pkg-config --cflags --libs --static psgd)
prints "$folder/static"

# The first C program of the README is the quickstart.
sed -n '/^```c$/,/^```$/{p;/^```$/q}' "$source/README.md" | sed '/^```/d' | cmp - "$quickstart/quickstart.c"
