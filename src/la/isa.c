#include "la/isa.h"

#include <stdlib.h>
#include <string.h>

psgd_status psgd__isa_check(void)
{
    static const char *const known[] = {"portable", "avx2", "avx512"};
    const char *wanted = getenv("PSGD_ISA");
    bool found = !wanted || !*wanted;
    for (size_t i = 0; !found && i < sizeof known / sizeof known[0]; i++) found = !strcmp(wanted, known[i]);
    if (found) return PSGD_OK;
    return psgd__fail(PSGD_ERR_ARGUMENT, "the environment variable PSGD_ISA is portable, avx2 or avx512, not '%.40s'",
                      wanted);
}
