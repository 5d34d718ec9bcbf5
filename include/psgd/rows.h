/* Row-sparse arrays: the gradient of an embedding is non-zero only in the rows that a batch has looked up.
 *
 * Such an array is a list of row indices and their values [count, elements of a row], in the order of the list; all
 * other rows are zero. psgd_graph_row_parameter makes a graph produce them, psgd_tensor.rows an optimizer accept them.
 */
#ifndef PSGD_ROWS_H
#define PSGD_ROWS_H

#include <stdint.h>

typedef struct psgd_rows {
    int64_t count;        /* 0: no row at all */
    const int64_t *index; /* ascending, each once */
} psgd_rows;

#endif
