#include "apps/cli/schedule_source.h"

#include "base/counted.h"
#include "base/text_file.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/exchange/written.h"

namespace weft::cli {

void ScheduleSource::add_options(CLI::App& app) {
  app.add_option("what", what, "a collective, or a file: MSCCL .xml or weft.schedule .json");
  app.add_option("--algo", algorithm, "the algorithm");
  app.add_option("--ranks,-n", ranks, "how many ranks")->capture_default_str();
  app.add_option("--root", root, "the root of the rooted collectives")->capture_default_str();
  app.add_option("--per-node", per_node, "ranks per node (default: all on one)");
  app.add_option("--channel", channel, "which channel's copy of the schedule")->capture_default_str();
  app.add_flag("--staged", staged, "peers cannot reach the caller's buffers");
}

Result<schedule::Document> ScheduleSource::load() const {
  if (what.empty()) return bad_input("which schedule? A collective with --algo, or a file that ends in .xml or .json");
  if (is_file()) {
    if (!algorithm.empty()) return bad_input("{} is a file; --algo goes with a collective", what);
    return schedule::read_document(what);
  }
  if (file_exists(what) && !schedule::parse_collective(what))
    return bad_input("{}: a file of a schedule has a name that ends in .xml (MSCCL) or .json", what);
  WEFT_TRY(const Collective collective, schedule::parse_collective(what));
  if (algorithm.empty()) return bad_input("{}: --algo is missing (weft verify --all lists the algorithms)", what);
  WEFT_TRY(const auto* found, collectives::find_algorithm(collective, algorithm));
  constexpr std::int64_t kMost = 1024;
  if (ranks < 1 || ranks > kMost) return bad_input("--ranks {} is outside 1 … {}", ranks, kMost);
  if (root < 0 || root >= ranks) return bad_input("--root {} is not one of {}", root, counted(ranks, "rank"));
  if (per_node < 0 || (per_node > 0 && ranks % per_node != 0))
    return bad_input("--per-node {} does not divide {}", per_node, counted(ranks, "rank"));
  if (channel < 0 || channel > 63) return bad_input("--channel {} is outside 0 … 63", channel);
  const auto n = static_cast<Rank>(ranks);
  return schedule::Document{
      .name = std::string(found->name),
      .schedule = schedule::write_out(*found, {.ranks = n,
                                               .root = static_cast<Rank>(root),
                                               .ranks_per_node = per_node > 0 ? static_cast<Rank>(per_node) : n,
                                               .channel = static_cast<int>(channel),
                                               .staged = staged}),
      .in_place = schedule::may_be_in_place(collective),
      .origins = {}};
}

}  // namespace weft::cli
