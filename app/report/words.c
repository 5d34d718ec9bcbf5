#include "report/words.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *words;
} methods[] = {
    {"psgd", "PSGD"},
    {"psgd-newton", "PSGD, Newton"},
    {"psgd-fisher", "PSGD, Fisher"},
    {"sgd", "SGD"},
    {"momentum", "SGD with momentum"},
    {"nesterov", "SGD with Nesterov momentum"},
    {"adagrad", "AdaGrad"},
    {"rmsprop", "RMSProp"},
    {"adam", "Adam"},
    {"adamw", "AdamW"},
    {"sparse-adam", "sparse Adam"},
    {"esgd", "ESGD"},
    {"kfac", "K-FAC"},
    {"lbfgs", "L-BFGS"},
    {"newton-cg", "Newton-CG"},
    {"batch-norm", "batch normalisation"},
};

/* CRITERION-GROUP or CRITERION-GROUP-N, the latter with an update every N steps. */
static int paper_method(const char *method, char *words, size_t room)
{
    static const char *const groups[] = {"diag", "scan", "scaw"};
    char criterion[8] = "", group[8] = "", rest[2] = "";
    int every = 1, found = sscanf(method, "%7[a-z]-%7[a-z]-%9d%1s", criterion, group, &every, rest);
    int is_newton = !strcmp(criterion, "newton"), known = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) known = known || !strcmp(group, groups[i]);
    if (!known || (!is_newton && strcmp(criterion, "fisher") != 0)) return 0;
    size_t plain = strlen(criterion) + 1 + strlen(group);
    if (found > 3 || (found == 2 && method[plain])) return 0;
    int length = snprintf(words, room, "PSGD, %s, %s", is_newton ? "Newton" : "Fisher", group);
    if (found == 3 && length > 0 && (size_t)length < room) {
        snprintf(words + length, room - (size_t)length, ", every %d steps", every);
    }
    return 1;
}

void psgd__words_method(const char *method, char *words, size_t room)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, method) != 0) continue;
        snprintf(words, room, "%s", methods[i].words);
        return;
    }
    if (!paper_method(method, words, room)) snprintf(words, room, "%s", method);
}

void psgd__words_metric(const char *metric, char *words, size_t room)
{
    static const struct {
        const char *prefix, *words;
    } splits[] = {{"train ", "training "}, {"valid ", "validation "}, {"", ""}};
    size_t i = 0;
    while (strncmp(splits[i].prefix, metric, strlen(splits[i].prefix)) != 0) i++;
    const char *name = metric + strlen(splits[i].prefix);
    int top5 = !strncmp(name, "top5_", 5);
    snprintf(words, room, "%s%s%s", splits[i].words, top5 ? "top-5 " : "", name + (top5 ? 5 : 0));
    for (char *c = words; *c; c++) *c = *c == '_' ? ' ' : *c;
}
