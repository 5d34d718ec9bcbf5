#include "la/array/dispatch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TABLE(isa) KERNEL_JOIN(PSGD_TYPED(psgd__k_table), isa)

extern const la_kernels TABLE(portable), TABLE(avx2), TABLE(avx512);

static const la_kernels *const tables[] = {
    &TABLE(portable),
#ifdef PSGD_HAVE_X86
    &TABLE(avx2),
    &TABLE(avx512),
#endif
};

int la_table_count(void)
{
#ifdef PSGD_HAVE_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return 3;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
#endif
    return 1;
}

const la_kernels *la_table(int index)
{
    return tables[index];
}

static const la_kernels *choose(void)
{
    int count = la_table_count();
    const char *wanted = getenv("PSGD_ISA");
    for (int i = 0; wanted && i < count; i++) {
        if (!strcmp(wanted, tables[i]->isa)) return tables[i];
    }
    return tables[count - 1];
}

/* Chosen once; two threads that race choose the same. */
const la_kernels *la_kernel(void)
{
    static _Atomic(const la_kernels *) chosen;
    const la_kernels *table = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!table) {
        table = choose();
        atomic_store_explicit(&chosen, table, memory_order_relaxed);
    }
    return table;
}
