/* A group that libpsgd does not have: upper triangular Toeplitz matrices with a positive diagonal,
 * Q = q_0 I + q_1 N + q_2 N^2 + ..., N the shift. They suit a mode along which nothing but the distance matters, such
 * as the taps of a filter. n numbers; products are those of polynomials.
 *
 * As a shared object it is there for the command:
 *
 *     cc -shared -fPIC -o toeplitz.so toeplitz.c
 *     psgd group --load ./toeplitz.so --check 'kron(tri,toeplitz)' --shape 6x9
 */
#include <math.h>

#include <psgd/user_group.h>

static int64_t toeplitz_size(int64_t n, void *data)
{
    (void)data;
    return n;
}

static double toeplitz_flops(int64_t n, void *data)
{
    (void)data;
    return (double)n * (double)n;
}

#define NAME(name) toeplitz_##name##_f32
#define real       float
#include "toeplitz_ops.h"
#undef NAME
#undef real

#define NAME(name) toeplitz_##name##_f64
#define real       double
#include "toeplitz_ops.h"
#undef NAME
#undef real

psgd_status psgd_load_groups(psgd_context *context); /* what --load looks for */

psgd_status psgd_load_groups(psgd_context *context)
{
    return psgd_context_add_group(context, "toeplitz", &toeplitz_table_f32, &toeplitz_table_f64);
}
