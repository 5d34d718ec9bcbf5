include(CMakePackageConfigHelpers)

install(TARGETS psgd psgd_static EXPORT psgdTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/psgd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(PSGD_HAVE_MPI)
  install(TARGETS psgd_mpi EXPORT psgdMpiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY mpi/include/psgd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(PSGD_BUILD_COMMAND)
  install(TARGETS psgd_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_BINARY_DIR}/psgd.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# For the wheel, which holds no links: cmake --install --component python, and nothing of it in a plain installation.
install(PROGRAMS $<TARGET_FILE:psgd> DESTINATION psgd RENAME libpsgd.so COMPONENT python EXCLUDE_FROM_ALL)

# Relative to where the file ends up, so that cmake --install --prefix and DESTDIR may choose the place.
set(pc_folder /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PSGD_PREFIX_FROM_PC ${pc_folder} /prefix)
string(REGEX REPLACE "/$" "" PSGD_PREFIX_FROM_PC "${PSGD_PREFIX_FROM_PC}")
configure_file(cmake/psgd.pc.in psgd.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/psgd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(PSGD_HAVE_MPI)
  list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE PSGD_MPI_CFLAGS)
  list(JOIN PSGD_MPI_CFLAGS " " PSGD_MPI_CFLAGS)
  list(JOIN MPI_C_LIBRARIES " " PSGD_MPI_LIBS)
  configure_file(cmake/psgd-mpi.pc.in psgd-mpi.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/psgd-mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(EXPORT psgdMpiTargets NAMESPACE psgd:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
endif()

install(EXPORT psgdTargets NAMESPACE psgd:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
configure_package_config_file(cmake/psgdConfig.cmake.in psgdConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
write_basic_package_version_file(psgdConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/psgdConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/psgdConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)

# psgd_minimize(3) and so on, from the headers.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/scripts/reference) # not in a source distribution of the Python package
  file(GLOB headers CONFIGURE_DEPENDS include/psgd/*.h)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man3/psgd_minimize.3 DEPENDS ${headers} scripts/reference VERBATIM
                     COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/reference man ${PROJECT_BINARY_DIR}/man3)
  add_custom_target(psgd_man3 ALL DEPENDS ${PROJECT_BINARY_DIR}/man3/psgd_minimize.3)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
