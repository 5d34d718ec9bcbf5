#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *matrix(int64_t rows, int64_t columns)
{
    return calloc((size_t)(rows * columns + 1), sizeof(double));
}

/* ---- specs ---- */

static const struct {
    const char *name;
    ref_kind kind, transposed;
} names[] = {
    {"identity", REF_IDENTITY, REF_IDENTITY},
    {"scale", REF_SCALE, REF_SCALE},
    {"diag", REF_DIAG, REF_DIAG},
    {"tri", REF_TRI, REF_TRIL},
    {"tril", REF_TRIL, REF_TRI},
    {"dense", REF_DENSE, REF_DENSE},
    {"norm", REF_NORM, REF_NORML},
    {"bnorm", REF_BNORM, REF_BNORML},
    {"xmat", REF_XMAT, REF_XMAT},
    {"block", REF_BLOCK, REF_BLOCKL},
    {"sum", REF_SUM, REF_SUM},
    {"kron", REF_KRON, REF_KRON},
    {"tiles", REF_TILES, REF_TILES},
};

static void skip(const char **at)
{
    while (**at == ' ') ++*at;
}

static ref_node *new_node(ref_kind kind)
{
    ref_node *node = calloc(1, sizeof *node);
    node->kind = kind;
    node->n = -1;
    return node;
}

static ref_node *alias(const char *name, bool transposed)
{
    bool scan = !strcmp(name, "scan"), scaw = !strcmp(name, "scaw");
    if (!scan && !scaw) return NULL;
    ref_node *node = new_node(REF_KRON);
    node->child_count = 2;
    node->child[0] = new_node(REF_DIAG);
    node->child[1] = new_node(scan ? (transposed ? REF_NORML : REF_NORM) : transposed ? REF_TRIL : REF_TRI);
    return node;
}

static ref_node *parse(const char **at, bool transposed)
{
    char name[32] = "";
    skip(at);
    size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
    memcpy(name, *at, length);
    *at += length;
    skip(at);
    if (!strcmp(name, "t")) {
        ++*at;
        ref_node *inner = parse(at, !transposed);
        skip(at);
        if (**at == ':') inner->n = strtoll(*at + 1, (char **)at, 10);
        skip(at);
        ++*at;
        return inner;
    }
    ref_node *node = alias(name, transposed);
    for (size_t i = 0; !node && i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i].name, name)) node = new_node(transposed ? names[i].transposed : names[i].kind);
    }
    if (!node) abort();
    if (**at != '(') return node;
    if (node->kind == REF_TILES) {
        node->text = *at + 1;
        node->turned = transposed;
        ++*at;
        ref_free(parse(at, transposed));
        *at = strchr(*at, ',');
        node->down = strtoll(*at + 1, (char **)at, 10);
        *at = strchr(*at, ',');
        node->across = strtoll(*at + 1, (char **)at, 10);
        *at = strchr(*at, ')') + 1;
        return node;
    }
    do {
        ++*at;
        ref_node *child = node->child[node->child_count++] = parse(at, transposed);
        skip(at);
        if (**at == ':') child->n = strtoll(*at + 1, (char **)at, 10);
        skip(at);
    } while (**at == ',');
    ++*at;
    return node;
}

/* Sizes from below: a sum adds, a kron multiplies; -1 where something is open. */
static int64_t size_up(ref_node *node)
{
    if (!node->child_count) return node->n;
    int64_t total = node->kind == REF_KRON;
    bool open = false;
    for (int i = 0; i < node->child_count; i++) {
        int64_t part = size_up(node->child[i]);
        if (part < 0) open = true;
        total = node->kind == REF_KRON ? total * part : total + part;
    }
    if (!open) node->n = total;
    return node->n;
}

static void size_down(ref_node *node, int64_t n)
{
    int64_t left = n;
    node->n = n;
    if (!node->fibres) node->fibres = 1;
    if (node->kind != REF_KRON) {
        for (int i = 0; i < node->child_count; i++) left -= node->child[i]->n > 0 ? node->child[i]->n : 0;
    }
    for (int i = 0; i < node->child_count; i++) {
        ref_node *child = node->child[i];
        if (child->n < 0) child->n = left;
        child->fibres = node->fibres * (node->kind == REF_KRON ? n / child->n : 1);
        size_down(child, child->n);
    }
}

static ref_node *fit(const char *spec, bool transposed, int ndim, const int64_t *shape);

/* Rows and columns are shared out one by one, so that the first parts have one more. */
static void cut(ref_node *node, const int64_t *shape)
{
    int64_t at = 0, row = 0;
    node->n = shape[0] * shape[1];
    node->fibres = 1;
    for (int64_t i = 0; i < node->down; i++) {
        int64_t rows = (shape[0] + node->down - 1 - i) / node->down, column = 0;
        for (int64_t j = 0; j < node->across; j++) {
            int64_t columns = (shape[1] + node->across - 1 - j) / node->across;
            node->child[node->child_count++] = fit(node->text, node->turned, 2, (int64_t[]){rows, columns});
            for (int64_t e = 0; e < rows * columns; e++) {
                node->order[at++] = (row + e / columns) * shape[1] + column + e % columns;
            }
            column += columns;
        }
        row += rows;
    }
}

static ref_node *fit(const char *spec, bool transposed, int ndim, const int64_t *shape)
{
    ref_node *root = parse(&spec, transposed);
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    if (root->kind == REF_TILES) {
        cut(root, shape);
        return root;
    }
    for (int i = 0; root->kind == REF_KRON && i < ndim; i++) root->child[i]->n = shape[i];
    size_up(root);
    size_down(root, n);
    return root;
}

ref_node *ref_parse(const char *spec, int ndim, const int64_t *shape)
{
    return fit(spec, false, ndim, shape);
}

double *ref_tile_rows(const ref_node *tiles, const double *X, int64_t k)
{
    double *Y = matrix(tiles->n, k);
    for (int64_t i = 0; i < tiles->n; i++) memcpy(Y + i * k, X + tiles->order[i] * k, (size_t)k * sizeof(double));
    return Y;
}

double *ref_tile_matrix(const ref_node *tiles, const double *Q, bool back)
{
    int64_t n = tiles->n;
    double *Y = matrix(n, n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            int64_t there = tiles->order[i] * n + tiles->order[j], here = i * n + j;
            Y[back ? there : here] = Q[back ? here : there];
        }
    }
    return Y;
}

void ref_free(ref_node *node)
{
    if (!node) return;
    for (int i = 0; i < node->child_count; i++) ref_free(node->child[i]);
    free(node);
}

/* ---- matrices ---- */

void ref_multiply(int64_t m, int64_t k, int64_t n, const double *A, const double *B, double *C)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += (long double)A[i * k + l] * B[l * n + j];
            C[i * n + j] = (double)sum;
        }
    }
}

void ref_transpose(int64_t m, int64_t n, const double *A, double *T)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) T[j * m + i] = A[i * n + j];
    }
}

void ref_kronecker(int64_t m, const double *A, int64_t n, const double *B, double *C)
{
    for (int64_t i = 0; i < m * n; i++) {
        for (int64_t j = 0; j < m * n; j++) C[i * m * n + j] = A[i / n * m + j / n] * B[i % n * n + j % n];
    }
}

bool ref_invert(int64_t n, const double *A, double *inverse)
{
    int64_t w = 2 * n;
    long double *M = calloc((size_t)(n * w + 1), sizeof *M);
    bool regular = true;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) M[i * w + j] = A[i * n + j];
        M[i * w + n + i] = 1;
    }
    for (int64_t c = 0; c < n && regular; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < n; r++) best = fabsl(M[r * w + c]) > fabsl(M[best * w + c]) ? r : best;
        regular = M[best * w + c] != 0;
        for (int64_t j = 0; j < w && regular; j++) {
            long double swap = M[c * w + j];
            M[c * w + j] = M[best * w + j];
            M[best * w + j] = swap;
        }
        for (int64_t r = 0; r < n && regular; r++) {
            if (r == c || M[r * w + c] == 0) continue;
            long double f = M[r * w + c] / M[c * w + c];
            for (int64_t j = c; j < w; j++) M[r * w + j] -= f * M[c * w + j];
        }
    }
    for (int64_t i = 0; i < n && regular; i++) {
        for (int64_t j = 0; j < n; j++) inverse[i * n + j] = (double)(M[i * w + n + j] / M[i * w + i]);
    }
    free(M);
    return regular;
}

/* ---- projections ---- */

/* Entry (i, j) of a pattern; scale and identity are treated apart. */
static bool in_pattern(ref_kind kind, int64_t n, int64_t i, int64_t j)
{
    switch (kind) {
    case REF_TRI:
        return j >= i;
    case REF_TRIL:
        return j <= i;
    case REF_DENSE:
        return true;
    case REF_NORM:
        return i == j || j == n - 1;
    case REF_NORML:
        return i == j || i == n - 1;
    case REF_BNORM:
        return (i == j || j == n - 1) && !(i == n - 1 && j == n - 1);
    case REF_BNORML:
        return (i == j || i == n - 1) && !(i == n - 1 && j == n - 1);
    case REF_XMAT:
        return i == j || i == n - 1 - j;
    case REF_DIAG:
        return i == j;
    default:
        return false;
    }
}

static void project(const ref_node *node, const double *S, int64_t ld, double *out)
{
    int64_t n = node->n, k = node->child_count ? node->child[0]->n : 0, at = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            bool keep = in_pattern(node->kind, n, i, j);
            if (node->kind == REF_BLOCK) keep = i < k && j >= k;
            if (node->kind == REF_BLOCKL) keep = i >= k && j < k;
            out[i * ld + j] = keep ? S[i * ld + j] : 0;
        }
    }
    if (node->kind == REF_SCALE) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++) mean += S[i * ld + i] / (double)n;
        for (int64_t i = 0; i < n; i++) out[i * ld + i] = mean;
    }
    for (int i = 0; i < node->child_count; i++) {
        project(node->child[i], S + at * ld + at, ld, out + at * ld + at);
        at += node->child[i]->n;
    }
}

void ref_project(const ref_node *node, const double *S, double *out)
{
    project(node, S, node->n, out);
}

/* ---- one update ---- */

static double largest(int64_t n, const double *R)
{
    double max = 0;
    for (int64_t i = 0; i < n * n; i++) max = fmax(max, fabs(R[i]));
    return max;
}

/* min(||R||_F, sqrt(||R||_1 ||R||_inf)) */
static double bound(int64_t n, const double *R)
{
    double squares = 0, row = 0, column = 0;
    for (int64_t i = 0; i < n; i++) {
        double across = 0, down = 0;
        for (int64_t j = 0; j < n; j++) {
            across += fabs(R[i * n + j]);
            down += fabs(R[j * n + i]);
            squares += R[i * n + j] * R[i * n + j];
        }
        row = fmax(row, across);
        column = fmax(column, down);
    }
    return fmin(sqrt(squares), sqrt(row * column));
}

/* ||R||_2 as the root of the largest eigenvalue of R'R, by many squarings of it. */
double ref_spectral_norm(int64_t n, const double *R)
{
    double *T = matrix(n, n), *M = matrix(n, n), *N = matrix(n, n), log_norm = 0, power = 1;
    ref_transpose(n, n, R, T);
    ref_multiply(n, n, n, T, R, M);
    for (int k = 0; k < 60; k++) {
        double max = largest(n, M);
        if (max == 0) break;
        for (int64_t i = 0; i < n * n; i++) M[i] /= max;
        log_norm += log(max) * power;
        power /= 2;
        ref_multiply(n, n, n, M, M, N);
        memcpy(M, N, (size_t)(n * n) * sizeof(double));
    }
    double result = largest(n, R) == 0 ? 0 : exp(log_norm / 2);
    free(T);
    free(M);
    free(N);
    return result;
}

static double spectral(const ref_node *node, const double *R, const ref_options *options, bool one_fibre)
{
    ref_kind kind = node->kind;
    if (kind == REF_XMAT) return ref_spectral_norm(node->n, R);
    if (kind == REF_DENSE && one_fibre && options->exact_dense) return ref_spectral_norm(node->n, R);
    bool diagonal = kind == REF_DIAG || kind == REF_SCALE || kind == REF_IDENTITY;
    return diagonal ? largest(node->n, R) : bound(node->n, R);
}

/* S <- sum over columns of (AA' + sign BB') / count */
static void outer(int64_t n, const double *A, int64_t ka, const double *B, int64_t kb, double sign, double count,
                  double *S)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < ka; k++) sum += (long double)A[i * ka + k] * A[j * ka + k];
            for (int64_t k = 0; k < kb; k++) sum += sign * (long double)B[i * kb + k] * B[j * kb + k];
            S[i * n + j] = (double)(sum / count);
        }
    }
}

/* ||T||_2 for second: estimated where the unit is dense. */
static double second_norm(const ref_node *node, const double *T, const ref_options *o, bool one_fibre)
{
    if (node->kind == REF_DENSE && o->estimate) return o->estimate(o->data, node, o->unit, false, T);
    return spectral(node, T, o, one_fibre);
}

/* The diagonal of S (leading dimension ld) over what the group fixes. */
static double fixed_trace(const ref_node *node, int64_t ld, const double *S)
{
    double sum = 0;
    int64_t at = 0;
    for (int i = 0; i < node->child_count; at += node->child[i++]->n) {
        sum += fixed_trace(node->child[i], ld, S + at * ld + at);
    }
    bool corner = node->kind == REF_BNORM || node->kind == REF_BNORML;
    for (int64_t i = 0; i < node->n; i++) {
        if (node->kind == REF_IDENTITY || (corner && i == node->n - 1)) sum += S[i * ld + i];
    }
    return sum;
}

bool ref_unprotected(const ref_node *node)
{
    bool any = node->kind == REF_DENSE || node->kind == REF_XMAT;
    for (int i = 0; i < node->child_count; i++) any = any || ref_unprotected(node->child[i]);
    return any;
}

/* The diagonal of R by itself: each entry is a group of size 1. */
static void take_signs(int64_t n, double *R)
{
    for (int64_t i = 0; i < n; i++) R[i * n + i] = (R[i * n + i] > 0) - (R[i * n + i] < 0);
}

void ref_unit_step(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o, double *cR)
{
    int64_t n = node->n;
    double *S = matrix(n, n), *T = matrix(n, n), c = 2 * o->step;
    bool one_fibre = ka == 1 && kb == 1;
    outer(n, A, ka, B, kb, -1, (double)o->count, S);
    ref_project(node, S, cR);
    ref_norm norm = o->norm != REF_AUTO ? o->norm : o->unprotected ? REF_SPECTRAL : REF_MAX;
    if (norm == REF_MAX) c = o->step / largest(n, cR);
    if (norm == REF_SPECTRAL) c = o->step / spectral(node, cR, o, one_fibre);
    if (o->norm == REF_AUTO && node->kind == REF_DIAG && !o->in_kron) {
        take_signs(n, cR);
        c = o->step;
    }
    if (o->norm == REF_SECOND) {
        outer(n, A, ka, B, kb, 1, (double)o->count, S);
        ref_project(node, S, T);
        double now = second_norm(node, T, o, one_fibre) + fixed_trace(node, n, S);
        node->running = fmax(0.9 * node->running + 0.1 * now, now);
        c = o->step / node->running;
    }
    o->unit++;
    if (largest(n, cR) == 0) c = 0;
    for (int64_t i = 0; i < n * n; i++) cR[i] *= c;
    free(S);
    free(T);
}

static void step_unit(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
                      double *E)
{
    int64_t n = node->n;
    ref_unit_step(node, A, ka, B, kb, o, E);
    for (int64_t i = 0; i < n * n; i++) E[i] = (i / n == i % n) - E[i];
}

/* Tiles share nothing, the numbers of their units included. */
static void step_tiles(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
                       double *E)
{
    int64_t n = node->n, at = 0;
    double *a = ref_tile_rows(node, A, ka), *b = ref_tile_rows(node, B, kb), *all = matrix(n, n);
    for (int p = 0; p < node->child_count; p++) {
        int64_t m = node->child[p]->n;
        double *part = matrix(m, m);
        o->unit = 0;
        ref_step(node->child[p], a + at * ka, ka, b + at * kb, kb, o, part);
        for (int64_t i = 0; i < m; i++) memcpy(all + (at + i) * n + at, part + i * m, (size_t)m * sizeof(double));
        free(part);
        at += m;
    }
    double *back = ref_tile_matrix(node, all, true);
    memcpy(E, back, (size_t)(n * n) * sizeof(double));
    free(a);
    free(b);
    free(all);
    free(back);
}

static void step_sum(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
                     double *E)
{
    int64_t n = node->n, at = 0;
    memset(E, 0, (size_t)(n * n) * sizeof(double));
    for (int p = 0; p < node->child_count; p++) {
        int64_t m = node->child[p]->n;
        double *part = matrix(m, m);
        ref_step(node->child[p], A + at * ka, ka, B + at * kb, kb, o, part);
        for (int64_t i = 0; i < m; i++) memcpy(E + (at + i) * n + at, part + i * m, (size_t)m * sizeof(double));
        free(part);
        at += m;
    }
}

double *ref_fibres(const ref_node *kron, int i, const double *X, int64_t k)
{
    int64_t after = 1, n = kron->n, m = kron->child[i]->n;
    for (int j = i + 1; j < kron->child_count; j++) after *= kron->child[j]->n;
    int64_t each = n / m, count = each * k;
    double *F = matrix(m, count);
    for (int64_t e = 0; e < n; e++) {
        int64_t index = e / after % m, rest = e / (after * m) * after + e % after;
        for (int64_t c = 0; c < k; c++) F[index * count + c * each + rest] = X[e * k + c];
    }
    return F;
}

void ref_factor_step(ref_node *kron, int i, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
                     double *E)
{
    int64_t each = kron->n / kron->child[i]->n;
    double *a = ref_fibres(kron, i, A, ka), *b = ref_fibres(kron, i, B, kb);
    bool outside = o->in_kron;
    o->in_kron = true;
    ref_step(kron->child[i], a, ka * each, b, kb * each, o, E);
    o->in_kron = outside;
    free(a);
    free(b);
}

static void step_kron(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o,
                      double *E)
{
    int64_t done = 1;
    double *all = matrix(node->n, node->n), *next = matrix(node->n, node->n);
    all[0] = 1;
    for (int i = 0; i < node->child_count; i++) {
        int64_t m = node->child[i]->n;
        double *factor = matrix(m, m);
        ref_factor_step(node, i, A, ka, B, kb, o, factor);
        ref_kronecker(done, all, m, factor, next);
        done *= m;
        memcpy(all, next, (size_t)(done * done) * sizeof(double));
        free(factor);
    }
    memcpy(E, all, (size_t)(done * done) * sizeof(double));
    free(all);
    free(next);
}

void ref_step(ref_node *node, const double *A, int64_t ka, const double *B, int64_t kb, ref_options *o, double *E)
{
    if (node->kind == REF_SUM) {
        step_sum(node, A, ka, B, kb, o, E);
    } else if (node->kind == REF_KRON) {
        step_kron(node, A, ka, B, kb, o, E);
    } else if (node->kind == REF_TILES) {
        step_tiles(node, A, ka, B, kb, o, E);
    } else {
        step_unit(node, A, ka, B, kb, o, E);
    }
}

/* ---- membership ---- */

static double outside(const ref_node *node, const double *Q, int64_t ld, bool scaled);

/* Takes Q apart at its largest entry: the first factor and the rest. */
static double outside_kron(const ref_node *node, const double *Q, int64_t ld)
{
    ref_node rest = *node;
    int64_t m = node->child[0]->n, r = node->n / m, at = 0, n = node->n;
    double max = 0, worst = 0;
    if (node->child_count == 1) return outside(node->child[0], Q, ld, true);
    for (int64_t i = 0; i < n * n; i++) {
        if (fabs(Q[i / n * ld + i % n]) <= max) continue;
        max = fabs(Q[i / n * ld + i % n]);
        at = i;
    }
    int64_t row = at / n, column = at % n;
    double *first = matrix(m, m), *other = matrix(r, r);
    for (int64_t i = 0; i < m * m; i++) first[i] = Q[(i / m * r + row % r) * ld + i % m * r + column % r];
    for (int64_t i = 0; i < r * r; i++) other[i] = Q[(row / r * r + i / r) * ld + column / r * r + i % r];
    for (int64_t i = 0; i < n * n; i++) {
        int64_t a = i / n, b = i % n;
        double product = first[a / r * m + b / r] * other[a % r * r + b % r] / Q[row * ld + column];
        worst = fmax(worst, fabs(product - Q[a * ld + b]));
    }
    rest.n = r;
    rest.child_count--;
    memmove(rest.child, rest.child + 1, sizeof rest.child - sizeof rest.child[0]);
    worst = fmax(worst, outside(node->child[0], first, m, true));
    worst = fmax(worst, outside(&rest, other, r, true));
    free(first);
    free(other);
    return worst;
}

static double outside_block(const ref_node *node, const double *Q, int64_t ld, bool scaled)
{
    int64_t n = node->n, at = 0;
    double worst = 0;
    for (int p = 0; p < node->child_count; p++) {
        int64_t m = node->child[p]->n;
        for (int64_t i = at; i < at + m; i++) {
            for (int64_t j = 0; j < n; j++) {
                bool own = j >= at && j < at + m;
                bool coupling = (node->kind == REF_BLOCK && j >= at + m) || (node->kind == REF_BLOCKL && j < at);
                if (!own && !coupling) worst = fmax(worst, fabs(Q[i * ld + j]));
            }
        }
        worst = fmax(worst, outside(node->child[p], Q + at * ld + at, ld, scaled));
        at += m;
    }
    return worst;
}

static double outside(const ref_node *node, const double *Q, int64_t ld, bool scaled)
{
    int64_t n = node->n;
    double worst = 0;
    if (node->kind == REF_KRON) return outside_kron(node, Q, ld);
    if (node->kind == REF_TILES) { /* only at the root: ld is n */
        double *tiles = ref_tile_matrix(node, Q, false);
        worst = outside_block(node, tiles, n, scaled);
        free(tiles);
        return worst;
    }
    if (node->child_count) return outside_block(node, Q, ld, scaled);
    bool multiple = node->kind == REF_SCALE || node->kind == REF_IDENTITY;
    bool corner = node->kind == REF_BNORM || node->kind == REF_BNORML;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double q = Q[i * ld + j];
            if (multiple) q -= i != j ? 0 : node->kind == REF_IDENTITY && !scaled ? 1 : Q[0];
            if (corner && i == n - 1 && j == n - 1) {
                q = scaled ? 0 : q - 1;
            } else if (!multiple && in_pattern(node->kind, n, i, j)) {
                q = 0;
            }
            worst = fmax(worst, fabs(q));
        }
    }
    return worst;
}

double ref_outside(const ref_node *node, const double *Q)
{
    return outside(node, Q, node->n, false);
}
