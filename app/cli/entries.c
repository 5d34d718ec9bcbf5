/* Lists of methods with options, as psgd minimize --compare and psgd compare --optimizers take them. */
#include "cli/cli.h"

#include <string.h>

/* Commas within brackets belong to an entry: group=kron(tri,tri). The comma after it becomes an end. */
static char *cut_entry(char **rest)
{
    char *entry = *rest, *at = entry;
    for (int depth = 0; *at && (*at != ',' || depth > 0); at++) depth += (*at == '(') - (*at == ')');
    *rest = *at ? at + 1 : at;
    *at = 0;
    return entry;
}

psgd_status cli_entry_next(const char *flag, char **rest, cli_entry *entry)
{
    *entry = (cli_entry){0};
    if (!**rest) return PSGD_OK;
    char *word = cut_entry(rest), *at = strchr(word, ':');
    if (strlen(word) >= sizeof entry->label) return cli_wrong_use("'%.40s...' in --%s is too long", word, flag);
    strcpy(entry->label, word);
    entry->method = word;
    while (at) {
        *at++ = 0;
        char *equals = strchr(at, '='), *next = strchr(at, ':');
        if (!equals || (next && next < equals)) {
            return cli_wrong_use("'%s' in --%s is not of the form option=value", at, flag);
        }
        if (entry->count == CLI_MAX_ENTRY) return cli_wrong_use("too many options of '%s' in --%s", word, flag);
        *equals = 0;
        if (next) *next = 0;
        entry->name[entry->count] = at;
        entry->value[entry->count++] = equals + 1;
        at = next;
    }
    return *word ? PSGD_OK : cli_wrong_use("there is an entry without a name in --%s", flag);
}
