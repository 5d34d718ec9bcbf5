#!/bin/sh
# libpsgd as a part of another CMake project, by add_subdirectory and by FetchContent: the quickstart works, and the parent
# finds its own settings and folders untouched.
set -eu
source=$1
build=$2
if grep -q '^PSGD_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
    echo "skipped: the same in every build; once is enough"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
blas=$(sed -n 's/^PSGD_BLAS:[A-Z]*=//p' "$build/CMakeCache.txt")

cp "$source/examples/quickstart/quickstart.c" "$folder"
cat >"$folder/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.21)
project(parent LANGUAGES C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(FETCH)
  include(FetchContent)
  FetchContent_Declare(psgd SOURCE_DIR "$source" BINARY_DIR "\${CMAKE_BINARY_DIR}/part")
  FetchContent_MakeAvailable(psgd)
else()
  add_subdirectory("$source" part)
endif()
if(CMAKE_BUILD_TYPE OR CMAKE_C_STANDARD OR CMAKE_POSITION_INDEPENDENT_CODE)
  message(FATAL_ERROR "the subproject changed a setting of its parent")
endif()
foreach(target psgd psgd_static)
  add_executable(with_\${target} quickstart.c)
  target_link_libraries(with_\${target} PRIVATE psgd::\${target})
endforeach()
END

# It compiles and works; how fast it is others say, but for PSGD_LONG_TESTS.
printf '#!/bin/sh\nexec %s "$@" -O0\n' "${CMAKE_C_COMPILER_LAUNCHER:-}" >"$folder/plain"
chmod +x "$folder/plain"
[ -n "${PSGD_LONG_TESTS:-}" ] || export CMAKE_C_COMPILER_LAUNCHER="$folder/plain"

# The same binary folder twice, so that the library is compiled once.
for fetch in OFF ON; do
    cmake -S "$folder" -B "$folder/build" -DFETCH=$fetch ${blas:+-DPSGD_BLAS="$blas"} >/dev/null
    rm -f "$folder"/build/with_*
    cmake --build "$folder/build" -j 2 >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    for program in with_psgd with_psgd_static; do
        said=$("$folder/build/$program")
        [ "$said" = "P times the gradient: 1.01 1.00 0.99 (Newton: 1 1 1)" ] || { echo "$program says: $said"; exit 1; }
    done
done

[ -e "$folder/build/part/libpsgd.so" ]
! grep -q -e -Werror "$folder/build/compile_commands.json"
ctest --test-dir "$folder/build" -N | grep -q 'Total Tests: 0'
# part is its binary folder, _deps is FetchContent's.
strays=$(cd "$folder/build" && find . \( -path ./part -o -path ./_deps -o -name 'with_*' \) -prune -o -name '*psgd*' -print)
[ -z "$strays" ] || { echo "outside of its binary folder: $strays"; exit 1; }
[ ! -e "$folder/build/part/psgd" ] && [ ! -e "$folder/build/part/tests" ]

# Nothing of it is installed with the parent.
cmake --install "$folder/build" --prefix "$folder/prefix" >/dev/null
[ ! -e "$folder/prefix" ] || [ -z "$(find "$folder/prefix" -type f)" ]
