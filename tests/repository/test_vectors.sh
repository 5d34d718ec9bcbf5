#!/bin/sh
# The exponentials of the softmax are vector instructions in every x86 kernel. With one compiler option less gcc leaves the
# loop scalar: nothing fails, and a step of a language model takes a third longer.
set -eu
cd "$2"
skip() {
    echo "skipped: $1"
    exit 77
}
command -v objdump >/dev/null || skip "objdump is not installed"
grep -q '^CMAKE_BUILD_TYPE:STRING=Release' CMakeCache.txt || skip "not an optimised build"
grep -q '^PSGD_SANITIZE:STRING=.' CMakeCache.txt && skip "not an optimised build"
grep -q '^CMAKE_C_COMPILER:.*clang' CMakeCache.txt && skip "this is about gcc"
[ -d CMakeFiles/psgd_kernel_f32_avx2.dir ] || skip "there are no kernels for x86"

for kernel in f32_avx2 f64_avx2 f32_avx512 f64_avx512; do
    objdump -d --no-show-raw-insn "CMakeFiles/psgd_kernel_$kernel.dir/src/la/kernel/panel_softmax.c.o" |
        awk -v name="<psgd__k_panel_exp_$kernel>:" '
            $2 == name {inside = 1}
            /^$/ {inside = 0}
            inside && /vfn?m(add|sub)[0-9]+s[sd] / {scalar++}
            inside && /vfn?m(add|sub)[0-9]+p[sd] / {vector++}
            END {print name, vector + 0, "vector and", scalar + 0, "scalar multiply-adds"; exit scalar > 0 || !vector}'
done
