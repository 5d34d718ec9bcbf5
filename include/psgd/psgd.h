/* libpsgd: preconditioned SGD on matrix Lie groups. */
#ifndef PSGD_PSGD_H
#define PSGD_PSGD_H

#include <psgd/comm.h>
#include <psgd/context.h>
#include <psgd/dtype.h>
#include <psgd/graph.h>
#include <psgd/group.h>
#include <psgd/health.h>
#include <psgd/joint.h>
#include <psgd/least_squares.h>
#include <psgd/minimize.h>
#include <psgd/optim.h>
#include <psgd/options.h>
#include <psgd/plan.h>
#include <psgd/precond.h>
#include <psgd/random.h>
#include <psgd/rows.h>
#include <psgd/status.h>
#include <psgd/threads.h>
#include <psgd/user_group.h>

#endif
