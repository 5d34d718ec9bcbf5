/* The language model: it learns, goes on after a kill as if nothing had happened, speaks, and refuses what does not
 * fit. */
#include "support.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/language.h"

static char root[] = "language-XXXXXX";
static corpus source;

static const language_settings small = {
    .shape = {.words = 30, .hidden = 12, .layers = 2, .times = 6, .batch = 5, .dropout = 0.1},
    .epochs = 3,
    .checkpoint_every = 10,
    .log_every = 5,
    .range = 0.1,
    .seed = 4,
    .task = "toy"};

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) && psgd__corpus_markov(NULL, 30, 3, 3200, 9, &source) == PSGD_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    psgd__corpus_free(&source);
    return system(command);
}

static const char *folder(const char *name)
{
    static char path[4][64];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", root, name);
    return path[next];
}

static const language_method *method(const char *name)
{
    int i = 0;
    while (strcmp(psgd__language_method(i)->name, name) != 0) i++;
    return psgd__language_method(i);
}

static psgd_status run_it(const char *name, const char *at, int64_t steps, language_watch watch,
                          language_result *result)
{
    language_settings settings = small;
    settings.steps = steps;
    return psgd__language_run(NULL, &source, &settings, method(name), NULL, 0, folder(at), watch, NULL, result);
}

static void die_at_37(void *data, int64_t done, int64_t total)
{
    (void)data;
    (void)total;
    if (done == 37) _exit(37);
}

/* Everything that a checkpoint has but the time that it took. */
static void assert_same_model(const char *a, const char *b)
{
    language_memory one = {0}, other = {0};
    float *arrays[2];
    language_memory *both[] = {&one, &other};
    const char *names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        language_memory *m = both[i];
        assert_ok(psgd__language_load_mark(folder(names[i]), &m->mark));
        arrays[i] = calloc((size_t)(2 * m->mark.parameters + m->mark.state_size), sizeof(float));
        m->theta = arrays[i];
        m->best = m->theta + m->mark.parameters;
        m->state = m->best + m->mark.parameters;
        assert_ok(psgd__language_load(NULL, m, folder(names[i])));
    }
    assert_int_equal(one.mark.step, other.mark.step);
    assert_true(one.mark.best == other.mark.best);
    size_t bytes = (size_t)(2 * one.mark.parameters + one.mark.state_size) * sizeof(float);
    assert_memory_equal(arrays[0], arrays[1], bytes);
    free(arrays[0]);
    free(arrays[1]);
}

/* First, because a child of a process whose OpenMP threads run would wait for them. */
static void a_killed_run_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    language_result killed, whole;
    pid_t child = fork();
    if (child == 0) {
        (void)run_it("newton-scan", "killed", 0, die_at_37, &killed);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 37);
    language_mark mark;
    assert_ok(psgd__language_load_mark(folder("killed"), &mark));
    assert_int_equal(mark.step, 30);

    assert_ok(run_it("newton-scan", "killed", 0, NULL, &killed));
    assert_ok(run_it("newton-scan", "whole", 0, NULL, &whole));
    assert_int_equal(whole.steps, 3 * 106); /* (3200 / 5 - 1) / 6 = 106 */
    assert_true(killed.valid_loss == whole.valid_loss && killed.test_loss == whole.test_loss);
    assert_same_model("killed", "whole");

    metrics_run *one, *other;
    assert_ok(psgd__metrics_read(NULL, folder("killed"), &one));
    assert_ok(psgd__metrics_read(NULL, folder("whole"), &other));
    assert_int_equal(one->curve_count, other->curve_count);
    for (int i = 0; i < one->curve_count; i++) {
        assert_int_equal(one->curves[i].count, other->curves[i].count);
        for (int64_t k = 0; k < one->curves[i].count; k++) {
            assert_int_equal(one->curves[i].when[k].step, other->curves[i].when[k].step);
            assert_true(one->curves[i].value[k] == other->curves[i].value[k]);
        }
    }
    psgd__metrics_free(one);
    psgd__metrics_free(other);
}

/* Every method gets well below the loss of guessing, ln 30 = 3.4, towards the entropy; PSGD gets closer than SGD. */
static void every_method_learns(void **state)
{
    (void)state;
    double sgd = 0, newton = 0;
    for (int i = 0; psgd__language_method(i); i++) {
        const char *name = psgd__language_method(i)->name;
        language_result result;
        assert_ok(run_it(name, name, 0, NULL, &result));
        if (!(result.test_loss > source.entropy - 0.1 && result.test_loss < 3.2)) {
            print_error("%s: %g nats\n", name, result.test_loss);
            fail();
        }
        assert_int_equal(result.skipped, 0);
        if (!strcmp(name, "sgd")) sgd = result.test_loss;
        if (!strcmp(name, "newton-scan")) newton = result.test_loss;
    }
    assert_true(newton < sgd);
}

static psgd_status run_untied(const char *name, const char *at, bool whole, const metrics_setting *more, int64_t steps,
                              language_result *result)
{
    language_settings settings = small;
    settings.shape.untied = true;
    settings.whole = whole;
    settings.steps = steps;
    return psgd__language_run(NULL, &source, &settings, method(name), more, more ? 1 : 0, folder(at), NULL, NULL,
                              result);
}

static void an_untied_decoder_has_a_matrix_of_its_own(void **state)
{
    (void)state;
    language_result result;
    language_mark mark;
    assert_ok(run_untied("fisher-scan", "untied", false, NULL, 20, &result));
    assert_ok(psgd__language_load_mark(folder("untied"), &mark));
    assert_int_equal(mark.parameters, 2 * 30 * 13 + 2 * 48 * 25);
    assert_non_null(strstr(mark.what, "row-sparse"));
    assert_fails(run_untied("fisher-scan", "untied", true, NULL, 20, &result), PSGD_ERR_ARGUMENT, "another folder");
}

/* Row-sparse gradients make the steps that zeros in their place make; to what a sum of squares in another order costs,
 * where clipping is at work. Methods of each kind learn with them. */
static void rows_of_the_embedding_are_enough(void **state)
{
    (void)state;
    language_result rows, whole;
    assert_ok(run_untied("sgd", "rows-sgd", false, NULL, 40, &rows));
    assert_ok(run_untied("sgd", "whole-sgd", true, NULL, 40, &whole));
    assert_true(fabs(rows.valid_loss - whole.valid_loss) < 1e-4);
    static const struct {
        const char *method, *rows;
    } cases[] = {{"sparse-adam", NULL}, {"fisher-scaw", "lazy"}, {"newton-scan", "exact"}};
    for (int i = 0; i < 3; i++) {
        metrics_setting fit = {"rows", cases[i].rows};
        char at[32];
        snprintf(at, sizeof at, "rows-%s", cases[i].method);
        assert_ok(run_untied(cases[i].method, at, false, cases[i].rows ? &fit : NULL, 0, &rows));
        if (!(rows.test_loss < 3.25 && rows.skipped == 0)) {
            print_error("%s: %g nats, %d skipped\n", at, rows.test_loss, (int)rows.skipped);
            fail();
        }
    }
}

/* The loss of a text is that of each of its words but the first: with a batch of 1 and one step back a plain walk. */
static void an_evaluation_has_all_words(void **state)
{
    (void)state;
    corpus odd;
    language_result walk, batched;
    language_settings settings = small;
    settings.shape.dropout = 0;
    settings.steps = 1;
    settings.shape.batch = settings.shape.times = 1;
    assert_ok(psgd__corpus_markov(NULL, 30, 3, 840, 9, &odd)); /* 105 words to evaluate on */
    odd.text[SPLIT_TEST].count = 23;
    metrics_setting still = {"lr", "1e-30"};
    assert_ok(psgd__language_run(NULL, &odd, &settings, method("sgd"), &still, 1, folder("walk"), NULL, NULL, &walk));
    settings.shape.times = 7; /* 104 = 14 7 + 6, 22 = 3 7 + 1 */
    assert_ok(
        psgd__language_run(NULL, &odd, &settings, method("sgd"), &still, 1, folder("back"), NULL, NULL, &batched));
    assert_true(fabs(walk.valid_loss - batched.valid_loss) < 1e-5);
    assert_true(fabs(walk.test_loss - batched.test_loss) < 1e-5);
    settings.shape.batch = 5; /* columns start from zero: not the same number, but as many words */
    assert_ok(
        psgd__language_run(NULL, &odd, &settings, method("sgd"), &still, 1, folder("wide"), NULL, NULL, &batched));
    assert_true(fabs(walk.valid_loss - batched.valid_loss) < 0.05);
    psgd__corpus_free(&odd);
}

typedef struct heard {
    int count;
    char last[32];
} heard;

static void hear(void *data, const char *word)
{
    heard *self = data;
    self->count++;
    snprintf(self->last, sizeof self->last, "%s", word);
}

static void a_model_speaks(void **state)
{
    (void)state;
    heard a = {0}, b = {0};
    assert_ok(psgd__language_generate(NULL, folder("whole"), 50, 1, 3, hear, &a));
    assert_ok(psgd__language_generate(NULL, folder("whole"), 50, 1, 3, hear, &b));
    assert_int_equal(a.count, 50);
    assert_string_equal(a.last, b.last);
    assert_true(psgd__vocabulary_find(&source.words, a.last, (int64_t)strlen(a.last)) >= 0);
    assert_ok(psgd__language_generate(NULL, folder("untied"), 5, 0, 3, hear, &a));
    assert_fails(psgd__language_generate(NULL, root, 5, 0, 3, hear, &a), PSGD_ERR_IO, "no checkpoint");
}

static void what_does_not_fit_gets_a_sentence(void **state)
{
    (void)state;
    corpus other;
    language_result result;
    language_settings settings = small;
    assert_ok(psgd__corpus_markov(NULL, 30, 3, 3200, 10, &other));
    psgd__vocabulary_add(&other.words, "new", 3);
    settings.shape.words = 31;
    assert_fails(psgd__language_run(NULL, &other, &settings, method("newton-scan"), NULL, 0, folder("whole"), NULL,
                                    NULL, &result),
                 PSGD_ERR_FORMAT, "vocabulary of 30 words");
    psgd__corpus_free(&other);

    settings = small;
    settings.seed = 5;
    assert_fails(psgd__language_run(NULL, &source, &settings, method("newton-scan"), NULL, 0, folder("whole"), NULL,
                                    NULL, &result),
                 PSGD_ERR_ARGUMENT, "give it another folder");
    settings.shape.batch = 800;
    assert_fails(
        psgd__language_run(NULL, &source, &settings, method("sgd"), NULL, 0, folder("none"), NULL, NULL, &result),
        PSGD_ERR_ARGUMENT, "the train text has 3200 words");
    settings.shape = small.shape;
    settings.shape.hidden = 1 << 20;
    assert_fails(
        psgd__language_run(NULL, &source, &settings, method("sgd"), NULL, 0, folder("none"), NULL, NULL, &result),
        PSGD_ERR_NO_MEMORY, "GB of memory");
    assert_true(access(folder("none"), F_OK) != 0);
    metrics_setting more = {"lr", "fast"};
    assert_fails(
        psgd__language_run(NULL, &source, &small, method("sgd"), &more, 1, folder("none"), NULL, NULL, &result),
        PSGD_ERR_ARGUMENT, "lr");

    char path[96];
    snprintf(path, sizeof path, "%s/checkpoint", folder("untied"));
    assert_int_equal(truncate(path, 2000), 0);
    assert_fails(psgd__language_generate(NULL, folder("untied"), 5, 0, 3, NULL, NULL), PSGD_ERR_FORMAT, "damaged");
    assert_fails(psgd__corpus_read(NULL, folder("whole"), &other), PSGD_ERR_IO, "there is no");
    assert_fails(psgd__language_generate(NULL, folder("no-such-run"), 5, 0, 3, NULL, NULL), PSGD_ERR_IO,
                 "no checkpoint");
    snprintf(path, sizeof path, "%s/checkpoint", folder("sgd"));
    FILE *file = fopen(path, "w");
    fputs("something else altogether", file);
    fclose(file);
    assert_fails(psgd__language_generate(NULL, folder("sgd"), 5, 0, 3, NULL, NULL), PSGD_ERR_FORMAT,
                 "is not the checkpoint of a language model");
    assert_fails(run_it("sgd", "sgd", 0, NULL, &result), PSGD_ERR_FORMAT, "is not the checkpoint");
    assert_int_equal(mkdir(folder("other"), 0777), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder("other"));
    file = fopen(path, "w");
    fputs("precious\n", file);
    fclose(file);
    assert_fails(run_it("sgd", "other", 0, NULL, &result), PSGD_ERR_ARGUMENT, "a run of something else");
    struct stat about;
    assert_true(stat(path, &about) == 0 && about.st_size == 9);
    assert_fails(run_it("sgd", "other/metrics.jsonl", 0, NULL, &result), PSGD_ERR_IO, "metrics.jsonl");
    assert_fails(psgd__corpus_read(NULL, "no-such-folder", &other), PSGD_ERR_IO, "not a folder");
}

/* The paper's model: scan stores 33278 + 401 + 2 (800 + 801) numbers. */
static void scan_stores_what_the_paper_says(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{33278, 201}, {800, 401}, {800, 401}};
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        int64_t size, bytes;
        double ignored[4];
        assert_ok(psgd_group_cost(NULL, "scan", 2, shapes[i], PSGD_F32, &size, &bytes, &ignored[0], &ignored[1],
                                  &ignored[2], &ignored[3]));
        sum += size;
    }
    assert_int_equal(sum, 36881);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_goes_on_to_the_same_bits),
        cmocka_unit_test(every_method_learns),
        cmocka_unit_test(an_untied_decoder_has_a_matrix_of_its_own),
        cmocka_unit_test(rows_of_the_embedding_are_enough),
        cmocka_unit_test(an_evaluation_has_all_words),
        cmocka_unit_test(a_model_speaks),
        cmocka_unit_test(what_does_not_fit_gets_a_sentence),
        cmocka_unit_test(scan_stores_what_the_paper_says),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
