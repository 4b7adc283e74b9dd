#include "apps/cli/explain_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "plan/protocol/protocol.h"

namespace weft::cli {
namespace {

std::string plan_name(const tune::Candidate& c) {
  return fmt::format("{} {}", c.plan.algorithm->name, protocol::traits(c.plan.protocol).name);
}

// The possible candidate of another algorithm or protocol with the least estimate; null: there is none.
const tune::Candidate* second(const std::vector<tune::Candidate>& all) {
  const tune::Candidate* best = nullptr;
  for (const tune::Candidate& c : all)
    if (!c.chosen && c.possible && (best == nullptr || c.estimate.total < best->estimate.total)) best = &c;
  return best;
}

// "ring LL128, +12 %"; one that is less by its estimate has lost for another reason.
std::string beside_chosen(const tune::Candidate& other, const tune::Candidate& chosen) {
  constexpr std::string_view kLeast = "the least estimate; ";
  const double more = 100 * (other.estimate.total / chosen.estimate.total - 1);
  std::string_view why = other.reason;
  if (why.starts_with(kLeast)) why.remove_prefix(kLeast.size());
  return fmt::format("{}, {:+.0f} %{}", plan_name(other), more, more < 0 ? fmt::format(": {}", why) : "");
}

}  // namespace

void print_sizes_header(std::string_view collective, std::string_view type, Rank ranks, std::string_view machine,
                        bool simulated) {
  fmt::print("# {} of {} on {} of {}: the choice for each size, {}\n", collective, type, counted(ranks, "rank"),
             machine, simulated ? "simulated" : "as predicted");
  fmt::print("# {:>11} {:>11} {:>6} {:>3}  {:<19}  {}\n", "size (B)", "time (us)", "%least", "ch", "chosen",
             "second, by estimate");
  std::fflush(stdout);
}

void print_size(const ExplainedSize& size) {
  const auto chosen = std::ranges::find_if(size.all, &tune::Candidate::chosen);
  if (chosen == size.all.end() || !chosen->possible) {
    fmt::print("  {:>11} {:>11} {:>6}  {}\n", size.bytes, "-", "-", size.all.front().reason);
    return;
  }
  const tune::Candidate* const next = second(size.all);
  fmt::print("  {:>11} {:>11.2f} {:>5.0f}% {:>3}  {:<19}  {}\n", size.bytes, size.time.us(),
             100 * (size.limit.time / size.time), chosen->plan.channels, plan_name(*chosen),
             next == nullptr ? "-" : beside_chosen(*next, *chosen));
  std::fflush(stdout);  // also into a pipe: a row may take seconds
}

}  // namespace weft::cli
