/* Problems 1 to 20 of the paper: a fixed number of unknowns, but for watson. */
#include "problem/formula.h"

/* The measurements that some problems fit. */
static const double bard_y[] = {0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39,
                                0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39};
static const double gaussian_y[] = {0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521, 0.3989,
                                    0.3521, 0.2420, 0.1295, 0.0540, 0.0175, 0.0044, 0.0009};
static const double meyer_y[] = {34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744,
                                 8261,  7030,  6005,  5147,  4427,  3820,  3307,  2872};
static const double kowalik_y[] = {0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627,
                                   0.0456, 0.0342, 0.0323, 0.0235, 0.0246};
static const double kowalik_u[] = {4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625};
static const double osborne_1_y[] = {0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751,
                                     0.718, 0.685, 0.658, 0.628, 0.603, 0.580, 0.558, 0.538, 0.522, 0.506, 0.490,
                                     0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411, 0.406};
static const double osborne_2_y[] = {1.366, 1.191, 1.112, 1.013, 0.991, 0.885, 0.831, 0.847, 0.786, 0.725, 0.746,
                                     0.679, 0.608, 0.655, 0.616, 0.606, 0.602, 0.626, 0.651, 0.724, 0.649, 0.649,
                                     0.694, 0.644, 0.624, 0.661, 0.612, 0.558, 0.533, 0.495, 0.500, 0.423, 0.395,
                                     0.375, 0.372, 0.391, 0.396, 0.405, 0.428, 0.429, 0.523, 0.562, 0.607, 0.653,
                                     0.672, 0.708, 0.633, 0.668, 0.645, 0.632, 0.591, 0.559, 0.597, 0.625, 0.739,
                                     0.710, 0.729, 0.720, 0.636, 0.581, 0.428, 0.292, 0.162, 0.098, 0.054};

static scalar rosenbrock(int i, const scalar *x, row *J)
{
    if (i == 1) {
        put(J, 1, -20 * X(1));
        put(J, 2, 10);
        return 10 * (X(2) - X(1) * X(1));
    }
    put(J, 1, -1);
    return 1 - X(1);
}

static scalar freudenstein_roth(int i, const scalar *x, row *J)
{
    put(J, 1, 1);
    if (i == 1) {
        put(J, 2, 10 * X(2) - 3 * X(2) * X(2) - 2);
        return -13 + X(1) + ((5 - X(2)) * X(2) - 2) * X(2);
    }
    put(J, 2, 3 * X(2) * X(2) + 2 * X(2) - 14);
    return -29 + X(1) + ((X(2) + 1) * X(2) - 14) * X(2);
}

static scalar powell_badly_scaled(int i, const scalar *x, row *J)
{
    if (i == 1) {
        put(J, 1, 1e4 * X(2));
        put(J, 2, 1e4 * X(1));
        return 1e4 * X(1) * X(2) - 1;
    }
    scalar a = exp(-X(1)), b = exp(-X(2));
    put(J, 1, -a);
    put(J, 2, -b);
    return a + b - 1.0001;
}

static scalar brown_badly_scaled(int i, const scalar *x, row *J)
{
    if (i < 3) {
        put(J, i, 1);
        return X(i) - (i == 1 ? 1e6 : 2e-6);
    }
    put(J, 1, X(2));
    put(J, 2, X(1));
    return X(1) * X(2) - 2;
}

static scalar beale(int i, const scalar *x, row *J)
{
    static const double y[] = {1.5, 2.25, 2.625};
    scalar power = i == 1 ? (scalar)1 : i == 2 ? X(2) : X(2) * X(2);
    put(J, 1, power * X(2) - 1);
    put(J, 2, i * X(1) * power);
    return y[i - 1] - X(1) * (1 - power * X(2));
}

static scalar jennrich_sampson(int i, const scalar *x, row *J)
{
    scalar a = exp(i * X(1)), b = exp(i * X(2));
    put(J, 1, -i * a);
    put(J, 2, -i * b);
    return 2 + 2 * i - (a + b);
}

static scalar helical_valley(int i, const scalar *x, row *J)
{
    scalar square = X(1) * X(1) + X(2) * X(2);
    if (i == 1) {
        double turn = RE(X(1)) < 0 ? 0.5 : 0;
        scalar angle = RE(X(1)) == 0 ? (scalar)copysign(0.25, RE(X(2))) : atan(X(2) / X(1)) / (2 * M_PI) + turn;
        put(J, 1, 100 * X(2) / (2 * M_PI * square));
        put(J, 2, -100 * X(1) / (2 * M_PI * square));
        put(J, 3, 10);
        return 10 * (X(3) - 10 * angle);
    }
    if (i == 2) {
        scalar radius = sqrt(square);
        put(J, 1, 10 * X(1) / radius);
        put(J, 2, 10 * X(2) / radius);
        return 10 * (radius - 1);
    }
    put(J, 3, 1);
    return X(3);
}

static scalar bard(int i, const scalar *x, row *J)
{
    double u = i, v = 16 - i, w = u < v ? u : v;
    scalar below = v * X(2) + w * X(3);
    put(J, 1, -1);
    put(J, 2, u * v / (below * below));
    put(J, 3, u * w / (below * below));
    return bard_y[i - 1] - (X(1) + u / below);
}

static scalar gaussian(int i, const scalar *x, row *J)
{
    double t = (8 - i) / 2.0;
    scalar d = t - X(3), e = exp(-X(2) * d * d / 2);
    put(J, 1, e);
    put(J, 2, -X(1) * e * d * d / 2);
    put(J, 3, X(1) * e * X(2) * d);
    return X(1) * e - gaussian_y[i - 1];
}

static scalar meyer(int i, const scalar *x, row *J)
{
    scalar below = 45 + 5 * i + X(3), e = exp(X(2) / below);
    put(J, 1, e);
    put(J, 2, X(1) * e / below);
    put(J, 3, -X(1) * X(2) * e / (below * below));
    return X(1) * e - meyer_y[i - 1];
}

static scalar gulf(int i, const scalar *x, row *J)
{
    double t = i / 100.0, y = 25 + pow(-50 * log(t), 2.0 / 3);
    scalar d = y - X(2), sign = RE(d) < 0 ? -1 : 1, distance = sign * d;
    if (RE(distance) == 0) return 1 - t;
    scalar power = pow(distance, X(3)), e = exp(-power / X(1));
    put(J, 1, e * power / (X(1) * X(1)));
    put(J, 2, e * power * X(3) * sign / (distance * X(1)));
    put(J, 3, -e * power * log(distance) / X(1));
    return e - t;
}

static scalar box_3d(int i, const scalar *x, row *J)
{
    double t = 0.1 * i, c = exp(-t) - exp(-10 * t);
    scalar a = exp(-t * X(1)), b = exp(-t * X(2));
    put(J, 1, -t * a);
    put(J, 2, t * b);
    put(J, 3, -c);
    return a - b - X(3) * c;
}

/* Also problem 22, on each four unknowns from x_{k+1}. */
static scalar powell_singular(int i, const scalar *x, row *J)
{
    int k = (i - 1) / 4 * 4;
    switch (i - k) {
    case 1:
        put(J, k + 1, 1);
        put(J, k + 2, 10);
        return X(k + 1) + 10 * X(k + 2);
    case 2:
        put(J, k + 3, sqrt(5.0));
        put(J, k + 4, -sqrt(5.0));
        return sqrt(5.0) * (X(k + 3) - X(k + 4));
    case 3: {
        scalar d = X(k + 2) - 2 * X(k + 3);
        put(J, k + 2, 2 * d);
        put(J, k + 3, -4 * d);
        return d * d;
    }
    default: {
        scalar d = X(k + 1) - X(k + 4);
        put(J, k + 1, 2 * sqrt(10.0) * d);
        put(J, k + 4, -2 * sqrt(10.0) * d);
        return sqrt(10.0) * d * d;
    }
    }
}

static scalar wood(int i, const scalar *x, row *J)
{
    switch (i) {
    case 1:
        put(J, 1, -20 * X(1));
        put(J, 2, 10);
        return 10 * (X(2) - X(1) * X(1));
    case 2:
        put(J, 1, -1);
        return 1 - X(1);
    case 3:
        put(J, 3, -2 * sqrt(90.0) * X(3));
        put(J, 4, sqrt(90.0));
        return sqrt(90.0) * (X(4) - X(3) * X(3));
    case 4:
        put(J, 3, -1);
        return 1 - X(3);
    case 5:
        put(J, 2, sqrt(10.0));
        put(J, 4, sqrt(10.0));
        return sqrt(10.0) * (X(2) + X(4) - 2);
    default:
        put(J, 2, 1 / sqrt(10.0));
        put(J, 4, -1 / sqrt(10.0));
        return (X(2) - X(4)) / sqrt(10.0);
    }
}

static scalar kowalik_osborne(int i, const scalar *x, row *J)
{
    double u = kowalik_u[i - 1];
    scalar above = u * u + u * X(2), below = u * u + u * X(3) + X(4);
    put(J, 1, -above / below);
    put(J, 2, -X(1) * u / below);
    put(J, 3, X(1) * above * u / (below * below));
    put(J, 4, X(1) * above / (below * below));
    return kowalik_y[i - 1] - X(1) * above / below;
}

static scalar brown_dennis(int i, const scalar *x, row *J)
{
    double t = i / 5.0;
    scalar a = X(1) + t * X(2) - exp(t), b = X(3) + X(4) * sin(t) - cos(t);
    put(J, 1, 2 * a);
    put(J, 2, 2 * a * t);
    put(J, 3, 2 * b);
    put(J, 4, 2 * b * sin(t));
    return a * a + b * b;
}

static scalar osborne_1(int i, const scalar *x, row *J)
{
    double t = 10 * (i - 1);
    scalar a = exp(-t * X(4)), b = exp(-t * X(5));
    put(J, 1, -1);
    put(J, 2, -a);
    put(J, 3, -b);
    put(J, 4, t * X(2) * a);
    put(J, 5, t * X(3) * b);
    return osborne_1_y[i - 1] - (X(1) + X(2) * a + X(3) * b);
}

static scalar biggs_exp6(int i, const scalar *x, row *J)
{
    double t = 0.1 * i, y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t);
    scalar a = exp(-t * X(1)), b = exp(-t * X(2)), c = exp(-t * X(5));
    put(J, 1, -t * X(3) * a);
    put(J, 2, t * X(4) * b);
    put(J, 3, a);
    put(J, 4, -b);
    put(J, 5, -t * X(6) * c);
    put(J, 6, c);
    return X(3) * a - X(4) * b + X(6) * c - y;
}

static scalar osborne_2(int i, const scalar *x, row *J)
{
    double t = (i - 1) / 10.0;
    scalar e = exp(-t * X(5)), sum = X(1) * e;
    put(J, 1, -e);
    put(J, 5, t * X(1) * e);
    for (int k = 0; k < 3; k++) {
        scalar d = t - X(9 + k), bell = exp(-d * d * X(6 + k));
        put(J, 2 + k, -bell);
        put(J, 6 + k, X(2 + k) * d * d * bell);
        put(J, 9 + k, -2 * X(2 + k) * X(6 + k) * d * bell);
        sum += X(2 + k) * bell;
    }
    return osborne_2_y[i - 1] - sum;
}

static scalar watson(int i, const scalar *x, row *J)
{
    if (i == 30) {
        put(J, 1, 1);
        return X(1);
    }
    if (i == 31) {
        put(J, 1, -2 * X(1));
        put(J, 2, 1);
        return X(2) - X(1) * X(1) - 1;
    }
    double t = i / 29.0, power = 1;
    scalar slope = 0, sum = 0;
    for (int j = 1; j <= J->n; j++, power *= t) {
        if (j > 1) slope += (j - 1) * X(j) * power / t;
        sum += X(j) * power;
    }
    power = 1;
    for (int j = 1; j <= J->n; j++, power *= t) put(J, j, (j - 1) * power / t - 2 * sum * power);
    return slope - sum * sum - 1;
}
