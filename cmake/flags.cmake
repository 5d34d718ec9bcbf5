# psgd_flags: how every target of ours is compiled. -ffp-contract=off keeps results independent of where the compiler finds
# an FMA. Where the parent project chose no build type, the library is optimised all the same.
add_library(psgd_flags INTERFACE)
target_compile_options(psgd_flags INTERFACE
                       -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
                       -Wpointer-arith $<$<BOOL:${PSGD_WERROR}>:-Werror>
                       # A loop that stays scalar is no fault, and what an initialiser leaves out is zero.
                       "$<$<C_COMPILER_ID:Clang>:-Wno-pass-failed;-Wno-missing-field-initializers>"
                       # Nobody reads errno or the flags of floating-point exceptions after a formula. Where gcc must keep
                       # them right, a loop with a comparison stays scalar; values are the same.
                       -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-semantic-interposition
                       $<$<CONFIG:>:-O2>)
if(PSGD_SANITIZE)
  target_compile_options(psgd_flags INTERFACE -fsanitize=${PSGD_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -O1 -g)
  target_link_options(psgd_flags INTERFACE -fsanitize=${PSGD_SANITIZE})
endif()
if(PSGD_FUZZ)
  target_compile_options(psgd_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# C17 with POSIX (fsync, rename, pthreads), for this target and not for a parent project.
function(psgd_target name)
  set_target_properties(${name} PROPERTIES C_STANDARD 17 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
                        POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${name} PRIVATE PSGD_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE psgd_flags)
endfunction()
