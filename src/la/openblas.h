/* Keeps a BLAS with threads of its own to one thread, as our pool shares out the work, and knows whether it is slow. */
#ifndef PSGD_LA_OPENBLAS_H
#define PSGD_LA_OPENBLAS_H

#include <stdbool.h>

/* Between the two, BLAS runs on the calling thread alone; afterwards the settings of the program are as they were.
 * enter returns what leave wants. */
int psgd__blas_enter(void);
void psgd__blas_leave(int before);

/* Whether this is an OpenBLAS that runs kernels for x86 processors without AVX, as it does on one that is newer than
 * itself. The answer stays the same as long as the process runs. */
bool psgd__blas_is_slow(void);

#endif
