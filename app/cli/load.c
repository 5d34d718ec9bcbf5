/* --load FILE: groups from shared objects. */
#include "cli/cli.h"

#include <dlfcn.h>
#include <string.h>

typedef psgd_status (*load_function)(psgd_context *context);

/* The object stays open: its functions are the groups. */
static psgd_status load(psgd_context *context, const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) return psgd__fail(PSGD_ERR_IO, "--load: %s", dlerror());
    void *symbol = dlsym(object, PSGD_LOAD_SYMBOL);
    /* cppcheck-suppress resourceLeak */
    if (!symbol) return psgd__fail(PSGD_ERR_IO, "--load: %s does not define " PSGD_LOAD_SYMBOL, path);
    load_function add;
    memcpy(&add, &symbol, sizeof add);
    /* cppcheck-suppress resourceLeak */
    return add(context);
}

psgd_status cli_context(const cli_args *args, psgd_context **context)
{
    psgd_status status = psgd_context_create(NULL, context);
    for (int i = 0; i < args->flag_count && status == PSGD_OK; i++) {
        if (!strcmp(args->name[i], "load")) status = load(*context, args->value[i]);
    }
    if (status != PSGD_OK) psgd_context_free(*context);
    return status;
}
