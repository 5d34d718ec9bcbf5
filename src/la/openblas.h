/* Keeps a BLAS with threads of its own to one thread, as our pool shares out the work, and asks it how wide its vectors
 * are. */
#ifndef PSGD_LA_OPENBLAS_H
#define PSGD_LA_OPENBLAS_H

/* Between the two, BLAS runs on the calling thread alone; afterwards the settings of the program are as they were.
 * enter returns what leave wants. */
int psgd__blas_enter(void);
void psgd__blas_leave(int before);

/* The width of the vectors in the kernels that OpenBLAS runs, 128, 256 or 512 bits: on an x86 processor that is newer
 * than itself it falls back to narrow ones. The answer stays the same as long as the process runs. */
int psgd__blas_vector_bits(void);

#endif
