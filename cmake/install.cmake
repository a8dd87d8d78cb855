# cmake --install: the command, the libraries static and shared, headers, man pages, completions, and how
# CMake and pkg-config find it all. cpack makes a .deb of the same.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(LIBRARIES tenon-run)
if(NOT TENON_RUNTIME_ONLY)
  list(PREPEND LIBRARIES tenon)
  install(TARGETS tenon-cmd RUNTIME COMPONENT tenon)
endif()
list(TRANSFORM LIBRARIES APPEND -shared OUTPUT_VARIABLE SHARED)
install(TARGETS ${LIBRARIES} ${SHARED} EXPORT TenonTargets
  LIBRARY COMPONENT tenon ARCHIVE COMPONENT tenon INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES include/tenon.h include/tenon_abi.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT tenon)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT tenon)

# The server, where there is what it needs, and a unit that runs it from where it is installed.
if(TARGET serve)
  install(TARGETS serve RUNTIME COMPONENT tenon)
  install(CODE "set(TENON_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    configure_file(\"${CMAKE_SOURCE_DIR}/examples/serve/tenon-serve@.service.in\" \"${CMAKE_CURRENT_BINARY_DIR}/tenon-serve@.service\" @ONLY)"
    COMPONENT tenon)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/tenon-serve@.service" DESTINATION lib/systemd/system COMPONENT tenon)
endif()

# find_package(Tenon): Tenon::tenon and Tenon::tenon-run, and the same with -static.
set(CONFIG_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Tenon")
install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION "${CONFIG_DIR}" COMPONENT tenon)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/TenonConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES cmake/TenonConfig.cmake "${CMAKE_CURRENT_BINARY_DIR}/TenonConfigVersion.cmake" DESTINATION "${CONFIG_DIR}" COMPONENT tenon)

# pkg-config: tenon and tenon-run; --static says what their static forms want. Where they lie is told from where the
# file lies, so that --prefix at install time and a staging folder are both right.
file(RELATIVE_PATH TENON_PC_UP "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
foreach(name ${LIBRARIES})
  set(TENON_PC_NAME ${name})
  configure_file(cmake/tenon.pc.in "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT tenon)
endforeach()

if(TENON_RUNTIME_ONLY)
  return()
endif()

# Man pages and completions are what the command says of itself.
set(SAID "${CMAKE_CURRENT_BINARY_DIR}/said")
add_custom_command(OUTPUT "${SAID}/stamp" DEPENDS tenon-cmd VERBATIM
  COMMAND "${CMAKE_COMMAND}" "-DTENON=$<TARGET_FILE:tenon-cmd>" "-DOUT=${SAID}" -P "${CMAKE_SOURCE_DIR}/cmake/said.cmake")
add_custom_target(said ALL DEPENDS "${SAID}/stamp")
install(DIRECTORY "${SAID}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tenon)
install(FILES "${SAID}/tenon.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME tenon COMPONENT tenon)
install(FILES "${SAID}/tenon.zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _tenon COMPONENT tenon)

# ./dev package
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tenon)
set(CPACK_PACKAGE_CONTACT "The Tenon maintainers <maintainers@tenon.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deep-learning compiler: ONNX models to native code")
set(CPACK_PACKAGE_DESCRIPTION "Tenon takes a trained model in ONNX and makes a native library of it: code fitted to the
processor, with the weights inside, that runs with a small runtime and nothing else.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/strip_archives.cmake")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc | clang, libc6-dev")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEB_COMPONENT_INSTALL OFF)
include(CPack)
