/* Independent tasks on different threads, and single tasks that threads share. */
#ifndef PSGD_LA_TASKS_H
#define PSGD_LA_TASKS_H

#include <stdbool.h>

/* task(data, i) for all i < count, on at most that many threads; each thread works in a slice of its own of any
 * workspace that has slices. Loops inside a task run on one thread, but those of psgd__share: in tasks that are heavy,
 * which one thread takes one after the other, threads that have run out of tasks take part in them. */
void psgd__side_by_side(int count, int threads, bool (*heavy)(void *data, int i), void (*task)(void *data, int i),
                        void *data);

/* part(data, i, parts) for all i < parts: on all threads; inside of psgd__side_by_side on those that are free; as one
 * part where it is not worth while. The parts write different numbers, and which numbers has no influence on them. */
void psgd__share(bool worth, void (*part)(void *data, int i, int parts), void *data);

int psgd__thread_count(void); /* that a loop would be given now */

#endif
