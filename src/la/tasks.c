#include "la/tasks.h"
#include "la/pool.h"

typedef struct shared {
    void (*part)(void *data, int i, int parts);
    void *data;
    int parts;
} shared;

static void call_part(void *data, int64_t i)
{
    const shared *s = data;
    s->part(s->data, (int)i, s->parts);
}

void psgd__share(bool worth, void (*part)(void *data, int i, int parts), void *data)
{
    shared s = {part, data, worth ? la_threads() : 1};
    la_parallel(s.parts, 1e9, call_part, &s);
}
