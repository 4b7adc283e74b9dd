#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "exec/fabric/fabric.h"
#include "plan/schedule/lower/lower.h"
#include "weft/types.h"

namespace weft::conformance {

// What all ranks do on a fabric, and what must come out. The programs hold operations only, no waiting and no clock, so
// that one job runs on threads, on processes and in virtual time alike.
class Job {
 public:
  // Every rank has `bytes` of input, filled with pattern(), and `bytes` of output, all zero.
  Job(Rank ranks, Bytes bytes);

  struct Phase {  // one collective call of every rank
    protocol::Protocol protocol = protocol::Protocol::kSimple;
    bool publishes = false;
    bool scales = false;                                       // every rank's input is multiplied by its scale_of
    std::vector<std::shared_ptr<schedule::Program>> programs;  // by rank
  };
  // Later operations belong to a new call.
  void begin(protocol::Protocol protocol, bool publishes = false, int strands = 1);

  // Inputs of this call are multiplied by scale_of their rank; from here on expect() does so, too.
  void scale() { phases_.back().scales = true; }
  static Scalar scale_of(Rank rank) { return Scalar::of(2 * rank + 3); }

  // input of `source` at `from` -> one message -> output of `destination` at `to`.
  void message(Rank source, Rank destination, Bytes from, Bytes to, Bytes bytes, int strand = 0);
  // Any operation; says nothing of what it leaves in an output.
  void add(Rank rank, protocol::Operation operation, int strand = 0);
  void signal(Rank rank, Rank peer, int strand = 0);
  void wait(Rank rank, Rank peer, int strand = 0);
  // What rank's output holds at the end: the sum, as int32, of these inputs at `from`.
  void expect(Rank rank, Bytes to, const std::vector<Rank>& inputs, Bytes from, Bytes bytes);

  Rank ranks() const { return ranks_; }
  Bytes bytes() const { return bytes_; }
  const std::vector<Phase>& phases() const { return phases_; }
  void fill(Rank rank, std::byte* in) const;
  // "" or the first byte that is wrong.
  std::string compare(Rank rank, const std::byte* out) const;

 private:
  Rank ranks_;
  Bytes bytes_;
  std::vector<Phase> phases_;
  std::vector<std::vector<std::byte>> inputs_, expected_;
};

// The words operations are written in.
protocol::End in(Bytes offset);
protocol::End out(Bytes offset);
protocol::End scratch(Bytes offset);
// A part of the sum of `count` ranks, from `first` on; as a source, that sum.
protocol::End sum_over(Rank first, Rank count, Rank stride, int strand = 0);
protocol::End message_of(Rank peer, int strand = 0);
protocol::End remote(Rank peer, protocol::End local);
protocol::Operation move(Bytes bytes, SmallList<protocol::End, 2> sources, SmallList<protocol::End, 2> destinations);

// Runs one rank's part over a real-time fabric. "" or what went wrong.
std::string run_rank(exec::Executor& executor, const Job& job);

// A fabric as the suite sees it.
struct FabricUnderTest {
  const char* name;
  std::vector<protocol::Protocol> protocols;  // that it sends messages with
  fabric::Capabilities (*capabilities)();
  // Runs all ranks to their end; one line for each thing that went wrong.
  std::vector<std::string> (*run)(const Job& job);
  // Why it cannot be tried here; null: it always can.
  Status (*available)() = nullptr;
};
extern const FabricUnderTest kThreads;     // ranks are threads of this process
extern const FabricUnderTest kShm;         // ranks are forked processes
extern const FabricUnderTest kTcp;         // ranks are forked processes, joined by TCP over loopback
extern const FabricUnderTest kStripedTcp;  // the same with several connections per pair
extern const FabricUnderTest kSummingTcp;  // … and a node that sums messages
extern const FabricUnderTest kUcx;         // ranks are forked processes, joined by UCX over what it chooses
extern const FabricUnderTest kUcxAcross;   // the same as if every rank had a machine of its own
// Ranks as if on several machines: shared memory within each, TCP or UCX across.
extern const FabricUnderTest kMixedInTurn, kMixedUcxInTurn;    // even ranks on one, odd ranks on the other
extern const FabricUnderTest kMixedInPairs, kMixedUcxInPairs;  // two on each
extern const FabricUnderTest kFlow;                            // ranks are GPUs of a simulated machine
extern const FabricUnderTest kPacket;                          // the same, with packets

}  // namespace weft::conformance
