# Test programs are listed when ctest starts, not after each link.
set(CMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE PRE_TEST)

# weft_precompiled(TARGET PCH): TARGET includes the headers that nearly every file needs, compiled once in PCH.
# Parsing them takes a third of a small file's time. Files still include what they use: scripts/check-headers.
function(weft_precompiled target pch)
  if(target MATCHES "^weft_exec")
    return()  # -ffp-contract=off differs from the options that PCH was compiled with
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  if(pch STREQUAL weft_test_pch)
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  endif()
endfunction()

# What a collective of 8 bytes runs through: checks in its code cost 3 to 6 % of its 160 ns (decision 0132).
set(weft_unchecked fabric exec session net_memory)

# Where no time is spent: compiled for size, which makes the wheel smaller.
set(weft_small report models doctor launch rehearsal explore)

# weft_module(NAME DEPS...): one folder = one library weft_NAME, with the tests and benchmarks that stand beside
# the code. DEPS are other modules or imported targets; they are the only folders NAME may include.
# A subfolder with a CMakeLists.txt of its own is a module of its own and is left out.
# The variable WEFT_APART lists files that are compiled alone also where WEFT_UNITY is on, because names that are local
# to them stand in another file, too.
function(weft_module name)
  weft_module_sources(sources)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")

  if(sources)
    add_library(weft_${name} STATIC ${sources})
    target_link_libraries(weft_${name} PUBLIC ${ARGN} weft_options)
    if(WEFT_HARDEN AND name IN_LIST weft_unchecked)
      target_compile_options(weft_${name} PRIVATE -fno-stack-protector -fcf-protection=none -U_GLIBCXX_ASSERTIONS)
    elseif(name IN_LIST weft_small)
      target_compile_options(weft_${name} PRIVATE $<$<CONFIG:Release>:-Os>)
      weft_precompiled(weft_${name} weft_small_pch)
    else()  # those are not the options that the precompiled header was made with
      weft_precompiled(weft_${name} weft_pch)
    endif()
    if(WEFT_UNITY AND NOT name MATCHES "^exec")  # Highway includes the files of exec once per instruction set
      set_target_properties(weft_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
      set_source_files_properties(${WEFT_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  else()
    add_library(weft_${name} INTERFACE)
    target_link_libraries(weft_${name} INTERFACE ${ARGN} weft_options)
  endif()

  if(WEFT_TESTS AND tests)
    add_executable(weft_${name}_test ${tests})
    target_link_libraries(weft_${name}_test PRIVATE weft_${name} GTest::gtest_main)
    weft_precompiled(weft_${name}_test weft_test_pch)
    gtest_discover_tests(weft_${name}_test TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  endif()
  if(WEFT_BENCHMARKS AND benches)
    add_executable(weft_${name}_bench ${benches})
    target_link_libraries(weft_${name}_bench PRIVATE weft_${name} benchmark::benchmark_main)
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/embed_function.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/module_sources.cmake)

add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# GCC's -Wmaybe-uninitialized takes members of optionals and moved functions for uninitialized; the sanitizers find the
# real cases.
target_compile_options(weft_options INTERFACE -Wall -Wextra -Wpedantic -Werror=return-type
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -Wno-missing-field-initializers -Wno-maybe-uninitialized>)
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -g1
    $<IF:$<CXX_COMPILER_ID:GNU>,-fsanitize-coverage=trace-pc$<COMMA>trace-cmp,-fsanitize=fuzzer-no-link>)
  target_link_options(weft_options INTERFACE -fsanitize=address,undefined)
endif()

set(weft_common_headers <algorithm> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
    <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch/empty.cc CONTENT "int main() {}\n")
add_library(weft_pch OBJECT ${PROJECT_BINARY_DIR}/pch/empty.cc)
target_link_libraries(weft_pch PRIVATE weft_options fmt::fmt tl::expected Threads::Threads)
target_precompile_headers(weft_pch PRIVATE ${weft_common_headers})
add_library(weft_small_pch OBJECT ${PROJECT_BINARY_DIR}/pch/empty.cc)
target_link_libraries(weft_small_pch PRIVATE weft_options fmt::fmt tl::expected Threads::Threads)
target_compile_options(weft_small_pch PRIVATE $<$<CONFIG:Release>:-Os>)
target_precompile_headers(weft_small_pch PRIVATE ${weft_common_headers})
if(WEFT_TESTS)
  # Tests are compiled at -O1: they check results, and a quarter of their compile time is optimisation. The target is
  # a program because programs are compiled with -fPIE and libraries with -fPIC.
  add_executable(weft_test_pch ${PROJECT_BINARY_DIR}/pch/empty.cc)
  set_target_properties(weft_test_pch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/pch)
  target_link_libraries(weft_test_pch PRIVATE weft_options fmt::fmt tl::expected GTest::gtest Threads::Threads)
  target_compile_options(weft_test_pch PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(weft_test_pch PRIVATE ${weft_common_headers} <gtest/gtest.h>)
endif()
