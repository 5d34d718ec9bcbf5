/* The functions of the group for one number type; toeplitz.c includes this twice, with real and NAME defined. */

static real *NAME(at)(psgd_fibres X, int64_t f)
{
    return (real *)X.x + f / X.inner * X.ld + f % X.inner;
}

/* X <- sum_k c_k N^k X: entry i takes entries i.., so going upward from i = 0 the old ones are still there. */
static void NAME(upper)(const real *c, psgd_fibres X)
{
    for (int64_t f = 0; f < X.outer * X.inner; f++) {
        real *x = NAME(at)(X, f);
        for (int64_t i = 0; i < X.n; i++) {
            double sum = 0;
            for (int64_t k = 0; i + k < X.n; k++) sum += (double)c[k] * (double)x[(i + k) * X.inner];
            x[i * X.inner] = (real)sum;
        }
    }
}

static void NAME(lower)(const real *c, psgd_fibres X)
{
    for (int64_t f = 0; f < X.outer * X.inner; f++) {
        real *x = NAME(at)(X, f);
        for (int64_t i = X.n - 1; i >= 0; i--) {
            double sum = 0;
            for (int64_t k = 0; k <= i; k++) sum += (double)c[k] * (double)x[(i - k) * X.inner];
            x[i * X.inner] = (real)sum;
        }
    }
}

static void NAME(mul)(const psgd_element *self, psgd_fibres X)
{
    NAME(upper)(self->q, X);
}

static void NAME(mul_t)(const psgd_element *self, psgd_fibres X)
{
    NAME(lower)(self->q, X);
}

static void NAME(solve)(const psgd_element *self, psgd_fibres X)
{
    const real *q = self->q;
    for (int64_t f = 0; f < X.outer * X.inner; f++) {
        real *x = NAME(at)(X, f);
        for (int64_t i = X.n - 1; i >= 0; i--) {
            double sum = (double)x[i * X.inner];
            for (int64_t k = 1; i + k < X.n; k++) sum -= (double)q[k] * (double)x[(i + k) * X.inner];
            x[i * X.inner] = (real)(sum / (double)q[0]);
        }
    }
}

static void NAME(solve_t)(const psgd_element *self, psgd_fibres X)
{
    const real *q = self->q;
    for (int64_t f = 0; f < X.outer * X.inner; f++) {
        real *x = NAME(at)(X, f);
        for (int64_t i = 0; i < X.n; i++) {
            double sum = (double)x[i * X.inner];
            for (int64_t k = 1; k <= i; k++) sum -= (double)q[k] * (double)x[(i - k) * X.inner];
            x[i * X.inner] = (real)(sum / (double)q[0]);
        }
    }
}

static void NAME(reset)(const psgd_element *self, double scale)
{
    real *q = self->q;
    for (int64_t k = 0; k < self->n; k++) q[k] = 0;
    q[0] = (real)scale;
}

/* r_k <- r_k + sign (sum_i x_i x_(i+k)) / (n - k): the mean of superdiagonal k of xx'. */
static void NAME(add_means)(psgd_fibres X, int sign, real *r)
{
    if (!X.x) return;
    for (int64_t f = 0; f < X.outer * X.inner; f++) {
        const real *x = NAME(at)(X, f);
        for (int64_t k = 0; k < X.n; k++) {
            double sum = 0;
            for (int64_t i = 0; i + k < X.n; i++) sum += (double)x[i * X.inner] * (double)x[(i + k) * X.inner];
            r[k] = (real)((double)r[k] + sign * sum / (double)(X.n - k));
        }
    }
}

static void NAME(project)(const psgd_element *self, psgd_fibres A, psgd_fibres B, int sign, int accumulate, void *R)
{
    real *r = R;
    for (int64_t k = 0; !accumulate && k < self->n; k++) r[k] = 0;
    NAME(add_means)(A, 1, r);
    NAME(add_means)(B, sign, r);
}

static double NAME(r_max)(const psgd_element *self, const void *R)
{
    const real *r = R;
    double max = 0;
    for (int64_t k = 0; k < self->n; k++) max = fmax(max, fabs((double)r[k]));
    return max;
}

/* sum |r_k| bounds the sums along rows and columns, hence the spectral norm. */
static double NAME(r_spectral)(const psgd_element *self, const void *R)
{
    const real *r = R;
    double sum = 0;
    for (int64_t k = 0; k < self->n; k++) sum += fabs((double)r[k]);
    return sum;
}

static void NAME(r_mul)(const psgd_element *self, const void *R, psgd_fibres X)
{
    (void)self;
    NAME(upper)(R, X);
}

static void NAME(r_mul_t)(const psgd_element *self, const void *R, psgd_fibres X)
{
    (void)self;
    NAME(lower)(R, X);
}

static int NAME(inside)(const psgd_element *self, double c, const void *R)
{
    (void)self;
    return c * (double)((const real *)R)[0] < 1;
}

/* q <- q - c (r * q), the product of two polynomials. They commute, so this is retract_right too. */
static void NAME(retract)(const psgd_element *self, double c, const void *R)
{
    const real *r = R;
    real *q = self->q;
    for (int64_t k = self->n - 1; k >= 0; k--) {
        double sum = 0;
        for (int64_t j = 0; j <= k; j++) sum += (double)r[j] * (double)q[k - j];
        q[k] = (real)((double)q[k] - c * sum);
    }
}

static void NAME(rescale)(const psgd_element *self, double c)
{
    real *q = self->q;
    for (int64_t k = 0; k < self->n; k++) q[k] = (real)(c * (double)q[k]);
}

static const psgd_user_group NAME(table) = {
    .bytes = sizeof(psgd_user_group),
    .size = toeplitz_size,
    .r_size = toeplitz_size,
    .reset = NAME(reset),
    .mul = NAME(mul),
    .mul_t = NAME(mul_t),
    .solve = NAME(solve),
    .solve_t = NAME(solve_t),
    .project = NAME(project),
    .r_max = NAME(r_max),
    .r_mul = NAME(r_mul),
    .r_mul_t = NAME(r_mul_t),
    .inside = NAME(inside),
    .retract = NAME(retract),
    .summary = "upper triangular Toeplitz, positive diagonal",
    .formula = "n",
    .rescale = NAME(rescale),
    .retract_right = NAME(retract),
    .r_spectral = NAME(r_spectral),
    .flops = toeplitz_flops,
};
