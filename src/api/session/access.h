#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "api/session/adopted.h"
#include "api/session/request.h"
#include "base/result.h"
#include "exec/executor.h"

// Whether peers touch the caller's buffers in a call, and the copies of those that they do not reach (decision 0195).
namespace weft::session {

// How peers reach the buffers of a call.
struct Access {
  bool direct = false;   // those of all ranks, or copies of them: decided alike on all ranks, see fabric::Votes
  bool reached = false;  // this rank's own, without a copy
  bool adopted = false;  // because they are adopted pages, which they need not be in the next call
  bool operator==(const Access&) const = default;
};

// The calls of some shapes: on all ranks alike.
struct Ballot {
  std::uint64_t calls = 0;    // so far
  std::uint64_t decides = 1;  // the number of the call that decides anew
  bool direct = false;        // until then
  int votes = 0;              // windows in which this rank has had its vote
  std::uint64_t counted = 0;  // of this window's calls so far
  std::uint64_t reached = 0;  // those of them whose buffers peers reach

  // Calls that need copies in a direct window take longer than staged ones by more than the others gain.
  bool mostly_reached() const { return 5 * reached >= 4 * counted; }
};

// Counts the calls of every shape and says how peers reach the buffers of each.
class BufferAccess {
 public:
  explicit BufferAccess(exec::Executor* executor) : executor_(executor) {}

  // The ballot of the request's shape. Requires: check_request().
  Ballot& ballot_of(const Request& request);
  // How this call reaches its buffers. Leaves in adopted what those lie in.
  Access count(Ballot& ballot, const Request& request, const Buffers& buffers);
  // A call that was counted is refused.
  void take_back(Ballot& ballot, const Ballot& before);

  bool has_adopted() const { return bool(adopted_); }
  AdoptedBuffers take_adopted() { return std::exchange(adopted_, {}); }

 private:
  bool peers_reach(const Request& request, const Buffers& buffers);

  exec::Executor* executor_;
  std::vector<Ballot> ballots_;  // one where ranks need not vote
  AdoptedBuffers adopted_;       // of the call that is being prepared, until that takes them
};

// Memory that peers reach, for copies of a call's buffers. One call at a time uses it.
class Copies {
 public:
  explicit Copies(exec::Executor* executor) : executor_(executor) {}
  ~Copies() { release(); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Errors: kNoResources.
  Status make_room(const Buffers& buffers);
  std::byte* in() const { return memory_; }
  std::byte* out(const Buffers& buffers) const { return memory_ + offset_of_out(buffers); }

 private:
  static Bytes offset_of_out(const Buffers& buffers) { return (buffers.in_bytes + 4095) / 4096 * 4096; }
  void release();

  exec::Executor* executor_;
  std::byte* memory_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace weft::session
