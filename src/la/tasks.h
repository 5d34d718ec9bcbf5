/* Parts as many as there are threads; la/pool.h has what takes its place. */
#ifndef PSGD_LA_TASKS_H
#define PSGD_LA_TASKS_H

#include <stdbool.h>

/* part(data, i, parts) for all i < parts; as one part where it is not worth while. The parts write different numbers,
 * and which numbers has no influence on them. */
void psgd__share(bool worth, void (*part)(void *data, int i, int parts), void *data);

#endif
