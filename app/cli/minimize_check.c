/* psgd minimize --check: the function's gradient and product compared with differences at the start. */
#include "cli/cli.h"
#include "cli/minimize_check.h"

#include <stdlib.h>

static void print_check(const char *what, const psgd_derivative_check *check)
{
    printf("%-8s %s: %lld of %lld entries differ from central differences", what, check->wrong ? "wrong" : "right",
           (long long)check->wrong, (long long)check->compared);
    if (check->wrong) {
        printf("; the worst is entry %lld, which is %.9g and should be %.9g", (long long)check->entry, check->given,
               check->difference);
    }
    putchar('\n');
}

psgd_status cli_check_gradient(const psgd_function *function, int64_t n, const double *x, int *code)
{
    psgd_derivative_check gradient, product;
    PSGD_TRY(psgd_check_gradient(NULL, n, x, function, &gradient, &product));
    print_check("gradient", &gradient);
    if (product.compared) print_check("product", &product);
    *code = gradient.wrong || product.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
    return PSGD_OK;
}
