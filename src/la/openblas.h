/* Keeps a BLAS with threads of its own to one thread: our pool shares out the work. */
#ifndef PSGD_LA_OPENBLAS_H
#define PSGD_LA_OPENBLAS_H

/* Between the two, BLAS runs on the calling thread alone; afterwards the settings of the program are as they were.
 * enter returns what leave wants. */
int psgd__blas_enter(void);
void psgd__blas_leave(int before);

#endif
