/* What the environment says about instruction sets: see la/array/dispatch.h. */
#ifndef PSGD_LA_ISA_H
#define PSGD_LA_ISA_H

#include <stdbool.h>

#include "core/status.h"

/* A sentence where PSGD_ISA names none of ours. */
psgd_status psgd__isa_check(void);

#endif
