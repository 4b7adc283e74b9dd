#include "api/stream/choice.h"

#include <algorithm>

#include "exec/device/image.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/element.h"

namespace weft::stream {
namespace {

using protocol::Protocol;

constexpr Bytes kFewBytes = 16384;           // a hop of lines is shorter than two synchronisations; not yet measured
constexpr Bytes kBytesOfChannel = 64 << 10;  // a block's share below which another block does not pay; likewise

struct Way {
  const schedule::Algorithm* algorithm;
  Protocol protocol;
};

bool sums_in_order(const Request& r) {
  return r.reproducible && schedule::reduces(r.collective) && schedule::order_matters(r.type, r.op);
}

// All ways that are not ruled out, the best first.
Result<std::vector<Way>> ways(const schedule::Task& task, const Request& request) {
  std::vector<const schedule::Algorithm*> algorithms = collectives::algorithms_for(task.collective);
  if (!request.algorithm.empty()) {
    WEFT_TRY(const schedule::Algorithm* forced, collectives::find_algorithm(task.collective, request.algorithm));
    algorithms = {forced};
  }
  std::optional<Protocol> forced;
  if (!request.protocol.empty()) {
    WEFT_TRY(forced, protocol::parse_protocol(request.protocol));
  }
  const bool few = task.elements * task.element_bytes <= kFewBytes;
  std::vector<Way> all;
  for (const Protocol p : {Protocol::kDirect, Protocol::kLL, Protocol::kLL128, Protocol::kSimple})
    for (const schedule::Algorithm* a : algorithms)
      if (p == forced.value_or(p) && schedule::fits(*a, p) && !a->needs.multicast && !a->needs.aggregation &&
          (a->in_order || !sums_in_order(request)))
        all.push_back({a, p});
  // Of lines the one hop to everybody first where there is little to move; many bytes as messages of their own.
  std::stable_sort(all.begin(), all.end(), [&](const Way& x, const Way& y) {
    const auto rank = [&](const Way& w) {
      if (few && w.protocol == Protocol::kLL && w.algorithm->name == "one_shot") return 0;
      if (w.protocol == Protocol::kDirect) return 1;
      return w.protocol == (few ? Protocol::kLL : Protocol::kSimple) ? 2 : 3;
    };
    return rank(x) < rank(y);
  });
  return all;
}

int channels_for(const schedule::Task& task, const schedule::Algorithm& algorithm, int wanted, int strands) {
  const int most = strands / std::max(algorithm.connections_of_channel(), algorithm.lanes);
  if (wanted > 0) return wanted <= most ? wanted : 0;
  const Bytes share = task.elements * task.element_bytes / kBytesOfChannel;
  return static_cast<int>(std::clamp<Bytes>(share, std::min(most, 1), most));
}

tl::unexpected<Error> nothing_serves(const schedule::Task& task, const char* whom) {
  return failure(Code::kUnsupported, Blame::kInput, "{}: no algorithm that {} run serves",
                 schedule::name(task.collective), whom);
}

}  // namespace

Result<schedule::Plan> choose(const schedule::Task& task, const Request& request, const protocol::Capabilities& can) {
  WEFT_TRY(const auto all, ways(task, request));
  for (const Way& way : all) {
    const int channels = channels_for(task, *way.algorithm, request.channels, can.max_strands);
    // A sum of all ranks' inputs to all of them names each twice.
    const bool fits = way.protocol != Protocol::kDirect || 2 * task.ranks <= exec::device::kMostEnds;
    const bool reached = can.load_store || !way.algorithm->needs.memory();
    if (channels == 0 || !fits || !reached) continue;
    const auto plan = schedule::make_plan(task, *way.algorithm, way.protocol, channels, can, true);
    const bool in_lines = way.protocol == Protocol::kLL || way.protocol == Protocol::kLL128;
    if (in_lines && way.algorithm->parts_for(context_of(task, plan)) > 1) continue;  // see exec::device::flatten
    if (const auto cut = schedule::cut_of(task, plan); cut.piece == 0 || cut.round > 0) return plan;
  }
  return nothing_serves(task, "kernels");
}

Result<schedule::Plan> choose_copies(const schedule::Task& task, const Request& request) {
  if (schedule::reduces(task.collective)) return nothing_serves(task, "copy engines");
  WEFT_TRY(const auto all, ways(task, request));
  const protocol::Capabilities can{.name = "copies", .load_store = true, .max_slice = Bytes{1} << 40};
  for (const Way& way : all)
    if (way.protocol == Protocol::kDirect) return schedule::make_plan(task, *way.algorithm, way.protocol, 1, can, true);
  return nothing_serves(task, "copy engines");
}

}  // namespace weft::stream
