# Static libraries in a package go without what debuggers read, as programs and shared libraries do.
file(GLOB_RECURSE archives "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.a")
foreach(archive ${archives})
  execute_process(COMMAND strip --strip-debug "${archive}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
