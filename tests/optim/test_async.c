/* Asynchronous fits: the option delay against a serial simulation of the same schedule with preconditioners alone, and
 * what must not depend on timing: bits, saved states, failures, forks. */
#include "support.h"

#include <psgd/threads.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 3, STEPS = 23, TOTAL = 24 + 7 + 10, MAX_PAIRS = 2 };

static const char *const specs[PARTS] = {"tiles(kron(tri,tri),2,1)", "diag", "dense"};
static const int64_t shapes[PARTS][2] = {{6, 4}, {1, 7}, {5, 2}};

static int64_t size_of(int i)
{
    return shapes[i][0] * shapes[i][1];
}

/* A problem whose Hessian depends on theta: sum of (x_i - x_j)^2 / 2 over neighbours and x^4 / 4, scaled by step so
 * that each step has a function of its own. */
static double scale_of(int64_t step)
{
    return 1 + 0.1 * (double)(step % 5);
}

static void gradient_of(int64_t step, const double *x, double *g)
{
    for (int i = 0; i < TOTAL; i++) {
        double left = i > 0 ? x[i] - x[i - 1] : x[i], right = i + 1 < TOTAL ? x[i] - x[i + 1] : 0;
        g[i] = scale_of(step) * (left + right + x[i] * x[i] * x[i]);
    }
}

static void product_of(int64_t step, const double *x, const double *v, double *h)
{
    for (int i = 0; i < TOTAL; i++) {
        double left = i > 0 ? v[i] - v[i - 1] : v[i], right = i + 1 < TOTAL ? v[i] - v[i + 1] : 0;
        h[i] = scale_of(step) * (left + right + 3 * x[i] * x[i] * v[i]);
    }
}

typedef struct config {
    const char *method;
    bool bound; /* products on the workers */
    bool joint;
    int64_t delay, every, pairs;
    const char *options[10];
} config;

typedef struct run {
    const config *config;
    psgd_optimizer *optimizer;
    double x[TOTAL], g[TOTAL], v[MAX_PAIRS * TOTAL], h[MAX_PAIRS * TOTAL];
    void *theta[PARTS], *gradient[PARTS], *v_list[PARTS], *h_list[PARTS];
    int64_t kept[64], bad_step, failing_step; /* the step that each slot is of; -1: none */
    bool sleeps;
} run;

static int keep(void *data, int slot)
{
    run *self = data;
    self->kept[slot] = psgd_optimizer_steps(self->optimizer);
    return 0;
}

static int product(void *data, int slot, int worker, const void *const *theta, const void *const *v, void *const *h)
{
    run *self = data;
    int64_t step = self->kept[slot];
    (void)worker;
    if (self->sleeps) usleep((useconds_t)(1 + 37 * step % 5 * 400));
    if (step == self->failing_step) return 7;
    product_of(step, theta[0], v[0], h[0]);
    if (step == self->bad_step) ((double *)h[1])[2] = NAN;
    return 0;
}

static psgd_optimizer *create(const config *c, bool delayed)
{
    psgd_tensor tensors[PARTS];
    psgd_options *options;
    psgd_optimizer *optimizer;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "defaults", "paper"));
    assert_ok(psgd_options_set(options, "lr", "0.02"));
    assert_ok(psgd_options_set(options, "step", "0.1"));
    assert_ok(psgd_options_set_number(options, "delay", delayed ? (double)c->delay : 0));
    assert_ok(psgd_options_set_number(options, "update-every", (double)c->every));
    assert_ok(psgd_options_set_number(options, "pairs", (double)c->pairs));
    if (c->joint) assert_ok(psgd_options_set(options, "joint", "yes"));
    if (c->joint) assert_ok(psgd_options_set(options, "group", "diag"));
    for (int i = 0; c->options[i]; i += 2) assert_ok(psgd_options_set(options, c->options[i], c->options[i + 1]));
    for (int i = 0; i < PARTS; i++) {
        tensors[i] = (psgd_tensor){.spec = c->joint ? NULL : specs[i], .ndim = 2, .shape = shapes[i]};
    }
    assert_ok(psgd_optimizer_create(NULL, c->method, PARTS, tensors, PSGD_F64, options, &optimizer));
    psgd_options_free(options);
    return optimizer;
}

static void begin(run *self, const config *c)
{
    memset(self, 0, sizeof *self);
    self->config = c;
    self->optimizer = create(c, true);
    self->bad_step = self->failing_step = -1;
    int64_t at = 0;
    for (int i = 0; i < PARTS; at += size_of(i++)) {
        self->theta[i] = self->x + at;
        self->gradient[i] = self->g + at;
        self->v_list[i] = self->v + c->pairs * at;
        self->h_list[i] = self->h + c->pairs * at;
    }
    for (int i = 0; i < TOTAL; i++) self->x[i] = 0.3 * sin(i + 1);
    if (!c->bound) return;
    psgd_delayed_product own = {keep, product, self};
    assert_ok(psgd_optimizer_bind_product(self->optimizer, &own));
}

/* Pairs of the caller, with v as the optimizer draws it. */
static void make_pairs(const psgd_optimizer *optimizer, const config *c, int64_t step, const double *x,
                       void *const *v_list, void *const *h_list)
{
    for (int i = 0; i < PARTS; i++) assert_ok(psgd_optimizer_draw(optimizer, i, v_list[i]));
    for (int64_t k = 0; k < c->pairs; k++) {
        double v[TOTAL], h[TOTAL];
        int64_t at = 0;
        for (int i = 0; i < PARTS; at += size_of(i++)) {
            memcpy(v + at, (double *)v_list[i] + k * size_of(i), (size_t)size_of(i) * sizeof *v);
        }
        product_of(step, x, v, h);
        at = 0;
        for (int i = 0; i < PARTS; at += size_of(i++)) {
            memcpy((double *)h_list[i] + k * size_of(i), h + at, (size_t)size_of(i) * sizeof *h);
        }
    }
}

static psgd_status step(run *self)
{
    int64_t now = psgd_optimizer_steps(self->optimizer);
    gradient_of(now, self->x, self->g);
    if (psgd_optimizer_wants_product(self->optimizer)) {
        assert_false(self->config->bound);
        make_pairs(self->optimizer, self->config, now, self->x, self->v_list, self->h_list);
    }
    return psgd_optimizer_step(self->optimizer, self->theta, (const void *const *)self->gradient,
                               (const void *const *)self->v_list, (const void *const *)self->h_list);
}

static void end(run *self)
{
    psgd_optimizer_free(self->optimizer);
}

/* The schedule by hand. */
typedef struct simulation {
    int lanes;
    psgd_precond *in_force[PARTS], *ahead[PARTS];
    char *after[STEPS][PARTS]; /* the state after the pair of a step */
} simulation;

static void simulate(const config *c, double *x)
{
    simulation s = {.lanes = c->joint ? 1 : PARTS};
    psgd_optimizer *clock = create(c, false), *sgd; /* draws v; moves theta along d */
    bool fisher = strstr(c->method, "fisher");
    const int64_t total = TOTAL;
    double g[TOTAL], d[TOTAL], dummy[TOTAL] = {0}, v[MAX_PAIRS * TOTAL], h[MAX_PAIRS * TOTAL];
    void *g_list[PARTS], *v_list[PARTS], *h_list[PARTS], *dummy_list[PARTS], *none[PARTS] = {NULL};
    psgd_options *options;
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "lr", "0.02"));
    assert_ok(
        psgd_optimizer_create(NULL, "sgd", 1, &(psgd_tensor){.ndim = 1, .shape = &total}, PSGD_F64, options, &sgd));
    psgd_options_free(options);
    assert_ok(psgd_options_create(NULL, &options));
    assert_ok(psgd_options_set(options, "step", "0.1"));
    assert_ok(psgd_options_set(options, "criterion", fisher ? "fisher" : "newton"));
    assert_ok(psgd_options_set_number(options, "pairs", (double)c->pairs));
    for (int i = 0; i < s.lanes; i++) {
        int64_t shape[2] = {c->joint ? TOTAL : shapes[i][0], shapes[i][1]};
        for (int k = 0; k < 2; k++) {
            assert_ok(psgd_precond_create(NULL, c->joint ? "diag" : specs[i], c->joint ? 1 : 2, shape, PSGD_F64,
                                          options, k ? &s.ahead[i] : &s.in_force[i]));
        }
    }
    psgd_options_free(options);
    int64_t at = 0;
    for (int i = 0; i < PARTS; at += size_of(i++)) {
        g_list[i] = g + at;
        dummy_list[i] = dummy + at;
        v_list[i] = v + c->pairs * at;
        h_list[i] = h + c->pairs * at;
    }
    for (int64_t t = 0; t < STEPS; t++) {
        gradient_of(t, x, g);
        bool pair = t % c->every == 0;
        if (pair) {
            make_pairs(clock, c, t, x, v_list, h_list);
            if (fisher) memcpy(h, g, sizeof g);
            if (c->joint && c->pairs > 1) fail();
        }
        at = 0;
        for (int i = 0; i < s.lanes; i++) {
            int64_t bytes = psgd_precond_state_bytes(s.ahead[i]), n = c->joint ? TOTAL : size_of(i);
            if (pair) {
                assert_ok(psgd_precond_update_pairs(s.ahead[i], c->pairs, v + c->pairs * at, h + c->pairs * at));
                s.after[t][i] = malloc((size_t)bytes);
                assert_ok(psgd_precond_state_save(s.ahead[i], s.after[t][i]));
            }
            int64_t due = t == 0 ? 0 : t - c->delay;
            if (due >= 0 && s.after[due][i] && (t == 0 || due > 0)) {
                assert_ok(psgd_precond_state_load(s.in_force[i], bytes, s.after[due][i]));
            }
            assert_ok(psgd_precond_apply(s.in_force[i], PSGD_APPLY_P, g + at, d + at));
            at += n;
        }
        assert_ok(psgd_optimizer_step(sgd, (void *[]){x}, (const void *const[]){d}, NULL, NULL));
        assert_ok(psgd_optimizer_step(clock, dummy_list, (const void *const *)g_list, (const void *const *)v_list,
                                      (const void *const *)none));
    }
    for (int i = 0; i < s.lanes; i++) {
        for (int t = 0; t < STEPS; t++) free(s.after[t][i]);
        psgd_precond_free(s.in_force[i]);
        psgd_precond_free(s.ahead[i]);
    }
    psgd_optimizer_free(clock);
    psgd_optimizer_free(sgd);
}

static const config configs[] = {
    {"psgd-newton", false, false, 1, 1, 1, {0}},
    {"psgd-newton", false, false, 4, 1, 1, {0}},
    {"psgd-newton", false, false, 8, 3, 2, {"workers", "2"}},
    {"psgd-newton", true, false, 1, 1, 1, {0}},
    {"psgd-newton", true, false, 2, 3, 1, {0}},
    {"psgd-newton", true, false, 4, 1, 1, {"workers", "3", "worker-threads", "2"}},
    {"psgd-newton", true, false, 8, 2, 2, {0}},
    {"psgd-newton", true, true, 3, 2, 1, {0}},
    {"psgd-newton", false, true, 3, 2, 1, {0}},
    {"psgd-fisher", false, false, 1, 1, 1, {0}},
    {"psgd-fisher", false, false, 5, 2, 1, {0}},
    {"psgd-fisher", false, true, 2, 1, 1, {0}},
};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static void a_delay_is_the_schedule_played_by_hand(void **state)
{
    (void)state;
    for (int c = 0; c < CONFIGS; c++) {
        run self;
        double x[TOTAL];
        begin(&self, &configs[c]);
        memcpy(x, self.x, sizeof x);
        simulate(&configs[c], x);
        for (int t = 0; t < STEPS; t++) assert_ok(step(&self));
        assert_memory_equal(self.x, x, sizeof x);
        assert_int_equal(psgd_optimizer_skipped(self.optimizer), 0);
        end(&self);
    }
}

static void without_a_delay_nothing_changes(void **state)
{
    (void)state;
    config with = {"psgd-newton", false, false, 0, 2, 1, {"delay-free", "yes", "workers", "3"}};
    config without = {"psgd-newton", false, false, 0, 2, 1, {0}};
    run a, b;
    begin(&a, &with);
    begin(&b, &without);
    assert_int_equal(psgd_optimizer_slots(a.optimizer), 0);
    assert_int_equal(psgd_optimizer_workers(a.optimizer), 0);
    for (int t = 0; t < STEPS; t++) {
        assert_ok(step(&a));
        assert_ok(step(&b));
    }
    assert_memory_equal(a.x, b.x, sizeof a.x);
    assert_int_equal(psgd_optimizer_state_bytes(a.optimizer), psgd_optimizer_state_bytes(b.optimizer));
    assert_fails(psgd_optimizer_bind_product(a.optimizer, &(psgd_delayed_product){keep, product, &a}),
                 PSGD_ERR_ARGUMENT, "delay");
    end(&a);
    end(&b);
}

static void bits_do_not_depend_on_timing(void **state)
{
    (void)state;
    for (int c = 0; c < CONFIGS; c++) {
        if (!configs[c].bound) continue;
        run slow, fast;
        begin(&slow, &configs[c]);
        begin(&fast, &configs[c]);
        slow.sleeps = true;
        for (int t = 0; t < STEPS; t++) {
            assert_ok(step(&slow));
            assert_ok(step(&fast));
            if (t % 3 == 0) usleep(700);
            assert_memory_equal(slow.x, fast.x, sizeof fast.x);
        }
        end(&slow);
        end(&fast);
    }
}

static char *save(const psgd_optimizer *optimizer, int64_t *bytes)
{
    *bytes = psgd_optimizer_state_bytes(optimizer);
    char *saved = malloc((size_t)*bytes);
    assert_ok(psgd_optimizer_state_save(optimizer, saved));
    return saved;
}

static void a_saved_state_has_the_pairs_in_flight(void **state)
{
    (void)state;
    for (int c = 0; c < CONFIGS; c++) {
        for (int stop = 0; stop < 12; stop += 3) {
            run whole, first, second;
            int64_t bytes, more;
            begin(&whole, &configs[c]);
            begin(&first, &configs[c]);
            begin(&second, &configs[c]);
            first.sleeps = true;
            for (int t = 0; t < STEPS; t++) assert_ok(step(&whole));
            for (int t = 0; t < stop; t++) assert_ok(step(&first));
            char *saved = save(first.optimizer, &bytes);
            memcpy(second.x, first.x, sizeof first.x);
            end(&first);
            assert_ok(psgd_optimizer_state_load(second.optimizer, bytes, saved));
            free(saved);
            for (int t = stop; t < STEPS; t++) assert_ok(step(&second));
            assert_memory_equal(second.x, whole.x, sizeof whole.x);
            saved = save(second.optimizer, &bytes);
            char *other = save(whole.optimizer, &more);
            assert_int_equal(bytes, more);
            assert_memory_equal(saved, other, (size_t)bytes);
            free(saved);
            free(other);
            end(&whole);
            end(&second);
        }
    }
}

static void a_state_of_another_delay_is_refused(void **state)
{
    (void)state;
    config two = {"psgd-newton", true, false, 2, 1, 1, {0}}, three = {"psgd-newton", true, false, 3, 1, 1, {0}};
    run a, b;
    int64_t bytes;
    begin(&a, &two);
    begin(&b, &three);
    for (int t = 0; t < 4; t++) assert_ok(step(&a));
    char *saved = save(a.optimizer, &bytes);
    assert_fails(psgd_optimizer_state_load(b.optimizer, bytes, saved), PSGD_ERR_FORMAT, "other options");
    free(saved);
    end(&a);
    end(&b);
}

/* h of step 3 is not finite: with a delay of 2 step 5 is the one that is skipped. */
static void a_product_that_is_not_finite_skips_the_step_of_its_pair(void **state)
{
    (void)state;
    config c = {"psgd-newton", true, false, 2, 1, 1, {"max-skipped", "1"}};
    run self;
    begin(&self, &c);
    self.bad_step = 3;
    for (int t = 0; t < 5; t++) assert_ok(step(&self));
    double before[TOTAL];
    memcpy(before, self.x, sizeof before);
    assert_fails(psgd_optimizer_check(self.optimizer, NULL, (const void *const *)self.gradient, NULL, NULL),
                 PSGD_ERR_NOT_FINITE, "tensor 1 at step 3");
    assert_int_equal(psgd_optimizer_skipped(self.optimizer), 0);
    assert_ok(step(&self));
    assert_int_equal(psgd_optimizer_skipped(self.optimizer), 1);
    assert_non_null(strstr(psgd_optimizer_note(self.optimizer), "tensor 1 at step 3 is not finite"));
    assert_memory_equal(self.x, before, sizeof before);
    /* The skipped step had no pair: those in force are of steps 0, 1, 2, then 4, and 6, whose own is still in flight.
     */
    for (int t = 0; t < 3; t++) assert_ok(step(&self));
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(self.optimizer, 0)), 5);
    assert_int_equal(psgd_optimizer_skipped(self.optimizer), 1);
    end(&self);
}

static void a_first_product_that_is_not_finite_skips_its_own_step(void **state)
{
    (void)state;
    config c = {"psgd-newton", true, false, 2, 1, 1, {"max-skipped", "0"}};
    run self;
    begin(&self, &c);
    self.bad_step = 0;
    assert_fails(step(&self), PSGD_ERR_NOT_FINITE, "step 0 is not finite");
    assert_int_equal(psgd_optimizer_steps(self.optimizer), 1);
    assert_ok(step(&self));
    assert_int_equal(psgd_precond_updates(psgd_optimizer_precond(self.optimizer, 0)), 1);
    end(&self);
}

static void a_product_that_fails_reaches_the_caller(void **state)
{
    (void)state;
    config c = {"psgd-newton", true, false, 3, 2, 1, {0}};
    run self, resumed;
    int64_t bytes;
    begin(&self, &c);
    begin(&resumed, &c);
    self.failing_step = 4;
    for (int t = 0; t < 7; t++) assert_ok(step(&self));
    char *saved = save(self.optimizer, &bytes);
    assert_ok(psgd_optimizer_state_load(resumed.optimizer, bytes, saved));
    memcpy(resumed.x, self.x, sizeof self.x);
    free(saved);
    double before[TOTAL];
    memcpy(before, self.x, sizeof before);
    assert_fails(step(&self), PSGD_ERR_CALLBACK, "product of step 4 reported failure 7");
    assert_fails(step(&resumed), PSGD_ERR_CALLBACK, "product of step 4 reported failure 7");
    assert_memory_equal(self.x, before, sizeof before);
    for (int t = 0; t < 5; t++) assert_ok(step(&self));
    end(&self);
    end(&resumed);
}

static void a_free_delay_is_at_most_that_long(void **state)
{
    (void)state;
    config c = {"psgd-newton", true, false, 3, 1, 1, {"delay-free", "yes"}};
    run self;
    begin(&self, &c);
    self.sleeps = true;
    int64_t last = 0;
    for (int64_t t = 0; t < STEPS; t++) {
        assert_ok(step(&self));
        int64_t updates = psgd_precond_updates(psgd_optimizer_precond(self.optimizer, 2));
        assert_true(updates >= (t < 3 ? 1 : t - 3 + 1) && updates <= t + 1 && updates >= last);
        last = updates;
    }
    end(&self);
}

static void a_child_of_a_fork_continues(void **state)
{
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* TSan ends a child that starts threads; ASan's allocator may be locked there by a thread that starts */
#endif
    config c = {"psgd-newton", true, false, 4, 1, 1, {0}};
    run whole, forked;
    begin(&whole, &c);
    for (int t = 0; t < STEPS; t++) assert_ok(step(&whole));
    for (int stop = 1; stop < 12; stop += 2) {
        begin(&forked, &c);
        forked.sleeps = true;
        for (int t = 0; t < stop; t++) assert_ok(step(&forked));
        int how;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            bool ok = true;
            for (int t = stop; t < STEPS && ok; t++) ok = step(&forked) == PSGD_OK;
            ok = ok && !memcmp(forked.x, whole.x, sizeof whole.x);
            end(&forked);
            _exit(ok ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
        for (int t = stop; t < STEPS; t++) assert_ok(step(&forked));
        assert_memory_equal(forked.x, whole.x, sizeof whole.x);
        end(&forked);
    }
    end(&whole);
}

/* An objective that does not change from step to step. */
static int closure_gradient(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    double x[TOTAL], g[TOTAL];
    int64_t at = 0;
    (void)data;
    for (int i = 0; i < PARTS; at += size_of(i++)) memcpy(x + at, theta[i], (size_t)size_of(i) * sizeof *x);
    gradient_of(0, x, g);
    at = 0;
    for (int i = 0; i < PARTS; at += size_of(i++)) memcpy(gradient[i], g + at, (size_t)size_of(i) * sizeof *g);
    *loss = 0;
    for (int i = 0; i < TOTAL; i++) *loss += x[i] * x[i];
    return 0;
}

static int closure_product(void *data, const void *const *theta, const void *const *v, double *loss,
                           void *const *gradient, void *const *h)
{
    (void)data;
    (void)gradient;
    *loss = 0;
    product_of(0, theta[0], v[0], h[0]);
    return 0;
}

static void an_objective_has_its_products_on_the_workers(void **state)
{
    (void)state;
    config c = {"psgd-newton", false, false, 2, 2, 1, {0}};
    run self, twice;
    double loss, first = 0;
    psgd_objective objective = {closure_gradient, closure_product, NULL};
    begin(&self, &c);
    begin(&twice, &c);
    assert_ok(psgd_optimizer_bind(self.optimizer, &objective));
    assert_ok(psgd_optimizer_bind(twice.optimizer, &objective));
    assert_int_equal(psgd_optimizer_wants_product(self.optimizer), 0);
    for (int t = 0; t < STEPS; t++) {
        assert_ok(psgd_optimizer_iterate(self.optimizer, self.theta, &loss));
        assert_ok(psgd_optimizer_iterate(twice.optimizer, twice.theta, NULL));
        if (t == 0) first = loss;
    }
    assert_memory_equal(self.x, twice.x, sizeof self.x);
    assert_true(loss < 0.8 * first);
    assert_int_equal(psgd_optimizer_evaluations(self.optimizer), STEPS);
    assert_int_equal(psgd_optimizer_products(self.optimizer), (STEPS + 1) / 2);
    end(&self);
    end(&twice);
}

static void a_tensor_may_sit_out(void **state)
{
    (void)state;
    config c = {"psgd-newton", true, false, 3, 2, 1, {0}};
    run a, b;
    begin(&a, &c);
    begin(&b, &c);
    b.sleeps = true;
    for (int t = 0; t < STEPS; t++) {
        for (int k = 0; k < 2; k++) {
            run *self = k ? &b : &a;
            void *whole = self->gradient[1];
            if (t % 3 == 1) self->gradient[1] = NULL;
            assert_ok(step(self));
            self->gradient[1] = whole;
        }
        assert_memory_equal(a.x, b.x, sizeof a.x);
    }
    assert_int_equal(psgd_optimizer_skipped(a.optimizer), 0);
    assert_true(psgd_precond_updates(psgd_optimizer_precond(a.optimizer, 1)) >= 5);
    end(&a);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delay_is_the_schedule_played_by_hand),
        cmocka_unit_test(without_a_delay_nothing_changes),
        cmocka_unit_test(bits_do_not_depend_on_timing),
        cmocka_unit_test(a_saved_state_has_the_pairs_in_flight),
        cmocka_unit_test(a_state_of_another_delay_is_refused),
        cmocka_unit_test(a_product_that_is_not_finite_skips_the_step_of_its_pair),
        cmocka_unit_test(a_first_product_that_is_not_finite_skips_its_own_step),
        cmocka_unit_test(a_product_that_fails_reaches_the_caller),
        cmocka_unit_test(a_free_delay_is_at_most_that_long),
        cmocka_unit_test(a_child_of_a_fork_continues),
        cmocka_unit_test(an_objective_has_its_products_on_the_workers),
        cmocka_unit_test(a_tensor_may_sit_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
