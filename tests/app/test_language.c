/* The language model: it learns with every method, resumes bit-for-bit after a kill, writes text, and refuses what does
 * not fit. */
#include "support.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/text/corpus.h"
#include "model/model.h"
#include "paper/presets.h"
#include "report/metrics.h"
#include "train/checkpoint.h"

static char root[] = "language-XXXXXX";

/* A Markov language of 30 words; its entropy. */
#define SOURCE "markov:30,3,3200,9"
static double entropy;

static int set_up(void **state)
{
    (void)state;
    corpus source;
    if (!mkdtemp(root) || psgd__corpus_open(NULL, SOURCE, &source) != PSGD_OK) return -1;
    entropy = source.entropy;
    psgd__corpus_free(&source);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
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

static const paper_method *method(const char *name)
{
    const paper_method *found = psgd__paper_find("wikitext2")->methods;
    while (strcmp(found->name, name) != 0) found++;
    return found;
}

typedef struct run {
    const char *method, *at;
    train_setting more[8]; /* ends with a NULL name */
    void (*watch)(void *data, int64_t done, int64_t total, double loss);
} run;

/* A run with the settings of the paper's method, made small; resumed where there is one. */
static psgd_status open_run(run it, trainer **self)
{
    paper_choice choice = {.variant = 1,
                           .given = {{"data", SOURCE},
                                     {"hidden", "12"},
                                     {"back", "6"},
                                     {"batch", "5"},
                                     {"dropout", "0.1"},
                                     {"epochs", "3"},
                                     {"checkpoint-every", "10"},
                                     {"log-every", "5"},
                                     {"seed", "4"}},
                           .given_count = 9};
    for (int i = 0; i < 8 && it.more[i].name; i++) choice.given[choice.given_count++] = it.more[i];
    return psgd__paper_open(NULL, NULL, psgd__paper_find("wikitext2"), &choice, method(it.method), folder(it.at), self);
}

static psgd_status run_it(run it)
{
    trainer *self;
    bool stopped;
    PSGD_TRY(open_run(it, &self));
    train_watch watch = {.step = it.watch};
    psgd_status status = psgd__trainer_run(self, &watch, &stopped);
    psgd__trainer_free(self);
    return status;
}

static metrics_run *read_log(const char *at)
{
    metrics_run *log;
    assert_ok(psgd__metrics_read(NULL, folder(at), &log));
    return log;
}

/* A number of the final record. */
static double result(const char *at, const char *name)
{
    metrics_run *log = read_log(at);
    double value = NAN;
    for (int i = 0; i < log->final_count; i++) {
        if (!strcmp(log->final[i].name, name)) value = log->final[i].value;
    }
    psgd__metrics_free(log);
    return value;
}

static void die_at_37(void *data, int64_t done, int64_t total, double loss)
{
    (void)data;
    (void)total;
    (void)loss;
    if (done == 37) _exit(37);
}

/* Everything that a checkpoint has but the time that it took and its settings, which name the folder. */
static void assert_same_model(const char *a, const char *b)
{
    static const char *const names[] = {"weights", "best", "state", "optimizer", "vocabulary"};
    checkpoint one, other;
    assert_ok(psgd__checkpoint_open(NULL, folder(a), &one));
    assert_ok(psgd__checkpoint_open(NULL, folder(b), &other));
    assert_int_equal(one.now.step, other.now.step);
    assert_true(one.now.best == other.now.best);
    for (int i = 0; i < 5; i++) {
        int64_t bytes, own;
        const void *kept = psgd__checkpoint_section(&one, names[i], &bytes);
        const void *same = psgd__checkpoint_section(&other, names[i], &own);
        assert_true(kept && same && bytes == own);
        assert_memory_equal(kept, same, (size_t)bytes);
    }
    psgd__checkpoint_close(&one);
    psgd__checkpoint_close(&other);
}

static void assert_same_log(const char *a, const char *b)
{
    metrics_run *one = read_log(a), *other = read_log(b);
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

static void start_and_kill(run it)
{
    it.watch = die_at_37;
    pid_t child = fork();
    if (child == 0) {
        (void)run_it(it);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 37);
    checkpoint file;
    assert_ok(psgd__checkpoint_open(NULL, folder(it.at), &file));
    assert_int_equal(file.now.step, 30);
    psgd__checkpoint_close(&file);
}

/* First, and all children before anything else, because a child of a process whose threads run would wait for them. */
static void a_killed_run_resumes_bit_for_bit(void **state)
{
    (void)state;
    enum { CASES = 4 };
    static const char *const whole[CASES] = {"whole", "whole-rows", "whole-difference", "whole-part"};
    const run cut[CASES] = {
        {.method = "newton-scan", .at = "killed"},
        {.method = "newton-scan", .at = "killed-rows", .more = {{"untied", "yes"}, {"steps", "60"}}},
        {.method = "newton-scan", .at = "killed-difference", .more = {{"hv", "difference"}, {"steps", "50"}}},
        {.method = "newton-scan-10", .at = "killed-part", .more = {{"hv-batch", "2"}, {"steps", "50"}}},
    };
    for (int i = 0; i < CASES; i++) start_and_kill(cut[i]);
    for (int i = 0; i < CASES; i++) {
        run it = cut[i];
        assert_ok(run_it(it));
        it.at = whole[i];
        assert_ok(run_it(it));
        assert_true(result(cut[i].at, "valid_loss") == result(whole[i], "valid_loss"));
        assert_true(result(cut[i].at, "test_loss") == result(whole[i], "test_loss"));
        assert_same_model(cut[i].at, whole[i]);
        assert_same_log(cut[i].at, whole[i]);
    }
    metrics_run *log = read_log("whole");
    assert_int_equal(log->last.step, 3 * 106); /* (3200 / 5 - 1) / 6 = 106 */
    psgd__metrics_free(log);
}

/* Ended within an epoch and then given more steps: the evaluation at the end has left no trace. */
static void a_run_with_more_steps_is_as_if_it_had_them_from_the_start(void **state)
{
    (void)state;
    assert_ok(run_it((run){.method = "fisher-scan", .at = "grown", .more = {{"steps", "25"}}}));
    assert_ok(run_it((run){.method = "fisher-scan", .at = "grown", .more = {{"steps", "110"}}}));
    assert_ok(run_it((run){.method = "fisher-scan", .at = "grown-whole", .more = {{"steps", "110"}}}));
    assert_same_model("grown", "grown-whole");
}

/* Every method gets well below the loss of guessing, ln 30 = 3.4, towards the entropy; PSGD gets closer than SGD. */
static void every_method_learns(void **state)
{
    (void)state;
    for (const paper_method *m = psgd__paper_find("wikitext2")->methods; m->name; m++) {
        assert_ok(run_it((run){.method = m->name, .at = m->name}));
        double loss = result(m->name, "test_loss");
        if (!(loss > entropy - 0.1 && loss < 3.2)) {
            print_error("%s: %g nats\n", m->name, loss);
            fail();
        }
        assert_true(result(m->name, "skipped_steps") == 0);
    }
    assert_true(result("newton-scan", "test_loss") < result("sgd", "test_loss"));
}

/* What the log says of the decoder. */
static void assert_decoder(const char *at, const char *expected)
{
    metrics_run *log = read_log(at);
    const char *found = "";
    for (int i = 0; i < log->setting_count; i++) {
        if (!strcmp(log->settings[i].name, "decoder")) found = log->settings[i].value;
    }
    assert_string_equal(found, expected);
    psgd__metrics_free(log);
}

static void an_untied_decoder_has_a_matrix_of_its_own(void **state)
{
    (void)state;
    checkpoint file;
    int64_t bytes;
    assert_ok(run_it((run){.method = "fisher-scan", .at = "untied", .more = {{"untied", "yes"}, {"steps", "20"}}}));
    assert_ok(psgd__checkpoint_open(NULL, folder("untied"), &file));
    assert_non_null(psgd__checkpoint_section(&file, "weights", &bytes));
    assert_int_equal(bytes, (2 * 30 * 13 + 2 * 48 * 25) * (int)sizeof(float));
    psgd__checkpoint_close(&file);
    assert_decoder("untied", "untied, row-sparse");
    assert_fails(run_it((run){.method = "fisher-scan",
                              .at = "untied",
                              .more = {{"untied", "yes"}, {"row-gradients", "no"}, {"steps", "20"}}}),
                 PSGD_ERR_ARGUMENT, "another folder");
}

/* Methods that would move every row, closures, several pairs, a penalty: gradients are whole then. */
static void whole_gradients_stand_in_where_rows_are_not_enough(void **state)
{
    (void)state;
    static const train_setting cases[] = {{"optimizer", "adam"}, {"optimizer", "lbfgs"}, {"hv", "difference"},
                                          {"pairs", "2"},        {"l2", "1e-4"},         {"hv-batch", "3"}};
    for (int i = 0; i < 6; i++) {
        char at[32];
        snprintf(at, sizeof at, "stand-in-%d", i);
        const char *name = i < 2 ? "sgd" : "newton-scan";
        assert_ok(run_it((run){.method = name, .at = at, .more = {{"untied", "yes"}, {"steps", "6"}, cases[i]}}));
        assert_decoder(at, "untied");
    }
}

/* Row-sparse gradients make the steps that zeros in their place make; to what a sum of squares in another order costs,
 * where clipping is at work. Methods of each kind learn with them. */
static void rows_of_the_embedding_are_enough(void **state)
{
    (void)state;
    assert_ok(run_it((run){.method = "sgd", .at = "rows-sgd", .more = {{"untied", "yes"}, {"steps", "40"}}}));
    assert_ok(run_it((run){
        .method = "sgd", .at = "whole-sgd", .more = {{"untied", "yes"}, {"row-gradients", "no"}, {"steps", "40"}}}));
    assert_true(fabs(result("rows-sgd", "valid_loss") - result("whole-sgd", "valid_loss")) < 1e-4);
    static const struct {
        const char *method, *rows;
    } cases[] = {{"sparse-adam", NULL}, {"fisher-scaw", "lazy"}, {"newton-scan", "exact"}};
    for (int i = 0; i < 3; i++) {
        char at[32];
        snprintf(at, sizeof at, "rows-%s", cases[i].method);
        run it = {.method = cases[i].method, .at = at, .more = {{"untied", "yes"}}};
        if (cases[i].rows) it.more[1] = (train_setting){"rows", cases[i].rows};
        assert_ok(run_it(it));
        if (!(result(at, "test_loss") < 3.25 && result(at, "skipped_steps") == 0)) {
            print_error("%s: %g nats\n", at, result(at, "test_loss"));
            fail();
        }
    }
}

/* In the tied model the softmax gives every row a gradient in every step, so sparse Adam is Adam, bit for bit. Where
 * the embedding has a matrix of its own, Adam also moves the rows of words that the batch does not have. */
static void sparse_adam_is_adam_where_no_row_is_absent(void **state)
{
    (void)state;
    static const char *const methods[] = {"adam", "sparse-adam"};
    for (int untied = 0; untied < 2; untied++) {
        double loss[2];
        for (int i = 0; i < 2; i++) {
            char at[48];
            snprintf(at, sizeof at, "%s-%s", methods[i], untied ? "apart" : "tied");
            run it = {.method = methods[i], .at = at, .more = {{"steps", "40"}, {"batch", "2"}}}; /* of few words */
            if (untied) it.more[2] = (train_setting){"untied", "yes"};
            assert_ok(run_it(it));
            assert_decoder(at, !untied ? "tied" : i ? "untied, row-sparse" : "untied");
            loss[i] = result(at, "valid_loss");
        }
        if (!(untied ? fabs(loss[0] - loss[1]) > 1e-4 : loss[0] == loss[1])) {
            fail_msg("untied %d: adam ends at %.9g, sparse-adam at %.9g", untied, loss[0], loss[1]);
        }
    }
}

/* A text of one line: with the end of the line count words. */
static void write_words(const char *name, uint64_t *random, int count)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s.txt", folder("text"), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i + 1 < count; i++) fprintf(file, "w%d ", (int)(fabs(random_normal(random)) * 9));
    fclose(file);
}

static void score_text(const char *batch, const char *back, train_score *valid, train_score *test)
{
    char data[96];
    trainer *self;
    snprintf(data, sizeof data, "text:%s", folder("text"));
    const train_setting list[] = {{"model", "lm"}, {"data", data}, {"hidden", "12"},    {"batch", batch},
                                  {"back", back},  {"seed", "4"},  {"optimizer", "sgd"}};
    assert_ok(psgd__trainer_create(NULL, NULL, sizeof list / sizeof list[0], list, &self));
    assert_ok(psgd__trainer_evaluate(self, valid, test));
    psgd__trainer_free(self);
}

/* The loss of a text is that of each of its words but the first: with a batch of 1 and one step back a plain walk. */
static void an_evaluation_has_all_words(void **state)
{
    (void)state;
    uint64_t random = 3;
    train_score valid[3], test[3];
    assert_int_equal(mkdir(folder("text"), 0777), 0);
    write_words("train", &random, 840);
    write_words("valid", &random, 105);
    write_words("test", &random, 23);
    score_text("1", "1", &valid[0], &test[0]);
    score_text("1", "7", &valid[1], &test[1]); /* 104 = 14 7 + 6, 22 = 3 7 + 1 */
    score_text("5", "7", &valid[2], &test[2]); /* columns start from zero: not the same number, but as many words */
    assert_true(fabs(valid[0].loss - valid[1].loss) < 1e-5 && fabs(test[0].loss - test[1].loss) < 1e-5);
    assert_true(fabs(valid[0].loss - valid[2].loss) < 0.05);
    assert_true(fabs(valid[0].perplexity - exp(valid[0].loss)) < 1e-9 && isnan(valid[0].error));
}

typedef struct heard {
    int count;
    char last[32];
} heard;

static void hear(void *data, const char *word, bool joined)
{
    assert_false(joined);
    heard *self = data;
    self->count++;
    snprintf(self->last, sizeof self->last, "%s", word);
}

static void a_model_writes_text(void **state)
{
    (void)state;
    heard a = {0}, b = {0};
    corpus source;
    assert_ok(psgd__generate(NULL, folder("whole"), 50, 1, 3, hear, &a));
    assert_ok(psgd__generate(NULL, folder("whole"), 50, 1, 3, hear, &b));
    assert_int_equal(a.count, 50);
    assert_string_equal(a.last, b.last);
    assert_ok(psgd__corpus_open(NULL, SOURCE, &source));
    assert_true(psgd__vocabulary_find(&source.words, a.last, (int64_t)strlen(a.last)) >= 0);
    psgd__corpus_free(&source);
    assert_ok(psgd__generate(NULL, folder("untied"), 5, 0, 3, hear, &a));
    assert_fails(psgd__generate(NULL, root, 5, 0, 3, hear, &a), PSGD_ERR_IO, CHECKPOINT_FILE);
}

static void what_does_not_fit_gets_a_sentence(void **state)
{
    (void)state;
    static const struct {
        train_setting setting;
        psgd_status status;
        const char *at, *sentence;
    } cases[] = {
        {{"data", "markov:31,3,3200,9"}, PSGD_ERR_FORMAT, "whole", "the vocabulary of the checkpoint in"},
        {{"seed", "5"}, PSGD_ERR_ARGUMENT, "whole", "give it another folder"},
        {{"batch", "800"}, PSGD_ERR_ARGUMENT, "none", "the train text has 3200 words"},
        {{"hidden", "1000000"}, PSGD_ERR_NO_MEMORY, "none", "GB of memory"},
        {{"lr", "fast"}, PSGD_ERR_ARGUMENT, "none", "lr"},
        {{"data", "markov:30,3,few"}, PSGD_ERR_ARGUMENT, "none", "markov:WORDS,FOLLOWERS,LENGTH,SEED"},
        {{"data", "digits"}, PSGD_ERR_ARGUMENT, "none", "text:DIR"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run it = {.method = "newton-scan", .at = cases[i].at, .more = {cases[i].setting}};
        assert_fails(run_it(it), cases[i].status, cases[i].sentence);
    }
    assert_true(access(folder("none"), F_OK) != 0);
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void damaged_and_foreign_files_get_a_sentence(void **state)
{
    (void)state;
    char path[96];
    corpus other;
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder("untied"), CHECKPOINT_FILE);
    assert_int_equal(truncate(path, 2000), 0);
    assert_fails(psgd__generate(NULL, folder("untied"), 5, 0, 3, NULL, NULL), PSGD_ERR_FORMAT, "damaged");
    write_file(path, "psgdrun2 and what an earlier version wrote");
    assert_fails(psgd__generate(NULL, folder("untied"), 5, 0, 3, NULL, NULL), PSGD_ERR_FORMAT, "another version");
    assert_fails(psgd__generate(NULL, folder("no-such-run"), 5, 0, 3, NULL, NULL), PSGD_ERR_IO, "no-such-run");
    snprintf(path, sizeof path, "%s/%s", folder("sgd"), CHECKPOINT_FILE);
    write_file(path, "something else altogether");
    assert_fails(psgd__generate(NULL, folder("sgd"), 5, 0, 3, NULL, NULL), PSGD_ERR_FORMAT,
                 "is not the checkpoint of a run");
    assert_fails(run_it((run){.method = "sgd", .at = "sgd"}), PSGD_ERR_FORMAT, "is not the checkpoint");
    /* As an earlier version left it: records, and a checkpoint of another name. */
    assert_int_equal(unlink(path), 0);
    assert_fails(run_it((run){.method = "sgd", .at = "sgd"}), PSGD_ERR_ARGUMENT, "of another version");
    assert_int_equal(mkdir(folder("other"), 0777), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder("other"));
    write_file(path, "precious\n");
    assert_fails(run_it((run){.method = "sgd", .at = "other"}), PSGD_ERR_ARGUMENT, "a run of something else");
    assert_true(stat(path, &about) == 0 && about.st_size == 9);
    assert_fails(run_it((run){.method = "sgd", .at = "other/metrics.jsonl"}), PSGD_ERR_IO, "metrics.jsonl");
    snprintf(path, sizeof path, "text:%s", folder("whole"));
    assert_fails(psgd__corpus_open(NULL, path, &other), PSGD_ERR_IO, "there is no");
    assert_fails(psgd__corpus_open(NULL, "text:no-such-folder", &other), PSGD_ERR_IO, "not a folder");
}

/* The paper's model: scan stores 33278 + 401 + 2 (800 + 801) numbers. */
/* The loss of a model in training, with masks, and in evaluation, without. */
static void losses(model_settings settings, double loss[2])
{
    enum { WORDS = 7, BATCH = 3, TIMES = 2 };
    const model *kind;
    psgd_graph *graph;
    model_nodes nodes;
    double theta[2000], gradient[2000];
    model_shape shape = {.ndim = 1, .sample = {TIMES}, .n = BATCH, .classes = WORDS};
    settings.hidden = 8;
    assert_ok(psgd__model_find("lm", &kind));
    assert_ok(psgd__model_graph(NULL, kind, PSGD_F64, &shape, &settings, &graph, &nodes));
    assert_in_range(psgd_graph_parameters(graph), 1, 2000);
    assert_ok(psgd__model_start(NULL, kind, graph, PSGD_F64, 5, theta));
    for (int i = 0; i < TIMES * BATCH; i++) {
        ((double *)psgd_graph_values(graph, nodes.x))[i] = i % WORDS;
        ((double *)psgd_graph_values(graph, nodes.y))[i] = (i + 1) % WORDS;
    }
    assert_ok(psgd_graph_gradient(graph, theta, gradient, &loss[0]));
    assert_ok(psgd_graph_loss(graph, theta, &loss[1]));
    psgd_graph_free(graph);
}

/* Encoder, LSTM, dropout, LSTM, dropout, decoder: without a layer there is nothing to drop. */
static void dropout_comes_after_layers_and_not_after_the_embedding(void **state)
{
    (void)state;
    double loss[2];
    losses((model_settings){.layers = 0, .dropout = 0.9}, loss);
    assert_true(loss[0] == loss[1]);
    losses((model_settings){.layers = 1, .dropout = 0.9}, loss);
    assert_true(fabs(loss[0] - loss[1]) > 1e-6);
    losses((model_settings){.layers = 0, .embedding_dropout = 0.9}, loss);
    assert_true(fabs(loss[0] - loss[1]) > 1e-6);
}

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
        cmocka_unit_test(a_killed_run_resumes_bit_for_bit),
        cmocka_unit_test(a_run_with_more_steps_is_as_if_it_had_them_from_the_start),
        cmocka_unit_test(every_method_learns),
        cmocka_unit_test(an_untied_decoder_has_a_matrix_of_its_own),
        cmocka_unit_test(whole_gradients_stand_in_where_rows_are_not_enough),
        cmocka_unit_test(rows_of_the_embedding_are_enough),
        cmocka_unit_test(sparse_adam_is_adam_where_no_row_is_absent),
        cmocka_unit_test(an_evaluation_has_all_words),
        cmocka_unit_test(a_model_writes_text),
        cmocka_unit_test(what_does_not_fit_gets_a_sentence),
        cmocka_unit_test(damaged_and_foreign_files_get_a_sentence),
        cmocka_unit_test(dropout_comes_after_layers_and_not_after_the_embedding),
        cmocka_unit_test(scan_stores_what_the_paper_says),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
