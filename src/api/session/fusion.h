#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "weft/communicator.h"

// Many small collectives that are started together become one: a call costs as much as some kibibytes.
namespace weft::session {

// The most bytes per rank of a request that is put together with others, and of their sum.
inline constexpr Bytes kMostFusedPart = Bytes{64} << 10, kMostFused = Bytes{1} << 20;

// How many of the first requests are one call: 1 where the first cannot be put together with the second. They are
// consecutive, alike in all but buffers and counts, and small; none touches memory that another writes. Ranks agree
// because they pass the same requests; one whose buffers overlap where another's do not makes another call, which is
// reported as such.
std::size_t fusible(std::span<const Request> requests, Rank ranks);

// Memory for fused calls, which peers reach where there is such. One call at a time uses a piece.
class FusionMemory {
 public:
  explicit FusionMemory(exec::Executor* executor) : executor_(executor) {}
  ~FusionMemory();
  FusionMemory(const FusionMemory&) = delete;

  std::byte* take(Bytes bytes);  // never null
  void give_back(std::byte* memory);

 private:
  struct Piece {
    std::byte* memory;
    Bytes bytes;
    bool used;
    std::unique_ptr<std::byte[]> own;  // where the executor has no more
  };
  exec::Executor* executor_;
  std::vector<Piece> pieces_;
};

// Requests that are one call.
struct Fused {
  std::vector<Request> parts;
  Request whole;
  FusionMemory* memory = nullptr;
  std::byte* buffers = nullptr;
  Rank rank = 0, ranks = 1;

  // Requires: fusible(parts) is all of them.
  static std::shared_ptr<Fused> of(std::span<const Request> parts, Rank rank, Rank ranks, FusionMemory& memory);
  ~Fused();
  void copy_in() const;   // when the call begins: earlier ones may write what it reads
  void copy_out() const;  // when it has ended
};

}  // namespace weft::session
