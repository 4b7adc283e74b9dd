# The installed form: libweft.so with the public interface only, the headers, the command, a CMake package and a
# pkg-config file. Components: weft_library, weft_headers, weft_command, weft_shmem, weft_nccl.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library's public interface is defined in these modules; the linker takes the others' objects as they are needed.
set(weft_public_modules weft_api weft_session weft_stream)
add_library(weft_shared SHARED ${PROJECT_BINARY_DIR}/pch/empty_library.cc)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch/empty_library.cc CONTENT "")
add_library(weft::weft ALIAS weft_shared)
set(weft_whole_archives)
foreach(module ${weft_public_modules})
  list(APPEND weft_whole_archives $<TARGET_FILE:${module}>)
  add_dependencies(weft_shared ${module})
endforeach()
target_link_libraries(weft_shared PRIVATE -Wl,--whole-archive ${weft_whole_archives} -Wl,--no-whole-archive)
target_link_libraries(weft_shared PRIVATE $<BUILD_INTERFACE:weft_api> $<BUILD_INTERFACE:weft_stream>)
target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(weft_shared INTERFACE tl::expected)
target_compile_features(weft_shared INTERFACE cxx_std_20)
target_link_options(weft_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exported.map -Wl,-z,defs)
# Every minor version may break the binary interface while the major version is 0.
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported.map)

# Other libraries' interfaces. libnccl.so.2 lies in a folder of its own: a program sees it only if it is told to.
if(TARGET weft-shmem)
  install(TARGETS weft-shmem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT weft_shmem)
  install(FILES include/shmem.h include/pshmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT weft_shmem)
  install(DIRECTORY include/weft/shmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT weft_shmem)
endif()
if(TARGET weft-nccl)
  install(TARGETS weft-nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft COMPONENT weft_nccl)
endif()

set(weft_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(TARGETS weft_shared EXPORT weft-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT weft_library NAMELINK_COMPONENT weft_headers)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT weft_headers PATTERN shmem EXCLUDE)
install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT weft_command)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${weft_package_folder} COMPONENT weft_headers)
configure_package_config_file(cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
                              INSTALL_DESTINATION ${weft_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
        DESTINATION ${weft_package_folder} COMPONENT weft_headers)
file(RELATIVE_PATH weft_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT weft_headers)
