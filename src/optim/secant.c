/* The pairs, in the compact form of the two-loop recursion: with V = [v_1 ..], Y = [h_1 ..] and R the upper triangle of
 * V'Y, and B the base,
 *
 *   a = R^-1 V'x,  r = B (x - Ya),  u = R^-T (diag(R) a - Y'r),  Px = r + Vu
 *
 * which reads each pair twice, whatever the base is. */
#include "optim/secant.h"
#include "optim/secant_base.h"
#include "la/array/vectors.h"

#include <math.h>
#include <string.h>

static const double SMALLEST_CURVATURE = 1e-12; /* |v'h| relative to ||v|| ||h|| */

int64_t psgd__secant_vectors(int64_t n, int room, int fresh_room)
{
    return 2 * room + 2 * fresh_room + 4 + (n <= SECANT_DENSE ? 2 * n : 0);
}

void psgd__secant_place(secant *s, int64_t n, int room, int fresh_room, double *memory)
{
    s->n = n;
    s->room = room;
    s->fresh_room = fresh_room;
    for (int i = 0; i < room; i++, memory += 2 * n) s->pair[i] = (secant_pair){memory, memory + n};
    for (int i = 0; i < fresh_room; i++, memory += 2 * n) s->fresh[i] = (secant_pair){memory, memory + n};
    s->sum_v = memory;
    s->sum_h = memory + n;
    s->D = memory + 2 * n;
    s->work = memory + 3 * n;
    if (n <= SECANT_DENSE) {
        s->P = memory + 4 * n;
        s->P_next = s->P + n * n;
    }
    psgd__secant_reset(s);
}

void psgd__secant_reset(secant *s)
{
    s->count = s->fresh_count = 0;
    s->learned = s->scored = 0;
    s->stride = 1;
    s->gamma = 1;
    s->dense = s->dense_next = false;
    psgd__secant_base_reset(s);
}

static void multiply_mask(const secant *s, double *x)
{
    if (!s->mask) return;
    for (int64_t i = 0; i < s->n; i++) x[i] *= s->mask[i];
}

static int lists(const secant *s, const double **v, const double **h)
{
    for (int i = 0; i < s->count; i++) {
        v[i] = s->pair[i].v;
        h[i] = s->pair[i].h;
    }
    return s->count;
}

/* a <- R^-1 a; pairs that are left out get 0. */
static void solve(const secant *s, double *a)
{
    for (int i = s->count - 1; i >= 0; i--) {
        if (s->R[i][i] == 0) {
            a[i] = 0;
            continue;
        }
        double sum = a[i];
        for (int j = i + 1; j < s->count; j++) sum -= s->R[i][j] * a[j];
        a[i] = sum / s->R[i][i];
    }
}

/* u <- R^-T (diag(R) a - u). */
static void solve_transposed(const secant *s, const double *a, double *u)
{
    for (int j = 0; j < s->count; j++) {
        if (s->R[j][j] == 0) {
            u[j] = 0;
            continue;
        }
        double sum = s->R[j][j] * a[j] - u[j];
        for (int i = 0; i < j; i++) sum -= s->R[i][j] * u[i];
        u[j] = sum / s->R[j][j];
    }
}

static void apply_pairs(secant *s, const double *x, double *y)
{
    const double *v[SECANT_MAX] = {0}, *h[SECANT_MAX] = {0};
    double a[SECANT_MAX], u[SECANT_MAX];
    int count = lists(s, v, h);
    memcpy(y, x, (size_t)s->n * sizeof *y);
    multiply_mask(s, y);
    psgd__la_dots_f64(count, s->n, v, y, a);
    solve(s, a);
    for (int i = 0; i < count; i++) a[i] = -a[i];
    psgd__la_combine_f64(count, s->n, a, h, y);
    for (int i = 0; i < count; i++) a[i] = -a[i];
    multiply_mask(s, y);
    psgd__secant_base_apply(s, y);
    multiply_mask(s, y);
    psgd__la_dots_f64(count, s->n, h, y, u);
    solve_transposed(s, a, u);
    psgd__la_combine_f64(count, s->n, u, v, y);
    multiply_mask(s, y);
}

static void apply_dense(const secant *s, const double *P, const double *x, double *y)
{
    for (int64_t i = 0; i < s->n; i++) psgd__la_dots_f64(1, s->n, &(const double *){P + i * s->n}, x, &y[i]);
}

void psgd__secant_apply(secant *s, const double *x, double *y)
{
    if (s->dense) {
        apply_dense(s, s->P, x, y);
    } else {
        apply_pairs(s, x, y);
    }
}

/* P_next <- P by its columns. */
static void start_dense(secant *s)
{
    double *unit = s->work;
    if (s->dense) {
        memcpy(s->P_next, s->P, (size_t)(s->n * s->n) * sizeof(double));
    } else {
        for (int64_t j = 0; j < s->n; j++) {
            memset(unit, 0, (size_t)s->n * sizeof *unit);
            unit[j] = 1;
            apply_pairs(s, unit, s->P_next + j * s->n);
        }
    }
    s->dense_next = true;
}

/* P_next <- (I - v h'/c) P_next (I - h v'/c) + v v'/c, c = |v'h|, which also takes the sign of h. */
static void add_dense(secant *s, const double *v, const double *h)
{
    int64_t n = s->n;
    double *u = s->work, c, hu = 0;
    psgd__la_dots_f64(1, n, &v, h, &c);
    apply_dense(s, s->P_next, h, u);
    for (int64_t i = 0; i < n; i++) hu += h[i] * u[i];
    double sign = c < 0 ? -1 : 1, rho = 1 / fabs(c), k = rho * rho * hu + rho;
    if (!isfinite(k)) return;
    for (int64_t i = 0; i < n; i++) {
        double by_u = -sign * rho * v[i], by_v = k * v[i] - sign * rho * u[i];
        psgd__la_combine_f64(2, n, (double[]){by_u, by_v}, (const double *[]){u, v}, s->P_next + i * n);
    }
}

static secant_sizes sizes_of(const secant *s, const double *v, const double *h)
{
    const double *list[] = {v, h};
    double by_h[2], vv;
    psgd__la_dots_f64(2, s->n, list, h, by_h);
    psgd__la_dots_f64(1, s->n, list, v, &vv);
    return (secant_sizes){.v = sqrt(vv), .h = sqrt(by_h[1]), .vh = fabs(by_h[0])};
}

static bool is_useful(const secant_sizes *of)
{
    double size = of->v * of->h;
    return isfinite(size) && size > 0 && of->vh >= SMALLEST_CURVATURE * size;
}

static void keep_fresh(secant *s, const double *v, const double *h)
{
    bool due = s->learned++ % s->stride == 0;
    if (due && s->fresh_count == s->fresh_room) {
        for (int i = 1; 2 * i < s->fresh_room; i++) { /* every other one is kept */
            secant_pair other = s->fresh[i];
            s->fresh[i] = s->fresh[2 * i];
            s->fresh[2 * i] = other;
        }
        s->fresh_count = (s->fresh_room + 1) / 2;
        s->stride *= 2;
        due = (s->learned - 1) % s->stride == 0;
    }
    if (!due) return;
    secant_pair *to = &s->fresh[s->fresh_count++];
    memcpy(to->v, v, (size_t)s->n * sizeof *v);
    memcpy(to->h, h, (size_t)s->n * sizeof *h);
}

void psgd__secant_learn(secant *s, const double *v, const double *h)
{
    secant_sizes sizes = sizes_of(s, v, h);
    if (!is_useful(&sizes)) return;
    psgd__secant_base_learn(s, v, h, &sizes);
    if (s->P && !s->mask && !s->dense_next && (s->dense || s->learned >= s->room)) {
        start_dense(s);
        for (int i = 0; i < s->fresh_count; i++) add_dense(s, s->fresh[i].v, s->fresh[i].h);
    }
    if (s->dense_next) add_dense(s, v, h);
    keep_fresh(s, v, h);
}

/* R and gamma of the last pair; what was masked does not count. */
static void set_last(secant *s)
{
    const double *v[SECANT_MAX] = {0}, *h[SECANT_MAX] = {0};
    int count = lists(s, v, h), last = count - 1;
    double dot[SECANT_MAX];
    const double *y = h[last];
    if (s->mask) {
        for (int64_t i = 0; i < s->n; i++) s->work[i] = s->mask[i] * y[i];
        y = s->work;
    }
    psgd__la_dots_f64(count, s->n, v, y, dot);
    for (int i = 0; i < count; i++) s->R[i][last] = dot[i];
}

static void add_pair(secant *s, const double *v, const double *h)
{
    if (s->count == s->room) {
        secant_pair oldest = s->pair[0];
        memmove(s->pair, s->pair + 1, (size_t)(s->room - 1) * sizeof oldest);
        for (int i = 1; i < s->room; i++) {
            memmove(&s->R[i - 1][0], &s->R[i][1], (size_t)(s->room - 1) * sizeof(double));
        }
        s->pair[--s->count] = oldest;
    }
    secant_pair *to = &s->pair[s->count++];
    memcpy(to->v, v, (size_t)s->n * sizeof *v);
    memcpy(to->h, h, (size_t)s->n * sizeof *h);
    set_last(s);
    int last = s->count - 1;
    if (s->R[last][last] < 0) {
        for (int64_t i = 0; i < s->n; i++) to->h[i] = -to->h[i];
        for (int i = 0; i <= last; i++) s->R[i][last] = -s->R[i][last];
    }
}

static void scale_base(secant *s)
{
    for (int i = s->count - 1; i >= 0; i--) {
        if (s->R[i][i] > 0 && psgd__secant_base_scale(s, &s->pair[i], s->R[i][i])) return;
    }
}

psgd_status psgd__secant_commit(secant *s)
{
    for (int i = 0; i < s->fresh_count; i++) add_pair(s, s->fresh[i].v, s->fresh[i].h);
    psgd_status status = psgd__secant_base_commit(s);
    if (s->dense_next) {
        double *other = s->P;
        s->P = s->P_next;
        s->P_next = other;
        s->dense = true;
        s->dense_next = false;
    }
    s->fresh_count = 0;
    s->learned = 0;
    s->stride = 1;
    scale_base(s);
    return status;
}

psgd_status psgd__secant_step(secant *s, double *v, double *h)
{
    secant_sizes sizes = sizes_of(s, v, h);
    if (!is_useful(&sizes)) return PSGD_OK;
    add_pair(s, v, h);
    if (s->dense) {
        double *other = s->P_next; /* in place */
        s->P_next = s->P;
        add_dense(s, v, h);
        s->P_next = other;
    }
    psgd_status status = psgd__secant_base_step(s, v, h);
    scale_base(s);
    return status;
}

void psgd__secant_mask(secant *s, const double *mask)
{
    s->mask = mask;
    s->dense = s->dense_next = false;
    int all = s->count;
    for (s->count = 1; s->count <= all; s->count++) {
        set_last(s);
        int last = s->count - 1;
        /* Within the mask a pair may have no curvature, or a negative one. */
        if (!(s->R[last][last] > 0)) s->R[last][last] = 0;
    }
    s->count = all;
    scale_base(s);
}
