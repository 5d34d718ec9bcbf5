/* psgd: preconditioned SGD on matrix Lie groups, from the command line. */
#include "cli/args.h"
#include "cli/man.h"
#include "cli/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_verb *const verbs[] = {
    &verb_group, &verb_fit,  &verb_minimize, &verb_train,    &verb_resume, &verb_eval,
    &verb_paper, &verb_demo, &verb_report,   &verb_generate, &verb_bench,
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_usage(void)
{
    puts("usage: psgd VERB [arguments]\n\nPreconditioned SGD on matrix Lie groups.\n");
    for (int i = 0; i < VERB_COUNT; i++) printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    puts("\npsgd VERB --help explains each; psgd --version tells the version.");
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage();
        return EXIT_WRONG_USE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage();
        return EXIT_SUCCESS;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("psgd %s\n", psgd_version());
        return EXIT_SUCCESS;
    }
    if (!strcmp(argv[1], "--man")) {
        cli_print_man(verbs, VERB_COUNT);
        return EXIT_SUCCESS;
    }
    const char *names[VERB_COUNT];
    for (int i = 0; i < VERB_COUNT; i++) {
        if (!strcmp(argv[1], verbs[i]->name)) return cli_run(verbs[i], argc - 2, argv + 2);
        names[i] = verbs[i]->name;
    }
    return cli_wrong_use("there is no verb '%s'%s; psgd --help lists them", argv[1],
                         psgd__suggest("", argv[1], names, VERB_COUNT).words);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit fails with a sentence, as on a full disk */
    int status = run(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("psgd: the output could not be written; is the disk full?\n", stderr);
        if (status == EXIT_SUCCESS) status = EXIT_FAILURE;
    }
    return status;
}
