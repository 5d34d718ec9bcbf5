/* Error codes, and the message that goes with the last one. */
#ifndef PSGD_STATUS_H
#define PSGD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum psgd_status {
    PSGD_OK = 0,
    PSGD_ERR_ARGUMENT,    /* an argument out of range, or a combination that makes no sense */
    PSGD_ERR_SPEC,        /* a group spec that does not parse, or does not fit its shape */
    PSGD_ERR_NO_MEMORY,   /* an allocation failed */
    PSGD_ERR_NOT_FINITE,  /* a NaN or an infinity in the input */
    PSGD_ERR_IO,          /* a file that cannot be opened, read or written */
    PSGD_ERR_FORMAT,      /* a file or state that is damaged or of another kind */
    PSGD_ERR_CALLBACK,    /* a function of the caller reported a failure */
    PSGD_ERR_UNSUPPORTED, /* valid, but not available for this object */
    PSGD_ERR_RANK         /* another rank has stopped (psgd/comm.h) */
} psgd_status;

/* A short description of a status, never NULL: "out of memory". */
const char *psgd_status_text(psgd_status status);

/* The message of the last failure on this thread, "" if there was none. Valid until the next failure. */
const char *psgd_last_error(void);

/* The library's version, "major.minor.patch". */
const char *psgd_version(void);

#ifdef __cplusplus
}
#endif
#endif
