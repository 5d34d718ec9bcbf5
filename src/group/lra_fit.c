/* The update of the low-rank family: d, and U or V in turn, all from the old values.
 *
 *     d <- d - c d (h Ph - v P^-1 v),  U <- U - c (aa' - bb')V(I + V'U)  or  V <- V - c (I + VU')(aa' - bb')U
 *
 * With a = Qh and b = Q^-T v everything is known: h Ph = ((I + UV')^-1 a) ((I + VU')a), entry by entry, and likewise
 * for v. The step of U is I + UV' <- (I - cR)(I + UV') with R = (aa' - bb')VV', that of V the same with R = UU'(aa' -
 * bb'): these R are what is normalised. M = I + V'U follows exactly, M <- (I - c (xx' - yy'))M with x = V'a, y = V'b
 * (or U'a, U'b), and is computed anew now and then. */
#include "group/lra.h"
#include "group/small.h"
#include "la/dispatch.h"
#include "la/la.h"
#include "la/panel.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { REFRESH_EVERY = 16, BALANCE_EVERY = 128 };

typedef struct fitting {
    lra *self;
    int64_t pairs;
    view A, B;
    bool on_v;                /* V moves in this turn, else U */
    const double *solved;     /* [pairs][2][r]: M^-1 V'a, M^-1 V'b; negative */
    const double *turned;     /* [pairs][2][r]: the coefficients of the moving panel's columns */
    double c_d, c_panel;      /* steps; 0: that part stays */
    const double *sums;       /* [pairs][6]: a'a, b'b, a'b, p'p, q'q, p'q with p = VV'a, q = VV'b (or UU'a, UU'b) */
    double most, both, upper; /* max |g|, max (|h Ph| + |v P^-1 v|), max g over the entries of the gradient g of d */
} fitting;

static const real *moving_along(const fitting *f)
{
    return f->on_v ? f->self->u : f->self->v;
}

static const double *projection(const fitting *f, int64_t k, bool of_b)
{
    return lra_projection(f->self, k, f->on_v ? (of_b ? UB : UA) : (of_b ? VB : VA));
}

static void visit_projections(void *data, const la_chunk *rows)
{
    const fitting *f = data;
    const lra *l = f->self;
    int64_t n = l->base.n, r = l->r;
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *a = f->A.x + k * f->A.pitch + rows->from, *b = f->B.x + k * f->B.pitch + rows->from;
        double *sums = rows->sums + 4 * k * r;
        la_panel_dots(l->v, n, r, rows, a, sums + VA * r);
        la_panel_dots(l->u, n, r, rows, a, sums + UA * r);
        la_panel_dots(l->v, n, r, rows, b, sums + VB * r);
        la_panel_dots(l->u, n, r, rows, b, sums + UB * r);
    }
}

/* x + sum_j c_j P_j into y. */
static void combine(const lra *l, const la_chunk *rows, const real *x, const real *panel, const double *c, real *y)
{
    memcpy(y, x, (size_t)rows->count * sizeof(real));
    la_panel_add(panel, l->base.n, l->r, rows, c, y);
}

/* g += left right and both += |left right|, entry by entry. */
static void add_products(int64_t count, int sign, const real *left, const real *right, real *g, real *both)
{
    for (int64_t i = 0; i < count; i++) {
        real x = left[i] * right[i];
        g[i] += (real)sign * x;
        both[i] += x < 0 ? -x : x;
    }
}

static void visit_gradient(void *data, const la_chunk *rows)
{
    const fitting *f = data;
    const lra *l = f->self;
    const la_kernels *kernel = la_kernel();
    int64_t n = l->base.n, r = l->r, count = rows->count;
    real left[LA_CHUNK], right[LA_CHUNK], both[LA_CHUNK];
    real *g = (real *)psgd__work_at(l->base.work, l->gradient) + rows->from;
    memset(g, 0, (size_t)count * sizeof(real));
    memset(both, 0, (size_t)count * sizeof(real));
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *x[2] = {f->A.x + k * f->A.pitch + rows->from, f->B.x + k * f->B.pitch + rows->from};
        double *sums = rows->sums + 6 * k;
        for (int which = 0; which < 2; which++) {
            combine(l, rows, x[which], l->v, lra_projection(l, k, which ? UB : UA), left);
            combine(l, rows, x[which], l->u, f->solved + (2 * k + which) * r, right);
            add_products(count, which ? -1 : 1, left, right, g, both);
        }
        memset(left, 0, (size_t)count * sizeof(real));
        memset(right, 0, (size_t)count * sizeof(real));
        la_panel_add(moving_along(f), n, r, rows, projection(f, k, false), left);
        la_panel_add(moving_along(f), n, r, rows, projection(f, k, true), right);
        sums[0] += kernel->dot(count, x[0], x[0]);
        sums[1] += kernel->dot(count, x[1], x[1]);
        sums[2] += kernel->dot(count, x[0], x[1]);
        sums[3] += kernel->dot(count, left, left);
        sums[4] += kernel->dot(count, right, right);
        sums[5] += kernel->dot(count, left, right);
    }
    real upper = 0;
    for (int64_t i = 0; i < count; i++) upper = g[i] > upper ? g[i] : upper;
    rows->most[0] = fmax(rows->most[0], (double)kernel->max_abs(count, g));
    rows->most[1] = fmax(rows->most[1], (double)kernel->max_abs(count, both));
    rows->most[2] = fmax(rows->most[2], (double)upper);
}

static double size_of_d(void *data, group_size which)
{
    const fitting *f = data;
    return which == SIZE_SECOND ? f->both : f->most;
}

static void visit_rows(void *data, const la_chunk *rows)
{
    const fitting *f = data;
    const lra *l = f->self;
    int64_t n = l->base.n, k = f->pairs; /* one pair at a time: see largest_of_panel */
    real *p = (real *)psgd__work_at(l->base.work, l->rows) + rows->from, *q = p + n;
    memset(p, 0, (size_t)rows->count * sizeof(real));
    memset(q, 0, (size_t)rows->count * sizeof(real));
    la_panel_add(moving_along(f), n, l->r, rows, projection(f, k, false), p);
    la_panel_add(moving_along(f), n, l->r, rows, projection(f, k, true), q);
}

/* max |a_i p_j - b_i q_j|: the points (p_j, q_j) that matter are the corners of their convex hull together with its
 * mirror image, found one after the other by turning around it. */
static double largest_of_one(int64_t n, const real *a, const real *b, const real *p, const real *q)
{
    double most = 0, px = 0, py = 0;
    for (int64_t j = 0; j < n; j++) {
        double x = fabs((double)p[j]), y = (double)q[j] * (p[j] < 0 ? -1 : 1);
        if (x > px || (x == px && y > py)) px = x, py = y;
    }
    double x0 = px, y0 = py;
    for (int64_t corner = 0; corner <= 2 * n; corner++) {
        double nx = -px, ny = -py; /* the corner opposite is there for certain */
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] * px - (double)b[i] * py));
        for (int64_t j = 0; j < 2 * n; j++) {
            double x = (double)p[j / 2] * (j % 2 ? -1 : 1), y = (double)q[j / 2] * (j % 2 ? -1 : 1);
            double turn = (nx - px) * (y - py) - (ny - py) * (x - px);
            double far = hypot(x - px, y - py) - hypot(nx - px, ny - py);
            if (turn < 0 || (turn == 0 && far > 0)) nx = x, ny = y;
        }
        if ((nx == x0 && ny == y0) || (nx == -x0 && ny == -y0) || (nx == px && ny == py)) break;
        px = nx, py = ny;
    }
    return most;
}

/* Several pairs: every entry of R in turn, O(n^2). */
static double largest_of_several(const fitting *f)
{
    const lra *l = f->self;
    int64_t n = l->base.n;
    double most = 0;
    for (int64_t j = 0; j < n; j++) {
        double p[2 * LRA_MOST_PAIRS] = {0};
        for (int64_t k = 0; k < 2 * f->pairs; k++) {
            const double *c = projection(f, k / 2, k % 2);
            for (int64_t i = 0; i < l->r; i++) p[k] += (k % 2 ? -1 : 1) * c[i] * (double)moving_along(f)[i * n + j];
        }
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int64_t k = 0; k < f->pairs; k++) {
                sum += p[2 * k] * (double)f->A.x[k * f->A.pitch + i] +
                       p[2 * k + 1] * (double)f->B.x[k * f->B.pitch + i];
            }
            most = fmax(most, fabs(sum));
        }
    }
    return most;
}

static double largest_of_panel(fitting *f)
{
    const lra *l = f->self;
    if (f->pairs > 1) return largest_of_several(f);
    fitting one = *f;
    one.pairs = 0;
    const real *p = psgd__work_at(l->base.work, l->rows);
    la_sweep(l->base.n, visit_rows, &one, 0, 0, psgd__work_at(l->base.work, l->sums));
    return largest_of_one(l->base.n, f->A.x, f->B.x, p, p + l->base.n);
}

/* ||a p' - b q'||_2: the root of the larger eigenvalue of the product of two 2 x 2 Gram matrices. */
static double spectral_of_one(const double *s)
{
    double trace = s[0] * s[3] + s[1] * s[4] - 2 * s[2] * s[5];
    double det = (s[0] * s[1] - s[2] * s[2]) * (s[3] * s[4] - s[5] * s[5]);
    double root = sqrt(fmax(0, 0.25 * trace * trace - det));
    return sqrt(fmax(0, 0.5 * trace + root));
}

/* For several pairs the norms of their terms are added. */
static double size_of_panel(void *data, group_size which)
{
    fitting *f = data;
    double sum = 0;
    if (which == SIZE_LARGEST) return largest_of_panel(f);
    for (int64_t k = 0; k < f->pairs; k++) {
        const double *s = f->sums + 6 * k;
        sum += which == SIZE_SECOND ? sqrt(s[0] * s[3]) + sqrt(s[1] * s[4]) : spectral_of_one(s);
    }
    return sum;
}

/* d -= c g d; the panel that moves: U -= c (a f' - b g'), f = M'V'a; V -= c ((I + VU')a (U'a)' - ..). */
static void visit_step(void *data, const la_chunk *rows)
{
    const fitting *f = data;
    lra *l = f->self;
    const la_kernels *kernel = la_kernel();
    int64_t n = l->base.n, r = l->r, count = rows->count;
    const real *g = (const real *)psgd__work_at(l->base.work, l->gradient) + rows->from;
    real *d = l->d + rows->from;
    real c = (real)f->c_d;
    for (int64_t i = 0; i < count; i++) d[i] -= c * g[i] * d[i];
    if (f->c_panel == 0) return;

    /* (I + VU')a takes the place of a, which nobody needs any more, while V is still the old one. */
    for (int64_t k = 0; f->on_v && k < f->pairs; k++) {
        la_panel_add(l->v, n, r, rows, lra_projection(l, k, UA), f->A.x + k * f->A.pitch + rows->from);
        la_panel_add(l->v, n, r, rows, lra_projection(l, k, UB), f->B.x + k * f->B.pitch + rows->from);
    }
    real *panel = f->on_v ? l->v : l->u;
    for (int64_t k = 0; k < f->pairs; k++) {
        const real *x[2] = {f->A.x + k * f->A.pitch + rows->from, f->B.x + k * f->B.pitch + rows->from};
        for (int64_t j = 0; j < r; j++) {
            real *column = panel + j * n + rows->from;
            const double *t = f->turned + 2 * k * r + j;
            kernel->axpy(count, (real)(-f->c_panel * t[0]), x[0], column);
            kernel->axpy(count, (real)(f->c_panel * t[r]), x[1], column);
        }
    }
}

/* The step of a part, with its running maximum read and written back. */
static double ask(fitting *f, int part, double (*size)(void *, group_size), group_fit *how)
{
    real *kept = &f->self->memory[LRA_RUNNING + part];
    double running = *kept == 0 ? 0 : exp2((double)*kept);
    group_part p = {.size = size, .data = f, .running = &running};
    double c = how->step(how->data, &p);
    if (running > 0) *kept = (real)log2(running);
    if (*kept == 0 && running > 0) *kept = (real)FLT_MIN; /* 1, which 0 does not stand for */
    return c;
}

/* A plain step that would take away all of what it changes, or double it, is cut to half of that and counted. */
static double held(double c, double size, group_fit *how)
{
    if (!how->plain || c * size < 1) return c;
    how->skipped++;
    return 0.5 / size;
}

static void choose_d(fitting *f, group_fit *how)
{
    f->c_d = 0;
    if (!(f->most > 0)) return;
    double c = held(ask(f, 0, size_of_d, how), f->most, how);
    how->moved = true;
    if (isfinite(c) && c * f->upper < 1 && c * f->most < 1e6) {
        f->c_d = c;
    } else {
        how->skipped++;
    }
}

/* next <- (I - c sum (xx' - yy'))M. */
static void follow(const fitting *f, double c, const double *M, double *next)
{
    int64_t r = f->self->r;
    double *turned = lra_projection(f->self, f->self->base.pairs, 0);
    memcpy(next, M, (size_t)(r * r) * sizeof(double));
    for (int64_t k = 0; k < 2 * f->pairs; k++) {
        const double *x = projection(f, k / 2, k % 2);
        small_mul(r, M, true, x, turned);
        for (int64_t i = 0; i < r; i++) {
            for (int64_t j = 0; j < r; j++) next[i * r + j] -= (k % 2 ? -c : c) * x[i] * turned[j];
        }
    }
}

/* The lower triangle of S <- c sum (xx' - yy'). */
static void sum_projections(const fitting *f, double c, double *S)
{
    int64_t r = f->self->r;
    memset(S, 0, (size_t)(r * r) * sizeof(double));
    for (int64_t k = 0; k < 2 * f->pairs; k++) {
        const double *x = projection(f, k / 2, k % 2);
        for (int64_t i = 0; i < r; i++) {
            for (int64_t j = 0; j <= i; j++) S[i * r + j] += (k % 2 ? -c : c) * x[i] * x[j];
        }
    }
}

/* || sum (xx' - yy') ||_F, at least the largest eigenvalue of R. spare has r^2 numbers. */
static double size_of_turn(const fitting *f, double *spare)
{
    int64_t r = f->self->r;
    double squares = 0;
    sum_projections(f, 1, spare);
    for (int64_t i = 0; i < r; i++) {
        for (int64_t j = 0; j <= i; j++) squares += (i == j ? 1 : 2) * spare[i * r + j] * spare[i * r + j];
    }
    return sqrt(squares);
}

/* Whether I - t c sum (xx' - yy') is invertible for all t in [0, 1], hence positive definite at t = 1: then M, and Q
 * with it, is never singular on the way. spare has r^2 numbers. */
static bool stays_inside(const fitting *f, double c, double *spare)
{
    int64_t r = f->self->r;
    sum_projections(f, -c, spare);
    for (int64_t i = 0; i < r; i++) spare[i * r + i] += 1;
    return small_positive(r, spare);
}

static void choose_panel(fitting *f, const double *M, group_fit *how)
{
    int64_t r = f->self->r;
    double *next = (double *)M + 2 * r * r, *spare = next + r * r; /* M^-1 stands between */
    f->c_panel = 0;
    double there = 0;
    for (int64_t k = 0; k < f->pairs; k++) there += f->sums[6 * k + 3] + f->sums[6 * k + 4];
    if (!(there > 0)) return;

    double c = ask(f, f->on_v ? 2 : 1, size_of_panel, how);
    if (c == 0) return;
    c = held(c, size_of_turn(f, spare), how);
    how->moved = true;
    follow(f, c, M, next);
    bool sane = isfinite(c) && stays_inside(f, c, spare) && small_invert(r, next, (double *)M + r * r, spare);
    for (int64_t i = 0; sane && i < 2 * r * f->pairs; i++) sane = fabs(c * f->turned[i]) < (double)REAL_MAX / 1e12;
    if (!sane) {
        how->skipped++;
        return;
    }
    f->c_panel = c;
    psgd__lra_keep_matrix(f->self, next);
}

typedef struct refreshing {
    const lra *self;
    int64_t from, columns;
} refreshing;

static void visit_refresh(void *data, const la_chunk *rows)
{
    const refreshing *f = data;
    const lra *l = f->self;
    for (int64_t j = 0; j < f->columns; j++) {
        la_panel_dots(l->v, l->base.n, l->r, rows, l->u + (f->from + j) * l->base.n + rows->from,
                      rows->sums + j * l->r);
    }
}

/* M = I + V'U from the panels. */
static void refresh(lra *l)
{
    int64_t r = l->r;
    double *sums = psgd__work_at(l->base.work, l->sums), *M = psgd__work_at(l->base.work, l->small);
    for (int64_t from = 0; from < r; from += LRA_BLOCK) {
        refreshing f = {.self = l, .from = from, .columns = r - from < LRA_BLOCK ? r - from : LRA_BLOCK};
        la_sweep(l->base.n, visit_refresh, &f, f.columns * r, 0, sums);
        for (int64_t j = 0; j < f.columns; j++) {
            for (int64_t i = 0; i < r; i++) M[i * r + from + j] = sums[j * r + i] + (i == from + j);
        }
    }
    psgd__lra_keep_matrix(l, M);
}

/* U and V to within a factor of two of the same size, by a power of two, which changes nothing. Panels that have grown
 * out of all proportion begin again. */
static void balance(lra *l, group_fit *how)
{
    int64_t panel = l->r * l->base.n;
    double u = (double)la_max_abs(panel, l->u), v = (double)la_max_abs(panel, l->v);
    if (!(u > 0) || !(v > 0)) return;
    if (!(u * v * (double)REAL_EPSILON < 1)) {
        double scale = (double)la_max_abs(l->base.n, l->d);
        psgd__lra_begin(l, scale);
        how->skipped++;
        return;
    }
    int shift = (int)lround(log2(v / u) / 2);
    la_scale(panel, (real)ldexp(1, shift), l->u);
    la_scale(panel, (real)ldexp(1, -shift), l->v);
}

static void load_projections(fitting *f, bool formed)
{
    lra *l = f->self;
    double *sums = psgd__work_at(l->base.work, l->sums);
    if (formed) return;
    la_sweep(l->base.n, visit_projections, f, 4 * f->pairs * l->r, 0, sums);
    memcpy(lra_projection(l, 0, VA), sums, (size_t)(4 * f->pairs * l->r) * sizeof(double));
}

void psgd__lra_fit(group *self, const group_pair *pair, group_fit *how)
{
    lra *l = (lra *)self;
    int64_t r = l->r, pairs = pair->A.outer;
    int turn = (int)l->memory[LRA_TURN];
    double *M, *inverse, *sums = psgd__work_at(self->work, l->sums);
    fitting f = {.self = l, .pairs = pairs, .A = pair->A, .B = pair->B, .on_v = turn % 2 == 1};
    load_projections(&f, l->formed == pair->A.x && !pair->scaled);
    l->formed = NULL;

    double *solved = sums + la_sweep_room(6 * pairs, 3), *turned = solved + 2 * pairs * r;
    psgd__lra_matrix(l, &M, &inverse);
    for (int64_t k = 0; k < pairs; k++) {
        for (int which = 0; which < 2; which++) {
            double *at = solved + (2 * k + which) * r;
            small_mul(r, inverse, false, lra_projection(l, k, which ? VB : VA), at);
            for (int64_t j = 0; j < r; j++) at[j] = -at[j];
            if (f.on_v) {
                memcpy(turned + (2 * k + which) * r, projection(&f, k, which), (size_t)r * sizeof(double));
            } else {
                small_mul(r, M, true, projection(&f, k, which), turned + (2 * k + which) * r);
            }
        }
    }
    f.solved = solved;
    f.turned = turned;
    f.sums = sums;
    la_sweep(self->n, visit_gradient, &f, 6 * pairs, 3, sums);
    f.most = sums[6 * pairs];
    f.both = sums[6 * pairs + 1];
    f.upper = sums[6 * pairs + 2];
    choose_d(&f, how);
    if (r > 0) choose_panel(&f, M, how);
    if (!how->moved) return;

    la_sweep(self->n, visit_step, &f, 0, 0, sums);
    turn = (turn + 1) % BALANCE_EVERY;
    l->memory[LRA_TURN] = (real)turn;
    if (r == 0) return;
    if (turn % REFRESH_EVERY == 0) refresh(l);
    if (turn == 0) balance(l, how);
}
