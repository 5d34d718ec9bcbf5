/* Longest processing time first. */
#include "comm/comm.h"

/* The work that a rank has so far. */
static double load_of(int rank, int count, const double *cost, const int *owners)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += owners[i] == rank ? cost[i] : 0;
    return sum;
}

/* The costliest piece that has no owner yet, of equals the first; -1 where there is none. */
static int find_dearest(int count, const double *cost, const int *owners)
{
    int dearest = -1;
    for (int i = 0; i < count; i++) {
        bool open = owners[i] == -1 && cost[i] > 0;
        if (open && (dearest < 0 || cost[i] > cost[dearest])) dearest = i;
    }
    return dearest;
}

void psgd_comm_owners(int ranks, int count, const double *cost, int *owners)
{
    for (int i = 0; i < count; i++) owners[i] = -1;
    for (int i; (i = find_dearest(count, cost, owners)) >= 0;) {
        int least = 0;
        double least_load = load_of(0, count, cost, owners);
        for (int r = 1; r < ranks && least_load > 0; r++) {
            double load = load_of(r, count, cost, owners);
            if (load >= least_load) continue;
            least = r;
            least_load = load;
        }
        owners[i] = least;
    }
}
