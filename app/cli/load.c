#include "cli/load.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef psgd_status (*load_function)(psgd_context *context);

/* The object stays open: its functions are the groups. */
static int load(psgd_context *context, const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) return cli_failure("--load: %s", dlerror());
    void *symbol = dlsym(object, PSGD_LOAD_SYMBOL);
    /* cppcheck-suppress resourceLeak */
    if (!symbol) return cli_failure("--load: %s does not define " PSGD_LOAD_SYMBOL, path);
    load_function add;
    memcpy(&add, &symbol, sizeof add);
    /* cppcheck-suppress resourceLeak */
    return cli_status(add(context));
}

int cli_context(const cli_args *args, psgd_context **context)
{
    int status = cli_status(psgd_context_create(NULL, context));
    for (int i = 0; i < args->flag_count && status == EXIT_SUCCESS; i++) {
        if (!strcmp(args->name[i], "load")) status = load(*context, args->value[i]);
    }
    if (status != EXIT_SUCCESS) {
        psgd_context_free(*context);
        *context = NULL;
    }
    return status;
}
