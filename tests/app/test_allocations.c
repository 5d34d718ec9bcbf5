/* Every allocation of every public call that makes or loads something fails, once and for good: the call says that
 * there was no memory, or did without, and nothing is leaked. tests/repository/test_repository.py compares the names
 * here with the headers. */
#include "specs.h"
#include "support.h"

#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "data/format/safetensors.h"
#include "data/source.h"
#include "report/report.h"
#include "train/train.h"

static struct {
    int64_t made, outstanding, fail_at;
    bool lasting;
} memory;

static void *allocate(void *data, size_t bytes)
{
    (void)data;
    int64_t k = memory.made++;
    if (memory.fail_at >= 0 && (memory.lasting ? k >= memory.fail_at : k == memory.fail_at)) return NULL;
    memory.outstanding++;
    return malloc(bytes);
}

static void release(void *data, void *block)
{
    (void)data;
    memory.outstanding--;
    free(block);
}

typedef psgd_status maker(psgd_context *context, int variant);

static int64_t tried;

/* Makes it with every allocation failing in turn. A context is made with each. */
static void sweep(const char *name, maker *make, int variant)
{
    for (int lasting = 0; lasting < 2; lasting++) {
        for (int64_t k = 0;; k++) {
            if (!every_case() && k % 2 != lasting) continue; /* each one fails once or for good */
            psgd_allocator allocator = {allocate, release, NULL};
            psgd_context *context = NULL;
            memset(&memory, 0, sizeof memory);
            memory.fail_at = k;
            memory.lasting = lasting;
            psgd_status status = psgd_context_create(&allocator, &context);
            if (status == PSGD_OK) status = make(context, variant);
            int64_t made = memory.made;
            psgd_context_free(context);
            tried++;
            if (memory.outstanding != 0) {
                fail_msg("%s %d: allocation %lld fails: %lld blocks are leaked", name, variant, (long long)k,
                         (long long)memory.outstanding);
            }
            if (made <= k) {
                if (status != PSGD_OK) fail_msg("%s %d: %s", name, variant, psgd_last_error());
                break;
            }
            if (status != PSGD_ERR_NO_MEMORY && (lasting || status != PSGD_OK)) {
                fail_msg("%s %d: allocation %lld fails: %s: %s", name, variant, (long long)k, psgd_status_text(status),
                         psgd_last_error());
            }
        }
    }
}

static const int64_t sizes[] = {3, 4, 3};

static psgd_status options(psgd_context *context, int variant)
{
    (void)variant;
    psgd_options *made = NULL;
    PSGD_TRY(psgd_options_create(context, &made));
    psgd_status status = psgd_options_set(made, "step", "0.1");
    if (status == PSGD_OK) status = psgd_options_set_number(made, "step", 0.2);
    if (status == PSGD_OK) status = psgd_options_set_number(made, "damping", 0.2);
    if (status == PSGD_OK) status = psgd_options_parse(made, "step=0.3,init=first");
    psgd_options_free(made);
    return status;
}

static psgd_status precond(psgd_context *context, int variant)
{
    const instance *g = &instances[variant / 2];
    psgd_precond *made = NULL;
    PSGD_TRY(psgd_precond_create(context, g->spec, g->ndim, g->shape, (psgd_dtype)(variant % 2), NULL, &made));
    int64_t bytes = psgd_precond_state_bytes(made);
    char *state = malloc((size_t)bytes);
    psgd_status status = psgd_precond_state_save(made, state);
    if (status == PSGD_OK) status = psgd_precond_state_load(made, bytes, state);
    free(state);
    psgd_precond_free(made);
    return status;
}

static psgd_status family(psgd_context *context, int variant)
{
    static const char *const specs[] = {"lra(2)", "splu(2)", "sum(lra(1):3,diag)", "auto"};
    psgd_precond *made = NULL;
    PSGD_TRY(psgd_precond_create(context, specs[variant], 1, (const int64_t[]){7}, PSGD_F32, NULL, &made));
    psgd_precond_free(made);
    return PSGD_OK;
}

static psgd_status joint(psgd_context *context, int variant)
{
    psgd_precond *made = NULL;
    PSGD_TRY(psgd_precond_create_joint(context, variant ? "lra(2)" : "tri", 3, sizes, PSGD_F64, NULL, &made));
    psgd_precond_free(made);
    return PSGD_OK;
}

static psgd_status about_group(psgd_context *context, int variant)
{
    static const char spec[] = "kron(tri,sum(diag:2,scale))";
    int64_t size, bytes;
    double cost[4];
    char *words;
    int broken;
    if (variant == 0) {
        return psgd_group_cost(context, spec, 2, sizes, PSGD_F32, &size, &bytes, cost, cost + 1, cost + 2, cost + 3);
    }
    if (variant == 1) PSGD_TRY(psgd_group_tree(context, spec, 2, sizes, PSGD_F32, &words));
    if (variant == 2) PSGD_TRY(psgd_group_check(context, spec, 2, sizes, PSGD_F64, 1, &broken, &words));
    psgd_text_free(context, words);
    return PSGD_OK;
}

static psgd_status plan(psgd_context *context, int variant)
{
    (void)variant;
    static const int ndim[] = {2, 1};
    static const int64_t *const shapes[] = {sizes, sizes};
    psgd_plan *made = NULL;
    PSGD_TRY(psgd_plan_create(context, 2, ndim, shapes, PSGD_F32, NULL, &made));
    psgd_plan_free(made);
    return PSGD_OK;
}

static psgd_status health(psgd_context *context, int variant)
{
    (void)variant;
    psgd_health *made = NULL;
    PSGD_TRY(psgd_health_create(context, 0.9, &made));
    psgd_health_free(made);
    return PSGD_OK;
}

static int bowl(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    (void)data;
    const double *x = theta[0];
    *loss = 0;
    for (int i = 0; i < 12; i++) {
        *loss += x[i] * x[i] * (i + 1) / 2;
        ((double *)gradient[0])[i] = x[i] * (i + 1);
    }
    return 0;
}

static char state_path[96];

/* Made, bound, one step, saved, loaded. */
static psgd_status use(psgd_optimizer *o)
{
    static const psgd_objective objective = {.gradient = bowl};
    double x[12] = {1, 2, 3, -1};
    void *theta[] = {x};
    PSGD_TRY(psgd_optimizer_bind(o, &objective));
    PSGD_TRY(psgd_optimizer_iterate(o, theta, NULL));
    PSGD_TRY(psgd_optimizer_save(o, state_path));
    PSGD_TRY(psgd_optimizer_load(o, state_path));
    int64_t bytes = psgd_optimizer_tensor_state_bytes(o, 0);
    char *state = malloc((size_t)bytes);
    psgd_status status = psgd_optimizer_tensor_state_save(o, 0, state);
    if (status == PSGD_OK) status = psgd_optimizer_tensor_state_load(o, 0, bytes, state);
    free(state);
    if (status != PSGD_OK) return status;
    bytes = psgd_optimizer_state_bytes(o);
    state = malloc((size_t)bytes);
    status = psgd_optimizer_state_save(o, state);
    if (status == PSGD_OK) status = psgd_optimizer_state_load(o, bytes, state);
    free(state);
    return status;
}

static psgd_status optimizer(psgd_context *context, int variant)
{
    const psgd_tensor tensor = {.ndim = 2, .shape = sizes};
    psgd_optimizer *made = NULL;
    PSGD_TRY(psgd_optimizer_create(context, psgd_method_name(variant), 1, &tensor, PSGD_F64, NULL, &made));
    psgd_status status = use(made);
    psgd_optimizer_free(made);
    return status;
}

static psgd_status optimizer_over_ranks(psgd_context *context, int variant)
{
    (void)variant;
    const psgd_tensor tensor = {.ndim = 2, .shape = sizes};
    psgd_optimizer *made = NULL;
    PSGD_TRY(psgd_optimizer_create_comm(context, NULL, "psgd", 1, &tensor, PSGD_F32, NULL, &made));
    psgd_optimizer_free(made);
    return PSGD_OK;
}

static psgd_status wait(void *data, int slot)
{
    (void)data, (void)slot;
    return PSGD_OK;
}

static psgd_status exchange(void *data, int slot, const psgd_message *out, const psgd_message *in)
{
    (void)data, (void)slot, (void)out, (void)in;
    return PSGD_OK;
}

static psgd_status comm(psgd_context *context, int variant)
{
    static const psgd_comm_ops ops = {.exchange = exchange, .wait = wait};
    psgd_comm *made[3] = {NULL};
    if (variant) {
        PSGD_TRY(psgd_comm_threads(context, 3, made));
    } else {
        PSGD_TRY(psgd_comm_create(context, 0, 2, &ops, NULL, made));
    }
    for (int i = 0; i < (variant ? 3 : 1); i++) psgd_comm_free(made[i]);
    return PSGD_OK;
}

static int quartic(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    (void)data;
    *value = 0;
    for (int64_t i = 0; i < n; i++) {
        *value += x[i] * x[i] * x[i] * x[i] + x[i] * x[i];
        if (gradient) gradient[i] = 4 * x[i] * x[i] * x[i] + 2 * x[i];
    }
    return 0;
}

static psgd_status minimum(psgd_context *context, int variant)
{
    (void)variant;
    double x[5] = {1, 2, 3, 4, 5};
    psgd_function f = {.evaluate = quartic};
    psgd_result result;
    return psgd_minimize(context, 5, x, &f, NULL, NULL, NULL, &result);
}

static void see(void *data, int parameter, int64_t count, const void *inputs, const void *gradients)
{
    (void)data, (void)parameter, (void)count, (void)inputs, (void)gradients;
}

static psgd_node language(psgd_graph *g)
{
    psgd_node tokens = psgd_graph_input(g, 2, (int64_t[]){3, 2}), next = psgd_graph_input(g, 2, (int64_t[]){3, 2});
    psgd_node x = psgd_graph_embedding(g, tokens, psgd_graph_row_parameter(g, "E", 5, 4));
    x = psgd_graph_lstm(g, x, psgd_graph_parameter(g, "L", 8, 6));
    x = psgd_graph_dropout(g, psgd_graph_rnn(g, x, psgd_graph_parameter(g, "R", 3, 6)), 0.5);
    return psgd_graph_decoder(g, x, psgd_graph_parameter(g, "D", 5, 4), next);
}

static psgd_node images(psgd_graph *g)
{
    psgd_node x = psgd_graph_input(g, 4, (int64_t[]){1, 6, 6, 2}), y = psgd_graph_input(g, 1, (int64_t[]){2});
    psgd_node h = psgd_graph_convolution(g, x, psgd_graph_parameter(g, "W1", 2, 10), 3, 3, 1, 0);
    h = psgd_graph_batch_norm(g, psgd_graph_response_norm(g, h, 5, 2, 0.3, 0.75), true, 0.01);
    h = psgd_graph_gain(g, psgd_graph_leaky_relu(g, h, 0.1), psgd_graph_parameter(g, "G", 2, 2));
    h = psgd_graph_relu(g, psgd_graph_max_pool(g, psgd_graph_mean_pool(g, h, 2, 1), 1, 1));
    h = psgd_graph_affine(g, psgd_graph_slice(g, h, 0, 0, 2), psgd_graph_parameter(g, "W2", 3, 19));
    h = psgd_graph_permute(g, psgd_graph_concat(g, 2, (psgd_node[]){h, psgd_graph_tanh(g, h)}, 0), (int[]){0, 1});
    h = psgd_graph_multiply(g, h, psgd_graph_add(g, h, psgd_graph_sigmoid(g, h)));
    psgd_node loss = psgd_graph_softmax(g, psgd_graph_reshape(g, h, 2, (int64_t[]){6, -1}), y);
    return psgd_graph_add(g, loss, psgd_graph_l2(g, h, 0.1));
}

static psgd_status graph(psgd_context *context, int variant)
{
    psgd_graph *made = NULL;
    PSGD_TRY(psgd_graph_create(context, PSGD_F32, &made));
    psgd_status status = psgd_graph_finish(made, variant ? images(made) : language(made));
    if (status == PSGD_OK) status = psgd_graph_watch(made, see, NULL);
    psgd_graph_free(made);
    return status;
}

/* --- the command's own files */

static char root[64];

static const char *in_root(const char *name)
{
    static char path[4][96];
    static int turn;
    char *at = path[turn++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", root, name);
    return at;
}

static psgd_status weights(psgd_context *context, int variant)
{
    (void)variant;
    double a[6] = {1, 2, 3}, b[2] = {4, 5};
    named_matrix both[] = {{"a", 3, 2, a}, {"b", 1, 2, b}};
    PSGD_TRY(psgd__safetensors_write(context, in_root("weights"), PSGD_F64, 2, both));
    return psgd__safetensors_read(context, in_root("weights"), PSGD_F64, 2, both);
}

static psgd_status samples(psgd_context *context, int variant)
{
    char name[128];
    source *opened = NULL;
    snprintf(name, sizeof name, variant ? "digits" : "csv:%s", in_root("table.csv"));
    const source_settings settings = {.samples = variant ? 8 : 2, .holdout = 0.5};
    PSGD_TRY(psgd__source_open(context, name, SPLIT_TRAIN, &settings, &opened));
    psgd__source_close(opened);
    return PSGD_OK;
}

static void ignore(void *data, const char *word, bool joined)
{
    (void)data, (void)word, (void)joined;
}

/* A run from its first step to the text that it writes. */
static psgd_status run(psgd_context *context, int variant)
{
    const train_setting settings[] = {{"model", variant ? "logistic" : "lm"},
                                      {"data", variant ? "xor" : "markov:8,2,200,1"},
                                      {"out", in_root("run")},
                                      {"batch", "2"},
                                      {"steps", "2"},
                                      {"checkpoint-every", "1"},
                                      {variant ? "samples" : "hidden", variant ? "10" : "3"},
                                      {"back", "5"}};
    int count = (int)(sizeof settings / sizeof settings[0]) - variant; /* of a text alone */
    trainer *made = NULL;
    bool stopped;
    report page = {.context = context};
    PSGD_TRY(psgd__trainer_create(context, NULL, count, settings, &made));
    psgd_status status = psgd__trainer_run(made, NULL, &stopped);
    psgd__trainer_free(made);
    if (status == PSGD_OK) {
        status = psgd__trainer_resume(context, NULL, in_root("run"), 0, NULL, &made);
        if (status == PSGD_OK) psgd__trainer_free(made);
    }
    if (status == PSGD_OK && !variant) status = psgd__generate(context, in_root("run"), 2, 1, 1, ignore, NULL);
    if (status == PSGD_OK) status = psgd__report_add(&page, in_root("run"));
    if (status == PSGD_OK) status = psgd__report_page(&page, in_root("page.html"));
    psgd__report_free(&page);
    static const char *const files[] = {"run/checkpoint.psgd", "run/metrics.jsonl", "run/weights.safetensors"};
    for (int i = 0; i < 3; i++) unlink(in_root(files[i]));
    if (rmdir(in_root("run")) != 0 && access(in_root("run"), F_OK) == 0) fail_msg("files are left of a run");
    return status;
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        maker *make;
        int variants;
    } all[] = {
        {"options", options, 1},  {"family", family, 4}, {"joint", joint, 2},     {"group", about_group, 3},
        {"plan", plan, 1},        {"health", health, 1}, {"comm", comm, 2},       {"ranks", optimizer_over_ranks, 1},
        {"minimize", minimum, 1}, {"graph", graph, 2},   {"weights", weights, 1}, {"samples", samples, 2},
        {"run", run, 2}};
    for (int i = 0; i < 2 * instance_count; i++) sweep("precond", precond, i);
    for (int i = 0; psgd_method_name(i); i++) sweep("optimizer", optimizer, i);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (int k = 0; k < all[i].variants; k++) sweep(all[i].name, all[i].make, k);
    }
    print_message("%lld cases\n", (long long)tried);
}

static int enter(void **state)
{
    (void)state;
    /* Thousands of syncs: in memory, where there is a file system for that. */
    snprintf(root, sizeof root, "%s/psgd_allocations_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (psgd_set_threads(1) != PSGD_OK || !mkdtemp(root)) return -1;
    snprintf(state_path, sizeof state_path, "%s", in_root("state"));
    FILE *table = fopen(in_root("table.csv"), "w");
    fputs("1,2,0\n3,4,1\n5,6,0\n7,8,1\n", table);
    return fclose(table);
}

static int leave(void **state)
{
    (void)state;
    static const char *const files[] = {"state", "weights", "table.csv", "page.html"};
    for (int i = 0; i < 4; i++) unlink(in_root(files[i]));
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failed_allocation_leaves_nothing_behind)};
    return cmocka_run_group_tests(tests, enter, leave);
}
