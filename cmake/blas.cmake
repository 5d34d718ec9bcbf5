# CBLAS and LAPACKE: PSGD_BLAS_TARGETS is what our targets link, PSGD_BLAS_LIBRARIES what a program links with the installed
# archive, PSGD_BLAS_FLAGS the same for pkg-config.
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
find_library(LAPACKE_LIBRARY lapacke REQUIRED)
find_path(LAPACKE_INCLUDE lapacke.h REQUIRED)

set(PSGD_BLAS_TARGETS PkgConfig::OPENBLAS ${LAPACKE_LIBRARY})
set(PSGD_BLAS_LIBRARIES ${OPENBLAS_LINK_LIBRARIES} ${LAPACKE_LIBRARY})
list(JOIN OPENBLAS_LDFLAGS " " PSGD_BLAS_FLAGS)
string(APPEND PSGD_BLAS_FLAGS " -llapacke")
