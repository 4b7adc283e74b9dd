#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/interfaces.h"
#include "net/link/seal.h"

namespace weft::net::bootstrap {

using namespace link;

using Milliseconds = std::chrono::milliseconds;

// Equal in processes that share a machine's memory. `node`: the name that stands for it instead, as tests give one.
Digest machine_identity(const std::string& node = "");

// The facts that every rank learns of every other. A value of fixed size, as it crosses the wire.
struct Record {
  std::int32_t rank = -1, ranks = 0, pid = 0;
  Address data;                              // where it listens for peers
  char host[56] = {};                        // its machine's name, for messages; ends with 0
  Digest node{};                             // equal on ranks that share a machine's memory
  std::uint16_t aggregation_port = 0;        // of rank 0: where a node listens that sums messages; 0: there is none
  std::uint16_t member_port = 0;             // where its process answers for its communicators
  Address arbiter;                           // of rank 0: who decides instead of a quorum; family 0: nobody
  Protection protection = Protection::kOff;  // of what it sends over TCP; the same on all ranks
  std::uint8_t aes = 0;                      // its processor has instructions for AES
  std::uint8_t transport = 0;                // WEFT_TRANSPORT: its place in env::transports()
  std::uint8_t reserved = 0;
  Address rails[kMostRails] = {};  // where it listens, too, if WEFT_IFACE means several; ports are as of `data`

  std::string text() const;  // "process 4711 on host, 10.0.0.1:4712"
  std::vector<Address> all_rails() const;
  bool has_rail(const Address& address) const;  // whatever the port
};
static_assert(sizeof(Record) == 148 + kMostRails * sizeof(Address));

// The meeting place of the ranks: a listening socket and the job's key. Every rank, the host's own included, joins with
// meet(). Thread: one at a time; serve() may run on a thread of its own.
class Host {
 public:
  // Listens on one address; port 0 is any of `ports`. Errors: of listen_on; kNoResources if that number of ranks needs
  // more file descriptors than the process may have.
  static Result<Host> open(const Address& address, const Key& key, Rank ranks, Ports ports = {});
  static Result<Host> open(const Address& address, Rank ranks, Ports ports = {});  // with a fresh key

  const UniqueId& id() const { return id_; }
  // Returns when all ranks have come and got the table. Connections that do not prove the key are closed and forgotten.
  // Errors: kTimeout naming the missing ranks; the ranks that are here learn it, too.
  Status serve(Milliseconds timeout);
  // Ends serve() on another thread.
  void stop() { stopped_->store(true); }
  // Forgets the listener in a forked child: it is the parent's business.
  void forget() { listener_.reset(); }

 private:
  UniqueFd listener_;
  UniqueId id_;
  std::unique_ptr<std::atomic<bool>> stopped_ = std::make_unique<std::atomic<bool>>(false);
  Rank ranks_ = 0;
};

struct Invitation {
  UniqueId id;
  Rank rank = 0, ranks = 1;
  std::string interface;  // as WEFT_IFACE: listen for peers there; empty: at the address by which the host is reached
  std::string node;       // empty: this machine's identity
  Milliseconds timeout{30000};
  Milliseconds reach{0};                     // to reach the host; 0: as long
  bool aggregates = false;                   // rank 0 opens a socket for a node that sums messages
  Address arbiter = {};                      // that this rank knows of; rank 0's counts
  Protection protection = Protection::kOff;  // of what this rank sends over TCP afterwards
  Ports ports = {};                          // of this rank's listeners
  std::string transport = {};                // WEFT_TRANSPORT
  // Asked about every 20 ms; an error ends the meeting: a rank that is to come will not. Empty: nothing is asked.
  std::function<Status()> watch = {};
};

class Member;

// All ranks, in order, and how they recognise each other.
struct Meeting {
  std::vector<Record> ranks;
  Key key{};                       // of this job's data connections; never sent
  std::string name;                // unguessable, the same on all ranks
  UniqueFd listener;               // of this rank
  UniqueFd aggregation;            // of the node that sums messages, where this rank has it
  std::shared_ptr<Member> member;  // what answers for this rank; null: nothing does yet
  // Of a group that was split off: this rank's membership in the communicator that it was split from, and what the
  // ranks here are called there. A rank that found that one broken never comes. Null: they met otherwise.
  std::shared_ptr<Member> parent = {};
  std::vector<Rank> in_parent = {};
  std::shared_ptr<const Log> log = std::make_shared<const Log>();

  bool one_machine() const;
  std::size_t most_rails() const;  // that a rank has
  Sealing sealing() const;         // of connections between these ranks
};

// Lets this process answer for the rank from now on: see member.h.
std::shared_ptr<Member> join_members(const Meeting& meeting, Rank rank);

// Joins the others; returns when all are there. Errors: of Invitation::watch; kAborted: see Interruptible; kTimeout
// (the host, or the missing ranks); kInvalidArgument: another key, version or number of ranks, a rank that is taken,
// ranks that disagree on protection; kNoResources.
Result<Meeting> meet(const Invitation& invitation);

// Makes room for file descriptors: raises the soft limit as far as the system lets it. Errors: kNoResources: too few,
// with what to raise.
Status reserve_descriptors(std::size_t wanted, const std::string& what);

}  // namespace weft::net::bootstrap
