# Debian's clang-19 for wasm32: wasi-libc and libc++-19-dev-wasm32, without Emscripten. Exceptions are compiled so that
# `throw` reaches runtime.cc; nothing catches there.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_WORKS TRUE)  # no archiver for wasm is needed
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_FLAGS_INIT "-fvisibility=hidden -ffunction-sections -fdata-sections -fwasm-exceptions -Wno-unknown-warning-option")
set(CMAKE_CXX_FLAGS_RELEASE_INIT "-O2")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
