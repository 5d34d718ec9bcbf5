include(CMakePackageConfigHelpers)

install(TARGETS psgd EXPORT psgdTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS psgd_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/psgd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_file(cmake/psgd.pc.in psgd.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/psgd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT psgdTargets NAMESPACE psgd:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
configure_package_config_file(cmake/psgdConfig.cmake.in psgdConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
write_basic_package_version_file(psgdConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/psgdConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/psgdConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/psgd)
