/* Which kernels this CPU runs. */
#ifndef PSGD_LA_ARRAY_DISPATCH_H
#define PSGD_LA_ARRAY_DISPATCH_H

#include "la/kernel/kernel.h"

#define la_table       PSGD_TYPED(psgd__la_table)
#define la_table_count PSGD_TYPED(psgd__la_table_count)
#define la_kernel      PSGD_TYPED(psgd__la_kernel)

/* The best table that this CPU can run. PSGD_ISA=portable|avx2|avx512 in the environment asks for a lesser one. */
const la_kernels *la_kernel(void);

/* All tables that this CPU can run, portable first: for the tests and benchmarks. */
int la_table_count(void);
const la_kernels *la_table(int index);

#endif
