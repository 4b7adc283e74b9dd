#pragma once

#include "net/bootstrap/rpc.h"

namespace weft::net::bootstrap {

// A place outside the ranks that decides who goes on: one compare-and-swap per communicator, in memory. With an arbiter
// any remainder of a communicator may go on, also the rank 1 of two; without one a quorum is needed. `weft run` is one.
// Registers are named by digests of the communicators' keys, which only their ranks know.
class Arbiter {
 public:
  // Listens; claims wait until serve(). Errors: of listen_on.
  static Result<std::unique_ptr<Arbiter>> open(const Address& at, Ports ports = {});
  const Address& address() const { return address_; }
  // Answers from now on, in a thread of its own.
  void serve() { responder_->start(); }
  // Has a rank made a claim? Thread: any.
  bool claimed() const;

 private:
  struct Registers;
  explicit Arbiter(std::unique_ptr<Registers> registers);

  std::unique_ptr<Registers> registers_;
  std::unique_ptr<Responder> responder_;
  Address address_;

 public:
  ~Arbiter();
};

// Claims a register: what it holds afterwards, `value` if this was the first claim. Nothing: the arbiter does not
// answer.
std::optional<Octets> claim(const Address& arbiter, const Digest& name, const Octets& value,
                            std::chrono::milliseconds limit);

}  // namespace weft::net::bootstrap
