/* Row-sparse gradients, as those of an embedding, with kron(diag,G) (paper, Appendix A).
 *
 * Q = diag(q) (x) G never mixes rows, so rows that are absent have a step of zero: P g has the rows present only. The
 * fit of Q sees the others through v. With I the absent rows, their part of R is, v integrated out,
 *
 *     of diag, row i in I:  lambda^2 ||G||_F^2 q_i^2 - ||G^-1||_F^2 / q_i^2
 *     of G:                 lambda^2 (sum of q_i^2) Pi(GG') - (sum of 1/q_i^2) Pi(G^-T G^-1)
 *
 * for the images Qh and Q^-T v; for Ph and v of other update rules, P stands for Q and I for Q^-T. An update rule that
 * takes images of a factor's own multiplies row i of R by q_i^2.
 *
 * exact adds this, which is the expectation of the update of the whole matrix over v on I; lazy leaves I out, and their
 * q as they are. The cost is that of the rows present, and for each row of the matrix a few flops on q. */
#include "precond/update/update.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

typedef struct matrix {
    group *rows, *columns; /* the factors */
    real *q;               /* [count] of the first */
    int64_t count, width;
} matrix;

static void take_array(void *data, real *x, int64_t count)
{
    (void)count;
    *(real **)data = x;
}

static matrix matrix_of(const psgd_precond *self)
{
    const group *root = self->root;
    matrix m = {.rows = root->child[0], .columns = root->child[1]};
    psgd__group_state(m.rows, take_array, &m.q);
    m.count = m.rows->n;
    m.width = m.columns->n;
    return m;
}

/* Refuses a group that mixes rows and settings that need whole gradients. */
psgd_status PSGD_TYPED(psgd__precond_check_rows)(const psgd_precond *self)
{
    const group *root = self->root;
    const precond_settings *set = &self->settings;
    if (root->ops->kind.sizes != SIZES_MULTIPLY || root->child_count != 2 || !root->child[0]->ops->kind.diagonal) {
        return psgd__fail(PSGD_ERR_UNSUPPORTED,
                          "gradients of some rows need a matrix and a group kron(diag,G), scan or scaw");
    }
    if (!set->unbiased && set->pairs == 1) return PSGD_OK;
    return psgd__fail(PSGD_ERR_UNSUPPORTED, "gradients of some rows go with neither the option %s",
                      set->unbiased ? "unbiased nor pairs above 1" : "pairs above 1 nor unbiased");
}

/* The q of the rows present, in the place that R has later. */
static real *gather_q(const psgd_precond *self, const matrix *m, const psgd_rows *rows)
{
    real *q = psgd__work_at(self->work, self->at_R);
    for (int64_t i = 0; i < rows->count; i++) q[i] = m->q[rows->index[i]];
    return q;
}

/* X <- QX or Q'X on rows, q theirs */
static void multiply(const matrix *m, int64_t rows, const real *q, bool transposed, real *X)
{
    view each = view_rows(X, m->width, rows);
    la_scale_rows(view_columns(X, rows, m->width), q);
    m->columns->ops->act(m->columns, transposed ? ACT_MUL_T : ACT_MUL, each);
}

/* X <- Q^-1 X or Q^-T X */
static void solve(const matrix *m, int64_t rows, const real *q, bool transposed, real *X)
{
    view each = view_rows(X, m->width, rows);
    la_divide_rows(view_columns(X, rows, m->width), q);
    m->columns->ops->act(m->columns, transposed ? ACT_SOLVE_T : ACT_SOLVE, each);
}

void PSGD_TYPED(psgd__precond_apply_rows)(const psgd_precond *self, psgd_operator what, const psgd_rows *rows,
                                          const void *x, void *y)
{
    matrix m = matrix_of(self);
    int64_t n = rows->count;
    if (n == 0) return;
    const real *q = gather_q(self, &m, rows);
    if (x != y) memmove(y, x, (size_t)(n * m.width) * sizeof(real));
    int twice = what == PSGD_APPLY_P2 || what == PSGD_APPLY_P2_INVERSE ? 2 : 1;
    bool inverse = what >= PSGD_APPLY_P_INVERSE;
    bool first = what != PSGD_APPLY_QT && what != PSGD_APPLY_Q_INVERSE;  /* Q, or Q^-T */
    bool second = what != PSGD_APPLY_Q && what != PSGD_APPLY_QT_INVERSE; /* Q', or Q^-1 */
    for (int i = 0; i < twice; i++) {
        if (first) (inverse ? solve : multiply)(&m, n, q, inverse, y);
        if (second) (inverse ? solve : multiply)(&m, n, q, !inverse, y);
    }
}

static bool is_whitened(const psgd_precond *self)
{
    return psgd__rule_at(self->settings.rule)->images == IMAGES_WHITENED;
}

/* The square of an entry of the M that h or v is multiplied by, for a row with this q. */
static double row_square(double q, group_image M)
{
    double square = q * q;
    return M == IMAGE_INVERSE ? 1 / square : M == IMAGE_Q ? square : M == IMAGE_P ? square * square : 1;
}

/* What v integrated out leaves: the sums over its rows, and ||M||_F^2 of the columns with its factor. */
typedef struct expectation {
    group_image of_h, of_v;
    double h_squares, v_squares; /* of the rows */
    double gain, loss;           /* lambda^2 times that of the image of h; that of v */
} expectation;

/* R_i, and in sum |R_i|, of the rows where v is integrated out; zero elsewhere. sum may be NULL. */
static void project_expected(const matrix *m, const expectation *e, double weight, bool all, const psgd_rows *rows,
                             bool present, real *R, real *sum)
{
    int64_t next = 0;
    for (int64_t i = 0; i < m->count; i++) {
        bool here = next < rows->count && rows->index[next] == i;
        next += here;
        bool counts = all || here == present;
        double q = (double)m->q[i], up = e->gain * row_square(q, e->of_h) / weight;
        double down = e->loss * row_square(q, e->of_v) / weight;
        R[i] = counts ? (real)(up - down) : 0;
        if (sum) sum[i] = counts ? (real)(up + down) : 0;
    }
}

/* Which rows v is integrated out of: all of them, or those present, or the others. */
typedef struct reach {
    bool any, all, present;
} reach;

static reach reach_of(const precond_settings *set)
{
    bool exact = set->rows != ROWS_LAZY;
    return (reach){.any = exact || set->integrate, .all = exact && set->integrate, .present = !exact};
}

static expectation expect(const psgd_precond *self, const matrix *m, reach where, const psgd_rows *rows, double damping)
{
    bool whitened = is_whitened(self);
    expectation e = {.of_h = whitened ? IMAGE_Q : IMAGE_P, .of_v = whitened ? IMAGE_INVERSE : IMAGE_IDENTITY};
    int64_t next = 0;
    if (!where.any) return e;
    for (int64_t i = 0; i < m->count; i++) {
        bool here = next < rows->count && rows->index[next] == i;
        next += here;
        if (!where.all && here != where.present) continue;
        e.h_squares += row_square((double)m->q[i], e.of_h);
        e.v_squares += row_square((double)m->q[i], e.of_v);
    }
    e.gain = damping > 0 ? damping * damping * psgd__group_energy(m->columns, e.of_h) : 0;
    e.loss = psgd__group_energy(m->columns, e.of_v);
    return e;
}

static void step_rows(update *u, const matrix *m, const whitened_pair *w, const expectation *e, reach where,
                      const psgd_rows *rows)
{
    psgd_precond *self = u->self;
    real *R = psgd__work_at(self->work, self->at_R);
    real *sum = normaliser_needs_second((norm_choice)self->settings.norm) ? R + self->r_size : NULL;
    if (where.any) {
        project_expected(m, e, whiten_weight(w->exponent), where.all, rows, where.present, R, sum);
    } else {
        memset(R, 0, (size_t)m->count * sizeof *R);
        if (sum) memset(sum, 0, (size_t)m->count * sizeof *sum);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        const real *A = w->pair.A.x + i * m->width, *B = w->pair.B.x ? w->pair.B.x + i * m->width : NULL;
        double a = la_dot(m->width, A, A), b = B ? la_dot(m->width, B, B) : 0;
        int64_t at = rows->index[i];
        R[at] = (real)((double)R[at] + a - b);
        if (sum) sum[at] = (real)((double)sum[at] + a + b);
    }
    if (u->rule->images == IMAGES_OWN) {
        for (int64_t i = 0; i < m->count; i++) {
            R[i] *= m->q[i] * m->q[i];
            sum[i] *= m->q[i] * m->q[i];
        }
    }
    double largest = (double)la_max_abs(m->count, R);
    group_pair empty = update_empty_pair(m->count);
    unit_measure measure = {.pair = &empty,
                            .R = R,
                            .second = sum,
                            .largest = largest,
                            .spectral = largest,
                            .exponent = u->exponent,
                            .weight = whiten_weight(u->exponent)};
    update_step(u, m->rows, &measure);
}

/* The start at the scale of the first pair, v on absent rows by its expectation. */
static void start(psgd_precond *self, const matrix *m, const psgd_rows *rows, whitened_pair *w)
{
    whiten_norms(rows->count * m->width, w);
    if (self->settings.rows != ROWS_LAZY) {
        double absent = (double)(m->count - rows->count) * (double)m->width;
        w->v_norm = hypot(w->v_norm, sqrt(absent));
        w->h_norm = hypot(w->h_norm, self->settings.damping * sqrt(absent));
    }
    start_from(self, w);
}

/* Qh and Q^-T v, or Ph and v, of the rows present. */
static void form_images(const psgd_precond *self, const matrix *m, const psgd_rows *rows, int64_t n, whitened_pair *w)
{
    const real *q = gather_q(self, m, rows);
    multiply(m, rows->count, q, false, w->pair.A.x);
    if (!is_whitened(self)) {
        whiten_range(n, w);
        multiply(m, rows->count, q, true, w->pair.A.x);
    } else if (w->pair.B.x) {
        solve(m, rows->count, q, true, w->pair.B.x);
    }
}

psgd_status PSGD_TYPED(psgd__precond_update_rows)(psgd_precond *self, const psgd_rows *rows, const void *v,
                                                  const void *h)
{
    matrix m = matrix_of(self);
    int64_t n = rows->count * m.width;
    whitened_pair w;
    if (n == 0) return PSGD_OK;
    PSGD_TRY(whiten_load(self, n, 1, v, h, &w));
    if (self->waiting) start(self, &m, rows, &w);

    reach where = reach_of(&self->settings);
    double floor = is_whitened(self) ? 0 : whiten_floor(self, n, &w), damping = hypot(self->settings.damping, floor);
    expectation e = expect(self, &m, where, rows, damping);
    form_images(self, &m, rows, n, &w);
    PSGD_TRY(whiten_level(n, sqrt(fmax(e.gain * e.h_squares, e.loss * e.v_squares)), &w));

    double weight = whiten_weight(w.exponent);
    group_pair pair = {.A = view_rows(w.pair.A.x, m.width, rows->count),
                       .B = view_rows(w.pair.B.x, m.width, rows->count),
                       .h = view_rows((real *)h, m.width, rows->count),
                       .v = view_rows(w.pair.v.x, m.width, rows->count),
                       .scaled = w.pair.scaled};
    if (where.any) {
        pair.gram[e.of_h] = damping * damping * e.h_squares / weight;
        pair.gram[e.of_v] = -e.v_squares / weight;
    }
    update u = update_begin(self, 1, &w);
    u.size = (double)n;
    step_rows(&u, &m, &w, &e, where, rows);
    PSGD_TRY(psgd__group_units(m.columns, &pair, update_unit, &u));
    update_count(&u);
    return PSGD_OK;
}
