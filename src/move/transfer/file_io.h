#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weft::transfer {

// Pieces of files, many under way at once: by io_uring, or by threads where the kernel has none or forbids it.
class FileIo {
 public:
  struct Piece {
    int fd = -1;
    std::byte* memory = nullptr;
    Bytes bytes = 0, offset = 0;
    bool writes = false;
  };
  static constexpr unsigned kDepth = 64;  // pieces under way
  static constexpr unsigned kThreads = 8;

  // `by_threads`: not by io_uring. Errors: kNoResources.
  static Result<std::unique_ptr<FileIo>> open(bool by_threads = false);
  virtual ~FileIo() = default;
  // Carries all pieces out, in any order. Thread: one at a time. Errors: kSystem, kNoResources on a full disk, naming
  // the piece's offset; nothing is under way afterwards.
  virtual Status run(std::span<const Piece> pieces) = 0;
  // "io_uring", or "8 threads (io_uring: Operation not permitted)".
  virtual const std::string& how() const = 0;
};

}  // namespace weft::transfer
