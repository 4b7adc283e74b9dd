# Debian's clang-19 for wasm32 with wasi-libc and libc++-19-dev-wasm32; Emscripten is not needed.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19 CACHE FILEPATH "")
set(CMAKE_RANLIB llvm-ranlib-19 CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_WORKS TRUE)  # the check would link a program with main()
# Debian's libc++abi for wasm32 cannot throw. What would be thrown traps; the page's worker then starts again.
set(CMAKE_CXX_FLAGS_INIT "-fvisibility=hidden -ffunction-sections -fdata-sections -fignore-exceptions")
set(CMAKE_CXX_FLAGS_RELEASE_INIT "-O2 -DNDEBUG")
