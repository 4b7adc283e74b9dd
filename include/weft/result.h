#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace weft {

// The scope that a failure permanently affects, so that the caller knows what to replace.
enum class Blame {
  kInput,         // the arguments or a file; call again, corrected
  kOperation,     // this operation; the communicator still works
  kCommunicator,  // a peer died or the job lost step; build a new communicator
  kProcess,       // out of memory, no shared memory; nothing weft can do here
};

enum class Code {
  kInvalidArgument,
  kNotFound,
  kUnsupported,
  kMismatch,  // ranks called different operations
  kPeerDied,
  kTimeout,
  kAborted,
  kNoResources,
  kSystem,  // a system call failed; the message names it
  kInternal,
  kLeftOut,   // the others have agreed to go on without this rank, for good
  kNoQuorum,  // too few ranks are here to go on; nothing is lost, call again
  kPeerLeft,  // a peer has finalized, dropped or shrunk the communicator, but is alive
};

struct Error {
  Code code = Code::kInternal;
  Blame blame = Blame::kOperation;
  std::string message;  // one line, for a person
  // Of the communicator, as far as they are known. kPeerDied, kPeerLeft, kTimeout, kAborted: the rank at fault; none if
  // nobody can know it (kTimeout: ranks wait for each other in a circle). kMismatch: the rank that did not call what
  // more than half of all ranks called; where that is not known, two ranks that disagree, of which either may have
  // deviated; of a rank that is one of the two also what each of them called, and the first field in which the calls
  // differ.
  std::vector<std::int32_t> ranks = {};
  std::vector<std::string> calls = {};
  std::string field = {};

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = tl::expected<T, Error>;

// Nothing, or an error. A class only for its constructor: that of tl::expected is constexpr, and compilers therefore
// clear the room of an Error at every success, which costs a small collective a tenth of its time.
class Status : public tl::expected<void, Error> {
  using Base = tl::expected<void, Error>;

 public:
  Status() noexcept {}
  using Base::Base;
  Status(Base other) : Base(std::move(other)) {}
};

}  // namespace weft
