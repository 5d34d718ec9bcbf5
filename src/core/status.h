/* How an internal function reports a failure: return psgd__fail(PSGD_ERR_..., "sentence", ...); */
#ifndef PSGD_CORE_STATUS_H
#define PSGD_CORE_STATUS_H

#include <psgd/status.h>

#if defined(__GNUC__)
#define PSGD_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PSGD_PRINTF(text, first)
#endif

/* Keeps the sentence for psgd_last_error and returns status. */
psgd_status psgd__fail(psgd_status status, const char *format, ...) PSGD_PRINTF(2, 3);

/* Puts "prefix: " before the sentence that is there and returns status: an outer layer says where, an inner one what.
 */
psgd_status psgd__fail_in(psgd_status status, const char *format, ...) PSGD_PRINTF(2, 3);

/* Returns from the calling function if call fails. */
#define PSGD_TRY(call)                                                                                                 \
    do {                                                                                                               \
        psgd_status psgd_try_status = (call);                                                                          \
        if (psgd_try_status != PSGD_OK) return psgd_try_status;                                                        \
    } while (0)

#endif
