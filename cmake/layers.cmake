# The layers of the library as object libraries.
#
# A source is typed unless it is listed here: typed sources are compiled once for float and once for double, those of
# la/kernel once more for each instruction set.

set(PSGD_UNTYPED
  src/graph/build.c
  src/graph/builtin.c
  src/graph/graph.c
  src/graph/plan.c
  src/graph/row_parameter.c
  src/graph/run.c
  src/graph/watch.c
  src/group/describe.c
  src/group/fit.c
  src/group/plan.c
  src/group/registry.c
  src/group/spec.c
  src/group/user_list.c
  src/la/beside.c
  src/la/eigen.c
  src/la/parallel.c
  src/la/random.c
  src/optim/minimize.c
  src/optim/minimize_fit.c
  src/optim/minimize_small.c
  src/optim/optimizer.c
  src/optim/options.c
  src/optim/rows.c
  src/optim/schedule.c
  src/optim/search.c
  src/optim/state.c
  src/precond/health.c
  src/precond/joint.c
  src/precond/beside.c
  src/precond/options.c
  src/precond/precond.c
)
set(PSGD_UNTYPED_LAYERS core problem model data train)
include(CheckCCompilerFlag)

set(PSGD_TYPED_LAYERS la group precond optim graph)

set(PSGD_LIBRARIES PkgConfig::OPENBLAS PkgConfig::CJSON PkgConfig::TURBOJPEG ZLIB::ZLIB ${LAPACKE_LIBRARY} OpenMP::OpenMP_C m)

function(psgd_object name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${LAPACKE_INCLUDE} ${RANDOM123_INCLUDE})
  target_compile_definitions(${name} PRIVATE PSGD_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE psgd_warnings PkgConfig::OPENBLAS PkgConfig::CJSON PkgConfig::TURBOJPEG
                        ZLIB::ZLIB OpenMP::OpenMP_C)
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
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/la/block.c PROPERTIES COMPILE_OPTIONS -fstack-clash-protection)
  endif()
  foreach(layer ${PSGD_UNTYPED_LAYERS})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*.c)
    list(APPEND untyped ${sources})
  endforeach()
  foreach(source ${PSGD_UNTYPED})
    list(APPEND untyped ${PROJECT_SOURCE_DIR}/${source})
  endforeach()
  foreach(layer ${PSGD_TYPED_LAYERS})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*.c)
    list(APPEND typed ${sources})
  endforeach()
  list(REMOVE_ITEM typed ${untyped})
  file(GLOB page CONFIGURE_DEPENDS src/train/page/*)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/page.c DEPENDS ${page} cmake/page.cmake VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/src/train/page
                             -DOUT=${CMAKE_BINARY_DIR}/page.c -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake)
  psgd_object(psgd_core ${untyped} ${CMAKE_BINARY_DIR}/page.c)

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
  set(PSGD_LAYER_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
