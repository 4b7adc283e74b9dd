#include "accuracy/predict.h"

#include <algorithm>

#include "exec/virtual_run.h"
#include "sim/flow/flow_fabric.h"
#include "tune/nccl/choice.h"

namespace weft::accuracy {
namespace {

constexpr int kStrands = 64;              // connections between two ranks
constexpr Bytes kMostMessages = 400'000;  // of a simulation, about; with more the estimate, which then hardly differs
constexpr Bytes kElement = 4;             // float, as nccl-tests measures by default

schedule::Task task_of(const cost::MachineView& machine, Collective collective, Rank ranks, Bytes bytes) {
  const bool parts = collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
                     collective == Collective::kAllToAll;
  const Bytes unit = parts ? ranks : 1;
  return {.collective = collective,
          .ranks = ranks,
          .ranks_per_node = machine.ranks_per_node(ranks),
          .elements = std::max<Bytes>(1, bytes / kElement / unit) * unit,
          .element_bytes = kElement};
}

// How many slices all ranks send, about.
Bytes messages_of(const schedule::Task& task, const schedule::Plan& plan) {
  const schedule::Cut cut = schedule::cut_of(task, plan);
  const Bytes slices = cut.slice > 0 ? (cut.piece + cut.slice - 1) / cut.slice : 1;
  const Bytes chunks = plan.algorithm->chunks_for({.ranks = task.ranks, .ranks_per_node = task.ranks_per_node});
  return slices * chunks * plan.channels * task.ranks;
}

bool told(const Point& point, const tune::nccl::Row& row) {
  return (point.algorithm.empty() || name(row.algorithm) == point.algorithm) &&
         (point.protocol.empty() || protocol::traits(row.protocol).name == point.protocol);
}

// RCCL has rings and trees, in three protocols, and a model of its own which is not known here.
Result<tune::Candidate> best_of_rccl(const cost::MachineView& machine, tune::Question question) {
  WEFT_TRY(const auto all, tune::candidates(machine, question));
  for (const tune::Candidate& c : all)
    if (c.possible && c.plan.protocol != protocol::Protocol::kDirect &&
        (c.plan.algorithm->name == "ring" || c.plan.algorithm->name == "tree"))
      return c;
  return failure(Code::kUnsupported, Blame::kInput, "neither rings nor trees run here");
}

}  // namespace

Result<tune::Candidate> Predictor::choose(const tune::Question& question, const Point& point, bool& substituted) {
  if (!system_ || system_->ranks != question.task.ranks) {
    const auto found = tune::nccl::system_of(machine_, question.task.ranks);
    if (!found && found.error().code == Code::kUnsupported) return best_of_rccl(machine_, question);
    if (!found) return tl::make_unexpected(found.error());
    system_ = *found;
  }
  std::vector<tune::nccl::Row> rows =
      tune::nccl::rows(*system_, question.task.collective, question.task.elements * question.task.element_bytes);
  std::erase_if(rows, [&](const tune::nccl::Row& r) { return !r.possible || !told(point, r); });
  std::ranges::stable_sort(rows, {}, &tune::nccl::Row::time);
  std::string reason = "NCCL has nothing to choose";
  for (tune::nccl::Row& row : rows) {
    if (point.channels > 0) row.channels = point.channels;
    auto candidate = tune::choose(machine_, tune::nccl::forced(question, row));
    if (candidate) return candidate;
    reason = candidate.error().message;
    substituted = true;
  }
  return failure(Code::kUnsupported, Blame::kInput, "{}", reason);
}

Result<Duration> Predictor::simulate(const schedule::Task& task, const schedule::Plan& plan) const {
  sim::FlowFabric fabric(machine_.topology(), machine_.routes(), task.ranks,
                         {.costs = machine_.costs(), .strands = plan.channels * plan.algorithm->lanes});
  return exec::run_virtually(fabric, task, plan, [&](Rank) {
    return fabric::Call{.protocol = plan.protocol, .publishes = plan.algorithm->needs.memory()};
  });
}

Result<Prediction> Predictor::predict(const Table& table, const Point& point) {
  const Rank ranks = point.ranks > 0 ? point.ranks : machine_.endpoints();
  if (ranks > machine_.endpoints())
    return bad_input("{}: {} ranks, but {} has {}", table.name, ranks, table.machine, machine_.endpoints());
  const schedule::Task task = task_of(machine_, table.collective, ranks, point.bytes);
  const tune::Question question{.task = task, .can = sim::flow_capabilities(machine_.topology(), kStrands)};
  Prediction prediction;
  WEFT_TRY(const tune::Candidate choice, choose(question, point, prediction.substituted));
  prediction.algorithm = choice.plan.algorithm->name;
  prediction.protocol = protocol::traits(choice.plan.protocol).name;
  prediction.channels = choice.plan.channels;
  prediction.time = choice.estimate.total;
  if (messages_of(task, choice.plan) <= kMostMessages) {
    WEFT_TRY(prediction.time, simulate(task, choice.plan));
  }
  // One thread that launches on several GPUs in turn, again and again, is the limit until the GPUs take longer.
  const int together = table.gpus_per_thread == kAllGpus ? ranks : table.gpus_per_thread;
  prediction.time = std::max(prediction.time, machine_.costs().host_launch() * together);
  return prediction;
}

}  // namespace weft::accuracy
