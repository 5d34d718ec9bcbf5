/* Stop and resume: 100 steps in one run, and 40 steps, a saved file and 60 more in a new optimizer, give the same bits.
 */
#include <psgd/psgd.h>
#include <stdio.h>
#include <string.h>

static int quadratic(void *data, const void *const *theta, double *loss, void *const *gradient)
{
    const double *x = theta[0];
    double *g = gradient[0];
    *loss = (x[0] * x[0] + 50 * x[1] * x[1] + x[0] * x[1]) / 2;
    g[0] = x[0] + x[1] / 2;
    g[1] = 50 * x[1] + x[0] / 2;
    return data != NULL;
}

/* Takes steps from theta; loads the state from a file before and saves it after, where a path is given. */
static psgd_status run(int steps, double *theta, const char *from, const char *to)
{
    const int64_t shape[] = {2};
    const psgd_tensor tensor = {.spec = "tri", .ndim = 1, .shape = shape};
    const psgd_objective objective = {.gradient = quadratic};
    psgd_optimizer *optimizer;
    psgd_status status = psgd_optimizer_create(NULL, "psgd", 1, &tensor, PSGD_F64, NULL, &optimizer);
    if (status == PSGD_OK) status = psgd_optimizer_bind(optimizer, &objective);
    if (status == PSGD_OK && from) status = psgd_optimizer_load(optimizer, from);
    for (int i = 0; i < steps && status == PSGD_OK; i++) {
        status = psgd_optimizer_iterate(optimizer, (void *[]){theta}, NULL);
    }
    if (status == PSGD_OK && to) status = psgd_optimizer_save(optimizer, to);
    psgd_optimizer_free(optimizer);
    return status;
}

int main(void)
{
    double whole[] = {1, 1}, parts[] = {1, 1};
    const char *file = "resume.state";
    if (run(100, whole, NULL, NULL) != PSGD_OK || run(40, parts, NULL, file) != PSGD_OK ||
        run(60, parts, file, NULL) != PSGD_OK) {
        return fprintf(stderr, "%s\n", psgd_last_error()), 1;
    }
    int same = memcmp(whole, parts, sizeof whole) == 0;
    printf("in one go (%.17g, %.17g), in two (%.17g, %.17g): %s\n", whole[0], whole[1], parts[0], parts[1],
           same ? "the same" : "not the same");
    return remove(file) != 0 || !same;
}
