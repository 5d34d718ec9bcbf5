#include "report/hessian.h"
#include "core/sort.h"
#include <psgd/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUT = HESSIAN_OUT, IN = HESSIAN_IN, N = HESSIAN_SIZE, TARGETS = 4, SAMPLES = 400 };

/* Streams of the numbers that the problem is made of. */
enum { STREAM_THETA, STREAM_W, STREAM_MIX, STREAM_SAMPLES };

static void draw(uint64_t seed, uint64_t stream, uint64_t step, int64_t count, double *x)
{
    (void)psgd_normal_fill(PSGD_F64, seed, stream, step, 0, count, x); /* its arguments are in order */
}

/* x_i = scale_i (z_i + 0.4 z_{i-1} + mean_i / 2), the last one 1. */
static void make_features(const double *z, const double *means, double *x)
{
    for (int i = 0; i < IN - 1; i++) {
        double scale = pow(10, 1.6 * i / (IN - 2) - 0.8);
        x[i] = scale * (z[i] + (i ? 0.4 * z[i - 1] : 0) + 0.5 * means[i]);
    }
    x[IN - 1] = 1;
}

/* Adds what one sample has: with f = tanh(Theta x), r = W f - y, block (i, j) of the Hessian is
 *     (W_i'W_j f'_i f'_j + [i = j] W_i'r f''_i) x x'. */
static void add_sample(const double *W, const double *theta, const double *x, const double *y, double *H)
{
    double f[OUT], slope[OUT], r[TARGETS];
    for (int i = 0; i < OUT; i++) {
        double s = 0;
        for (int k = 0; k < IN; k++) s += theta[i * IN + k] * x[k];
        f[i] = tanh(s);
        slope[i] = 1 - f[i] * f[i];
    }
    for (int t = 0; t < TARGETS; t++) {
        r[t] = -y[t];
        for (int i = 0; i < OUT; i++) r[t] += W[t * OUT + i] * f[i];
    }
    for (int i = 0; i < OUT; i++) {
        for (int j = 0; j < OUT; j++) {
            double c = 0;
            for (int t = 0; t < TARGETS; t++) {
                c += W[t * OUT + i] * W[t * OUT + j] * slope[i] * slope[j];
                if (i == j) c += W[t * OUT + i] * r[t] * -2 * f[i] * slope[i];
            }
            for (int k = 0; k < IN; k++) {
                double *row = H + (int64_t)(i * IN + k) * N + j * IN;
                for (int l = 0; l < IN; l++) row[l] += c * x[k] * x[l] / SAMPLES;
            }
        }
    }
}

void psgd__hessian_make(uint64_t seed, double *H)
{
    double theta[N], W[TARGETS * OUT], means[IN], z[IN + TARGETS], x[IN];
    draw(seed, STREAM_THETA, 0, N, theta);
    draw(seed, STREAM_W, 0, TARGETS * OUT, W);
    draw(seed, STREAM_MIX, 0, IN, means);
    for (int i = 0; i < N; i++) theta[i] *= 0.05;
    memset(H, 0, sizeof(double) * N * N);
    for (int s = 0; s < SAMPLES; s++) {
        draw(seed, STREAM_SAMPLES, (uint64_t)s, IN + TARGETS, z);
        make_features(z, means, x);
        for (int t = 0; t < TARGETS; t++) z[IN + t] *= 6;
        add_sample(W, theta, x, z + IN, H);
    }
}

/* M <- J' M J, J the rotation of axes i and j that makes M_ij zero. */
static void rotate(double *M, int i, int j)
{
    double off = M[i * N + j];
    if (off == 0) return;
    double angle = (M[j * N + j] - M[i * N + i]) / (2 * off);
    double t = copysign(1, angle) / (fabs(angle) + sqrt(1 + angle * angle)), c = 1 / sqrt(1 + t * t), s = t * c;
    for (int k = 0; k < N; k++) {
        double x = M[k * N + i], y = M[k * N + j];
        M[k * N + i] = c * x - s * y;
        M[k * N + j] = s * x + c * y;
    }
    for (int k = 0; k < N; k++) {
        double x = M[i * N + k], y = M[j * N + k];
        M[i * N + k] = c * x - s * y;
        M[j * N + k] = s * x + c * y;
    }
    M[i * N + j] = M[j * N + i] = 0;
}

/* Jacobi's method: sweeps over all pairs of axes until nothing is left off the diagonal. */
psgd_status psgd__hessian_eigenvalues(double *M, double *values)
{
    enum { SWEEPS = 60 };
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (int k = 0; k < N * N; k++) {
            all += M[k] * M[k];
            off += k % (N + 1) ? M[k] * M[k] : 0;
        }
        if (!isfinite(all)) break;
        if (off <= 1e-32 * all) {
            for (int i = 0; i < N; i++) values[i] = M[i * (N + 1)];
            psgd__sort(N, values);
            return PSGD_OK;
        }
        for (int i = 0; i < N; i++) {
            for (int j = i + 1; j < N; j++) rotate(M, i, j);
        }
    }
    return psgd__fail(PSGD_ERR_NOT_FINITE, "the eigenvalues of a Hessian did not converge");
}
