#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <utility>

#include "base/units.h"

// Single-decree Paxos as the ranks of a communicator use it: pure state, without sockets, clocks and threads, so that
// tests/membership_model_test explores the text that member.cc executes.
namespace weft::net::bootstrap {

// A proposal's number. Ballots of different coordinators differ.
struct Ballot {
  std::uint32_t attempt = 0;  // 0: none
  Rank coordinator = -1;

  auto operator<=>(const Ballot&) const = default;
};

// The quorum of a communicator of `ranks` ranks, fixed when it is made: more than half of them, or half with rank 0.
// Two quorums have a rank in common.
inline bool is_quorum(std::span<const Rank> present, Rank ranks) {
  const auto twice = 2 * static_cast<Rank>(present.size());
  return twice > ranks || (twice == ranks && std::find(present.begin(), present.end(), 0) != present.end());
}

// What one rank has promised and accepted.
template <class Value>
struct Acceptor {
  bool called = false;  // the rank takes part: only callers promise, and only promisers are proposed as members
  Ballot promised, accepted;
  Value value = {};  // if something is accepted or decided
  bool decided = false;

  // PREPARE(b). False: a higher ballot is promised.
  bool promise(Ballot b) {
    if (!called || b < promised) return false;
    promised = b;
    return true;
  }
  // ACCEPT(b, value).
  bool accept(Ballot b, const Value& proposed) {
    if (!called || b < promised) return false;
    promised = accepted = b;
    if (!decided) value = proposed;
    return true;
  }
  // DECIDED(value).
  void decide(const Value& outcome) {
    value = outcome;
    decided = true;
  }
};

// What a coordinator knows about its ballot: the value that it must propose is that of the highest accepted ballot
// among its promisers, if there is one.
template <class Value>
struct Proposal {
  Ballot highest = {};
  Value value = {};

  void add(Ballot accepted, const Value& of_promiser) {
    if (accepted > highest) {
      highest = accepted;
      value = of_promiser;
    }
  }
  bool bound() const { return highest.attempt > 0; }
};

}  // namespace weft::net::bootstrap
