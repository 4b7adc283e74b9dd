#include <charconv>

#include "apps/cli/schedule_source.h"
#include "apps/cli/verify.h"
#include "base/counted.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/verify/verify.h"

namespace weft::cli {
namespace {

struct Range {
  Rank first = 1, last = 17;
};

Result<Range> parse_range(const std::string& text) {
  constexpr Rank kMost = 128;
  Range range;
  const auto number = [](std::string_view word, Rank& to) {
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), to);
    return error == std::errc{} && rest == word.data() + word.size();
  };
  const std::size_t dots = text.find("..");
  const std::string_view first = std::string_view(text).substr(0, dots);
  const std::string_view last = dots == std::string::npos ? first : std::string_view(text).substr(dots + 2);
  if (!number(first, range.first) || !number(last, range.last) || range.first < 1 || range.last < range.first ||
      range.last > kMost)
    return bad_input("--ranks {}: with --all it is a number or a range like 1..17, up to {}", text, kMost);
  return range;
}

struct Tally {
  std::int64_t schedules = 0, steps = 0;
  std::string counterexample;
};

// Proves all ways of calling the algorithm on this number of ranks with this root.
void prove(const schedule::Algorithm& a, schedule::RankContext context, Tally& tally) {
  for (const bool in_place : {false, true}) {
    for (const bool staged : {false, true}) {
      if ((staged && !a.needs.memory()) || (in_place && !schedule::may_be_in_place(a.collective))) continue;
      context.staged = staged;
      const auto proof =
          schedule::verify(schedule::write_out(a, context), {.in_place = in_place, .in_order = a.in_order});
      tally.steps += proof.steps;
      if (!proof.ok()) {
        tally.counterexample = fmt::format("{} by {} on {} ranks, root {}{}{}: {}", schedule::name(a.collective),
                                           a.name, context.ranks, context.root, staged ? ", staged" : "",
                                           in_place ? ", in place" : "", proof.counterexample->text);
        return;
      }
      ++tally.schedules;
    }
  }
}

}  // namespace

Result<int> verify_all(const std::string& ranks, const std::string& json_file) {
  WEFT_TRY(const Range range, parse_range(ranks));
  Tally total;
  nlohmann::json rows = nlohmann::json::array();
  for (const schedule::Algorithm& a : collectives::algorithms()) {
    Tally tally;
    for (Rank n = range.first; n <= range.last && tally.counterexample.empty(); ++n)
      for (Rank root = 0; root < (schedule::rooted(a.collective) ? n : 1) && tally.counterexample.empty(); ++root)
        prove(a, {.ranks = n, .root = root, .ranks_per_node = n}, tally);
    total.schedules += tally.schedules, total.steps += tally.steps;
    rows.push_back({{"collective", schedule::name(a.collective)},
                    {"algorithm", a.name},
                    {"schedules", tally.schedules},
                    {"steps", tally.steps},
                    {"in_order", a.in_order},
                    {"proved", tally.counterexample.empty()}});
    if (json_file != "-")
      fmt::print("{:<15} {:<20} {:>6} schedules{}{}\n", schedule::name(a.collective), a.name, tally.schedules,
                 a.in_order ? ", in rank order" : "", tally.counterexample.empty() ? "" : ", then a counterexample");
    if (!tally.counterexample.empty()) {
      total.counterexample = std::move(tally.counterexample);
      break;
    }
  }
  if (json_file != "-") {
    if (total.counterexample.empty())
      fmt::print("proved: {} of {} on {} to {}, {}\n", counted(total.schedules, "schedule"),
                 counted(collectives::algorithms().size(), "algorithm"), range.first, counted(range.last, "rank"),
                 counted(total.steps, "step"));
    else
      fmt::print("counterexample: {}\n", total.counterexample);
  }
  if (!json_file.empty()) {
    nlohmann::json json = {
        {"schema", "weft.verify_all/1"},          {"first", range.first},         {"last", range.last},
        {"proved", total.counterexample.empty()}, {"schedules", total.schedules}, {"algorithms", rows}};
    if (!total.counterexample.empty()) json["counterexample"] = total.counterexample;
    WEFT_CHECK(write_json(json_file, json));
  }
  return total.counterexample.empty() ? 0 : kBadAnswer;
}

}  // namespace weft::cli
