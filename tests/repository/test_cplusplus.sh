#!/bin/sh
# Compiles examples/cplusplus with g++ and compares what it says.
set -eu
source=$1
build=$2
command -v g++ >/dev/null || { echo "skipped: there is no g++"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=
sanitize=$(sed -n 's/^PSGD_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
[ -z "$sanitize" ] || flags="-fsanitize=$sanitize"

g++ -std=c++17 -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Werror $flags -I "$source/include" \
    "$source/examples/cplusplus/cplusplus.cc" -o "$folder/example" -L "$build" -lpsgd -Wl,-rpath,"$build"
"$folder/example" >"$folder/said"
diff - "$folder/said" <<END
P times the gradient: 1.0 1.0 1.0
converged at (1, 1)
learning rate 0.5
there is no option stepp; did you mean step?
from the function
END
