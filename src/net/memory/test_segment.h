#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "base/check.h"
#include "net/memory/segment.h"

namespace weft::net::memory {

// A segment of its own for a test: zeroed pages that are there when they are touched, as a job's are.
class TestSegment {
 public:
  explicit TestSegment(Rank ranks, std::int64_t heap_bytes = 0)
      : bytes_(Segment::total_bytes(ranks, heap_bytes)),
        base_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        segment(static_cast<std::byte*>(base_), ranks, heap_bytes) {
    WEFT_ASSERT(base_ != MAP_FAILED, "no address space for a segment");
  }
  ~TestSegment() { munmap(base_, bytes_); }
  TestSegment(const TestSegment&) = delete;
  TestSegment& operator=(const TestSegment&) = delete;

 private:
  const std::size_t bytes_;
  void* const base_;

 public:
  const Segment segment;
};

}  // namespace weft::net::memory
