# The layers of the library as object libraries.
#
# Sources directly in src/<layer> know no number type. Those in its sub-folders are written in terms of `real` and compiled
# once for float and once for double; those of la/kernel once more for each instruction set.
include(CheckCCompilerFlag)

set(PSGD_LAYERS core la group precond optim graph)

function(psgd_object name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${LAPACKE_INCLUDE} ${RANDOM123_INCLUDE})
  target_compile_definitions(${name} PRIVATE PSGD_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE psgd_warnings PkgConfig::OPENBLAS OpenMP::OpenMP_C)
endfunction()

function(psgd_typed name dtype)
  psgd_object(${name} ${ARGN})
  target_compile_definitions(${name} PRIVATE PSGD_TYPED_SOURCE)
  if(dtype STREQUAL f64)
    target_compile_definitions(${name} PRIVATE PSGD_REAL_F64)
  endif()
endfunction()

function(psgd_add_layers)
  file(GLOB kernels CONFIGURE_DEPENDS src/la/kernel/*.c)
  # Kernels may fuse a product and a sum; not the random numbers, whose bits are the same on every instruction set.
  set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/la/kernel/normal.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
  # Panels of 128 KB lie on the stack: one that is too small must be hit, not jumped over.
  check_c_compiler_flag("-Werror -fstack-clash-protection" PSGD_HAVE_STACK_CLASH)
  if(PSGD_HAVE_STACK_CLASH)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/la/matrix/small_blas.c PROPERTIES
                                COMPILE_OPTIONS -fstack-clash-protection)
  endif()
  foreach(layer ${PSGD_LAYERS})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*.c)
    list(APPEND untyped ${sources})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*/*.c)
    list(APPEND typed ${sources})
  endforeach()
  list(REMOVE_ITEM typed ${kernels})
  psgd_object(psgd_untyped ${untyped})
  set(objects $<TARGET_OBJECTS:psgd_untyped>)

  set(isas portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512)
    set(flags_avx2 -mavx2 -mfma)
    set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
  endif()
  foreach(dtype f32 f64)
    psgd_typed(psgd_${dtype} ${dtype} ${typed})
    list(APPEND objects $<TARGET_OBJECTS:psgd_${dtype}>)
    list(LENGTH isas isa_count)
    if(isa_count GREATER 1)
      target_compile_definitions(psgd_${dtype} PRIVATE PSGD_HAVE_X86)
    endif()
    foreach(isa ${isas})
      psgd_typed(psgd_kernel_${dtype}_${isa} ${dtype} ${kernels})
      target_compile_definitions(psgd_kernel_${dtype}_${isa} PRIVATE PSGD_ISA=${isa})
      target_compile_options(psgd_kernel_${dtype}_${isa} PRIVATE -O3 -fopenmp-simd ${flags_${isa}})
      list(APPEND objects $<TARGET_OBJECTS:psgd_kernel_${dtype}_${isa}>)
    endforeach()
  endforeach()
  set(PSGD_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
