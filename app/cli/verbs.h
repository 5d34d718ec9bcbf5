/* Every verb, in the order in which psgd --help shows them: one line here and one in main.c. */
#ifndef PSGD_CLI_VERBS_H
#define PSGD_CLI_VERBS_H

#include "cli/cli.h"

extern const cli_verb verb_group;
extern const cli_verb verb_fit;
extern const cli_verb verb_minimize;
extern const cli_verb verb_paper;
extern const cli_verb verb_train;
extern const cli_verb verb_resume;
extern const cli_verb verb_eval;
extern const cli_verb verb_demo;
extern const cli_verb verb_report;
extern const cli_verb verb_generate;
extern const cli_verb verb_bench;

#endif
