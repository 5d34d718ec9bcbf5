/* Which specs and shapes are measured, and what each op on them costs at least. */
#include "cli/bench/bench.h"

#include <string.h>

/* AlexNet, LSTM and LeNet of the paper, and vectors. */
const bench_case bench_cases[] = {
    {.spec = "tri", .shapes = "*2 *100 *1000 *4000"},
    {.spec = "diag", .shapes = "*1000000 *62400000"},
    {.spec = "xmat", .shapes = "1000000 *62400000"},
    {.spec = "scan",
     .shapes = "*120x257 *800x401 *33278x201 96x364 256x2401 384x2305 384x3457 *256x3457 *1000x4097 *4096x4097 "
               "*4096x9217"},
    {.spec = "kron(diag,diag)", .shapes = "800x401 33278x201 *4096x4097 *4096x9217"},
    {.spec = "scaw",
     .shapes =
         "*120x257 *800x401 *33278x201 96x364 256x2401 384x2305 384x3457 *256x3457 *1000x4097 4096x4097 4096x9217"},
    {.spec = "kron(tri,diag)", .shapes = "800x401 *1000x4097 4096x4097"},
    {.spec = "kron(norm,tri)", .shapes = "*800x401 *1000x4097"},
    {.spec = "kron(tri,norm)", .shapes = "1000x4097"},
    {.spec = "kron(tri,tri)",
     .shapes = "*120x257 96x364 *800x401 256x2401 384x2305 384x3457 256x3457 1000x4097 4096x4097 4096x9217"},
    {.spec = "kron(dense,dense)", .shapes = "*256x256 512x512 *1024x1024 1000x4097", .rule = "quad"},
    {.spec = "kron(dense,dense)", .shapes = "*256x256 512x512 *1024x1024 1000x4097", .rule = "pro"},
    {0},
};

/* Values that the passes of a flat group move for each parameter: passes that write an array of their own, and passes
 * that write what they have read. */
typedef struct flat_rule {
    const char *spec;
    double written[BENCH_OPS], in_place[BENCH_OPS];
} flat_rule;

/* diag: v, h, q, R out; R, q, q out. xmat: v, h, d, e, both halves of R out; R, d, e, d out, e out. apply: Q, x, y out.
 * A step is both, and reads y and theta and writes theta. */
static const flat_rule flat[] = {
    {"diag", {4, 3, 4 + 3}, {3, 0, 3 + 3}},
    {"xmat", {6, 4, 6 + 4}, {6, 0, 6 + 3}},
};

static bool is(const char *spec, const char *name)
{
    return !strcmp(spec, name);
}

static int64_t larger_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool flat_work(const char *spec, int64_t n, double size, bench_op op, bench_work *work)
{
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; i++) {
        const flat_rule *rule = &flat[i];
        if (!is(spec, rule->spec)) continue;
        work->written = rule->written[op] * size * (double)n;
        work->in_place = rule->in_place[op] * size * (double)n;
        work->resident = work->written + work->in_place;
        return true;
    }
    if (!is(spec, "tri")) return false;
    double triangle = (double)n * (double)(n + 1) / 2 * size;
    work->read = op == BENCH_APPLY ? 2 * triangle : triangle + (op == BENCH_STEP ? 2 * triangle : 0);
    work->in_place = op == BENCH_APPLY ? 0 : 2 * triangle;
    work->resident = triangle;
    return true;
}

/* One triangular factor of side s on k fibres: trmm and trsm for A and B, two syrk, the product of two triangles. */
static double triangle_flops(double s, double k, bench_op op)
{
    double update = 4 * s * s * k + s * s * s / 3, apply = 2 * s * s * k;
    return op == BENCH_UPDATE ? update : op == BENCH_APPLY ? apply : update + apply;
}

/* One dense factor of side s on k fibres: two products for Qh and Q^-T v, or for Ph, and two syrk; then what moves Q.
 * eq: I - cR inverted, Q and Q^-1 multiplied. pro: one product, one and a half of the rotation. quad: one product and
 * half of another. qep: its own images, and one product. Estimates of norms, 256 s^2 flops each, are not counted. */
static double dense_flops(const char *rule, double s, double k, bench_op op)
{
    double images = (is(rule, "qep") ? 10 : 6) * s * s * k, cube = s * s * s, apply = 4 * s * s * k;
    double move = (is(rule, "eq") ? 6 : is(rule, "pro") ? 5 : is(rule, "quad") ? 3 : 2) * cube;
    return op == BENCH_UPDATE ? images + move : op == BENCH_APPLY ? apply : images + move + apply;
}

/* Anything else, families above all: the bytes that psgd group reports. That is an estimate, so it is compared with no
 * limit. */
static bool other_work(const char *spec, int ndim, const int64_t *shape, psgd_dtype dtype, bench_op op,
                       bench_work *work)
{
    double update, apply;
    if (psgd_group_cost(NULL, spec, ndim, shape, dtype, NULL, NULL, NULL, &update, NULL, &apply) != PSGD_OK) {
        return false;
    }
    work->read = op == BENCH_UPDATE ? update : op == BENCH_APPLY ? apply : update + apply;
    return true;
}

bool bench_work_of(const char *spec, const char *rule, int ndim, const int64_t *shape, psgd_dtype dtype, bench_op op,
                   bench_work *work)
{
    double size = (double)psgd_dtype_size(dtype);
    bool plain = !rule || is(rule, "eq");
    *work = (bench_work){0};
    if (ndim == 2 && is(spec, "kron(dense,dense)")) {
        work->side = larger_of(shape[0], shape[1]);
        work->fibres = shape[0] + shape[1] - work->side;
        for (int i = 0; i < 2; i++) {
            work->flops += dense_flops(rule ? rule : "eq", (double)shape[i], (double)shape[1 - i], op);
        }
        return true;
    }
    if (!plain) return false; /* the rest is counted for the paper's rule */
    if (ndim == 1 && flat_work(spec, shape[0], size, op, work)) return true;
    bool kron = is(spec, "scan") || is(spec, "scaw") || !strncmp(spec, "kron(", 5);
    if (ndim != 2 || !kron) return other_work(spec, ndim, shape, dtype, op, work);

    double n = (double)shape[0] * (double)shape[1];
    bool left = !strncmp(spec, "kron(tri,", 9), right = is(spec, "scaw") || strstr(spec, ",tri)");
    if (!left && !right) {
        /* v and h once; x and y; for a step also y, theta and theta out. */
        work->read = op == BENCH_APPLY ? 0 : 2 * n * size;
        work->written = op == BENCH_UPDATE ? 0 : 3 * n * size;
        work->in_place = op == BENCH_STEP ? 3 * n * size : 0;
        work->resident = work->read + work->written + work->in_place;
        return true;
    }
    if (left) work->flops += triangle_flops((double)shape[0], (double)shape[1], op);
    if (right) work->flops += triangle_flops((double)shape[1], (double)shape[0], op);
    work->side = right && (!left || shape[1] > shape[0]) ? shape[1] : shape[0];
    work->fibres = work->side == shape[1] ? shape[0] : shape[1];
    return true;
}
