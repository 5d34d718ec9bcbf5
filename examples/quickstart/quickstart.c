#include <psgd/psgd.h>
#include <stdio.h>

int main(void)
{
    const double H[3] = {100, 1, 0.01}; /* a Hessian, diag(100, 1, 0.01) */
    const int64_t shape[1] = {3};
    psgd_precond *precond;
    psgd_status status = psgd_precond_create(NULL, "diag", 1, shape, PSGD_F64, NULL, &precond);
    for (uint64_t k = 0; k < 2000 && status == PSGD_OK; k++) {
        double v[3], h[3];
        psgd_normal_fill(PSGD_F64, 1, 0, k, 0, 3, v);   /* v ~ N(0, I) */
        for (int i = 0; i < 3; i++) h[i] = H[i] * v[i]; /* h = Hv */
        status = psgd_precond_update(precond, v, h);    /* P moves towards |H|^-1 */
    }
    double step[3] = {100, 1, 0.01}; /* the gradient at (1, 1, 1) */
    if (status == PSGD_OK) status = psgd_precond_apply(precond, PSGD_APPLY_P, step, step);
    if (status != PSGD_OK) return fprintf(stderr, "%s\n", psgd_last_error()), 1;
    printf("P times the gradient: %.2f %.2f %.2f (Newton: 1 1 1)\n", step[0], step[1], step[2]);
    psgd_precond_free(precond);
}
