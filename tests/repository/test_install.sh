#!/bin/sh
# Installs into a folder of its own and builds the quickstart against that, by pkg-config and by find_package.
set -eu
source=$1
build=$2
if grep -q '^PSGD_SANITIZE:BOOL=ON' "$build/CMakeCache.txt"; then
    echo "a build with sanitizers is not for installing"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name libpsgd.so)")
for file in bin/psgd include/psgd/psgd.h share/man/man1/psgd.1; do
    [ -s "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
for header in "$source"/include/psgd/*.h; do
    cmp "$header" "$prefix/include/psgd/$(basename "$header")"
done
version=$("$prefix/bin/psgd" --version | cut -d' ' -f2)
soname=$(objdump -p "$libdir/libpsgd.so" | sed -n 's/.*SONAME *//p')
[ "$soname" = "libpsgd.so.${version%%.*}" ]
[ "$(readlink "$libdir/libpsgd.so")" = "$soname" ]
[ "$(readlink "$libdir/$soname")" = "libpsgd.so.$version" ]
export LD_LIBRARY_PATH="$libdir"

# The installed tree may be moved.
mv "$prefix" "$folder/moved"
prefix=$folder/moved
libdir=$(dirname "$(find "$prefix" -name libpsgd.so)")
LD_LIBRARY_PATH=$libdir

expected="P times the gradient: 1.01 1.00 1.00 (Newton: 1 1 1)"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
[ "$(pkg-config --modversion psgd)" = "$version" ]
cc -std=c11 -Wall -Wextra -Werror "$source/examples/quickstart/quickstart.c" -o "$folder/by_pkg_config" \
    $(pkg-config --cflags --libs psgd)
[ "$("$folder/by_pkg_config")" = "$expected" ] || { "$folder/by_pkg_config"; exit 1; }

cp -r "$source/examples/quickstart" "$folder/project"
cmake -S "$folder/project" -B "$folder/project/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$folder/project/build" >/dev/null
[ "$("$folder/project/build/quickstart")" = "$expected" ] || { "$folder/project/build/quickstart"; exit 1; }

# The first C program of the README is the quickstart.
sed -n '/^```c$/,/^```$/{p;/^```$/q}' "$source/README.md" | sed '/^```/d' | cmp - "$source/examples/quickstart/quickstart.c"
echo "installed, moved and used by pkg-config and find_package"
