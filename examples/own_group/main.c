/* Registers the group of toeplitz.c, tries its laws, and fits it to a Hessian that is diagonal in no useful basis:
 * H x = x convolved with 20 (-0.4, 1, -0.4), pairs (v, Hv) with random v. */
#include <stdio.h>
#include <stdlib.h>

#include <psgd/psgd.h>

enum { N = 16 };

psgd_status psgd_load_groups(psgd_context *context);

static void need(psgd_status status)
{
    if (status == PSGD_OK) return;
    fprintf(stderr, "%s\n", psgd_last_error());
    exit(EXIT_FAILURE);
}

static double noise(unsigned *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += *state / 4294967296.0;
    }
    return sum;
}

int main(void)
{
    psgd_context *context;
    psgd_precond *precond;
    psgd_options *options;
    int64_t shape[] = {N};
    int broken;
    char *report;
    need(psgd_context_create(NULL, &context));
    need(psgd_load_groups(context));
    need(psgd_group_check(context, "toeplitz", 1, shape, PSGD_F64, 1, &broken, &report));
    fputs(report, stdout);
    psgd_text_free(context, report);
    printf("laws broken: %d\n", broken);

    need(psgd_options_create(context, &options));
    need(psgd_options_set(options, "step", "0.02"));
    need(psgd_precond_create(context, "toeplitz", 1, shape, PSGD_F64, options, &precond));
    unsigned state = 1;
    double v[N], h[N], value, mean = 0;
    for (int t = 0; t < 4000; t++) {
        for (int i = 0; i < N; i++) v[i] = noise(&state);
        for (int i = 0; i < N; i++) h[i] = 20 * v[i] - 8 * (i > 0 ? v[i - 1] : 0) - 8 * (i < N - 1 ? v[i + 1] : 0);
        need(psgd_precond_criterion(precond, v, h, &value));
        mean = t % 500 ? mean + value / 500 : value / 500;
        if (t % 500 == 499) printf("updates %4d   mean criterion %.3f\n", t + 1, mean);
        need(psgd_precond_update(precond, v, h));
    }
    psgd_precond_free(precond);
    psgd_options_free(options);
    psgd_context_free(context);
    return broken ? EXIT_FAILURE : EXIT_SUCCESS;
}
