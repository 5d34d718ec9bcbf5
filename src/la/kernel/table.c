/* One table per dtype and instruction set. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#define K(result, name, arguments) .name = KERNEL(name),
const la_kernels KERNEL(table) = {
    .isa = TEXT(PSGD_ISA),
    .panel = PANEL,
    .block = BLOCK_ROWS,
#include "la/kernel/kernels.def"
};
