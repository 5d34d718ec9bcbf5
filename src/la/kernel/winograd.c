/* The small linear maps of Winograd convolution (la/network/winograd.c): Y = start + L X L' or L'X L on rows of
 * samples.
 *
 * With the points a_j and infinity, T in all, m outputs and a window of r along each axis, T = m + r - 1:
 *   A [T, m]: powers a_j^i; for infinity the last unit vector
 *   B [T, T]: row j has the coefficients of the product of x - a_l over all l but j; for infinity over all l
 *   G [T, r]: powers a_j^i over the product of a_j - a_l, l not j; for infinity the last unit vector
 * and a'((G w) (B x)) with a = A is the correlation of w and x. The points were chosen for the smallest error in f32,
 * among halves, quarters and eighths in pairs: an rms error of 1.0e-6 for windows of 3 and 3.7e-6 for windows of 5
 * against 0.3e-6 for the plain sum (96 channels of normal deviates), each axis having a share in it. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

enum { MAX = 8, OUTPUTS = 4 };

#define P  (5.0 / 8)
#define Q  (3.0 / 2)
#define PP (P * P)
#define QQ (Q * Q)
#define GP (1 / (2 * PP * (PP - QQ)))
#define GQ (1 / (2 * QQ * (QQ - PP)))

static const real A3[6][4] = {
    {1, 0, 0, 0}, {1, P, PP, PP *P}, {1, -P, PP, -PP *P}, {1, Q, QQ, QQ *Q}, {1, -Q, QQ, -QQ *Q}, {0, 0, 0, 1},
};
static const real B3[6][6] = {
    {PP * QQ, 0, -PP - QQ, 0, 1, 0}, {0, -P *QQ, -QQ, P, 1, 0}, {0, P *QQ, -QQ, -P, 1, 0},
    {0, -Q *PP, -PP, Q, 1, 0},       {0, Q *PP, -PP, -Q, 1, 0}, {0, PP *QQ, 0, -PP - QQ, 0, 1},
};
static const real G3[6][3] = {
    {1 / (PP * QQ), 0, 0}, {GP, GP *P, GP *PP},  {GP, -GP *P, GP *PP},
    {GQ, GQ *Q, GQ *QQ},   {GQ, -GQ *Q, GQ *QQ}, {0, 0, 1},
};

/* Points 0, 1/2, -1/2, 1, -1, 2, -2 and infinity. */
static const real A5[8][4] = {
    {1, 0, 0, 0},   {1, 0.5, 0.25, 0.125}, {1, -0.5, 0.25, -0.125}, {1, 1, 1, 1},
    {1, -1, 1, -1}, {1, 2, 4, 8},          {1, -2, 4, -8},          {0, 0, 0, 1},
};
static const real B5[8][8] = {
    {-1, 0, 5.25, 0, -5.25, 0, 1, 0},      {0, 2, 4, -2.5, -5, 0.5, 1, 0},    {0, -2, 4, 2.5, -5, -0.5, 1, 0},
    {0, 1, 1, -4.25, -4.25, 1, 1, 0},      {0, -1, 1, 4.25, -4.25, -1, 1, 0}, {0, 0.5, 0.25, -2.5, -1.25, 2, 1, 0},
    {0, -0.5, 0.25, 2.5, -1.25, -2, 1, 0}, {0, -1, 0, 5.25, 0, -5.25, 0, 1},
};
#define F(a, f)                                                                                                        \
    {                                                                                                                  \
        1.0 / (f), (a) / (f), (a) * (a) / (f), (a) * (a) * (a) / (f), (a) * (a) * (a) * (a) / (f)                      \
    }
static const real G5[8][5] = {
    {-1, 0, 0, 0, 0}, F(0.5, 1.40625), F(-0.5, 1.40625), F(1.0, -4.5),
    F(-1.0, -4.5),    F(2.0, 90.0),    F(-2.0, 90.0),    {0, 0, 0, 0, 1},
};

/* L is rows x columns, or with transpose the other way round in memory. */
typedef struct map {
    const real *L;
    int rows, columns;
    bool transpose;
} map;

/* y <- L x on vectors; entries of L are known when this is compiled, and those that are zero drop out. */
ALWAYS_INLINE void apply(map m, const vec *x, vec *y)
{
#pragma GCC unroll 8
    for (int i = 0; i < m.rows; i++) {
        vec sum = {0};
        bool first = true;
#pragma GCC unroll 8
        for (int j = 0; j < m.columns; j++) {
            real l = m.transpose ? m.L[j * m.rows + i] : m.L[i * m.columns + j];
            if (l == 0) continue;
            vec term = x[j];
            if (l != 1) term *= l;
            if (first) sum = term;
            if (!first) sum += term;
            first = false;
        }
        y[i] = sum;
    }
}

ALWAYS_INLINE vec load(const real *x, int64_t count)
{
    if (count < LANES) return vec_load_some(x, count);
    return vec_load(x);
}

/* count of the samples at j, at most LANES. */
ALWAYS_INLINE void sandwich(map m, const real *const *from, real start, bool add, real *const *to, int64_t j,
                            int64_t count)
{
    vec half[MAX][MAX], x[MAX], y[MAX];
    for (int c = 0; c < m.columns; c++) {
#pragma GCC unroll 8
        for (int i = 0; i < m.columns; i++) {
            x[i] = load(from[i * m.columns + c] + j, count);
        }
        apply(m, x, y);
#pragma GCC unroll 8
        for (int i = 0; i < m.rows; i++) half[i][c] = y[i];
    }
    for (int r = 0; r < m.rows; r++) {
        apply(m, half[r], y);
#pragma GCC unroll 8
        for (int i = 0; i < m.rows; i++) {
            real *at = to[r * m.rows + i] + j;
            vec own = y[i] + start;
            if (add) own += load(at, count);
            if (count == LANES) vec_store(at, own);
            if (count < LANES) vec_store_some(at, own, count);
        }
    }
}

#define MAP(name, ...)                                                                                                 \
    static void name(int64_t n, const real *const *from, real start, bool add, real *const *to)                        \
    {                                                                                                                  \
        const map m = {__VA_ARGS__};                                                                                   \
        int64_t j = 0;                                                                                                 \
        for (; j + LANES <= n; j += LANES) sandwich(m, from, start, add, to, j, LANES);                                \
        if (j < n) sandwich(m, from, start, add, to, j, n - j);                                                        \
    }

MAP(input3, B3[0], 6, 6, false)
MAP(back_input3, B3[0], 6, 6, true)
MAP(output3, A3[0], OUTPUTS, 6, true)
MAP(back_output3, A3[0], 6, OUTPUTS, false)
MAP(weights3, G3[0], 6, 3, false)
MAP(back_weights3, G3[0], 3, 6, true)
MAP(input5, B5[0], 8, 8, false)
MAP(back_input5, B5[0], 8, 8, true)
MAP(output5, A5[0], OUTPUTS, 8, true)
MAP(back_output5, A5[0], 8, OUTPUTS, false)
MAP(weights5, G5[0], 8, 5, false)
MAP(back_weights5, G5[0], 5, 8, true)

void KERNEL(points)(la_point_map kind, int64_t window, int64_t n, const real *const *from, real start, bool add,
                    real *const *to)
{
    typedef void (*task)(int64_t, const real *const *, real, bool, real *const *);
    static const task tasks[2][6] = {
        {input3, output3, weights3, back_input3, back_output3, back_weights3},
        {input5, output5, weights5, back_input5, back_output5, back_weights5},
    };
    tasks[window == 5][kind](n, from, start, add, to);
}
