#pragma once

#include <cstdint>
#include <string>

namespace weft::cli {

// What only `weft bench transfer` is asked.
struct TransferSpec {
  std::string block;        // bytes of a descriptor; empty: one descriptor
  std::int64_t blocks = 0;  // how many, instead of --min and --max
  bool verify = false;      // checksums
  std::string from;         // with --on: the tier; empty: one GPU's memory by another
  bool bounce = false;      // with `from`: through a buffer of the host's memory
  std::string file;         // instead of another process's memory
  std::string stack;        // with `from`: whose software
};

}  // namespace weft::cli
