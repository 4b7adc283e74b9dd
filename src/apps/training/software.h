#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training/card.h"
#include "apps/training/plan.h"

namespace weft::training {

// A framework and the month of its release. Parts that are not known are empty or 0.
struct Release {
  std::string framework;  // a key of data/training/software.json
  int year = 0, month = 0;
  auto operator<=>(const Release&) const = default;
};
// "2025", "2026.04", "megatron-bridge", "megatron-bridge 26.04", "torchtitan-2024.12". Errors (bad input): a framework
// that is not known, with those that are; a year before 2017, a month above 12.
Result<Release> parse_release(std::string_view text);
std::string name(const Release& release);
// The framework whose marks a source's text has ("NVIDIA/dgxc-benchmarking@…"), or none.
std::string framework_of(std::string_view source);
// What memory in its published tables counts: "reserved" unless the framework's entry says something else.
std::string published_memory(std::string_view framework);

// What a release makes of kernels' rates on a chip: a level. Empty and 0: of all.
struct LevelKey {
  Release release;
  std::string chip, precision;
  bool experts = false;  // of layers with experts
  auto operator<=>(const LevelKey&) const = default;
};
struct Level {
  LevelKey key;
  double level = 1;
  std::size_t rows = 0;
};
// The level at which a measured step and the model's agree.
struct LevelSample {
  LevelKey key;
  std::string source;
  double level = 1;
};
// Levels of all frameworks, of each, of its cards, their precisions, and releases: the median of the samples, drawn to
// the level above by as much as kSteadying samples weigh. Samples of one source and key count as their median.
std::vector<Level> fit_levels(std::span<const LevelSample> samples);
// Of the narrowest entry that has the key's values; 1: there is none.
double level_of(std::span<const Level> levels, const LevelKey& key);

// Levels and launches of the plan's release, on a card as shipped; a user's own card keeps its rates.
Result<Card> with_software(Card card, const Plan& plan);
// Was a level fitted to this row? `row`: its identity, see row_key in compare.h.
bool fitted_to(std::string_view row);

}  // namespace weft::training
