/* AdamW: Adam whose weight decay is decoupled from the gradient. */
#include "optim/method/adam.h"
#include "optim/method/methods.h"

const method_ops METHOD_OPS(adamw) = {
    .kind =
        {.name = "adamw", .summary = "adam with decoupled weight decay", .lr = 0.001, .beta2 = 0.999, .decay = 0.01},
    .advance = psgd__adam_advance,
    .size = psgd__adam_size,
};
