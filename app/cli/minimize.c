/* psgd minimize: built-in and user's functions, one method or a table of several. */
#include "cli/cli.h"
#include "cli/minimize_check.h"
#include "core/file.h"
#include "core/memory.h"
#include "problem/problem.h"
#include "problem/contest.h"
#include "problem/user_function.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARKS = 5 };

static const int64_t marks[MARKS] = {10, 30, 100, 300, 1000};

/* What is minimised: one of the two. */
typedef struct subject {
    problem *built_in;
    user_function own;
    psgd_function function;
    double *start;
    contest contest;
} subject;

static psgd_status list_functions(void)
{
    printf("%-22s %3s %6s  %-42s %s\n", "name", "n", "number", "function", "minima");
    for (int i = 0; i < psgd__problem_count(); i++) {
        const problem_kind *kind = psgd__problem_kind(i);
        problem *p;
        double minima[PROBLEM_MINIMA];
        PSGD_TRY(psgd__problem_create(NULL, kind->name, 0, &p));
        printf("%-22s %3d%s ", kind->name, kind->n, kind->multiple ? "+" : " ");
        char number[16] = "";
        if (kind->number) snprintf(number, sizeof number, "%d", kind->number);
        printf("%5s  %-42s", number, kind->title);
        int count = psgd__problem_minima(p, minima);
        for (int k = 0; k < count; k++) printf(" %g", minima[k]);
        putchar('\n');
        psgd__problem_free(p);
    }
    puts("\nn with a +: --n takes other sizes. number: in More, Garbow and Hillstrom, ACM TOMS 7 (1981).");
    return PSGD_OK;
}

static psgd_status open_built_in(const char *name, int64_t n, subject *s)
{
    PSGD_TRY(psgd__problem_create(NULL, name, n, &s->built_in));
    s->contest.n = psgd__problem_size(s->built_in);
    s->function = (psgd_function){
        .evaluate = psgd__problem_evaluate, .product = psgd__problem_product, .data = s->built_in};
    s->contest.hessian = psgd__problem_hessian;
    s->start = psgd__alloc(NULL, s->contest.n, sizeof(double));
    if (!s->start) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the start");
    psgd__problem_start(s->built_in, s->start);
    s->contest.start = s->start;
    return PSGD_OK;
}

static psgd_status open_own(const char *path, subject *s)
{
    PSGD_TRY(psgd__user_function_open(path, &s->own));
    s->function = psgd__user_function(&s->own);
    s->contest.n = s->own.n;
    s->contest.start = s->own.start;
    return PSGD_OK;
}

static void close_subject(subject *s)
{
    psgd__problem_free(s->built_in);
    psgd__user_function_close(&s->own);
    psgd__free(NULL, s->start);
}

/* The options of psgd_minimize, without those that the verb has as flags for all methods. */
static int own_option(int index, psgd_option_info *option)
{
    for (int i = 0; psgd_minimize_option(i, option); i++) {
        bool shared = !strcmp(option->name, "max-iterations") || !strcmp(option->name, "tolerance");
        if (!shared && index-- == 0) return 1;
    }
    return 0;
}

static bool has_own(const char *name)
{
    psgd_option_info option;
    for (int i = 0; own_option(i, &option); i++) {
        if (!strcmp(option.name, name)) return true;
    }
    return false;
}

/* The flags as options of a method. Alone, a method gets all of them and says which it does not know; in a table, each
 * takes its own. */
static psgd_status method_options(const char *method, const cli_args *args, bool alone, psgd_options **options)
{
    bool minimize = psgd__contest_is_minimize(method);
    psgd_option_info info;
    if (minimize && alone && !cli_value(args, "method")) {
        for (int i = 0; cli_optimizer_option(i, &info); i++) {
            if (!cli_value(args, info.name) || has_own(info.name)) continue;
            return cli_wrong_use("--%s is an option of other methods than minimize; name one with --method", info.name);
        }
    }
    PSGD_TRY(psgd_options_create(NULL, options));
    if (minimize || alone) PSGD_TRY(cli_options(own_option, args, *options));
    if (!minimize || alone) PSGD_TRY(cli_options(cli_optimizer_option, args, *options));
    return PSGD_OK;
}

/* How a run has ended: psgd_minimize says it, for other methods only these can be told apart. */
static const char *ending(const contest_mark *last)
{
    if (last->converged) return "converged";
    if (last->unbounded) return psgd_outcome_text(PSGD_UNBOUNDED);
    return last->diverged ? "diverged" : last->ending ? last->ending : "not converged";
}

/* A run as it is shown, and, with --out, its log: every iteration up to 1000, further ones more and more apart. */
typedef struct record {
    progress bar;
    int64_t iterations;
    metrics_log *log; /* NULL without --out */
    int lock;         /* of the folder, or -1 */
    psgd_status status;
} record;

static void note_point(void *data, const contest_mark *now)
{
    record *self = data;
    psgd__progress_note(&self->bar, "value %.6g, gradient %.1e", now->value, now->gradient_norm);
    psgd__progress_show(&self->bar, now->iteration, self->iterations);
    if (!self->log) return;
    metric values[] = {{"loss", now->value}, {"gradient_norm", now->gradient_norm}};
    metrics_time when = {now->iteration, (double)now->iteration, now->seconds};
    if (self->status != PSGD_OK || now->iteration % (1 + now->iteration / 1000) != 0) return;
    self->status = psgd__metrics_point(self->log, when, "train", values, 2);
}

static psgd_status write_final(metrics_log *log, const contest_mark *last)
{
    metric values[] = {{"value", last->value},
                       {"gradient_norm", last->gradient_norm},
                       {"converged", last->converged},
                       {"diverged", last->diverged},
                       {"skipped_steps", (double)last->skipped},
                       {"evaluations", (double)last->evaluations},
                       {"products", (double)last->products}};
    metrics_time when = {last->iteration, (double)last->iteration, last->seconds};
    return psgd__metrics_final(log, when, values, sizeof values / sizeof values[0]);
}

/* The values of the options that were not given. */
typedef struct default_list {
    metrics_setting list[128];
    psgd_option_info option[128];
    int count;
} default_list;

static void find_defaults(const char *method, const cli_args *args, default_list *to)
{
    bool minimize = psgd__contest_is_minimize(method);
    const char *name = !strcmp(method, "gd") ? "sgd" : method;
    for (int i = 0; to->count < 128; i++) {
        psgd_option_info *option = &to->option[to->count];
        if (!(minimize ? psgd_minimize_option(i, option) : psgd_optimizer_option(name, i, option))) break;
        if (cli_value(args, option->name) || !*option->default_value) continue;
        to->list[to->count++] = (metrics_setting){option->name, option->default_value};
    }
}

static psgd_status open_log(const subject *s, const char *method, const cli_args *args, record *to)
{
    metrics_setting settings[CLI_MAX_FLAGS];
    default_list others = {.count = 0};
    find_defaults(method, args, &others);
    const char *out = cli_value(args, "out");
    char path[4096];
    int created;
    snprintf(path, sizeof path, "%s/%s", out, CHECKPOINT_FILE);
    if (access(path, F_OK) == 0) {
        return psgd__fail(PSGD_ERR_ARGUMENT, "there is a run of psgd train in %s; give another folder (--out)", out);
    }
    for (int i = 0; i < args->flag_count; i++) settings[i] = (metrics_setting){args->name[i], args->value[i]};
    metrics_header header = {.run = out,
                             .method = method,
                             .task = s->built_in ? args->positional[0] : cli_value(args, "function"),
                             .settings = settings,
                             .setting_count = args->flag_count,
                             .defaults = others.list,
                             .default_count = others.count};
    PSGD_TRY(psgd__folder_create(out, &created));
    PSGD_TRY(psgd__folder_lock(out, &to->lock));
    psgd_status status = psgd__metrics_create(NULL, out, &header, &to->log);
    if (status != PSGD_OK) psgd__folder_unlock(to->lock);
    return status;
}

static psgd_status run_logged(const subject *s, const char *method, psgd_options *options, const cli_args *args,
                              double *x, contest_mark *last)
{
    record to = {.iterations = s->contest.iterations, .lock = -1};
    if (cli_value(args, "out")) PSGD_TRY(open_log(s, method, args, &to));
    psgd__progress_start(&to.bar, stderr, "iteration");
    psgd_status status = psgd__contest_run(&s->contest, method, options, note_point, &to, x, last);
    psgd__progress_end(&to.bar);
    if (!to.log) return status;
    if (status == PSGD_OK) status = to.status;
    if (status == PSGD_OK) status = write_final(to.log, last);
    psgd__metrics_close(to.log);
    psgd__folder_unlock(to.lock);
    return status;
}

/* minimize and gd are names of this verb. */
static psgd_status check_method(const char *method)
{
    enum { MAX = 64 };
    const char *names[MAX] = {"minimize", "gd", "psgd-newton", "psgd-fisher"};
    int count = 4;
    for (int i = 0; psgd_method_name(i) && count < MAX; i++) names[count++] = psgd_method_name(i);
    for (int i = 0; i < count; i++) {
        if (!strcmp(method, names[i])) return PSGD_OK;
    }
    return cli_wrong_use("there is no method %s%s", method,
                         psgd__suggest_or_list("methods", method, names, count).words);
}

static psgd_status run_one(const subject *s, const char *method, const cli_args *args)
{
    psgd_options *options = NULL;
    contest_mark last;
    PSGD_TRY(check_method(method));
    double *x = psgd__alloc(NULL, s->contest.n, sizeof(double));
    psgd_status status = x ? method_options(method, args, true, &options)
                           : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld unknowns", (long long)s->contest.n);
    if (status == PSGD_OK) status = run_logged(s, method, options, args, x, &last);
    psgd_options_free(options);
    if (status == PSGD_OK) {
        if (last.skipped) {
            fprintf(stderr, "psgd: warning: %lld steps were skipped: %s\n", (long long)last.skipped, last.why);
        }
        if (last.diverged) fprintf(stderr, "psgd: warning: %s diverged; a smaller --lr may help\n", method);
        printf("%s after %lld iterations, %lld evaluations, %lld Hessian-vector products, %.3g s\n", ending(&last),
               (long long)last.iteration, (long long)last.evaluations, (long long)last.products, last.seconds);
        printf("value    %.15g\ngradient %.3g\n", last.value, last.gradient_norm);
        for (int64_t i = 0; i < s->contest.n && i < 20; i++) printf("x[%lld] %.15g\n", (long long)i, x[i]);
        if (s->contest.n > 20) printf("... %lld more\n", (long long)s->contest.n - 20);
    }
    psgd__free(NULL, x);
    if (status != PSGD_OK) return psgd__fail_in(status, "method %s", method);
    *args->code = last.converged ? EXIT_SUCCESS : EXIT_FAILURE;
    return PSGD_OK;
}

static void note_mark(void *data, const contest_mark *now)
{
    double *row = data;
    for (int k = 0; k < MARKS; k++) {
        if (now->iteration <= marks[k]) row[k] = now->value;
    }
}

static void print_head(void)
{
    printf("%-28s", "value after iterations");
    for (int k = 0; k < MARKS; k++) printf(" %10lld", (long long)marks[k]);
    printf(" %10s %12s %9s %11s\n", "iterations", "evaluations", "products", "time in ms");
}

/* Flags go first, so the options of the entry itself win. */
static psgd_status compare_one(const subject *s, const cli_entry *entry, const cli_args *args, bool first)
{
    psgd_options *options = NULL;
    contest_mark last;
    double row[MARKS] = {0};
    psgd_status status = method_options(entry->method, args, false, &options);
    for (int i = 0; status == PSGD_OK && i < entry->count; i++) {
        status = psgd_options_set(options, entry->name[i], entry->value[i]);
    }
    if (status == PSGD_OK) status = psgd__contest_run(&s->contest, entry->method, options, note_mark, row, NULL, &last);
    psgd_options_free(options);
    if (status != PSGD_OK) return psgd__fail_in(status, "%s", entry->label);

    if (first) print_head();
    printf("%-28s", entry->label);
    for (int k = 0; k < MARKS; k++) {
        if (last.diverged && marks[k] >= last.iteration) {
            printf(" %10s", "-");
        } else {
            printf(" %10.3g", row[k]);
        }
    }
    bool ran_out = last.iteration == s->contest.iterations && !last.converged;
    const char *how = ran_out ? "" : ending(&last);
    printf(" %10lld %12lld %9lld %11.3g%s%.*s\n", (long long)last.iteration, (long long)last.evaluations,
           (long long)last.products, last.seconds * 1e3, *how ? "  " : "", (int)strcspn(how, ":"), how);
    fflush(stdout);
    return PSGD_OK;
}

static psgd_status run_table(const subject *s, const char *entries, const cli_args *args)
{
    psgd_status status = PSGD_OK;
    for (int checked = 0; checked < 2 && status == PSGD_OK; checked++) { /* all names first */
        char *copy = psgd__strdup(NULL, entries), *rest = copy;
        if (!copy) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the list of methods");
        for (cli_entry entry; status == PSGD_OK;) {
            status = cli_entry_next("compare", &rest, &entry);
            if (status != PSGD_OK || !entry.method) break;
            status = checked ? compare_one(s, &entry, args, entry.method == copy) : check_method(entry.method);
        }
        psgd__free(NULL, copy);
    }
    return status;
}

static psgd_status run(const cli_args *args)
{
    if (cli_value(args, "list")) return list_functions();
    const char *path = cli_value(args, "function"), *entries = cli_value(args, "compare");
    const char *method = cli_value(args, "method");
    if (args->positional_count + (path ? 1 : 0) != 1) {
        return cli_wrong_use("psgd minimize needs one NAME (psgd minimize --list shows them) or --function FILE.so");
    }
    if (entries && cli_value(args, "out")) return cli_wrong_use("--out is for one method, not for --compare");
    if (entries && method) return cli_wrong_use("--method is for one method, --compare for several: leave one out");
    if (entries && !*entries) return cli_wrong_use("--compare needs at least one method");
    int64_t n = 0;
    subject s = {.contest = {.iterations = entries ? 1000 : 10000, .tolerance = 1e-8}};
    PSGD_TRY(cli_count(args, "max-iterations", &s.contest.iterations));
    PSGD_TRY(cli_number(args, "tolerance", &s.contest.tolerance));
    PSGD_TRY(cli_count(args, "n", &n));
    if (cli_value(args, "n") && n == 0) return cli_wrong_use("--n must be 1 or more");
    if (path && n) return cli_wrong_use("--n is for built-in functions; the shared object says its own size");
    psgd_status status = path ? open_own(path, &s) : open_built_in(args->positional[0], n, &s);
    s.contest.function = &s.function;
    if (status == PSGD_OK && cli_value(args, "check")) {
        status = cli_check_gradient(&s.function, s.contest.n, s.contest.start, args->code);
    } else if (status == PSGD_OK) {
        status = entries ? run_table(&s, entries, args) : run_one(&s, method ? method : "minimize", args);
    }
    close_subject(&s);
    return status;
}

static const cli_flag flags[] = {
    {"list", NULL, "the built-in functions"},
    {"function", "FILE.so", "a function of your own, see below"},
    {"n", "N", "number of unknowns, where the function has a choice"},
    {"method", "NAME", "minimize, gd, psgd-newton, psgd-fisher, or another of those below [minimize]"},
    {"check", NULL, "compare gradient and product with differences at the start, and name the worst entry"},
    {"out", "DIR", "folder for the log of the run, as psgd report reads it; not with --compare"},
    {"compare", "LIST", "a table: methods with commas between them, each with its options as in sgd:lr=0.01"},
    {0},
};

const cli_verb verb_minimize = {
    .name = "minimize",
    .usage = "psgd minimize NAME|--function FILE.so [--method NAME|--compare LIST] [options] | psgd minimize --list",
    .summary = "Minimise a function, built in or your own",
    .flags = flags,
    .options = {psgd_minimize_option, cli_optimizer_option},
    .sections = {"minimize (--tolerance and --max-iterations: every method)", "The other methods"},
    .more = "A shared object for --function has these symbols (examples/own_function/own_function.c):\n"
            "  int64_t psgd_function_start(int64_t room, double *x);  returns n, fills x where room is n or more\n"
            "  int psgd_function_evaluate(int64_t n, const double *x, double *value, double *gradient);  0: all well;\n"
            "      gradient may be NULL\n"
            "  int psgd_function_product(int64_t n, const double *x, const double *v, double *h);  optional: h <- Hv\n",
    .example = "  psgd minimize rosenbrock\n"
               "  psgd minimize extended-rosenbrock --n 1000 --out run\n"
               "  psgd minimize beale --compare gd:lr=0.01,momentum:lr=0.01,lbfgs,newton-cg,minimize\n",
    .run = run,
};
