# The installed form: libweft.so with the public interface only, the headers, the command, a CMake package and a
# pkg-config file. Components: weft_library, weft_headers, weft_command, weft_manual, weft_shmem,
# weft_nvshmem, weft_nccl.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library's public interface is defined in these modules; the linker takes the others' objects as they are needed.
set(weft_public_modules weft_api weft_session weft_stream weft_transfer weft_kv)
add_library(weft_shared SHARED ${PROJECT_BINARY_DIR}/pch/empty_library.cc)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch/empty_library.cc CONTENT "")
add_library(weft::weft ALIAS weft_shared)
set(weft_whole_archives)
foreach(module ${weft_public_modules})
  list(APPEND weft_whole_archives $<TARGET_FILE:${module}>)
  add_dependencies(weft_shared ${module})
endforeach()
target_link_libraries(weft_shared PRIVATE -Wl,--whole-archive ${weft_whole_archives} -Wl,--no-whole-archive)
target_link_libraries(weft_shared PRIVATE $<BUILD_INTERFACE:weft_api> $<BUILD_INTERFACE:weft_stream>
                                          $<BUILD_INTERFACE:weft_transfer> $<BUILD_INTERFACE:weft_kv>)
target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(weft_shared INTERFACE tl::expected)
target_compile_features(weft_shared INTERFACE cxx_std_20)
target_link_options(weft_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exported.map -Wl,-z,defs)
# Every minor version may break the binary interface while the major version is 0.
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported.map)

set(weft_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
# Other libraries' interfaces, as components shmem and nccl of the CMake package. libnccl.so.2 and nccl.h lie in folders
# of their own: a program uses them only if it names weft::nccl or the folders.
if(TARGET weft-shmem)
  add_library(weft::shmem ALIAS weft-shmem)
  set_target_properties(weft-shmem PROPERTIES EXPORT_NAME shmem)
  target_include_directories(weft-shmem INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS weft-shmem EXPORT weft-shmem-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT weft_shmem)
  install(EXPORT weft-shmem-targets NAMESPACE weft:: DESTINATION ${weft_package_folder} COMPONENT weft_shmem)
  install(FILES include/shmem.h include/pshmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT weft_shmem)
  install(DIRECTORY include/weft/shmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT weft_shmem)
endif()
if(TARGET weft-nvshmem)
  add_library(weft::nvshmem ALIAS weft-nvshmem)
  set_target_properties(weft-nvshmem PROPERTIES EXPORT_NAME nvshmem)
  target_include_directories(weft-nvshmem INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS weft-nvshmem EXPORT weft-nvshmem-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft
          COMPONENT weft_nvshmem)
  install(EXPORT weft-nvshmem-targets NAMESPACE weft:: DESTINATION ${weft_package_folder} COMPONENT weft_nvshmem)
  install(FILES include/nvshmem.h include/nvshmem_host.h include/nvshmemx.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT weft_nvshmem)
  install(DIRECTORY include/weft/nvshmem include/weft/shmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft
          COMPONENT weft_nvshmem)
endif()
if(TARGET weft-nccl)
  add_library(weft::nccl ALIAS weft-nccl)
  set_target_properties(weft-nccl PROPERTIES EXPORT_NAME nccl)
  target_include_directories(weft-nccl INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weft/nccl>)
  if(NOT PROJECT_IS_TOP_LEVEL)  # weft's own tests use NVIDIA's header where there is one
    target_include_directories(weft-nccl INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/compat/nccl>)
  endif()
  install(TARGETS weft-nccl EXPORT weft-nccl-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft COMPONENT weft_nccl)
  install(TARGETS weft-nccl-profiler weft-nccl-tuner LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft COMPONENT weft_nccl)
  install(EXPORT weft-nccl-targets NAMESPACE weft:: DESTINATION ${weft_package_folder} COMPONENT weft_nccl)
  install(FILES src/compat/nccl/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft/nccl COMPONENT weft_nccl)
endif()

install(TARGETS weft_shared EXPORT weft-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT weft_library NAMELINK_COMPONENT weft_headers)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT weft_headers PATTERN shmem EXCLUDE PATTERN nvshmem EXCLUDE)
install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT weft_command)
# Manual pages and completions, which the command writes itself. Left out where python3 is missing, or the command cannot
# run here.
install(CODE "
  file(REMOVE_RECURSE \"${PROJECT_BINARY_DIR}/manual\")
  file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/manual/man1\")
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/scripts/make-man\" \"$<TARGET_FILE:weft>\" \"${PROJECT_BINARY_DIR}/manual/man1\" RESULT_VARIABLE failed)
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"$<TARGET_FILE:weft>\" completion \${shell} OUTPUT_FILE \"${PROJECT_BINARY_DIR}/manual/weft.\${shell}\")
  endforeach()
  if(failed)
    message(STATUS \"manual pages: left out, scripts/make-man: \${failed}\")
  endif()" COMPONENT weft_manual)
install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT weft_manual)
install(FILES ${PROJECT_BINARY_DIR}/manual/weft.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME weft COMPONENT weft_manual)
install(FILES ${PROJECT_BINARY_DIR}/manual/weft.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        RENAME _weft COMPONENT weft_manual)
install(FILES ${PROJECT_BINARY_DIR}/manual/weft.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        COMPONENT weft_manual)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${weft_package_folder} COMPONENT weft_headers)
configure_package_config_file(cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
                              INSTALL_DESTINATION ${weft_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
        DESTINATION ${weft_package_folder} COMPONENT weft_headers)
file(RELATIVE_PATH weft_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT weft_headers)
