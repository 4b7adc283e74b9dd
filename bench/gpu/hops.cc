#include "bench/gpu/commands.h"
#include "bench/gpu/ranks.h"
#include "exec/device/flatten.h"
#include "plan/collectives/registry.h"

namespace weft::gpu {
namespace {

using protocol::End;
using protocol::Operation;
using protocol::Protocol;

constexpr int kRoundTrips = 200;

End local(protocol::Memory memory) { return {.memory = memory}; }
End peer_of(Rank self, Protocol protocol) {
  if (protocol == Protocol::kDirect)
    return {.kind = End::Kind::kRemote, .memory = protocol::Memory::kOut, .peer = 1 - self};
  return {.kind = End::Kind::kMessage, .peer = 1 - self};
}

// A message to the peer: by loads and stores that is a put and a signal.
void send(std::vector<Operation>& to, Rank self, Protocol protocol, Bytes bytes) {
  to.push_back({.bytes = bytes, .sources = local(protocol::Memory::kIn), .destinations = peer_of(self, protocol)});
  if (protocol == Protocol::kDirect)
    to.push_back({.kind = Operation::Kind::kSignal, .peer = 1 - self, .sources = {}, .destinations = {}});
}
void receive(std::vector<Operation>& to, Rank self, Protocol protocol, Bytes bytes) {
  if (protocol == Protocol::kDirect)
    to.push_back({.kind = Operation::Kind::kWait, .peer = 1 - self, .sources = {}, .destinations = {}});
  else
    to.push_back({.bytes = bytes, .sources = peer_of(self, protocol), .destinations = local(protocol::Memory::kOut)});
}

std::vector<schedule::Program> to_and_fro(Protocol protocol, Bytes bytes) {
  std::vector<schedule::Program> programs(2, schedule::Program(1));
  for (int i = 0; i < kRoundTrips; ++i) {
    send(programs[0][0], 0, protocol, bytes);
    receive(programs[0][0], 0, protocol, bytes);
    receive(programs[1][0], 1, protocol, bytes);
    send(programs[1][0], 1, protocol, bytes);
  }
  return programs;
}
// The launch and the end of the kernels: programs of one round trip are subtracted from those of many.
std::vector<schedule::Program> once(Protocol protocol, Bytes bytes) {
  auto programs = to_and_fro(protocol, bytes);
  for (auto& program : programs) program[0].resize(program[0].size() / kRoundTrips);
  return programs;
}

Result<double> hop(Ranks& ranks, Protocol protocol, Bytes bytes) {
  double times[2] = {};
  for (int many = 0; many < 2; ++many) {
    const auto programs = many == 1 ? to_and_fro(protocol, bytes) : once(protocol, bytes);
    WEFT_CHECK(ranks.prepare(programs, protocol, protocol == Protocol::kDirect, DataType::kFloat32, ReduceOp::kSum,
                             static_cast<std::size_t>(bytes), static_cast<std::size_t>(bytes)));
    WEFT_TRY(times[many], ranks.time(20));
  }
  return (times[1] - times[0]) / (2 * (kRoundTrips - 1));
}

}  // namespace

Status hops(const Options& options) {
  const exec::device::Geometry geometry{
      .ranks = 2, .strands = 1, .slot_bytes = 512 << 10, .line_slot_bytes = 1 << 20, .scratch_bytes = 4096};
  WEFT_TRY(auto ranks, Ranks::open(geometry, options));
  int gave_up = 0;
  fmt::print("# one hop between two blocks of {} threads; Direct: put, signal, wait\n", options.threads);
  fmt::print("# protocol   size (B)   time (us)   GB/s\n");
  for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128, Protocol::kDirect})
    for (const Bytes bytes : {Bytes{8}, Bytes{1} << 10, Bytes{32} << 10, Bytes{256} << 10}) {
      doing(fmt::format("hops of {} B by {}", bytes, protocol::traits(protocol).name));
      const auto microseconds = hop(*ranks, protocol, bytes);
      if (!microseconds) {
        if (microseconds.error().code != Code::kTimeout) return tl::make_unexpected(microseconds.error());
        ++gave_up;
        fmt::print("{:<10} {:>10}  {}\n", protocol::traits(protocol).name, bytes, microseconds.error().message);
        WEFT_TRY(ranks, Ranks::open(geometry, options));  // the old ones have given up for good
        continue;
      }
      fmt::print("{:<10} {:>10} {:>11.3f} {:>6.1f}\n", protocol::traits(protocol).name, bytes, *microseconds,
                 static_cast<double>(bytes) / *microseconds / 1e3);
    }
  return gave_up == 0 ? Status() : failure(Code::kTimeout, Blame::kOperation, "{} hops gave up", gave_up);
}

Status launches(const Options& options) {
  const exec::device::Geometry geometry{.ranks = options.ranks};
  WEFT_TRY(const auto ranks, Ranks::open(geometry, options));
  WEFT_TRY(const auto* ring, collectives::find_algorithm(Collective::kAllReduce, "ring"));
  const schedule::Task task{.ranks = options.ranks, .elements = 2, .element_bytes = 4};
  const auto plan = make_plan(task, *ring, Protocol::kLL, 1, exec::device::capabilities(geometry), true);
  WEFT_CHECK(ranks->prepare(task, plan, DataType::kFloat32, ReduceOp::kSum));
  doing("launches: one by one");
  WEFT_TRY(const double launched, ranks->time(200));
  fmt::print("# all_reduce of 8 B, {} ranks\nlaunched {:.2f} us\n", options.ranks, launched);
  doing("launches: replayed as a graph");
  WEFT_TRY(const double replayed, ranks->time_as_graph(200));
  fmt::print("graph    {:.2f} us\n", replayed);
  return {};
}

}  // namespace weft::gpu
