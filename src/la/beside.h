/* Independent tasks on different threads. */
#ifndef PSGD_LA_BESIDE_H
#define PSGD_LA_BESIDE_H

/* task(data, i) for all i < count, on at most that many threads; each thread works in a slice of its own of any
 * workspace that has slices. Loops inside a task run on one thread. */
void psgd__side_by_side(int count, int threads, void (*task)(void *data, int i), void *data);

int psgd__thread_count(void); /* that a loop would be given now */

#endif
