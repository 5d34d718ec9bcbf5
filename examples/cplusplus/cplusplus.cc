// The C++ header: a fit, a minimisation and an error, without a line that frees anything.
#include <psgd/psgd.hpp>

#include <cstdio>

int main()
{
    // P of a diagonal Hessian, as in examples/quickstart.
    const std::vector<double> hessian{100, 1, 0.01};
    auto precond = psgd::make_precond<double>("diag", {3}, "step=0.1, norm=entry");
    std::vector<double> v(3), h(3), step = hessian;
    for (uint64_t k = 0; k < 2000; k++) {
        psgd::check(psgd_normal_fill(PSGD_F64, 1, 0, k, 0, 3, v.data()));
        for (int i = 0; i < 3; i++) h[i] = hessian[i] * v[i];
        psgd::check(psgd_precond_set_step(precond.get(), k < 1000 ? 0.1 : 0.01));
        psgd::check(psgd_precond_update(precond.get(), v.data(), h.data()));
    }
    psgd::check(psgd_precond_apply(precond.get(), PSGD_APPLY_P, step.data(), step.data()));
    std::printf("P times the gradient: %.1f %.1f %.1f\n", step[0], step[1], step[2]);

    std::vector<double> x{-1.2, 1};
    auto rosenbrock = [](const double *at, double *gradient) {
        double a = at[1] - at[0] * at[0], b = 1 - at[0];
        if (gradient) gradient[0] = -400 * at[0] * a - 2 * b, gradient[1] = 200 * a;
        return 100 * a * a + b * b;
    };
    psgd_result result = psgd::minimize(x, rosenbrock, "tolerance=1e-10");
    std::printf("%s at (%g, %g)\n", psgd_outcome_text(result.outcome), x[0], x[1]);

    auto adam = psgd::make_optimizer<float>("adam", {{4, 3}, {4}}, "lr=0.5");
    std::printf("learning rate %g\n", psgd_optimizer_rate(adam.get()));
    try {
        psgd::make_precond<float>("diag", {3}, "stepp=0.1");
    } catch (const psgd::error &failure) {
        std::printf("%s\n", failure.what());
    }
    try {
        psgd::minimize(x, [](const double *, double *) -> double { throw std::runtime_error("from the function"); });
    } catch (const std::runtime_error &failure) {
        std::printf("%s\n", failure.what());
    }
}
