/* Problems 21 to 35 of the paper: any number of unknowns. */
#include "problem/formula.h"

static scalar extended_rosenbrock(int i, const scalar *x, row *J)
{
    int k = i % 2 ? i : i - 1;
    if (i == k) {
        put(J, k, -20 * X(k));
        put(J, k + 1, 10);
        return 10 * (X(k + 1) - X(k) * X(k));
    }
    put(J, k, -1);
    return 1 - X(k);
}

/* Not of the paper: each unknown is chained to the next. */
static scalar chained_rosenbrock(int i, const scalar *x, row *J)
{
    if (i < J->n) {
        put(J, i, -20 * X(i));
        put(J, i + 1, 10);
        return 10 * (X(i + 1) - X(i) * X(i));
    }
    int k = i - J->n + 1;
    put(J, k, -1);
    return 1 - X(k);
}

static scalar penalty_1(int i, const scalar *x, row *J)
{
    if (i <= J->n) {
        put(J, i, sqrt(1e-5));
        return sqrt(1e-5) * (X(i) - 1);
    }
    scalar sum = -0.25;
    for (int j = 1; j <= J->n; j++) {
        sum += X(j) * X(j);
        put(J, j, 2 * X(j));
    }
    return sum;
}

static scalar penalty_2(int i, const scalar *x, row *J)
{
    const double a = sqrt(1e-5);
    if (i == 1) {
        put(J, 1, 1);
        return X(1) - 0.2;
    }
    if (i <= J->n) {
        scalar now = exp(X(i) / 10), before = exp(X(i - 1) / 10);
        put(J, i, a * now / 10);
        put(J, i - 1, a * before / 10);
        return a * (now + before - (exp(i / 10.0) + exp((i - 1) / 10.0)));
    }
    if (i < 2 * J->n) {
        scalar e = exp(X(i - J->n + 1) / 10);
        put(J, i - J->n + 1, a * e / 10);
        return a * (e - exp(-0.1));
    }
    scalar sum = -1;
    for (int j = 1; j <= J->n; j++) {
        sum += (J->n - j + 1) * X(j) * X(j);
        put(J, j, 2 * (J->n - j + 1) * X(j));
    }
    return sum;
}

static scalar variably_dimensioned(int i, const scalar *x, row *J)
{
    if (i <= J->n) {
        put(J, i, 1);
        return X(i) - 1;
    }
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) sum += j * (X(j) - 1);
    for (int j = 1; j <= J->n; j++) put(J, j, i == J->n + 1 ? (scalar)j : 2 * j * sum);
    return i == J->n + 1 ? sum : sum * sum;
}

static scalar trigonometric(int i, const scalar *x, row *J)
{
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) {
        sum += cos(X(j));
        put(J, j, sin(X(j)) * (j == i ? 1 + i : 1) - (j == i ? cos(X(j)) : 0));
    }
    return J->n - sum + i * (1 - cos(X(i))) - sin(X(i));
}

static scalar brown_almost_linear(int i, const scalar *x, row *J)
{
    if (i < J->n) {
        scalar sum = X(i) - (J->n + 1);
        for (int j = 1; j <= J->n; j++) {
            sum += X(j);
            put(J, j, j == i ? 2 : 1);
        }
        return sum;
    }
    scalar product = 1;
    for (int j = 1; j <= J->n; j++) {
        scalar others = 1;
        for (int k = 1; k <= J->n; k++) others *= k == j ? (scalar)1 : X(k);
        put(J, j, others);
        product *= X(j);
    }
    return product - 1;
}

static scalar discrete_boundary(int i, const scalar *x, row *J)
{
    double h = 1.0 / (J->n + 1), t = i * h;
    scalar c = X(i) + t + 1;
    put(J, i, 2 + 1.5 * h * h * c * c);
    if (i > 1) put(J, i - 1, -1);
    if (i < J->n) put(J, i + 1, -1);
    return 2 * X(i) - (i > 1 ? X(i - 1) : 0) - (i < J->n ? X(i + 1) : 0) + h * h * c * c * c / 2;
}

static scalar discrete_integral(int i, const scalar *x, row *J)
{
    double h = 1.0 / (J->n + 1), t = i * h;
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) {
        double weight = j <= i ? (1 - t) * j * h : t * (1 - j * h);
        scalar c = X(j) + j * h + 1;
        sum += weight * c * c * c;
        put(J, j, (j == i ? 1 : 0) + h / 2 * weight * 3 * c * c);
    }
    return X(i) + h / 2 * sum;
}

static scalar broyden_tridiagonal(int i, const scalar *x, row *J)
{
    put(J, i, 3 - 4 * X(i));
    if (i > 1) put(J, i - 1, -1);
    if (i < J->n) put(J, i + 1, -2);
    return (3 - 2 * X(i)) * X(i) - (i > 1 ? X(i - 1) : 0) - 2 * (i < J->n ? X(i + 1) : 0) + 1;
}

static scalar broyden_banded(int i, const scalar *x, row *J)
{
    scalar sum = X(i) * (2 + 5 * X(i) * X(i)) + 1;
    put(J, i, 2 + 15 * X(i) * X(i));
    for (int j = i > 5 ? i - 5 : 1; j <= i + 1 && j <= J->n; j++) {
        if (j == i) continue;
        sum -= X(j) * (1 + X(j));
        put(J, j, -1 - 2 * X(j));
    }
    return sum;
}

static scalar linear_full_rank(int i, const scalar *x, row *J)
{
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) {
        sum += X(j);
        put(J, j, (j == i ? 1 : 0) - 2.0 / J->m);
    }
    return (i <= J->n ? X(i) : 0) - 2.0 / J->m * sum - 1;
}

static scalar linear_rank_1(int i, const scalar *x, row *J)
{
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) {
        sum += j * X(j);
        put(J, j, (double)i * j);
    }
    return i * sum - 1;
}

static scalar linear_rank_1_zero(int i, const scalar *x, row *J)
{
    if (i == 1 || i == J->m) return -1;
    scalar sum = 0;
    for (int j = 2; j < J->n; j++) {
        sum += j * X(j);
        put(J, j, (i - 1.0) * j);
    }
    return (i - 1) * sum - 1;
}

/* T_i of 2x - 1 by its recursion, with the derivative's. */
static scalar chebyquad(int i, const scalar *x, row *J)
{
    scalar sum = 0;
    for (int j = 1; j <= J->n; j++) {
        scalar y = 2 * X(j) - 1, before = 1, now = y, d_before = 0, d_now = 2;
        for (int k = 2; k <= i; k++) {
            scalar next = 2 * y * now - before, d_next = 4 * now + 2 * y * d_now - d_before;
            before = now;
            now = next;
            d_before = d_now;
            d_now = d_next;
        }
        sum += now;
        put(J, j, d_now / J->n);
    }
    return sum / J->n + (i % 2 ? 0 : 1.0 / ((double)i * i - 1));
}
