/* Sparse Adam: Adam that moves the moments and parameters of a row only in steps whose gradient has the row (PyTorch's
 * SparseAdam; paper, section 7.3). The corrections of the start count all steps. With whole gradients it is Adam. */
#include "optim/method/adam.h"
#include "optim/method/methods.h"

const method_ops METHOD_OPS(sparse_adam) = {
    .kind = {.name = "sparse-adam",
             .summary = "adam that leaves rows without a gradient alone",
             .lr = 0.001,
             .beta2 = 0.999,
             .rows = true},
    .advance = psgd__adam_advance,
    .size = psgd__adam_size,
};
