# weft_embed(TARGET FUNCTION FILE...): compiles data files into TARGET, so that the command needs no install path.
# `weft::embedded::FUNCTION()` lists them; the user declares it with the File of base/embedded.h.
function(weft_embed target function)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${target}_${function}_embedded.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DFUNCTION=${function} "-DFILES=${ARGN}" -DROOT=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..
            -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cmake
    DEPENDS ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
