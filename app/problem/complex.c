/* The formulas in complex numbers: the imaginary part of the gradient holds a product with the Hessian. */
#define PROBLEM_COMPLEX
#include "problem/residuals.h"
