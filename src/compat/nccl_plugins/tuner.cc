#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/env.h"
#include "compat/nccl_plugins/interface.h"
#include "machine/detect/record.h"
#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/cost/shipped.h"
#include "plan/schedule/lower/plan.h"
#include "plan/tune/nccl/search.h"
#include "plan/tune/nccl/table.h"

// libnccl-tuner-weft.so: weft's choice of NCCL's algorithm, protocol and channels, for the machine that
// WEFT_TUNER_MACHINE names. All ranks must choose alike, so nothing is detected: the name is the same on all hosts.
namespace weft::compat::plugins {
namespace {

using tune::nccl::Range;

constexpr Bytes kLargest = Bytes{4} << 30;  // larger messages are done as this one

struct Context {
  cost::MachineView machine;
  tune::nccl::System system;
  protocol::Capabilities can;
  Logger log = nullptr;
  std::mutex mutex;
  std::map<int, std::vector<Range>> tables = {};  // by function; empty: weft cannot time it. By mutex
};

std::optional<Collective> collective_of(int function) {
  switch (function) {
    case kBroadcast:
      return Collective::kBroadcast;
    case kReduce:
      return Collective::kReduce;
    case kAllGather:
      return Collective::kAllGather;
    case kReduceScatter:
      return Collective::kReduceScatter;
    case kAllReduce:
      return Collective::kAllReduce;
    default:
      return std::nullopt;
  }
}

// "dgx-h100" for a job on two nodes is "dgx-h100:nodes=2".
std::string machine_for(std::string name, std::size_t nodes) {
  if (nodes > 1 && name.find("nodes=") == std::string::npos)
    name += fmt::format("{}nodes={}", name.find(':') == std::string::npos ? ":" : ",", nodes);
  return name;
}

// Errors (bad input): no such machine, or one that the job does not fit on.
Result<std::unique_ptr<Context>> open(std::size_t ranks, std::size_t nodes, Logger log) {
  const auto named = env::value_of("WEFT_TUNER_MACHINE");
  if (!named || named->empty()) return bad_input("WEFT_TUNER_MACHINE is not set: e.g. dgx-h100");
  const std::string name = machine_for(*named, nodes);
  WEFT_TRY(auto topology, topology::load_machine(name, topology::read_recorded));
  WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
  WEFT_TRY(auto system, tune::nccl::system_of(view, static_cast<Rank>(ranks)));
  if (system.nodes != static_cast<int>(nodes))
    return bad_input("WEFT_TUNER_MACHINE={}: {} ranks are on {} nodes there, and this job has {}", *named, ranks,
                     system.nodes, nodes);
  const auto can = sim::flow_capabilities(view.topology());
  return std::unique_ptr<Context>(new Context{std::move(view), system, can, log});
}

int begin(void** context, std::size_t ranks, std::size_t nodes, Logger log) {
  *context = nullptr;
  auto opened = open(ranks, nodes, log);
  if (opened)
    *context = opened->release();
  else if (log != nullptr)
    log(2, 0, __FILE__, __LINE__, "weft's tuner leaves choices to NCCL: %s", opened.error().message.c_str());
  return kOk;
}

const std::vector<Range>& table_of(Context& c, int function, Collective collective) {
  const auto [at, fresh] = c.tables.try_emplace(function);
  if (!fresh) return at->second;
  const Rank ranks = c.system.ranks;
  const tune::Question question{
      .task = schedule::task_of(collective, ranks, c.machine.ranks_per_node(ranks), kLargest, DataType::kFloat32),
      .can = c.can};
  auto table = tune::nccl::tuning_table(c.machine, c.system, question, kLargest);
  if (table)
    at->second = std::move(*table);
  else if (c.log != nullptr)
    c.log(2, 0, __FILE__, __LINE__, "weft's tuner leaves %s to NCCL: %s",
          std::string(schedule::name(collective)).c_str(), table.error().message.c_str());
  return at->second;
}

// NCCL's place of a protocol.
int place_of(protocol::Protocol protocol) {
  const auto at = std::ranges::find(tune::nccl::kProtocols, protocol);
  return static_cast<int>(at - std::begin(tune::nccl::kProtocols));
}

int pick(void* context, int function, std::size_t bytes, float** costs, int algorithms, int protocols, int* channels) {
  const auto collective = collective_of(function);
  if (context == nullptr || !collective) return kOk;
  Context& c = *static_cast<Context*>(context);
  const std::lock_guard guard(c.mutex);
  const auto size = static_cast<Bytes>(bytes);
  const Range* best = nullptr;
  for (const Range& range : table_of(c, function, *collective))
    if (range.min <= size) best = &range;
  if (best == nullptr) return kOk;
  const int algorithm = static_cast<int>(best->algorithm), protocol = place_of(best->protocol);
  if (algorithm >= algorithms || protocol >= protocols) return kOk;
  // NCCL passes the address of a matrix as float**.
  float& cost = reinterpret_cast<float*>(costs)[algorithm * protocols + protocol];
  if (cost == kNotPossible) return kOk;
  cost = 0;
  *channels = best->channels;
  return kOk;
}

int init_v3(std::size_t ranks, std::size_t nodes, Logger log, void** context) {
  return begin(context, ranks, nodes, log);
}
int init_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes, Logger log, void*, void*) {
  return begin(context, ranks, nodes, log);
}
int choose_v3(void* context, int function, std::size_t bytes, int, float** costs, int algorithms, int protocols,
              int* channels) {
  return pick(context, function, bytes, costs, algorithms, protocols, channels);
}
int choose_v4(void* context, int function, std::size_t bytes, int, float** costs, int algorithms, int protocols, int,
              int* channels) {
  return pick(context, function, bytes, costs, algorithms, protocols, channels);
}
int finalize(void* context) {
  delete static_cast<Context*>(context);
  return kOk;
}

}  // namespace

extern "C" {
extern const TunerV3 ncclTunerPlugin_v3;
extern const TunerV4 ncclTunerPlugin_v4;
extern const TunerV5 ncclTunerPlugin_v5;
extern const TunerV6 ncclTunerPlugin_v6;
const TunerV3 ncclTunerPlugin_v3{"weft", init_v3, choose_v3, finalize};
const TunerV4 ncclTunerPlugin_v4{"weft", init_v3, choose_v4, finalize};
const TunerV5 ncclTunerPlugin_v5{"weft", init_v5, choose_v4, finalize};
const TunerV6 ncclTunerPlugin_v6{"weft", init_v5, choose_v4, finalize, nullptr};
}

}  // namespace weft::compat::plugins
