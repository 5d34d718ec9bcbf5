#include "problem/user_function.h"
#include "core/memory.h"
#include "core/status.h"

#include <stdbool.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ISO C has no cast from a pointer to data to one to a function; POSIX promises that this works. */
static bool symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static psgd_status read_start(const char *path, user_function *self)
{
    int64_t (*start)(int64_t room, double *x);
    bool there = symbol(self->library, "psgd_function_start", &start);
    if (!there || !symbol(self->library, "psgd_function_evaluate", &self->evaluate)) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s has no function %s; it needs psgd_function_start and "
                          "psgd_function_evaluate",
                          path, there ? "psgd_function_evaluate" : "psgd_function_start");
    }
    symbol(self->library, "psgd_function_product", &self->product);
    self->n = start(0, NULL);
    if (self->n < 1) {
        return psgd__fail(PSGD_ERR_FORMAT, "psgd_function_start of %s says that there are %lld unknowns", path,
                          (long long)self->n);
    }
    self->start = psgd__alloc(NULL, self->n, sizeof(double));
    if (!self->start) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for %lld unknowns", (long long)self->n);
    start(self->n, self->start);
    return PSGD_OK;
}

psgd_status psgd__user_function_open(const char *path, user_function *opened)
{
    char local[4096];
    *opened = (user_function){0};
    /* dlopen looks for a name without a slash in the system's folders only. */
    snprintf(local, sizeof local, "%s%s", strchr(path, '/') ? "" : "./", path);
    opened->library = dlopen(local, RTLD_NOW | RTLD_LOCAL);
    if (!opened->library) return psgd__fail(PSGD_ERR_IO, "cannot load %s: %s", path, dlerror());
    psgd_status status = read_start(path, opened);
    if (status != PSGD_OK) psgd__user_function_close(opened);
    return status;
}

void psgd__user_function_close(user_function *self)
{
    psgd__free(NULL, self->start);
    if (self->library) dlclose(self->library);
    *self = (user_function){0};
}

static int evaluate(void *data, int64_t n, const double *x, double *value, double *gradient)
{
    return ((user_function *)data)->evaluate(n, x, value, gradient);
}

static int product(void *data, int64_t n, const double *x, const double *v, double *h)
{
    return ((user_function *)data)->product(n, x, v, h);
}

psgd_function psgd__user_function(user_function *self)
{
    return (psgd_function){.evaluate = evaluate, .product = self->product ? product : NULL, .data = self};
}
