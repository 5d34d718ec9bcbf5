/* How large R = (aa' - bb')VV', or UU'(aa' - bb'), of a step of U or V is: its largest entry, its spectral norm, and
 * that of the sum instead of the difference, without multiplying it out. */
#include "group/family/lra.h"

#include <math.h>
#include <string.h>

static void visit_rows(void *data, const la_chunk *rows)
{
    const lra_fitting *f = data;
    const lra *l = f->self;
    int64_t n = l->base.n, k = f->pairs; /* one pair at a time: see largest_of_panel */
    real *p = (real *)psgd__work_at(l->base.work, l->rows) + rows->from, *q = p + n;
    memset(p, 0, (size_t)rows->count * sizeof(real));
    memset(q, 0, (size_t)rows->count * sizeof(real));
    la_panel_add(lra_fixed_panel(f), n, l->r, rows, lra_fixed_projection(f, k, false), p);
    la_panel_add(lra_fixed_panel(f), n, l->r, rows, lra_fixed_projection(f, k, true), q);
}

/* max |a_i p_j - b_i q_j|: the points (p_j, q_j) that matter are the corners of their convex hull together with its
 * mirror image, found one after the other by turning around it. */
static double largest_of_one(int64_t n, const real *a, const real *b, const real *p, const real *q)
{
    double max = 0, px = 0, py = 0;
    for (int64_t j = 0; j < n; j++) {
        double x = fabs((double)p[j]), y = (double)q[j] * (p[j] < 0 ? -1 : 1);
        if (x > px || (x == px && y > py)) px = x, py = y;
    }
    double x0 = px, y0 = py;
    for (int64_t corner = 0; corner <= 2 * n; corner++) {
        double nx = -px, ny = -py; /* the corner opposite is there for certain */
        for (int64_t i = 0; i < n; i++) max = fmax(max, fabs((double)a[i] * px - (double)b[i] * py));
        for (int64_t j = 0; j < 2 * n; j++) {
            double x = (double)p[j / 2] * (j % 2 ? -1 : 1), y = (double)q[j / 2] * (j % 2 ? -1 : 1);
            double turn = (nx - px) * (y - py) - (ny - py) * (x - px);
            double far = hypot(x - px, y - py) - hypot(nx - px, ny - py);
            if (turn < 0 || (turn == 0 && far > 0)) nx = x, ny = y;
        }
        if ((nx == x0 && ny == y0) || (nx == -x0 && ny == -y0) || (nx == px && ny == py)) break;
        px = nx, py = ny;
    }
    return max;
}

/* Several pairs: every entry of R in turn, O(n^2). */
static double largest_of_several(const lra_fitting *f)
{
    const lra *l = f->self;
    int64_t n = l->base.n;
    double max = 0;
    for (int64_t j = 0; j < n; j++) {
        double p[2 * FIT_MAX_PAIRS] = {0};
        for (int64_t k = 0; k < 2 * f->pairs; k++) {
            const double *c = lra_fixed_projection(f, k / 2, k % 2);
            for (int64_t i = 0; i < l->r; i++) p[k] += (k % 2 ? -1 : 1) * c[i] * (double)lra_fixed_panel(f)[i * n + j];
        }
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int64_t k = 0; k < f->pairs; k++) {
                sum += p[2 * k] * (double)f->A.x[k * f->A.ld + i] + p[2 * k + 1] * (double)f->B.x[k * f->B.ld + i];
            }
            max = fmax(max, fabs(sum));
        }
    }
    return max;
}

static double largest_of_panel(lra_fitting *f)
{
    const lra *l = f->self;
    if (f->pairs > 1) return largest_of_several(f);
    lra_fitting one = *f;
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
double psgd__lra_panel_size(void *data, group_size which)
{
    lra_fitting *f = data;
    double sum = 0;
    if (which == SIZE_LARGEST) return largest_of_panel(f);
    for (int64_t k = 0; k < f->pairs; k++) {
        const double *s = f->sums + 6 * k;
        sum += which == SIZE_SECOND ? sqrt(s[0] * s[3]) + sqrt(s[1] * s[4]) : spectral_of_one(s);
    }
    return sum;
}
