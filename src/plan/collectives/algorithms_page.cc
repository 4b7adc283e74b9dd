#include "plan/collectives/algorithms_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/collectives/registry.h"

namespace weft::collectives {
namespace {

using namespace schedule;

std::string needs_of(const Algorithm& a) {
  std::string text;
  const auto add = [&](bool needed, const char* what) {
    if (needed) text += fmt::format("{}{}", text.empty() ? "" : ", ", what);
  };
  add(a.needs.messages, "messages");
  add(a.needs.load_store, "load/store");
  add(a.needs.multicast, "reducing switch");
  add(a.needs.aggregation, "reducing network");
  return text;
}

}  // namespace

Work busiest(const Algorithm& a, RankContext context) {
  // Chunks in what a size counts: one rank's larger buffer.
  const double per_message = static_cast<double>(a.chunks_for(context)) / blocks(a.collective, context.ranks) *
                             message_parts(a.collective, context.ranks);
  Work most;
  for (context.rank = 0; context.rank < context.ranks; ++context.rank) {
    Work own;
    for (context.lane = 0; context.lane < a.lanes; ++context.lane) {
      auto steps = a.steps(context);
      while (const Step* step = steps.next()) {
        ++own.steps;
        for (const auto* side : {&step->sources, &step->destinations})
          for (const Operand& o : *side) {
            if (o.kind == Operand::Kind::kRemote || o.kind == Operand::Kind::kMulticast) {
              ++own.remote;
              own.touched += 1 / per_message;
            } else if (!o.memory() && side == &step->destinations) {
              own.messages += !o.open;
              own.sent += 1 / per_message;
            }
          }
      }
    }
    most.steps = std::max(most.steps, own.steps);
    most.messages = std::max(most.messages, own.messages);
    most.remote = std::max(most.remote, own.remote);
    most.sent = std::max(most.sent, own.sent);
    most.touched = std::max(most.touched, own.touched);
  }
  return most;
}

std::string algorithms_page() {
  std::string page =
      "# Algorithms\n\n"
      "Written by `weft algorithms` from the registry and the schedules themselves; a test fails when it is stale.\n\n"
      "Per algorithm, for the busiest rank: steps that it executes, messages it sends (or times it touches peers' "
      "memory), "
      "and what it sends or touches in messages (1 is the size that the bench table counts). First on 8 ranks of one "
      "node, then on 4 nodes of 8. *In order*: sums are taken in rank order, so reproducible mode may choose it.\n";
  for (const Collective c : kCollectives) {
    if (uneven(c)) continue;
    page += fmt::format("\n## {}\n\n", name(c));
    page +=
        "| algorithm | needs | in order | 8 ranks: steps | messages | bytes | 4x8 ranks: steps | messages | bytes |\n"
        "|---|---|---|---|---|---|---|---|---|\n";
    for (const Algorithm* a : algorithms_for(c)) {
      page += fmt::format("| {} | {} | {} |", a->name, needs_of(*a), a->in_order ? "yes" : "");
      for (const RankContext& context :
           {RankContext{.ranks = 8, .ranks_per_node = 8}, RankContext{.ranks = 32, .ranks_per_node = 8}}) {
        const Work w = busiest(*a, context);
        page += fmt::format(" {} | {} | {:.3g} |", w.steps, w.messages + w.remote, w.sent + w.touched);
      }
      page += "\n";
    }
    page += "\n";
    for (const Algorithm* a : algorithms_for(c))
      page += fmt::format("- **{}**: {}. Source: {}.\n", a->name, a->when, a->source);
  }
  page +=
      "\n## The uneven forms\n\n"
      "`all_gather_v` and `reduce_scatter_v` are served by every algorithm of their even form: all ranks know all "
      "sizes. A rank of an `all_to_all_v` knows only what it sends and receives, so algorithms that pass parts on "
      "cannot serve it:";
  for (const Algorithm* a : algorithms_for(Collective::kAllToAll))
    if (a->uneven) page += fmt::format(" `{}`", a->name);
  return page + ".\n";
}

}  // namespace weft::collectives
