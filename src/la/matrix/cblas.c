/* serial.h and la_invert by CBLAS and LAPACK, or by own_blas.h where CBLAS is slow. A row-major matrix is its transpose
 * in column-major: to the inverse, singular values and symmetric matrices that makes no difference. */
#include "la/array/dispatch.h"
#include "la/matrix/blas.h"
#include "la/matrix/own_blas.h"
#include "la/openblas.h"

#include <limits.h>
#include <string.h>

#include <cblas.h>
#include <lapacke.h>

#ifdef PSGD_REAL_F64
#define BLAS(name)   cblas_d##name
#define LAPACK(name) LAPACKE_d##name##_work
#else
#define BLAS(name)   cblas_s##name
#define LAPACK(name) LAPACKE_s##name##_work
#endif

enum { FEW_ROWS = 96 }; /* of a triangle, that are multiplied whole */

static CBLAS_TRANSPOSE trans(bool transpose)
{
    return transpose ? CblasTrans : CblasNoTrans;
}

static CBLAS_UPLO uplo(bool lower)
{
    return lower ? CblasLower : CblasUpper;
}

/* Ours have wider vectors. Neither they nor those of OpenBLAS change while a process runs, so its products keep their
 * bits. */
static bool ours_are_faster(void)
{
    const char *isa = la_kernel()->isa;
    int bits = psgd__blas_vector_bits();
    return (bits < 512 && !strcmp(isa, "avx512")) || (bits < 256 && !strcmp(isa, "avx2"));
}

void serial_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda,
                 const real *B, int64_t ldb, real beta, real *C, int64_t ldc)
{
    if (ours_are_faster()) {
        own_gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
        return;
    }
    int before = psgd__blas_enter();
    BLAS(gemm)
    (CblasRowMajor, trans(ta), trans(tb), (int)m, (int)n, (int)k, alpha, A, (int)lda, B, (int)ldb, beta, C, (int)ldc);
    psgd__blas_leave(before);
}

/* By halves of the rows. */
void serial_upper(int64_t m, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, const real *B, int64_t ldb,
                  real beta, real *C, int64_t ldc)
{
    if (ours_are_faster()) {
        own_upper(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    } else if (m <= FEW_ROWS) {
        serial_gemm(false, false, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    } else {
        int64_t h = m / 2;
        serial_upper(h, h, k, alpha, A, lda, B, ldb, beta, C, ldc);
        serial_gemm(false, false, h, n - h, k, alpha, A, lda, B + h, ldb, beta, C + h, ldc);
        serial_upper(m - h, n - h, k, alpha, A + h * lda, lda, B + h, ldb, beta, C + h * ldc + h, ldc);
    }
}

void serial_syrk(bool lower, bool transpose, int64_t n, int64_t k, real alpha, const real *A, int64_t lda, real beta,
                 real *C, int64_t ldc)
{
    if (ours_are_faster()) {
        own_syrk(lower, transpose, n, k, alpha, A, lda, beta, C, ldc);
        return;
    }
    int before = psgd__blas_enter();
    BLAS(syrk)
    (CblasRowMajor, uplo(lower), trans(transpose), (int)n, (int)k, alpha, A, (int)lda, beta, C, (int)ldc);
    psgd__blas_leave(before);
}

void serial_tri(const serial_tri_op *op, int64_t rows, int64_t columns, real *X, int64_t ldx)
{
    if (ours_are_faster()) {
        own_tri(op, rows, columns, X, ldx);
        return;
    }
    int before = psgd__blas_enter();
    (op->solve ? BLAS(trsm) : BLAS(trmm))(CblasRowMajor, op->right ? CblasRight : CblasLeft, uplo(op->lower),
                                          trans(op->transpose), CblasNonUnit, (int)rows, (int)columns, 1, op->T,
                                          (int)op->ldt, X, (int)ldx);
    psgd__blas_leave(before);
}

bool la_invert(int64_t n, real *M, int *pivots, real *work)
{
    int m = (int)n, before = psgd__blas_enter();
    bool done = LAPACK(getrf)(LAPACK_COL_MAJOR, m, m, M, m, pivots) == 0 &&
                LAPACK(getri)(LAPACK_COL_MAJOR, m, M, m, pivots, work, m * 32) == 0;
    psgd__blas_leave(before);
    return done;
}

bool serial_singular(int64_t n, real *M, real *values, real *work)
{
    int m = (int)n, before = psgd__blas_enter();
    real none;
    bool done = LAPACK(gesvd)(LAPACK_COL_MAJOR, 'N', 'N', m, m, M, m, values, &none, 1, &none, 1, work, 80 * m) == 0;
    psgd__blas_leave(before);
    return done;
}

bool serial_sym_eigen(int64_t n, real *M, real *values, real *work)
{
    int m = (int)n, before = psgd__blas_enter();
    int64_t room = 1 + 6 * n + 2 * n * n;
    lapack_int *whole = (lapack_int *)(void *)(work + room);
    /* Divide and conquer is several times faster than the QR iteration of syev; its room must fit an int. */
    bool done = room > INT_MAX ? LAPACK(syev)(LAPACK_COL_MAJOR, 'V', 'U', m, M, m, values, work, 34 * m) == 0
                               : LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', 'U', m, M, m, values, work, (int)room, whole,
                                               3 + 5 * m) == 0;
    psgd__blas_leave(before);
    return done;
}
