/* How a learning rate changes over time. */
#ifndef PSGD_OPTIM_SCHEDULE_H
#define PSGD_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_PLATEAU } schedule_kind;

typedef struct schedule {
    int kind;      /* enum schedule_kind */
    int64_t every; /* step: multiply by factor every so many steps */
    double factor;
    double floor; /* cosine: ends at floor times the start */
} schedule;

/* The factor on a learning rate at a step (from 0) of total. plateau is the product of the factors so far. */
double psgd__schedule_factor(const schedule *s, int64_t step, int64_t total, double plateau);

/* A ramp (step + 1) / warmup over the first steps, then 1. */
double psgd__warmup_factor(int64_t warmup, int64_t step);

#endif
