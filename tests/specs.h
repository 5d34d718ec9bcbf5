/* Specs to test with: an instance or more of every registered group, and random ones that obey the grammar. */
#ifndef PSGD_TESTS_SPECS_H
#define PSGD_TESTS_SPECS_H

#include <stdint.h>

typedef struct instance {
    const char *name; /* in the registry */
    const char *spec;
    int ndim;
    int64_t shape[4];
} instance;

extern const instance instances[];
extern const int instance_count;

enum { SPEC_ROOM = 4096 };

/* A random spec and a shape of at most limit numbers that it fits. Returns the number of modes. */
int random_spec(uint64_t *seed, int64_t limit, char spec[SPEC_ROOM], int64_t shape[4]);

#endif
