#include "plan/tune/nccl/table.h"

#include <algorithm>

#include "plan/tune/nccl/grouped.h"

namespace weft::tune::nccl {
namespace {

std::string_view plugin_name(Collective c) {
  switch (c) {
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kAllGather:
      return "allgather";
    case Collective::kReduceScatter:
      return "reducescatter";
    default:
      return "allreduce";
  }
}

std::string_view plugin_name(Algorithm a) {
  static constexpr std::string_view kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                "nvls_tree", "pat",  "sendrecv"};
  return kNames[static_cast<int>(a)];
}

std::string_view plugin_name(protocol::Protocol p) {
  return p == protocol::Protocol::kLL ? "ll" : p == protocol::Protocol::kLL128 ? "ll128" : "simple";
}

bool same_answer(const Range& a, const Range& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.channels == b.channels;
}

// The fastest of NCCL's possibilities for one size. Errors: none can be timed.
Result<Range> best_for(const cost::MachineView& machine, const System& system, const Question& question) {
  const Bytes bytes = question.task.elements * question.task.element_bytes;
  Range best{.min = bytes, .max = bytes};
  Duration least = Duration::max();
  std::string reason = "NCCL has nothing to choose";
  for (const Row& row : rows(system, question.task.collective, bytes)) {
    if (!row.possible) continue;
    const auto candidate = tune::choose(machine, forced(question, row));
    if (!candidate) {
      reason = candidate.error().message;
    } else if (candidate->estimate.total < least) {
      least = candidate->estimate.total;
      best.algorithm = row.algorithm;
      best.protocol = row.protocol;
      best.channels = row.channels;
    }
  }
  if (least == Duration::max()) return failure(Code::kUnsupported, Blame::kInput, "{}", reason);
  return best;
}

}  // namespace

Result<std::vector<Range>> tuning_table(const cost::MachineView& machine, const System& system, Question question,
                                        Bytes largest) {
  if (!models(question.task.collective) || is_grouped(question.task.collective))
    return failure(Code::kUnsupported, Blame::kInput, "NCCL's tuner does not choose for {}",
                   schedule::name(question.task.collective));
  std::vector<Range> table;
  const Bytes unit = question.task.ranks * question.task.element_bytes;
  for (Bytes bytes = std::min<Bytes>(1 << 10, largest); bytes <= largest; bytes *= 2) {
    question.task.elements = std::max<Bytes>(1, bytes / unit) * question.task.ranks;
    WEFT_TRY(const Range best, best_for(machine, system, question));
    if (table.empty() || !same_answer(table.back(), best)) {
      if (!table.empty()) table.back().max = bytes - 1;
      table.push_back(best);
      table.back().min = table.size() == 1 ? 0 : bytes;
    }
    table.back().max = bytes;
  }
  return table;
}

std::string to_csv(const std::vector<Range>& table, const System& system, Collective collective) {
  std::string text =
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n";
  for (const Range& r : table)
    text += fmt::format("{},{},{},{},{},{},{},{},-1,-1\n", plugin_name(collective), r.min, r.max,
                        plugin_name(r.algorithm), plugin_name(r.protocol), r.channels, system.nodes, system.ranks);
  return text;
}

}  // namespace weft::tune::nccl
