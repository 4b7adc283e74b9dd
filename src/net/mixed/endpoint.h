#pragma once

#include <vector>

#include "net/memory/endpoint.h"
#include "net/messages/endpoint.h"

namespace weft::net::mixed {

// `name`: of the fabric; outlives the answer.
fabric::Capabilities capabilities(std::string_view name);

// One rank's view of ranks on several machines: those of its own machine it reaches through shared memory (near), the
// others by messages over a network (far). An operation that touches both sides is executed in parts, one per side,
// in one post. Protocol Simple only; peers' buffers are not loaded and stored. Thread: one at a time. Owns: nothing;
// both sides outlive it.
class Endpoint {
 public:
  // `members`: the ranks of this machine, in the order of the segment.
  Endpoint(std::string_view name, memory::Endpoint& near, messages::Endpoint& far, std::vector<Rank> members);

  const fabric::Capabilities& capabilities() const { return capabilities_; }
  Rank rank() const { return far_.rank(); }
  Rank ranks() const { return far_.ranks(); }
  bool reaches(const void*, Bytes) const { return false; }

  void begin(const fabric::Call& call);
  // What operations mean from now on; gives back what they meant. The call keeps its number.
  void exchange_call(fabric::Call& call);
  // Is memory from which something was posted still being read?
  bool reads(const std::byte* from, Bytes bytes) { return far_.reads(from, bytes); }
  bool has_met(Rank peer) const { return is_near(peer) || far_.has_met(peer); }
  bool has_left(Rank peer) const { return is_near(peer) ? near_.has_left(local(peer)) : far_.has_left(peer); }
  bool ready(int strand, const protocol::Operation& operation) { return missing(strand, operation) == kNothing; }
  fabric::Posted post(int strand, const protocol::Operation& operation);
  bool finished(int) const { return true; }
  Rank unsettled() { return far_.unsettled(); }

  Rank blocker(int strand, const protocol::Operation& operation);
  Rank mismatched() const;
  fabric::Disagreement disagreement() const;
  bool awaits_reason(Rank peer) { return !is_near(peer) && far_.awaits_reason(peer); }
  Rank unread();
  void compare_calls(Rank peer);

  bool is_near(Rank peer) const { return local_[static_cast<std::size_t>(peer)] >= 0; }
  bool near_message(const protocol::End& end) const {
    return end.kind == protocol::End::Kind::kMessage && is_near(end.peer);
  }
  // The ranks of this machine, in the order of the segment.
  const std::vector<Rank>& members() const { return members_; }
  // The number in the segment of a rank of this machine.
  Rank local(Rank peer) const { return local_[static_cast<std::size_t>(peer)]; }

 private:
  // What an operation becomes. Where only one side takes part, the other part is empty.
  //   no message comes from afar:  near part (into a local destination or the stage), then far part from there
  //   otherwise:                   far part, which reads near messages where they lie, then near part from its result
  struct Parts {
    protocol::Operation near, far;
    bool near_sends = false;                    // the near part comes last
    SmallList<protocol::End, 2> near_messages;  // that the far part reads
  };
  enum Missing { kNothing, kNear, kFar };

  // Why the operation cannot be posted yet.
  Missing missing(int strand, const protocol::Operation& operation);
  // Requires: messages that came near are there. Valid until the next call.
  const Parts& split(int strand, const protocol::Operation& operation);
  bool touches(const SmallList<protocol::End, 2>& ends, bool near) const;
  protocol::End in_segment(protocol::End end) const;
  // The operation with only those message sources that came near, under the segment's numbers.
  const protocol::Operation& near_sources(const protocol::Operation& operation);
  // A strand's place for results that have no other on their way from one side to the other.
  protocol::End stage(int strand) const;

  memory::Endpoint& near_;
  messages::Endpoint& far_;
  std::vector<Rank> members_, local_;
  fabric::Capabilities capabilities_;
  protocol::Operation asked_;
  Parts parts_;
};

}  // namespace weft::net::mixed
