/* Steps of psgd with every option that shapes them, compared with the formulas written out here: Q = diag(q) with the
 * Fisher or the Newton type criterion, over two tensors. */
#include "support.h"

enum { N = 5, FIRST = 2, STEPS = 40 }; /* the first tensor has FIRST of the N elements */

static const int64_t sizes[2] = {FIRST, N - FIRST};
static const psgd_tensor tensors[2] = {{.ndim = 1, .shape = &sizes[0]}, {.ndim = 1, .shape = &sizes[1]}};
static const double pi = 3.14159265358979323846;

typedef struct with {
    const char *pairs[24];
} with;

/* What the options say, in words of the formulas. */
typedef struct rule {
    bool newton, nesterov, whiten_momentum, unbiased, root,
        max; /* root: clip is per square root of the number of parameters; max: norm max */
    double momentum, damping, l2, decay, batch, average;
    int power; /* of P */
    double clip_gradient, clip, clip_element, clip_rms;
    double (*rate)(int step, double plateau), (*fit_rate)(int step, double plateau); /* factors of lr and step */
    int every;
} rule;

typedef struct reference {
    double x[N], q[N], m[N], s[N], plateau, best;
} reference;

static double constant(int step, double plateau)
{
    (void)step, (void)plateau;
    return 1;
}

static double by_step(int step, double plateau) /* every 7, 0.5 */
{
    (void)plateau;
    return pow(0.5, step / 7);
}

static double by_cosine(int step, double plateau) /* total 30, floor 0.2 */
{
    (void)plateau;
    double done = step < 30 ? step / 30.0 : 1;
    return 0.2 + 0.8 * (1 + cos(pi * done)) / 2;
}

static double by_plateau(int step, double plateau)
{
    (void)step;
    return plateau;
}

static double by_warmup(int step, double plateau) /* 10 steps */
{
    (void)plateau;
    return step < 10 ? (step + 1) / 10.0 : 1;
}

static double warm_cosine(int step, double plateau)
{
    return by_warmup(step, plateau) * by_cosine(step, plateau);
}

static const double LR = 0.05, FIT = 0.1;

/* h of the criterion for number i: the gradient, or its average, or Hv; damped or less its mean. */
static double curvature(const rule *r, reference *w, int i, int step, double g, double mean, double v, double hv)
{
    if (r->newton) return hv + r->l2 * v;
    double h = r->whiten_momentum ? mean : g;
    if (r->unbiased) {
        int before = step / r->every;
        double s = before ? w->s[i] / (1 - pow(r->average, before)) : 0;
        w->s[i] = r->average * w->s[i] + (1 - r->average) * h;
        h = h - s + s / sqrt(r->batch);
    }
    return h + r->damping * v;
}

/* q <- q (1 - c sign R), R = (q h)^2 - (v / q)^2, or q (1 - c R / max|R|), each tensor by itself. */
static void fit(const rule *r, reference *w, int step, const double *h, const double *v)
{
    for (int part = 0; part < 2; part++) {
        int from = part ? FIRST : 0, to = part ? N : FIRST;
        double R[N], max = 0;
        for (int i = from; i < to; i++) {
            double a = w->q[i] * h[i], b = v[i] / w->q[i];
            R[i] = a * a - b * b;
            max = fmax(max, fabs(R[i]));
        }
        double c = FIT * r->fit_rate(step, w->plateau);
        for (int i = from; i < to; i++) w->q[i] *= 1 - c * (r->max ? R[i] / max : (R[i] > 0) - (R[i] < 0));
    }
}

static void clip(const rule *r, double *d)
{
    double energy = 0;
    for (int part = 0; part < 2; part++) {
        int from = part ? FIRST : 0, to = part ? N : FIRST;
        double squares = 0;
        for (int i = from; i < to; i++) {
            if (r->clip_element > 0) d[i] = fmax(-r->clip_element, fmin(r->clip_element, d[i]));
            squares += d[i] * d[i];
        }
        double rms = sqrt(squares / (to - from));
        for (int i = from; i < to && r->clip_rms > 0 && rms > r->clip_rms; i++) d[i] *= r->clip_rms / rms;
        for (int i = from; i < to; i++) energy += d[i] * d[i];
    }
    double limit = r->clip * (r->root ? sqrt(N) : 1);
    for (int i = 0; i < N && limit > 0 && sqrt(energy) > limit; i++) d[i] *= limit / sqrt(energy);
}

static void reference_step(const rule *r, reference *w, int step, const double *gradient, const double *v,
                           const double *hv)
{
    double d[N], h[N], energy = 0;
    for (int i = 0; i < N; i++) energy += gradient[i] * gradient[i];
    double shrink = r->clip_gradient > 0 ? fmin(1, r->clip_gradient / sqrt(energy)) : 1;
    for (int i = 0; i < N; i++) {
        double g = shrink * gradient[i] + r->l2 * w->x[i], correct = 1 - pow(r->momentum, step + 1);
        w->m[i] = r->momentum * w->m[i] + (1 - r->momentum) * g;
        d[i] = r->momentum == 0 ? g : w->m[i] / correct;
        if (r->nesterov) d[i] = (r->momentum * w->m[i] + (1 - r->momentum) * g) / correct;
        if (step % r->every == 0) h[i] = curvature(r, w, i, step, g, d[i], v[i], hv[i]);
    }
    if (step % r->every == 0) fit(r, w, step, h, v);
    for (int i = 0; i < N; i++) d[i] *= pow(w->q[i], 2 * r->power) / (r->unbiased && r->power == 2 ? r->batch : 1);
    clip(r, d);
    double rate = LR * r->rate(step, w->plateau);
    for (int i = 0; i < N; i++) w->x[i] = (1 - rate * r->decay) * w->x[i] - rate * d[i];
}

/* f = sum of (1 + i) x_i^2 / 2, with gradients that are a little noisy. */
static void run(const char *name, with set, rule r)
{
    psgd_options *options;
    psgd_optimizer *o;
    reference w = {.plateau = 1, .best = HUGE_VAL};
    double x[N], g[N], v[N], hv[N];
    uint64_t random = 3;
    if (!r.rate) r.rate = constant;
    if (!r.fit_rate) r.fit_rate = constant;
    if (!r.power) r.power = 1;
    if (!r.every) r.every = 1;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_ok(psgd_options_set(options, "group", "diag"));
    assert_ok(psgd_options_set_number(options, "lr", LR));
    assert_ok(psgd_options_set_number(options, "step", FIT));
    assert_ok(psgd_options_set(options, "criterion", r.newton ? "newton" : "fisher"));
    for (int i = 0; set.pairs[i]; i += 2) assert_ok(psgd_options_set(options, set.pairs[i], set.pairs[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, "psgd", 2, tensors, PSGD_F64, options, &o));
    psgd_options_free(options);
    for (int i = 0; i < N; i++) {
        w.x[i] = x[i] = 1 - 0.7 * i;
        w.q[i] = 1;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) g[i] = (1 + i) * x[i] + 0.1 * random_normal(&random);
        assert_ok(psgd_optimizer_draw(o, 0, v));
        assert_ok(psgd_optimizer_draw(o, 1, v + FIRST));
        for (int i = 0; i < N; i++) hv[i] = (1 + i) * v[i] + 0.3 * random_normal(&random); /* R never vanishes */
        assert_float_equal(psgd_optimizer_rate(o), LR * r.rate(step, w.plateau), 1e-15);
        assert_float_equal(psgd_optimizer_base_rate(o), LR, 0);
        reference_step(&r, &w, step, g, v, hv);
        assert_ok(psgd_optimizer_step(o, (void *[]){x, x + FIRST}, (const void *[]){g, g + FIRST},
                                      (const void *[]){v, v + FIRST}, (const void *[]){hv, hv + FIRST}));
        for (int i = 0; i < N; i++) {
            if (!(fabs(x[i] - w.x[i]) <= 1e-12 * (1 + fabs(w.x[i])))) {
                fail_msg("%s: x[%d] after step %d is %.17g instead of %.17g", name, i, step, x[i], w.x[i]);
            }
        }
        double validation = cos(step); /* better, worse, ... */
        assert_ok(psgd_optimizer_validate(o, validation));
        if (validation > w.best) w.plateau *= 0.25;
        w.best = fmin(w.best, validation);
    }
    psgd_optimizer_free(o);
}

static void momentum_nesterov_and_what_is_whitened(void **state)
{
    (void)state;
    run("fisher", (with){{"damping", "0.3"}}, (rule){.damping = 0.3});
    run("newton", (with){{NULL}}, (rule){.newton = true});
    run("newton, max", (with){{"norm", "max"}}, (rule){.newton = true, .max = true});
    run("fisher, max", (with){{"norm", "max", "damping", "0.3"}}, (rule){.max = true, .damping = 0.3});
    run("newton, l2", (with){{"l2", "0.4"}}, (rule){.newton = true, .l2 = 0.4});
    run("momentum", (with){{"momentum", "0.8"}}, (rule){.momentum = 0.8});
    run("nesterov", (with){{"momentum", "0.8", "nesterov", "yes"}}, (rule){.momentum = 0.8, .nesterov = true});
    run("newton, nesterov", (with){{"momentum", "0.8", "nesterov", "yes", "decay", "0.3"}},
        (rule){.newton = true, .momentum = 0.8, .nesterov = true, .decay = 0.3});
    run("whiten momentum", (with){{"momentum", "0.8", "whiten", "momentum"}},
        (rule){.momentum = 0.8, .whiten_momentum = true});
    run("whiten momentum, nesterov", (with){{"momentum", "0.8", "whiten", "momentum", "nesterov", "yes", "l2", "0.2"}},
        (rule){.momentum = 0.8, .whiten_momentum = true, .nesterov = true, .l2 = 0.2});
    run("whiten gradient, l2", (with){{"momentum", "0.8", "l2", "0.2", "damping", "0.1"}},
        (rule){.momentum = 0.8, .l2 = 0.2, .damping = 0.1});
}

static void powers_of_p(void **state)
{
    (void)state;
    run("p2", (with){{"apply", "p2"}}, (rule){.power = 2});
    run("p2 of newton", (with){{"apply", "p2", "momentum", "0.5"}},
        (rule){.newton = true, .momentum = 0.5, .power = 2});
    run("inverse fisher", (with){{"apply", "inverse-fisher", "unbiased", "yes", "batch", "16", "average", "0.7"}},
        (rule){.unbiased = true, .power = 2, .batch = 16, .average = 0.7});
    run("unbiased", (with){{"unbiased", "yes", "batch", "9", "damping", "0.2"}},
        (rule){.unbiased = true, .batch = 9, .average = 0.9, .damping = 0.2});
}

static void clipping_by_element_rms_and_norm(void **state)
{
    (void)state;
    run("norm", (with){{"clip", "0.6"}}, (rule){.clip = 0.6});
    run("gradient", (with){{"clip-gradient", "0.6", "momentum", "0.8"}}, (rule){.clip_gradient = 0.6, .momentum = 0.8});
    run("gradient, newton, l2", (with){{"clip-gradient", "2", "l2", "0.4"}},
        (rule){.newton = true, .clip_gradient = 2, .l2 = 0.4});
    run("both", (with){{"clip-gradient", "0.9", "clip", "0.3", "damping", "0.2"}},
        (rule){.clip_gradient = 0.9, .clip = 0.3, .damping = 0.2});
    run("norm by root", (with){{"clip", "0.3", "clip-by", "sqrt"}}, (rule){.clip = 0.3, .root = true});
    run("element", (with){{"clip-element", "0.5"}}, (rule){.clip_element = 0.5});
    run("rms", (with){{"clip-rms", "0.4"}}, (rule){.clip_rms = 0.4});
    run("all", (with){{"clip-element", "0.9", "clip-rms", "0.6", "clip", "0.9"}},
        (rule){.clip_element = 0.9, .clip_rms = 0.6, .clip = 0.9});
}

static void schedules_of_both_step_sizes(void **state)
{
    (void)state;
    run("step", (with){{"lr-schedule", "step", "lr-every", "7", "lr-factor", "0.5"}}, (rule){.rate = by_step});
    run("cosine", (with){{"lr-schedule", "cosine", "total", "30", "lr-floor", "0.2"}}, (rule){.rate = by_cosine});
    run("plateau", (with){{"lr-schedule", "plateau"}}, (rule){.rate = by_plateau});
    run("warm-up", (with){{"warmup", "10"}}, (rule){.rate = by_warmup});
    run("warm-up and cosine", (with){{"warmup", "10", "lr-schedule", "cosine", "total", "30", "lr-floor", "0.2"}},
        (rule){.rate = warm_cosine});
    run("fit, step", (with){{"step-schedule", "step", "step-every", "7", "step-factor", "0.5"}},
        (rule){.fit_rate = by_step});
    run("fit, cosine", (with){{"step-schedule", "cosine", "total", "30", "step-floor", "0.2"}},
        (rule){.fit_rate = by_cosine});
    run("fit, plateau", (with){{"step-schedule", "plateau"}}, (rule){.fit_rate = by_plateau});
    run("every third", (with){{"update-every", "3"}}, (rule){.every = 3});
    run("every third, unbiased", (with){{"update-every", "3", "unbiased", "yes", "batch", "4"}},
        (rule){.every = 3, .unbiased = true, .batch = 4, .average = 0.9});
}

/* Counts of updates compared with their expectation: within five standard deviations of a sum of independent draws. */
static void check_updates(with set, double (*chance)(int step), int every)
{
    enum { LONG = 4000 };
    psgd_options *options;
    psgd_optimizer *o;
    double x[N] = {1, 1, 1, 1, 1}, g[N] = {1, 2, 3, 4, 5}, expected = 0, variance = 0;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_ok(psgd_options_set(options, "group", "diag"));
    assert_ok(psgd_options_set(options, "criterion", "fisher"));
    assert_ok(psgd_options_set(options, "lr", "1e-6"));
    for (int i = 0; set.pairs[i]; i += 2) assert_ok(psgd_options_set(options, set.pairs[i], set.pairs[i + 1]));
    assert_ok(psgd_optimizer_create(NULL, "psgd", 2, tensors, PSGD_F64, options, &o));
    psgd_options_free(options);
    for (int step = 0; step < LONG; step++) {
        double p = step % every ? 0 : chance(step);
        int64_t before = psgd_precond_updates(psgd_optimizer_precond(o, 0));
        assert_ok(psgd_optimizer_step(o, (void *[]){x, x + FIRST}, (const void *[]){g, g + FIRST}, NULL, NULL));
        int64_t after = psgd_precond_updates(psgd_optimizer_precond(o, 0));
        assert_int_equal(after, psgd_precond_updates(psgd_optimizer_precond(o, 1))); /* all tensors or none */
        if (p == 0) assert_int_equal(after, before);
        if (p == 1) assert_int_equal(after, before + 1);
        expected += p;
        variance += p * (1 - p);
        if (step % 500 == 499 && fabs((double)after - expected) > 5 * sqrt(variance) + 0.5) {
            fail_msg("%lld updates in %d steps, expected %g", (long long)after, step + 1, expected);
        }
    }
    psgd_optimizer_free(o);
}

static double one_third(int step)
{
    (void)step;
    return 1.0 / 3;
}

static double annealed(int step)
{
    return pow(0.03, fmin(1, step / 2000.0));
}

static double annealed_to_a_tenth(int step)
{
    return pow(0.1, fmin(1, step / 4 / 300.0));
}

static double never(int step)
{
    (void)step;
    return 0;
}

static void updates_with_a_probability(void **state)
{
    (void)state;
    check_updates((with){{"update-probability", "0.3333333333333333"}}, one_third, 1);
    check_updates((with){{"update-anneal", "2000"}}, annealed, 1);
    check_updates((with){{"update-anneal", "300", "update-floor", "0.1", "update-every", "4"}}, annealed_to_a_tenth, 4);
    check_updates((with){{"update-probability", "0"}}, never, 1);
}

/* Newton's defaults: 0.25^(min(step, 150) / 150) for 128 parameters, 0.07 in its place for 129; every ninth step for
 * 16. */
static void few_parameters_have_fits_of_their_own(void **state)
{
    (void)state;
    enum { TAKEN = 500, MANY = 129 };
    double x[MANY], g[MANY], v[MANY], h[MANY];
    for (int i = 0; i < MANY; i++) x[i] = 1, g[i] = 1 + i;
    for (int64_t n = 16; n <= MANY; n = n == 16 ? MANY - 1 : n + 1) {
        psgd_tensor tensor = {.spec = "diag", .ndim = 1, .shape = &n};
        psgd_optimizer *o;
        assert_ok(psgd_optimizer_create(NULL, "psgd-newton", 1, &tensor, PSGD_F64, NULL, &o));
        for (int k = 0; k < TAKEN; k++) {
            assert_ok(psgd_optimizer_draw(o, 0, v));
            for (int i = 0; i < n; i++) h[i] = 2 * v[i];
            assert_ok(
                psgd_optimizer_step(o, (void *[]){x}, (const void *[]){g}, (const void *[]){v}, (const void *[]){h}));
        }
        int64_t updates = psgd_precond_updates(psgd_optimizer_precond(o, 0));
        if (n == 16) assert_int_equal(updates, (TAKEN + 8) / 9);
        if (n == MANY - 1) assert_in_range(updates, 130, 210); /* 169 expected, standard deviation 9.5 */
        if (n == MANY) assert_in_range(updates, 45, 110);      /* 76.9 expected, standard deviation 7.6 */
        psgd_optimizer_free(o);
    }
}

static void assert_setting(const psgd_optimizer *o, const char *name, const char *value)
{
    psgd_option_info option;
    for (int i = 0; psgd_optimizer_setting(o, i, &option); i++) {
        if (strcmp(option.name, name) != 0) continue;
        assert_string_equal(option.default_value, value);
        return;
    }
    fail_msg("there is no setting %s", name);
}

/* Given, of few parameters or of many, the paper's, with a delay. */
static void settings_in_force_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *method, *options;
        int64_t n;
        const char *expected[10]; /* names and values */
    } cases[] = {
        {"psgd-fisher",
         "momentum=0.5",
         128,
         {"lr", "0.03", "clip-relative", "0.5", "clip-rms", "0", "momentum", "0.5"}},
        {"psgd-fisher", "update-every=2", 128, {"clip-rms", "0", "warmup", "0", "update-floor", "0.1"}},
        {"psgd-fisher", "lr=0.25", 128, {"lr", "0.25"}},
        {"psgd-fisher", "", 129, {"update-floor", "0.1", "lr", "0.008", "clip-rms", "0.3", "check", "yes"}},
        {"psgd-newton", "", 128, {"probe", "preconditioned", "update-floor", "0.25", "lr", "0.08"}},
        {"psgd-newton", "update-anneal=9", 128, {"clip-relative", "8", "update-floor", "0.03"}},
        {"psgd-newton", "", 129, {"update-floor", "0.07", "step", "0.15", "clip-relative", "2", "warmup", "20"}},
        {"psgd-newton", "", 10000, {"update-floor", "0.07", "update-anneal", "150", "step", "0.15"}},
        {"psgd-newton", "", 10001, {"update-floor", "0.03", "update-anneal", "150"}},
        {"psgd-newton", "", 17, {"lr", "0.08", "step", "0.1", "update-every", "1", "update-anneal", "150"}},
        {"psgd-newton", "", 16, {"lr", "0.2", "step", "0.3", "update-every", "9", "update-anneal", "0"}},
        {"psgd-newton", "step=0.2", 16, {"step", "0.2", "update-every", "9", "probe", "preconditioned"}},
        {"psgd-newton", "update-floor=0.5", 16, {"update-every", "1", "update-anneal", "150", "update-floor", "0.5"}},
        {"psgd-newton", "delay=2", 16, {"update-every", "4", "update-anneal", "0", "lr", "0.2"}},
        {"psgd-fisher", "", 16, {"lr", "0.03", "step", "0.1", "update-every", "1"}},
        {"psgd-newton", "defaults=paper", 128, {"lr", "0.01", "step", "0.01", "init", "scale"}},
        {"psgd-newton", "delay=2", 129, {"update-every", "4", "criterion", "newton", "probe", "mixed"}},
        {"psgd-newton", "parameters=129", 128, {"clip-relative", "2", "probe", "mixed", "warmup", "20"}},
        {"psgd-fisher", "parameters=128", 129, {"lr", "0.03", "warmup", "0"}},
        {"adam", "", 3, {"lr", "0.001", "beta1", "0.9"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        psgd_tensor tensor = {.spec = "diag", .ndim = 1, .shape = &cases[k].n};
        psgd_options *options;
        psgd_optimizer *o;
        assert_ok(psgd_options_create(NULL, &options));
        assert_ok(psgd_options_parse(options, cases[k].options));
        assert_ok(psgd_optimizer_create(NULL, cases[k].method, 1, &tensor, PSGD_F64, options, &o));
        for (int i = 0; i < 10 && cases[k].expected[i]; i += 2) {
            assert_setting(o, cases[k].expected[i], cases[k].expected[i + 1]);
        }
        psgd_optimizer_free(o);
        psgd_options_free(options);
    }
    assert_int_equal(psgd_optimizer_setting(NULL, 0, &(psgd_option_info){0}), 0);
}

/* loss - first > 10^4 (1 + |first|), or not finite. */
static void divergence_is_relative_to_the_start(void **state)
{
    (void)state;
    assert_false(psgd_diverged(3, 40003)); /* 10^4 (1 + 3) above: the bound itself */
    assert_true(psgd_diverged(3, 40003.1));
    assert_false(psgd_diverged(-3, 39997));
    assert_true(psgd_diverged(-3, 39997.1));
    assert_false(psgd_diverged(1e20, 1e24));
    assert_false(psgd_diverged(3, -1e30));
    assert_true(psgd_diverged(3, NAN));
    assert_true(psgd_diverged(3, INFINITY));
    assert_true(psgd_diverged(3, -INFINITY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_is_relative_to_the_start),
        cmocka_unit_test(momentum_nesterov_and_what_is_whitened),
        cmocka_unit_test(powers_of_p),
        cmocka_unit_test(clipping_by_element_rms_and_norm),
        cmocka_unit_test(schedules_of_both_step_sizes),
        cmocka_unit_test(updates_with_a_probability),
        cmocka_unit_test(few_parameters_have_fits_of_their_own),
        cmocka_unit_test(settings_in_force_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
