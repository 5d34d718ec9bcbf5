/* libpsgd for C++17: handles that free themselves, errors as exceptions. Optional, and header only.
 *
 * Everything else is the C API, which takes handle.get(). Options are written as in psgd_options_parse:
 * "criterion=fisher,lr=0.05". */
#ifndef PSGD_PSGD_HPP
#define PSGD_PSGD_HPP

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <psgd/psgd.h>

namespace psgd {

/* A call failed; what() is the sentence of psgd_last_error. */
class error : public std::runtime_error {
public:
    explicit error(psgd_status status) : std::runtime_error(psgd_last_error()), status_(status) {}
    psgd_status status() const noexcept { return status_; }

private:
    psgd_status status_;
};

inline void check(psgd_status status)
{
    if (status != PSGD_OK) throw error(status);
}

template <auto free> struct release {
    template <class T> void operator()(T *object) const noexcept { free(object); }
};

using context = std::unique_ptr<psgd_context, release<psgd_context_free>>;
using options = std::unique_ptr<psgd_options, release<psgd_options_free>>;
using precond = std::unique_ptr<psgd_precond, release<psgd_precond_free>>;
using optimizer = std::unique_ptr<psgd_optimizer, release<psgd_optimizer_free>>;
using plan = std::unique_ptr<psgd_plan, release<psgd_plan_free>>;
using graph = std::unique_ptr<psgd_graph, release<psgd_graph_free>>;
using health = std::unique_ptr<psgd_health, release<psgd_health_free>>;

template <class real> constexpr psgd_dtype dtype()
{
    static_assert(std::is_same_v<real, float> || std::is_same_v<real, double>, "libpsgd computes in float or double");
    return std::is_same_v<real, float> ? PSGD_F32 : PSGD_F64;
}

inline options make_options(const std::string &text)
{
    psgd_options *made;
    check(psgd_options_create(nullptr, &made));
    options owned(made);
    check(psgd_options_parse(made, text.c_str()));
    return owned;
}

template <class real>
precond make_precond(const std::string &spec, const std::vector<int64_t> &shape, const std::string &settings = "")
{
    psgd_precond *made;
    check(psgd_precond_create(nullptr, spec.c_str(), static_cast<int>(shape.size()), shape.data(), dtype<real>(),
                              make_options(settings).get(), &made));
    return precond(made);
}

/* One optimizer over tensors of these shapes; their group is the option group. */
template <class real>
optimizer make_optimizer(const std::string &method, const std::vector<std::vector<int64_t>> &shapes,
                         const std::string &settings = "")
{
    std::vector<psgd_tensor> tensors;
    for (const auto &shape : shapes) {
        tensors.push_back({nullptr, static_cast<int>(shape.size()), shape.data(), 0, nullptr});
    }
    psgd_optimizer *made;
    check(psgd_optimizer_create(nullptr, method.c_str(), static_cast<int>(tensors.size()), tensors.data(),
                                dtype<real>(), make_options(settings).get(), &made));
    return optimizer(made);
}

/* function(x, gradient) returns the value; gradient is nullptr where only that is needed. What it throws ends the
 * minimisation and is thrown here. x becomes the best point found. */
template <class F> psgd_result minimize(std::vector<double> &x, F &&function, const std::string &settings = "")
{
    struct call {
        F &function;
        std::exception_ptr thrown;
    } data{function, nullptr};
    psgd_function f{};
    f.data = &data;
    f.evaluate = [](void *to, int64_t, const double *at, double *value, double *gradient) {
        try {
            *value = static_cast<call *>(to)->function(at, gradient);
            return 0;
        } catch (...) {
            static_cast<call *>(to)->thrown = std::current_exception();
            return 1;
        }
    };
    psgd_result result;
    psgd_status status = psgd_minimize(nullptr, static_cast<int64_t>(x.size()), x.data(), &f,
                                       make_options(settings).get(), nullptr, nullptr, &result);
    if (data.thrown) std::rethrow_exception(data.thrown);
    check(status);
    return result;
}

} // namespace psgd
#endif
