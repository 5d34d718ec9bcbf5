/* Inputs that break something go to the build folder, wherever the fuzzer runs; -artifact_prefix has precedence. */
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char prefix[] = "-artifact_prefix=" PSGD_FUZZ_ARTIFACTS;
    for (int i = 1; i < *argc; i++) {
        if (!strncmp((*argv)[i], "-artifact_prefix=", strlen("-artifact_prefix="))) return 0;
    }
    char **more = calloc((size_t)*argc + 2, sizeof *more); /* lives as long as the process */
    if (!more) return 0;
    memcpy(more, *argv, (size_t)*argc * sizeof *more);
    more[(*argc)++] = prefix;
    *argv = more;
    return 0;
}
