# weft_module_sources(OUT): all .cc files below the current folder, but for those of subfolders that are modules of their
# own, because they have a CMakeLists.txt.
function(weft_module_sources out)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB_RECURSE nested CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list IN LISTS nested)
    get_filename_component(folder ${list} DIRECTORY)
    if(NOT folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
      list(FILTER sources EXCLUDE REGEX "^${folder}/")
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
