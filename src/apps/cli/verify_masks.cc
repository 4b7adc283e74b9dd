#include <map>
#include <set>

#include "apps/cli/schedule_source.h"
#include "apps/cli/verify.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/verify/verify.h"

namespace weft::cli {
namespace {

constexpr Rank kMostRanks = 1024, kMostOfAllMasks = 16;

// Which ranks take part, from 0 on.
using Mask = std::vector<bool>;

Result<Mask> parse_mask(const std::string& text, Rank ranks) {
  Mask mask(static_cast<std::size_t>(ranks));
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t dash = std::min(one.find('-'), one.size());
    WEFT_TRY(const auto first, parse_integer("--active: rank", one.substr(0, dash), 0, ranks - 1));
    std::int64_t last = first;
    if (dash < one.size()) {
      WEFT_TRY(last, parse_integer("--active: rank", one.substr(dash + 1), first, ranks - 1));
    }
    for (std::int64_t r = first; r <= last; ++r) mask[static_cast<std::size_t>(r)] = true;
  }
  return mask;
}

// A mask as algorithms see it: the active ranks, renumbered in their order, by node and place. Masks with equal
// classes have equal schedules.
struct Class {
  std::vector<Rank> counts;  // active ranks of every node that has any
  schedule::UnevenNodes nodes;
  bool uneven = false;

  Rank ranks() const { return nodes.first.back(); }
  auto key() const { return std::tuple(counts, uneven ? nodes.places : std::vector<Rank>()); }
};

Class class_of(const Mask& mask, Rank per_node) {
  Class c;
  std::map<Rank, std::size_t> having;
  Rank active = 0;
  for (Rank begin = 0; begin < static_cast<Rank>(mask.size()); begin += per_node) {
    const Rank before = active;
    for (Rank place = 0; place < per_node; ++place) {
      if (!mask[static_cast<std::size_t>(begin + place)]) continue;
      if (active == before) c.nodes.first.push_back(active);
      c.nodes.places.push_back(place);
      ++having[place];
      ++active;
    }
    if (active > before) c.counts.push_back(active - before);
  }
  c.nodes.first.push_back(active);
  for (const auto& [place, nodes] : having)
    if (nodes == c.counts.size()) c.nodes.common.push_back(place);
  c.uneven = std::set<Rank>(c.counts.begin(), c.counts.end()).size() > 1;
  return c;
}

struct Tally {
  std::int64_t schedules = 0, steps = 0;
};

// Every way of calling the algorithm on the ranks of one class. Returns a counterexample, or nothing.
std::string prove_class(const schedule::Algorithm& a, const Class& c, Tally& tally) {
  schedule::RankContext context{.ranks = c.ranks(), .ranks_per_node = c.uneven ? 1 : c.counts.front()};
  if (c.uneven) context.nodes = &c.nodes;
  for (context.root = 0; context.root < (schedule::rooted(a.collective) ? c.ranks() : 1); ++context.root)
    for (const bool in_place : {false, true})
      for (const bool staged : {false, true}) {
        if ((staged && !a.needs.memory()) || (in_place && !schedule::may_be_in_place(a.collective))) continue;
        context.staged = staged;
        const auto proof =
            schedule::verify(schedule::write_out(a, context), {.in_place = in_place, .in_order = a.in_order});
        if (!proof.ok())
          return fmt::format("{} by {} on {}, {} by node, root {}{}{}: {}", schedule::name(a.collective), a.name,
                             counted(c.ranks(), "active rank"), fmt::join(c.counts, "+"), context.root,
                             staged ? ", staged" : "", in_place ? ", in place" : "", proof.counterexample->text);
        ++tally.schedules;
        tally.steps += proof.steps;
      }
  return "";
}

// The classes of one mask, or of all masks.
Result<std::vector<Class>> classes_of(const std::string& active, Rank ranks, Rank per_node, std::int64_t& masks) {
  std::vector<Class> classes;
  if (active != "all") {
    WEFT_TRY(const Mask mask, parse_mask(active, ranks));
    masks = 1;
    classes.push_back(class_of(mask, per_node));
    return classes;
  }
  if (ranks > kMostOfAllMasks)
    return bad_input("--active all: {} have 2^{}; up to {}", counted(ranks, "rank"), counted(ranks, "mask"),
                     counted(kMostOfAllMasks, "rank"));
  std::set<decltype(Class().key())> known;
  for (std::uint32_t bits = 1; bits < 1U << ranks; ++bits, ++masks) {
    Mask mask(static_cast<std::size_t>(ranks));
    for (Rank r = 0; r < ranks; ++r) mask[static_cast<std::size_t>(r)] = (bits >> r & 1) != 0;
    Class c = class_of(mask, per_node);
    if (known.insert(c.key()).second) classes.push_back(std::move(c));
  }
  return classes;
}

}  // namespace

Result<int> verify_masks(const ScheduleSource& source, Rank ranks, const std::string& active,
                         const std::string& json_file) {
  if (source.is_file()) return bad_input("--active: {} is a file, which has its own number of ranks", source.what);
  WEFT_TRY(const Collective collective, schedule::parse_collective(source.what));
  const schedule::Algorithm* only = nullptr;
  if (!source.algorithm.empty()) {
    WEFT_TRY(only, collectives::find_algorithm(collective, source.algorithm));
  }
  if (ranks < 1 || ranks > kMostRanks) return bad_input("--ranks {} is outside 1 … {}", ranks, kMostRanks);
  const auto per_node = static_cast<Rank>(source.per_node > 0 ? source.per_node : ranks);
  if (source.per_node < 0 || ranks % per_node != 0)
    return bad_input("--per-node {} does not divide {}", source.per_node, counted(ranks, "rank"));
  std::int64_t masks = 0;
  WEFT_TRY(const auto classes, classes_of(active, ranks, per_node, masks));
  Tally tally;
  int algorithms = 0;
  std::string counterexample;
  for (const schedule::Algorithm* a : collectives::algorithms_for(collective)) {
    if ((only != nullptr && a != only) || !counterexample.empty()) continue;
    ++algorithms;
    for (const Class& c : classes)
      if (counterexample = prove_class(*a, c, tally); !counterexample.empty()) break;
  }
  if (json_file != "-") {
    if (counterexample.empty())
      fmt::print("proved: {} on {} of {}, {} a node, in {}: {}, {}, {}\n", schedule::name(collective),
                 counted(masks, "mask"), counted(ranks, "rank"), per_node, counted(classes.size(), "class"),
                 counted(algorithms, "algorithm"), counted(tally.schedules, "schedule"), counted(tally.steps, "step"));
    else
      fmt::print("counterexample: {}\n", counterexample);
  }
  if (!json_file.empty()) {
    nlohmann::json json = {{"schema", "weft.verify_masks/1"},
                           {"collective", schedule::name(collective)},
                           {"ranks", ranks},
                           {"ranks_per_node", per_node},
                           {"masks", masks},
                           {"classes", classes.size()},
                           {"algorithms", algorithms},
                           {"schedules", tally.schedules},
                           {"proved", counterexample.empty()}};
    if (!counterexample.empty()) json["counterexample"] = counterexample;
    WEFT_CHECK(write_json(json_file, json));
  }
  return counterexample.empty() ? 0 : kBadAnswer;
}

}  // namespace weft::cli
