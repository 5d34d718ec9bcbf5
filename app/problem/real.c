/* The formulas in real numbers: value and gradient. */
#include "problem/residuals.h"
