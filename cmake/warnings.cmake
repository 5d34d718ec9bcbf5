# Warnings are errors, everywhere. -ffp-contract=off keeps results independent of where the compiler finds an FMA.
add_library(psgd_warnings INTERFACE)
target_compile_options(psgd_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes
                       -Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Werror -ffp-contract=off -fno-math-errno
                       -fno-semantic-interposition)
if(PSGD_SANITIZE)
  target_compile_options(psgd_warnings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -O1 -g)
  add_link_options(-fsanitize=address,undefined)
endif()
