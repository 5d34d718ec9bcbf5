/* Status texts and the per-thread sentence of the last failure. */
#include "core/status.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[1024];

static const char *const texts[] = {
    [PSGD_OK] = "no error",
    [PSGD_ERR_ARGUMENT] = "invalid argument",
    [PSGD_ERR_SPEC] = "invalid group spec",
    [PSGD_ERR_NO_MEMORY] = "out of memory",
    [PSGD_ERR_NOT_FINITE] = "not a finite number",
    [PSGD_ERR_IO] = "input or output failed",
    [PSGD_ERR_FORMAT] = "malformed file",
    [PSGD_ERR_CALLBACK] = "the caller's function failed",
    [PSGD_ERR_UNSUPPORTED] = "not supported here",
    [PSGD_ERR_RANK] = "another rank has stopped",
};

const char *psgd_status_text(psgd_status status)
{
    size_t i = (size_t)status;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown status";
}

const char *psgd_last_error(void)
{
    return sentence;
}

const char *psgd_version(void)
{
    return PSGD_VERSION;
}

psgd_status psgd__fail(psgd_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    psgd__vprint(sentence, sizeof sentence, format, args);
    va_end(args);
    return status;
}

psgd_status psgd__fail_in(psgd_status status, const char *format, ...)
{
    char inner[sizeof sentence];
    memcpy(inner, sentence, sizeof inner);

    va_list args;
    va_start(args, format);
    int used = psgd__vprint(sentence, sizeof sentence, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof sentence) {
        snprintf(sentence + used, sizeof sentence - (size_t)used, ": %.900s", inner);
    }
    return status;
}
