#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/bootstrap/rpc.h"
#include "net/link/key.h"

namespace weft::net::bootstrap {

using namespace link;

// The addresses at which the ranks' processes answer questions about a communicator, and how its ranks know each other.
struct MemberIdentity {
  Key key{};                       // of the communicator
  std::vector<Address> addresses;  // of all ranks' processes; family 0: none
  Address arbiter;                 // family 0: a quorum decides
  Rank rank = 0;

  Rank ranks() const { return static_cast<Rank>(addresses.size()); }
};

// The port, one of `ports`, at which this process answers for its communicators, at this address: one listener and one
// thread for all of them, from the first until the process ends. Errors: of listen_on.
Result<std::uint16_t> member_port(const Address& at, Ports ports = {});

// One rank's membership in one communicator: consensus with the other ranks, and what has become of them. The process
// answers for it until it ends, also after this object has gone.
// Thread: any.
class Member {
 public:
  // Lets this process answer for the rank from now on.
  static std::shared_ptr<Member> join(MemberIdentity identity);
  // The rank has left: it will not take part in anything that is not decided yet.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  struct Part {
    Rank rank;
    Octets payload;
  };
  struct Decision {
    std::vector<Part> parts;  // of those who are counted in, in the order of their ranks; this rank is one
    std::vector<Rank> ended;  // those known to have ended or left
    Nonce nonce{};            // the same on all ranks
  };
  // Agrees with all ranks that call this with the same instance on who they are and what they brought. Ranks that are
  // neither here nor known to have ended (refused connections, or `has_ended`) are waited for up to `timeout`. Every
  // rank gets the same decision, also one that calls later, as kLeftOut. Payloads have the same size on all ranks.
  // Errors: kLeftOut: decided without this rank, final; kNoQuorum: too few ranks are here, or the arbiter does not
  // answer; nothing is lost, the call can be repeated with the payload that was given first; kAborted: `stops` has said
  // that the wait is to end, which it is asked all the time; likewise. kNoResources: this process has had no descriptor
  // left to ask with for `timeout`; likewise.
  // Ranks that are `left_out` are taken for ended in this decision only.
  Result<Decision> decide(std::uint32_t instance, const Octets& payload, std::chrono::milliseconds timeout,
                          const std::function<bool(Rank)>& has_ended = {}, const std::function<bool()>& stops = {},
                          const std::function<bool(Rank)>& left_out = {});

  // The ranks that are known to have ended or left, for good.
  std::vector<Rank> gone() const;

  // Of two ranks that have called different things: in which call, and fingerprints of what each had called up to it.
  // Call 0: not known.
  struct Clash {
    std::uint32_t call = 0, culprits = 0, finders = 0;
  };
  // The cause that broke the communicator, as the rank that found it reports it. Values as fabric::Cause.
  struct Broken {
    Rank culprit = -1;
    std::uint32_t cause = 0;
    Rank finder = -1;
    Clash clash = {};
    std::string words = {};  // of a rank that has aborted, of itself
  };
  // Says so to the processes of these ranks, whatever their threads do; returns when they know, or have had some time.
  // `silent`: ranks that have not answered for long: they read it when they go on, and are not waited for.
  void tell_broken(const Broken& broken, const std::vector<Rank>& to, const std::vector<Rank>& silent = {});
  std::optional<Broken> broken() const;
  // Whether broken() has a value; takes no lock. Once tell_broken() has returned, it is true in every process that has
  // answered.
  bool is_broken() const;

  enum class Fate { kAlive, kLeft, kEnded, kSilent };
  struct State {
    Fate fate = Fate::kSilent;
    std::optional<Broken> broken;  // as that rank knows it
    bool withdrew = false;         // from the group that was asked for
  };
  // Of the calls that this rank makes, the latest of which are kept: a fingerprint of all up to that number, from 1.
  void note_call(std::uint64_t number, std::uint32_t chain);
  // What the processes of these ranks say of that call: the fingerprints of those that have made and still know it.
  std::vector<std::uint32_t> chains_at(std::uint32_t call, const std::vector<Rank>& ranks,
                                       std::chrono::milliseconds limit) const;
  // Asks that rank's process. `group`: as its rank named it to withdraw().
  State state_of(Rank rank, std::chrono::milliseconds limit, std::uint32_t group = 0) const;
  // This rank will not be in a group that others may have made of this communicator. `group`: a number of the rank's
  // own, not 0.
  void withdraw(std::uint32_t group);

 private:
  struct Shared;
  explicit Member(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  friend class Service;

  std::shared_ptr<Shared> shared_;
};

}  // namespace weft::net::bootstrap
