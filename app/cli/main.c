/* psgd: preconditioned SGD on matrix Lie groups, from the command line. */
#include "cli/cli.h"
#include "core/text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const cli_verb *const verbs[] = {
    &verb_group, &verb_fit,   &verb_minimize, &verb_train,  &verb_compare,  &verb_resume,
    &verb_eval,  &verb_paper, &verb_demo,     &verb_report, &verb_generate, &verb_bench,
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0], EXIT_WRONG_USE = 2 };

static void print_usage(void)
{
    puts("usage: psgd VERB [arguments]\n\nPreconditioned SGD on matrix Lie groups.\n");
    for (int i = 0; i < VERB_COUNT; i++) printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    puts("\npsgd VERB --help explains each; psgd --version tells the version.");
}

/* The library takes what is no number for nothing, without a place to say so. */
static psgd_status check_threads(void)
{
    const char *threads = getenv("PSGD_NUM_THREADS");
    double number;
    if (!threads || !*threads || (psgd__parse_number(threads, &number) && number >= 1)) return PSGD_OK;
    return cli_wrong_use("PSGD_NUM_THREADS is '%s'; it must be a number of threads, 1 or more", threads);
}

static psgd_status run(int argc, char **argv, int *code)
{
    const char *first = argc < 2 ? "help" : argv[1], *names[VERB_COUNT];
    if (argc < 2) *code = EXIT_WRONG_USE;
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help")) {
        print_usage();
        return PSGD_OK;
    }
    if (!strcmp(first, "--version")) {
        printf("psgd %s\n", psgd_version());
        return PSGD_OK;
    }
    if (!strcmp(first, "--man")) {
        cli_print_man(verbs, VERB_COUNT);
        return PSGD_OK;
    }
    for (int i = 0; i < VERB_COUNT; i++) {
        if (!strcmp(first, verbs[i]->name)) {
            if (psgd_comm_size(cli_comm()) > 1 && !verbs[i]->ranks) {
                return cli_wrong_use("psgd %s runs on one rank; mpirun is for psgd train, resume and paper", first);
            }
            return cli_run(verbs[i], argc - 2, argv + 2, code);
        }
        names[i] = verbs[i]->name;
    }
    return cli_wrong_use("there is no verb '%s'%s; psgd --help lists them", first,
                         psgd__suggest("", first, names, VERB_COUNT).words);
}

/* Prints once why the command has failed. A message that starts with "rank " has been agreed on by all ranks already.
 */
static void tell(psgd_status *status)
{
    psgd_comm *comm = cli_comm();
    if (strncmp(psgd_last_error(), "rank ", 5) != 0) *status = psgd_comm_agree(comm, *status);
    if (psgd_comm_rank(comm) == 0) fprintf(stderr, "psgd: %s\n", psgd_last_error());
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit fails with a sentence, as on a full disk */
    int code = EXIT_SUCCESS;
    psgd_status status = cli_comm_open();
    if (status == PSGD_OK) status = check_threads();
    if (status == PSGD_OK) status = run(argc, argv, &code);
    if (status != PSGD_OK) {
        tell(&status);
        code = status == PSGD_ERR_SPEC || status == PSGD_ERR_ARGUMENT ? EXIT_WRONG_USE : EXIT_FAILURE;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fputs("psgd: the output could not be written; is the disk full?\n", stderr);
        if (code == EXIT_SUCCESS) code = EXIT_FAILURE;
    }
    cli_comm_close();
    return code;
}
