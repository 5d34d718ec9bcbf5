/* QL with implicit shifts. Small matrices only, so plain loops. */
#include "la/eigen.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MAX_ITERATIONS = 60 }; /* per eigenvalue; two are usual */

/* Rotates vectors i and i + 1. */
static void rotate(int64_t n, int64_t i, double c, double s, double *vectors)
{
    double *a = vectors + i * n, *b = a + n;
    for (int64_t k = 0; k < n; k++) {
        double old = b[k];
        b[k] = s * a[k] + c * old;
        a[k] = c * a[k] - s * old;
    }
}

/* One step on rows first .. last, from the bottom up. */
static void ql_step(int64_t n, int64_t first, int64_t last, double *d, double *e, double *vectors)
{
    double g = (d[first + 1] - d[first]) / (2 * e[first]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[last] - d[first] + e[first] / (g + copysign(r, g));
    for (int64_t i = last - 1; i >= first; i--) {
        double f = s * e[i], b = c * e[i];
        e[i + 1] = r = hypot(f, g);
        if (r == 0) {
            d[i + 1] -= p;
            e[last] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotate(n, i, c, s, vectors);
    }
    d[first] -= p;
    e[first] = g;
    e[last] = 0;
}

static void sort(int64_t n, double *d, double *vectors)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t min = i;
        for (int64_t j = i + 1; j < n; j++) {
            if (d[j] < d[min]) min = j;
        }
        double value = d[i];
        d[i] = d[min];
        d[min] = value;
        for (int64_t k = 0; k < n; k++) {
            value = vectors[i * n + k];
            vectors[i * n + k] = vectors[min * n + k];
            vectors[min * n + k] = value;
        }
    }
}

/* Of the matrix with diagonal d and off-diagonal e; e has n elements, the last is scratch. */
static bool ql(int64_t n, double *d, double *e, double *vectors)
{
    for (int64_t first = 0; first < n; first++) {
        for (int iteration = 0;; iteration++) {
            int64_t last = first;
            while (last < n - 1 && !(fabs(e[last]) <= DBL_EPSILON * (fabs(d[last]) + fabs(d[last + 1])))) last++;
            if (last == first) break;
            if (iteration == MAX_ITERATIONS) return false;
            ql_step(n, first, last, d, e, vectors);
        }
    }
    sort(n, d, vectors);
    return true;
}

bool psgd__la_tridiagonal(int n, double *diagonal, const double *off_diagonal, double *vectors, double *work)
{
    memcpy(work, off_diagonal, (size_t)(n - 1) * sizeof *work);
    work[n - 1] = 0;
    memset(vectors, 0, (size_t)n * (size_t)n * sizeof *vectors);
    for (int i = 0; i < n; i++) vectors[i * n + i] = 1;
    return ql(n, diagonal, work, vectors);
}
