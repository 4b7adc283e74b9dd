#include "plan/tune/nccl/choice.h"

#include <algorithm>

#include "base/text.h"
#include "plan/collectives/registry.h"
#include "plan/tune/nccl/constants.h"

namespace weft::tune::nccl {
namespace {

// Names of weft's registry.
std::string_view weft_name(Algorithm a) {
  static constexpr std::string_view kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                "nvls_tree", "pat"};
  return kNames[static_cast<int>(a)];
}

// As NCCL_ALGO and NCCL_PROTO do: of the rows that are possible those of these names.
Status keep_named(const Question& q, std::vector<Row>& rows) {
  std::erase_if(rows, [](const Row& r) { return !r.possible; });
  if (!q.algorithm.empty()) {
    WEFT_TRY(const schedule::Algorithm* named, collectives::find_algorithm(q.task.collective, q.algorithm));
    std::erase_if(rows, [&](const Row& r) { return weft_name(r.algorithm) != named->name; });
  }
  if (!q.protocol.empty()) {
    WEFT_TRY(const protocol::Protocol named, protocol::parse_protocol(q.protocol));
    std::erase_if(rows, [&](const Row& r) { return r.protocol != named; });
  }
  return {};
}

}  // namespace

Question forced(const Question& question, const Row& row) {
  Question q = question;
  q.algorithm = weft_name(row.algorithm);
  q.protocol = protocol::traits(row.protocol).name;
  q.channels = row.channels;
  q.slice = row.slice;
  q.staging = row.staging;
  if (const auto found = collectives::find_algorithm(q.task.collective, q.algorithm))
    q.channels = std::max(1, std::min(q.channels, q.can.max_strands / (*found)->lanes));
  return q;
}

Result<int> release_of(std::string_view tuner) {
  if (tuner == "nccl") return kNewestRelease;
  for (int release = kOldestRelease; release <= kNewestRelease; ++release)
    if (tuner == fmt::format("nccl-2.{}", release)) return release;
  return bad_input("unknown tuner '{}'; there are weft, nccl, and nccl-2.{} to nccl-2.{}", tuner, kOldestRelease,
                   kNewestRelease);
}

const Row* choice(const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, &Row::chosen);
  return found == rows.end() ? nullptr : &*found;
}

Result<Candidate> choose(const cost::MachineView& machine, const System& system, const Question& question) {
  const Collective collective = question.task.collective;
  if (!models(collective))
    return failure(Code::kUnsupported, Blame::kInput, "NCCL's tuner does not choose for {}",
                   schedule::name(collective));
  std::vector<Row> all = rows(system, collective, question.task.elements * question.task.element_bytes);
  const Row* row = choice(all);
  if (!question.algorithm.empty() || !question.protocol.empty()) {
    WEFT_CHECK(keep_named(question, all));
    const auto best = std::ranges::min_element(all, {}, &Row::time);
    row = best == all.end() ? nullptr : &*best;
    if (row == nullptr)
      return failure(Code::kUnsupported, Blame::kInput, "NCCL cannot do {} by {} {} here", schedule::name(collective),
                     question.algorithm, question.protocol);
  }
  if (row == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "NCCL has nothing to choose on {} ranks", question.task.ranks);
  return tune::choose(machine, forced(question, *row));
}

}  // namespace weft::tune::nccl
