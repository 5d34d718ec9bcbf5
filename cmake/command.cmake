# The psgd command. It is an archive of everything below app/ but main.c, so that the tests can link it, and a program.
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
find_package(ZLIB REQUIRED)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS app/*.c)
list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/app/cli/main.c)
file(GLOB page CONFIGURE_DEPENDS app/report/page/*)
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page.c DEPENDS ${page} cmake/page.cmake VERBATIM
                   COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/app/report/page
                           -DOUT=${CMAKE_CURRENT_BINARY_DIR}/page.c -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake)
add_library(psgd_app STATIC ${sources} ${CMAKE_CURRENT_BINARY_DIR}/page.c)
target_include_directories(psgd_app PUBLIC app)
target_compile_definitions(psgd_app PRIVATE PSGD_VERSION="${PROJECT_VERSION}" PRIVATE _GNU_SOURCE)
target_link_libraries(psgd_app PUBLIC psgd_static PkgConfig::CJSON PkgConfig::TURBOJPEG ZLIB::ZLIB ${CMAKE_DL_LIBS} m
                      PRIVATE psgd_warnings)
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short HEAD OUTPUT_VARIABLE PSGD_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(PSGD_COMMIT)
  set_source_files_properties(app/cli/bench/bench.c PROPERTIES COMPILE_DEFINITIONS PSGD_COMMIT="${PSGD_COMMIT}")
endif()

add_executable(psgd_command app/cli/main.c)
set_target_properties(psgd_command PROPERTIES OUTPUT_NAME psgd RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
                      ENABLE_EXPORTS ON) # shared objects for --load call the library
target_compile_definitions(psgd_command PRIVATE PSGD_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
# Whole, because a shared object may call what the command itself does not.
target_link_libraries(psgd_command PRIVATE psgd_app psgd_warnings -Wl,--whole-archive psgd_static -Wl,--no-whole-archive)
add_custom_command(TARGET psgd_command POST_BUILD COMMAND psgd_command --man > ${CMAKE_CURRENT_BINARY_DIR}/psgd.1 VERBATIM)
