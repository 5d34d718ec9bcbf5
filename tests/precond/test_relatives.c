/* Section 6 of the paper in the cases where it is exact: the fit reaches what its relatives have in closed form.
 *
 * The expectations are over finite sets, taken whole in each update, and v is integrated out or a full orthogonal set,
 * so nothing is random; with the plain rule (norm none) the fit converges to rounding. docs/relatives.md shows the
 * figures. */
#include "support.h"

static psgd_precond *make(const char *spec, int ndim, const int64_t *shape, const char *criterion,
                          const char *integrate, int64_t pairs, double step)
{
    psgd_options *options;
    psgd_precond *precond;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "criterion", criterion));
    assert_ok(psgd_options_set(options, "integrate", integrate));
    assert_ok(psgd_options_set(options, "norm", "none"));
    assert_ok(psgd_options_set_number(options, "pairs", (double)pairs));
    assert_ok(psgd_options_set_number(options, "step", step));
    assert_ok(psgd_precond_create(NULL, spec, ndim, shape, PSGD_F64, options, &precond));
    psgd_options_free(options);
    return precond;
}

static double worst_ratio(int64_t n, const double *x, const double *y)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(x[i] / y[i] - 1));
    return worst;
}

/* Gradients +-a: E[g^2] = a^2. P of diag and RMSProp's 1 / s scale a gradient alike. */
static void diag_with_fisher_is_rmsprop(void **state)
{
    (void)state;
    enum { N = 4 };
    const double a[N] = {0.5, 1, 3, 8};
    double g[2 * N], p[N], r[N] = {0}, before[N] = {0};
    psgd_precond *precond = make("diag", 1, (const int64_t[]){N}, "fisher", "yes", 2, 0.002);
    psgd_options *options;
    psgd_optimizer *rmsprop;
    psgd_tensor tensor = {.ndim = 1, .shape = (const int64_t[]){N}};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "epsilon", "0"));
    assert_ok(psgd_options_set(options, "lr", "1"));
    assert_ok(psgd_optimizer_create(NULL, "rmsprop", 1, &tensor, PSGD_F64, options, &rmsprop));
    psgd_options_free(options);
    for (int i = 0; i < N; i++) {
        g[i] = i % 2 ? a[i] : -a[i];
        g[N + i] = a[i];
    }
    for (int k = 0; k < 20000; k++) assert_ok(psgd_precond_update_pairs(precond, 2, NULL, g));
    for (int k = 0; k < 5000; k++) {
        memcpy(before, r, sizeof r);
        assert_ok(psgd_optimizer_step(rmsprop, (void *[]){r}, (const void *[]){g + N}, NULL, NULL));
    }
    for (int i = 0; i < N; i++) r[i] = before[i] - r[i]; /* the last step of RMSProp */
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, g + N, p));
    double worst = worst_ratio(N, p, r);
    print_message("diag, fisher: P g against RMSProp's step, relative difference %.1e\n", worst);
    assert_true(worst < 1e-10);
    psgd_precond_free(precond);
    psgd_optimizer_free(rmsprop);
}

static const double hessian[9] = {4, 1, 0.5, 1, 3, -1, 0.5, -1, 0.5};

/* A full set of orthogonal v stands for v ~ N(0, I): sqrt(3) e_j, three pairs an update. E[(Hv)^2] = diag(H^2). */
static void diag_with_newton_is_equilibration(void **state)
{
    (void)state;
    double v[9] = {0}, h[9] = {0}, p[3], closed[3] = {0}, ones[3] = {1, 1, 1}, x[3] = {0};
    for (int j = 0; j < 3; j++) {
        v[3 * j + j] = sqrt(3);
        for (int i = 0; i < 3; i++) {
            h[3 * j + i] = sqrt(3) * hessian[3 * i + j];
            closed[i] += hessian[3 * i + j] * hessian[3 * i + j];
        }
    }
    for (int i = 0; i < 3; i++) closed[i] = 1 / sqrt(closed[i]);
    psgd_precond *precond = make("diag", 1, (const int64_t[]){3}, "newton", "no", 3, 0.02);
    for (int k = 0; k < 20000; k++) assert_ok(psgd_precond_update_pairs(precond, 3, v, h));
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, ones, p));
    double exact = worst_ratio(3, p, closed);
    assert_true(exact < 1e-12);

    /* The optimizer esgd averages (Hv)^2 over random v: the same to the error of a mean of 20000. */
    psgd_options *options;
    psgd_optimizer *esgd;
    psgd_tensor tensor = {.ndim = 1, .shape = (const int64_t[]){3}};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "beta2", "0.9999"));
    assert_ok(psgd_options_set(options, "lr", "1"));
    assert_ok(psgd_optimizer_create(NULL, "esgd", 1, &tensor, PSGD_F64, options, &esgd));
    psgd_options_free(options);
    for (int k = 0; k < 20000; k++) {
        double w[3], hw[3] = {0};
        assert_ok(psgd_optimizer_draw(esgd, 0, w));
        for (int i = 0; i < 9; i++) hw[i / 3] += hessian[i] * w[i % 3];
        memset(x, 0, sizeof x);
        assert_ok(psgd_optimizer_step(esgd, (void *[]){x}, (const void *[]){ones}, (const void *[]){w},
                                      (const void *[]){hw}));
    }
    for (int i = 0; i < 3; i++) x[i] = -x[i];
    double random = worst_ratio(3, x, p);
    print_message("diag, newton: P against 1/sqrt(diag(H^2)) %.1e, against esgd's step %.1e\n", exact, random);
    assert_true(random < 0.03);
    psgd_precond_free(precond);
    psgd_optimizer_free(esgd);
}

/* One gradient an update, v integrated out. The l of second is largest where R is, so E[R / L] = 0 is not E[R] = 0,
 * with whatever step; the plain rule has no such bias. */
static double one_pair_ends_at(const char *norm)
{
    enum { UPDATES = 400000 };
    psgd_options *options;
    psgd_precond *precond;
    double sum = 0;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "criterion", "fisher"));
    assert_ok(psgd_options_set(options, "integrate", "yes"));
    assert_ok(psgd_options_set(options, "norm", norm));
    assert_ok(psgd_precond_create(NULL, "diag", 1, (const int64_t[]){1}, PSGD_F64, options, &precond));
    psgd_options_free(options);
    for (int k = 0; k < UPDATES; k++) {
        double g, p = 1;
        assert_ok(psgd_normal_fill(PSGD_F64, 1, 1, (uint64_t)k, 0, 1, &g));
        assert_ok(psgd_precond_set_step(precond, (strcmp(norm, "none") ? 0.5 : 0.02) / (1 + 0.01 * k)));
        assert_ok(psgd_precond_update(precond, NULL, &g));
        assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, &p, &p));
        if (k >= UPDATES / 2) sum += p / (UPDATES - UPDATES / 2);
    }
    psgd_precond_free(precond);
    return sum;
}

static void one_pair_an_update_is_biased_by_second(void **state)
{
    (void)state;
    double plain = one_pair_ends_at("none"), second = one_pair_ends_at("second"); /* 1 / sqrt(E[g^2]) = 1 */
    print_message("diag, fisher, one gradient an update: none ends at %.3f of the closed form, second at %.3f\n", plain,
                  second);
    assert_true(fabs(plain - 1) < 0.01 && second > 1.05 && second < 1.2);
}

enum { OUT = 2, IN = 3, DELTAS = 4, INPUTS = 5 };

/* All G = delta x' over a set of delta and a set of x: independent by construction. */
static void make_products(double deltas[DELTAS * OUT], double inputs[INPUTS * IN], double G[DELTAS * INPUTS * OUT * IN])
{
    uint64_t random = 5;
    for (int i = 0; i < DELTAS * OUT; i++) deltas[i] = random_normal(&random);
    for (int i = 0; i < INPUTS * IN; i++) inputs[i] = (1 + i % IN) * random_normal(&random);
    for (int d = 0; d < DELTAS; d++) {
        for (int x = 0; x < INPUTS; x++) {
            for (int i = 0; i < OUT * IN; i++) {
                G[(d * INPUTS + x) * OUT * IN + i] = deltas[d * OUT + i / IN] * inputs[x * IN + i % IN];
            }
        }
    }
}

static psgd_optimizer *make_kfac(void)
{
    psgd_options *options;
    psgd_optimizer *kfac;
    psgd_tensor tensor = {.ndim = 2, .shape = (const int64_t[]){OUT, IN}};
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "power", "0.5"));
    assert_ok(psgd_options_set(options, "epsilon", "0"));
    assert_ok(psgd_options_set(options, "beta2", "0"));
    assert_ok(psgd_options_set(options, "lr", "1"));
    assert_ok(psgd_optimizer_create(NULL, "kfac", 1, &tensor, PSGD_F64, options, &kfac));
    psgd_options_free(options);
    return kfac;
}

static void kron_with_fisher_is_kfacs_inverse_root(void **state)
{
    (void)state;
    static double deltas[DELTAS * OUT], inputs[INPUTS * IN], G[DELTAS * INPUTS * OUT * IN];
    const int64_t shape[] = {OUT, IN};
    double p[OUT * IN], x[OUT * IN] = {0}, all_x[DELTAS * INPUTS * IN], all_d[DELTAS * INPUTS * OUT];
    const double g[OUT * IN] = {1, -2, 3, 0.5, 1, -1};
    make_products(deltas, inputs, G);
    psgd_precond *precond = make("kron(tri,tri)", 2, shape, "fisher", "yes", DELTAS * INPUTS, 0.002);
    for (int k = 0; k < 20000; k++) assert_ok(psgd_precond_update_pairs(precond, DELTAS * INPUTS, NULL, G));
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P, g, p));

    for (int i = 0; i < DELTAS * INPUTS; i++) {
        memcpy(all_d + i * OUT, deltas + i / INPUTS * OUT, OUT * sizeof(double));
        memcpy(all_x + i * IN, inputs + i % INPUTS * IN, IN * sizeof(double));
    }
    psgd_optimizer *kfac = make_kfac();
    assert_ok(psgd_optimizer_observe(kfac, 0, DELTAS * INPUTS, all_x, all_d));
    assert_ok(psgd_optimizer_step(kfac, (void *[]){x}, (const void *[]){g}, NULL, NULL));
    for (int i = 0; i < OUT * IN; i++) x[i] = -x[i];
    double worst = worst_ratio(OUT * IN, p, x);
    print_message("kron(tri,tri), fisher: P G against KFAC's L^-1/2 G A^-1/2, relative difference %.1e\n", worst);
    assert_true(worst < 1e-9);
    assert_fails(psgd_optimizer_observe(kfac, 1, 1, all_x, all_d), PSGD_ERR_ARGUMENT, "one of its tensors");
    psgd_precond_free(precond);
    psgd_optimizer_free(kfac);
}

/* From gradients alone, with the sums over all of them as one matrix: L and A are E[GG'] and E[G'G] over their trace.
 */
static void kfac_from_gradients_agrees_with_kfac_from_activations(void **state)
{
    (void)state;
    const double delta[OUT] = {1, 2}, input[IN] = {2, -1, 1}, g[OUT * IN] = {2, -1, 1, 4, -2, 2};
    double x[OUT * IN] = {0}, y[OUT * IN] = {0};
    psgd_optimizer *from_g = make_kfac(), *from_x = make_kfac();
    assert_ok(psgd_optimizer_observe(from_x, 0, 1, input, delta));
    /* One sample: F = gg' has one eigenvalue, and along it both take g to g / ||g||. */
    assert_ok(psgd_optimizer_step(from_g, (void *[]){x}, (const void *[]){g}, NULL, NULL));
    assert_ok(psgd_optimizer_step(from_x, (void *[]){y}, (const void *[]){g}, NULL, NULL));
    for (int i = 0; i < OUT * IN; i++) {
        assert_float_equal(x[i], -g[i] / sqrt(30), 1e-7);
        assert_float_equal(y[i], -g[i] / sqrt(30), 1e-7);
    }
    psgd_optimizer_free(from_g);
    psgd_optimizer_free(from_x);
}

/* x = (features, 1), features centred with deviations s, and delta with E[delta delta'] = I. The fit gives P =
 * diag(1/s, 1) on the input side, which is the matrix that normalises the features; a step along P^2 is then a step of
 * gradient descent for a layer that sees normalised features. */
static void bnorm_is_feature_normalisation(void **state)
{
    (void)state;
    const double s[2] = {0.5, 4};
    const int64_t shape[] = {OUT, IN};
    double G[8 * OUT * IN], p[OUT * IN], expected[OUT * IN], g[OUT * IN] = {1, 2, 3, -1, 1, 2};
    for (int k = 0; k < 8; k++) { /* features (+-s, +-s), delta sqrt(2) e_1 or e_2 */
        double input[IN] = {k & 1 ? s[0] : -s[0], k & 2 ? s[1] : -s[1], 1};
        for (int i = 0; i < OUT * IN; i++) G[k * OUT * IN + i] = (i / IN == (k >> 2)) ? sqrt(2) * input[i % IN] : 0;
    }
    psgd_precond *precond = make("kron(identity,bnorm)", 2, shape, "fisher", "yes", 8, 0.01);
    for (int k = 0; k < 10000; k++) assert_ok(psgd_precond_update_pairs(precond, 8, NULL, G));
    assert_ok(psgd_precond_apply(precond, PSGD_APPLY_P2, g, p));
    for (int i = 0; i < OUT * IN; i++) expected[i] = g[i] / (i % IN < 2 ? s[i % IN] * s[i % IN] : 1);
    double worst = worst_ratio(OUT * IN, p, expected);
    print_message("kron(identity,bnorm), fisher: P^2 G against descent on normalised features %.1e\n", worst);
    assert_true(worst < 1e-10);
    psgd_precond_free(precond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diag_with_fisher_is_rmsprop),
        cmocka_unit_test(diag_with_newton_is_equilibration),
        cmocka_unit_test(one_pair_an_update_is_biased_by_second),
        cmocka_unit_test(kron_with_fisher_is_kfacs_inverse_root),
        cmocka_unit_test(kfac_from_gradients_agrees_with_kfac_from_activations),
        cmocka_unit_test(bnorm_is_feature_normalisation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
