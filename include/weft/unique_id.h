#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "weft/result.h"
#include "weft/types.h"

namespace weft {

// What ranks need to find each other: where they meet, and a random key. A value of 128 bytes that may be copied to the
// ranks by any means; a process that has it can join, so keep it as secret as a password.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  std::string text() const;  // 256 hexadecimal digits
  // Errors (bad input): what is wrong with it; the text itself is not repeated.
  static Result<UniqueId> parse(const std::string& text);

  bool operator==(const UniqueId&) const = default;
};

// How a rank joins others. What is left out, the environment says (WEFT_TRANSPORT, WEFT_IFACE, WEFT_TIMEOUT_MS, …).
struct ConnectOptions {
  std::string transport = {};  // "shm", "tcp", "ucx", "shm+ucx", "shm+tcp"; empty: shm+tcp, shm within machines
  std::string interface = {};  // to listen on: its name, or a subnet; empty: the one that leads to the place
  std::string node = {};       // the machine that this rank is on; empty: as it finds out itself
  bool aggregation = false;    // over tcp, rank 0 hosts a node that sums messages as SHARP's switches do
  std::chrono::milliseconds timeout{
      0};  // to meet, and of every wait afterwards; 0: as the environment says; negative: refused
};

// Where the ranks of a new communicator meet: opened by one process, which sends id() to the others; every rank, its
// own included, then calls Communicator::connect. Owns: a listening socket and a thread, until destroyed; keep it until
// the ranks have met. Thread: any, one at a time.
class MeetingPlace {
 public:
  // Listens on loopback, unless the options or the environment name an interface. Errors: kInvalidArgument: no such
  // interface, no ranks; kNoResources.
  static Result<MeetingPlace> open(Rank ranks, const ConnectOptions& options = {});
  MeetingPlace(MeetingPlace&&) noexcept;
  MeetingPlace& operator=(MeetingPlace&&) noexcept;
  ~MeetingPlace();

  const UniqueId& id() const;  // all zero: moved from

 private:
  struct Service;
  explicit MeetingPlace(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace weft
