/* What every call that can fail returns, and the sentence that goes with it. */
#ifndef PSGD_STATUS_H
#define PSGD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum psgd_status {
    PSGD_OK = 0,
    PSGD_ERR_ARGUMENT,   /* a value that this call does not take */
    PSGD_ERR_SPEC,       /* a group spec that does not parse, or does not fit its shape */
    PSGD_ERR_NO_MEMORY,  /* the allocator said no */
    PSGD_ERR_NOT_FINITE, /* a NaN or an infinity in the input; state is as before */
    PSGD_ERR_IO,         /* a file that cannot be opened, read or written */
    PSGD_ERR_FORMAT,     /* a file that is not what it should be */
    PSGD_ERR_CALLBACK,   /* the caller's own function reported a failure */
    PSGD_ERR_UNSUPPORTED /* valid, but not possible for this object */
} psgd_status;

/* A few words for a status, never NULL: "out of memory". */
const char *psgd_status_text(psgd_status status);

/* The sentence for the last failure on this thread; "" if there was none. It stays valid until the next failure. */
const char *psgd_last_error(void);

/* The library's version, "major.minor.patch". */
const char *psgd_version(void);

#ifdef __cplusplus
}
#endif
#endif
