/* What the harnesses share: the input as a file, memory with a limit, changes to a state that is whole.
 *
 * A harness is one file fuzz_NAME.c with a psgd__fuzz. It is linked with libFuzzer (make fuzz), or with replay.c, which
 * feeds it the files of corpus/NAME (ctest). A broken promise ends the process: FUZZ_ASSERT. */
#ifndef PSGD_FUZZ_H
#define PSGD_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <psgd/psgd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define FUZZ_ASSERT(truth)                                                                                             \
    do {                                                                                                               \
        if (!(truth)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__, #truth,                   \
                    psgd_last_error());                                                                                \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A file that has these bytes, until the next call with the same number, from 0. */
enum { FUZZ_FILES = 2 };
const char *fuzz_file(int number, const uint8_t *data, size_t size);

/* A folder of this process, and a file in it. */
const char *fuzz_folder(void);
const char *fuzz_write(const char *name, const uint8_t *data, size_t size);

/* A copy with a zero byte behind it, to be freed. */
char *fuzz_text(const uint8_t *data, size_t size);

/* No single allocation may be larger than FUZZ_LARGEST: strict, that is a finding, since no input is longer than a few
 * kilobytes; else there is no memory, as where a user asks for too much. */
enum { FUZZ_LARGEST = 1 << 28 };
const psgd_context *fuzz_context(bool strict);

/* A state with changes: a list of edits of 11 bytes, each how (1), where (2) and what (8). The result is malloc's. */
char *fuzz_edit(const uint8_t *edits, size_t size, const char *whole, size_t *count);

/* Puts right checksums behind the sections of an optimizer's state, as far as these have sizes that fit. */
void fuzz_repair_optimizer(char *state, size_t count);

/* Every element is finite. */
bool fuzz_finite(psgd_dtype dtype, int64_t count, const void *x);

#endif
