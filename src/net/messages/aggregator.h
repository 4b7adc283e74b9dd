#pragma once

#include <thread>

#include "net/messages/endpoint.h"

namespace weft::net::messages {

// A node of the network that sums messages: in software what the switches of SHARP do. The ranks of a group send it one
// message each; when all are there it sends their sum, in the order of ranks, to every one of them. It holds at most
// as much of each rank's strand as any receiver does, and knows no collective.
// Thread: its own. Owns: its endpoint, which comes after the last rank.
class Aggregator {
 public:
  // `fold_of`: the arithmetic of Call::reduction; null: unknown. Requires: meeting.listener is open.
  using FoldOf = fabric::Fold (*)(std::uint32_t reduction);
  Aggregator(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, std::chrono::milliseconds timeout,
             FoldOf fold_of, const Endpoint::MakeCarrier& make_carrier);
  // What ranks wait for is finished first. Its own rank may be the first that is done with an operation: ranks that
  // have sent parts before are waited for until they leave, or for a second in which nothing moves.
  ~Aggregator();

 private:
  void run(const std::stop_token& stopped);
  bool sum_all();
  bool sum(Rank from, int strand);
  bool holds_parts();
  void look_for_failures();

  FoldOf fold_of_;
  Rank number_;  // behind the last rank
  Endpoint endpoint_;
  Rank missing_ = -1;  // whose part others have waited for since the last look
  std::jthread thread_;
};

}  // namespace weft::net::messages
