#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/accuracy/score.h"

namespace weft::accuracy {

// That of the first `ranks` ranks.
MachineClass class_of(const cost::MachineView& machine, Rank ranks);

Case case_of(const cost::MachineView& machine, Collective collective, Rank ranks);

// A range beside a predicted time in which measurements lie.
struct Spread {
  double low = 1, high = 1;  // measured / predicted: kInside of the measured points lie between
  int tables = 0, points = 0;
  std::string of;  // "NVIDIA Hopper over several nodes, 64 KiB to 16 MiB"
};
inline constexpr double kInside = 0.8;

// How measured points compare with their predictions, by table. A value.
class Ratios {
 public:
  // Those that the project ships (data/measured/ratios.json, which `weft accuracy --ratios` writes), and with `silicon`
  // those of tables that it does not ship (silicon.json, written the same way).
  static Result<Ratios> shipped(bool silicon = true);
  // Of tables that were predicted; those that are only shown do not count.
  static Ratios of(const std::vector<Scored>& all);
  // Errors (bad input): not weft.ratios/1.
  static Result<Ratios> parse(std::string_view name, std::string_view text);
  nlohmann::json to_json() const;

  // Of kLeastRows rows of this case, else of kLeastTables tables of the same collective on this generation of GPUs, on
  // one node as it is or on several. The tables count alike, however many points they have. Nothing if there are too
  // few, or none of nearly as many ranks: nothing like it was measured. `without`: as if the table of this name were
  // not there.
  std::optional<Spread> spread(const Case& asked, Bytes bytes, std::string_view without = {}) const;

  // The part of all points that lie within the spread that the other tables give: what the spreads are worth.
  // Points without a spread do not count.
  struct Coverage {
    int inside = 0, points = 0;
  };
  Coverage left_out() const;

  // Are all ratios as those, but for rounding?
  bool near(const Ratios& other) const;

 private:
  struct OfTable {
    std::string name;
    Case measured;
    std::array<std::vector<double>, kBands> ratios;  // measured / predicted, by size of message
  };
  std::vector<OfTable> tables_;
};
inline constexpr int kLeastTables = 3, kLeastRows = 5;

}  // namespace weft::accuracy
