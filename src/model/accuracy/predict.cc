#include "model/accuracy/predict.h"

#include <algorithm>

#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/tune/nccl/choice.h"

namespace weft::accuracy {
namespace {

constexpr Bytes kElement = 4;  // float, as nccl-tests measures by default

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

// nccl-tests starts 20 calls (its -n), waits for the last and divides.
constexpr int kCalls = 20;

bool matches(const Point& point, const tune::nccl::Row& row) {
  return (point.algorithm.empty() || name(row.algorithm) == point.algorithm) &&
         (point.protocol.empty() || protocol::traits(row.protocol).name == point.protocol);
}

}  // namespace

Result<std::optional<tune::nccl::Row>> Predictor::ask_nccl(const schedule::Task& task, const Point& point,
                                                           int release) {
  if (!system_ || system_->ranks != task.ranks) {
    const auto found = tune::nccl::system_of(machine_, task.ranks);
    if (!found && found.error().code == Code::kUnsupported) return std::nullopt;
    if (!found) return tl::make_unexpected(found.error());
    system_ = *found;
    newest_ = system_->release;
  }
  system_->release = release > 0 ? release : newest_;
  if (!tune::nccl::models(task.collective)) return std::nullopt;
  std::vector<tune::nccl::Row> rows = tune::nccl::rows(*system_, task.collective, task.elements * task.element_bytes);
  std::erase_if(rows, [&](const tune::nccl::Row& r) { return !r.possible || !matches(point, r); });
  if (rows.empty())
    return failure(Code::kUnsupported, Blame::kInput, "NCCL cannot do what the table names: {} {}", point.algorithm,
                   point.protocol);
  const tune::nccl::Row* chosen = tune::nccl::choice(rows);
  tune::nccl::Row best = chosen != nullptr ? *chosen : *std::ranges::min_element(rows, {}, &tune::nccl::Row::time);
  if (point.channels > 0) best.channels = point.channels;
  return best;
}

Result<Prediction> Predictor::predict(const Table& table, const Point& point) {
  const Rank ranks = point.ranks > 0 ? point.ranks : machine_.endpoints();
  if (ranks > machine_.endpoints())
    return bad_input("{}: {} ranks, but {} has {}", table.name, ranks, table.machine, machine_.endpoints());
  const schedule::Task task = task_of(machine_, table.collective, ranks, point.bytes);
  const tune::Question question{.task = task, .can = sim::flow_capabilities(machine_.topology())};
  Prediction prediction;
  WEFT_TRY(const auto row, ask_nccl(task, point, table.release));
  predict::Query query{.question = row ? tune::nccl::forced(question, *row) : question, .calls = kCalls};
  query.options.most_steps = most_steps_;
  auto answer = predict::predict(machine_, query);
  if (!answer && answer.error().code == Code::kNoResources) {
    WEFT_TRY(const tune::Candidate choice, tune::choose(machine_, query.question));
    answer = predict::Answer{.choice = choice, .outcome = {.time = choice.estimate.total}};
  }
  if (answer) {
    const schedule::Plan& plan = answer->choice.plan;
    prediction.algorithm = plan.algorithm->name;
    prediction.protocol = protocol::traits(plan.protocol).name;
    prediction.channels = plan.channels;
    prediction.time = answer->outcome.time;
  } else if (row && row->timed) {
    prediction = {row->time, tune::nccl::name(row->algorithm), protocol::traits(row->protocol).name, row->channels,
                  true};
  } else {
    return tl::make_unexpected(answer.error());
  }
  // One thread that launches on several GPUs in turn, again and again, is the limit until the GPUs take longer.
  const int together = table.gpus_per_thread == kAllGpus ? ranks : table.gpus_per_thread;
  prediction.time = std::max(prediction.time, machine_.costs().host_launch(prediction.channels) * together);
  return prediction;
}

}  // namespace weft::accuracy
