# The library, shared (psgd::psgd) and static (psgd::psgd_static) from the same objects.
#
# Sources directly in src/<layer> know no floating-point type. Those in its sub-folders are written in terms of `real` and
# compiled once for float and once for double; those of la/kernel once more for each instruction set.
include(CheckCCompilerFlag)

set(PSGD_LAYERS core la comm group precond optim graph)

function(psgd_object name)
  add_library(${name} OBJECT ${ARGN})
  psgd_target(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  if(NOT PSGD_BLAS STREQUAL "none")
    target_include_directories(${name} PRIVATE ${LAPACKE_INCLUDE} ${CBLAS_INCLUDE})
  endif()
  target_compile_options(${name} PRIVATE -fopenmp-simd) # pragmas for vector loops only: no runtime
  target_link_libraries(${name} PRIVATE ${PSGD_BLAS_TARGETS})
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
  # Options of a source come after those of psgd_flags. With ASan, kernels at -O3 take longer to compile than they save.
  set(level -O3)
  if(PSGD_FUZZ OR PSGD_SANITIZE MATCHES "address")
    set(level -O1)
  endif()
  # Kernels may fuse a product and a sum; not in the random numbers, whose bits are the same on every instruction set.
  set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${level};-ffp-contract=fast")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/la/kernel/normal.c PROPERTIES
                              COMPILE_OPTIONS "${level};-ffp-contract=off")
  # Panels of 128 KB live on the stack: a stack that is too small must fault, not overwrite what lies below it.
  check_c_compiler_flag("-Werror -fstack-clash-protection" PSGD_HAVE_STACK_CLASH)
  if(PSGD_HAVE_STACK_CLASH)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/la/matrix/small_blas.c
                                ${PROJECT_SOURCE_DIR}/src/la/matrix/own_blas.c PROPERTIES
                                COMPILE_OPTIONS -fstack-clash-protection)
  endif()
  foreach(layer ${PSGD_LAYERS})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*.c)
    list(APPEND untyped ${sources})
    file(GLOB sources CONFIGURE_DEPENDS src/${layer}/*/*.c)
    list(APPEND typed ${sources})
  endforeach()
  list(REMOVE_ITEM typed ${kernels} ${PSGD_BLAS_UNUSED})
  list(REMOVE_ITEM untyped ${PSGD_BLAS_UNUSED})
  psgd_object(psgd_untyped ${untyped})
  set(objects $<TARGET_OBJECTS:psgd_untyped>)

  set(isas portable)
  # Formats are what the fuzzer looks at: kernels need not be fast, and compile slowly with clang's sanitizers.
  if(NOT PSGD_FUZZ AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
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
      target_compile_options(psgd_kernel_${dtype}_${isa} PRIVATE ${flags_${isa}})
      list(APPEND objects $<TARGET_OBJECTS:psgd_kernel_${dtype}_${isa}>)
    endforeach()
  endforeach()
  set(PSGD_OBJECTS ${objects} PARENT_SCOPE)
endfunction()

psgd_add_layers()

add_library(psgd SHARED ${PSGD_OBJECTS})
psgd_target(psgd)
set_target_properties(psgd PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(psgd PRIVATE ${PSGD_BLAS_TARGETS} Threads::Threads m)
target_link_options(psgd PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map -Wl,--no-undefined
                    -Wl,--as-needed)
set_target_properties(psgd PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)

add_library(psgd_static STATIC ${PSGD_OBJECTS})
set_target_properties(psgd_static PROPERTIES OUTPUT_NAME psgd)
target_link_libraries(psgd_static INTERFACE "$<BUILD_INTERFACE:${PSGD_BLAS_TARGETS}>"
                      "$<INSTALL_INTERFACE:${PSGD_BLAS_LIBRARIES}>" Threads::Threads m)

foreach(library psgd psgd_static)
  add_library(psgd::${library} ALIAS ${library})
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(NOT PSGD_INSTALL)
    set_target_properties(${library} PROPERTIES EXCLUDE_FROM_ALL ON) # a parent project builds the one that it links
  endif()
endforeach()

# For the tests and the command: the archive, with the private headers.
add_library(psgd_private INTERFACE)
target_include_directories(psgd_private INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(psgd_private INTERFACE psgd_static)
