/* Row-sparse arrays: gradients of an embedding have entries in the rows of the words at hand alone.
 *
 * Such an array is a list of rows and their values [count, numbers of a row], in the order of the list; what is not
 * there is zero. psgd_graph_row_parameter makes a graph give them, psgd_tensor.rows an optimizer take them. */
#ifndef PSGD_ROWS_H
#define PSGD_ROWS_H

#include <stdint.h>

typedef struct psgd_rows {
    int64_t count;        /* 0: no row at all */
    const int64_t *index; /* ascending, each once */
} psgd_rows;

#endif
