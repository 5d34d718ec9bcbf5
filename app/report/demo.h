/* The demo: preconditioners on several groups, fitted to one ill-conditioned Hessian. */
#ifndef PSGD_REPORT_DEMO_H
#define PSGD_REPORT_DEMO_H

#include <stdint.h>

#include "core/text.h"
#include <psgd/psgd.h>

/* Fits, draws folder/spectrum.svg and .png, and appends a table of the spectra of PH to the text. */
psgd_status psgd__demo_run(const psgd_context *context, const char *folder, uint64_t seed, text *table);

#endif
