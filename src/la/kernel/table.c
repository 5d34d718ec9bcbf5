/* One table per number type and instruction set. */
#include "la/kernel/activate.h"

#include "la/kernel/small_blas.h"
#include "la/kernel/fused_diag.h"
#include "la/kernel/xmat.h"
#include "la/kernel/elementwise.h"
#include "la/kernel/normal.h"
#include "la/kernel/pooling.h"
#include "la/kernel/winograd.h"
#include "la/kernel/bordered.h"
#include "la/kernel/panel_product.h"
#include "la/kernel/packed_triangle.h"
#include "la/kernel/optimizer_step.h"
#include "la/kernel/mix.h"
#include "la/kernel/vec.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const la_kernels KERNEL(table) = {
    .name = TEXT(PSGD_ISA),
    .scale = KERNEL(scale),
    .mul = KERNEL(mul),
    .div = KERNEL(div),
    .axpy = KERNEL(axpy),
    .dot = KERNEL(dot),
    .max_abs = KERNEL(max_abs),
    .copy_max = KERNEL(copy_max),
    .damp_max = KERNEL(damp_max),
    .add_squares = KERNEL(add_squares),
    .add_products = KERNEL(add_products),
    .normal = KERNEL(normal),
    .cross_fused = KERNEL(cross_fused),
    .cross_renew = KERNEL(cross_renew),
    .cross_retract = KERNEL(cross_retract),
    .cross_apply = KERNEL(cross_apply),
    .diag_fused = KERNEL(diag_fused),
    .diag_apply = KERNEL(diag_apply),
    .retract = KERNEL(retract),
    .row_dot = KERNEL(row_dot),
    .bordered_fused = KERNEL(bordered_fused),
    .row_apply = KERNEL(row_apply),
    .row_form = KERNEL(row_form),
    .rows_form = KERNEL(rows_form),
    .row_retract = KERNEL(row_retract),
    .rows_retract = KERNEL(rows_retract),
    .panel = PANEL,
    .block = BLOCK_ROWS,
    .panel_load = KERNEL(panel_load),
    .panel_store = KERNEL(panel_store),
    .tri_mul = KERNEL(tri_mul),
    .tri_retract = KERNEL(tri_retract),
    .tri_solve = KERNEL(tri_solve),
    .gather = KERNEL(gather),
    .im2col = KERNEL(im2col),
    .step_plain = KERNEL(step_plain),
    .step_momentum = KERNEL(step_momentum),
    .step_rms = KERNEL(step_rms),
    .step_adam = KERNEL(step_adam),
    .mix = KERNEL(mix),
    .cross = KERNEL(cross),
    .points = KERNEL(points),
    .apply = KERNEL(apply),
    .slope = KERNEL(slope),
    .curve = KERNEL(curve),
    .exp_minus = KERNEL(exp_minus),
    .take_larger = KERNEL(take_larger),
    .take_where = KERNEL(take_where),
    .give_where = KERNEL(give_where),
    .sum = KERNEL(sum),
    .tiles = KERNEL(tiles),
    .panel_exp = KERNEL(panel_exp),
    .panel_spread = KERNEL(panel_spread),
    .panel_weigh = KERNEL(panel_weigh),
    .panel_weigh_both = KERNEL(panel_weigh_both),
    .lstm_forward = KERNEL(lstm_forward),
    .lstm_tangent = KERNEL(lstm_tangent),
    .lstm_backward = KERNEL(lstm_backward),
    .lstm_tangent_backward = KERNEL(lstm_tangent_backward),
};
