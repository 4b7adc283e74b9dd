#pragma once

// Debian's libc++ for wasm32 has no threads and therefore no std::mutex; a module of one thread needs none.
#ifdef __cplusplus
#include <cstddef>
namespace std {
struct mutex {
  void lock() {}
  void unlock() {}
};
}  // namespace std
#endif
