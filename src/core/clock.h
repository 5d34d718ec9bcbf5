/* Seconds since some fixed moment: for differences only. */
#ifndef PSGD_CORE_CLOCK_H
#define PSGD_CORE_CLOCK_H

double psgd__seconds(void);     /* that pass, whatever the process does */
double psgd__cpu_seconds(void); /* that the threads of this process have run */

#endif
