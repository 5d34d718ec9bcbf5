/* The methods of the paper's section 7.3 and Appendix A with their settings. For the matrix of the words the triangle
 * of scaw is on the side of the features. */
#include "train/language.h"

#define FIT(criterion, group)                                                                                          \
    {"criterion", criterion}, {"group", group}, {"lr", "0.1"}, {"step", "0.01"}, {"damping", "0"},                     \
        {"init-scale", "1"}, {"clip", "100"},                                                                          \
    {                                                                                                                  \
        "lr-schedule", "plateau"                                                                                       \
    }

static const language_method methods[] = {
    {"sgd", "sgd", true, {{"lr", "20"}, {"clip", "0.25"}, {"lr-schedule", "plateau"}}},
    {"momentum", "momentum", false, {{"lr", "1"}, {"momentum", "0.9"}, {"clip", "0.25"}, {"lr-schedule", "plateau"}}},
    {"adam", "adam", false, {{"lr", "0.005"}, {"epsilon", "1e-6"}, {"lr-schedule", "plateau"}}},
    {"sparse-adam", "sparse-adam", true, {{"lr", "0.005"}, {"epsilon", "1e-6"}, {"lr-schedule", "plateau"}}},
    {"fisher-diag", "psgd", false, {FIT("fisher", "diag")}},
    {"fisher-scan", "psgd", true, {FIT("fisher", "scan")}},
    {"fisher-scaw", "psgd", true, {FIT("fisher", "scaw")}},
    {"newton-diag", "psgd", false, {FIT("newton", "diag")}},
    {"newton-scan", "psgd", true, {FIT("newton", "scan")}},
    {"newton-scaw", "psgd", true, {FIT("newton", "scaw")}},
    {"newton-scan-10", "psgd", true, {FIT("newton", "scan"), {"update-every", "10"}}},
    {"newton-scaw-10", "psgd", true, {FIT("newton", "scaw"), {"update-every", "10"}}},
};

const language_method *psgd__language_method(int index)
{
    return index >= 0 && index < (int)(sizeof methods / sizeof methods[0]) ? &methods[index] : NULL;
}
