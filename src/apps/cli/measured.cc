#include "apps/cli/measured.h"

#include "model/accuracy/spread.h"

namespace weft::cli {

Result<std::optional<report::Measured>> measured_beside(Duration time, const cost::MachineView& machine, Rank ranks,
                                                        Collective collective, Bytes bytes) {
  if (ranks < 2) return std::optional<report::Measured>();  // no table is of one rank
  WEFT_TRY(const auto ratios, accuracy::Ratios::shipped());
  const auto spread = ratios.spread(accuracy::case_of(machine, collective, ranks), bytes);
  if (!spread) return std::nullopt;
  return report::Measured{.low = time * spread->low,
                          .high = time * spread->high,
                          .inside = accuracy::kInside,
                          .tables = spread->tables,
                          .of = spread->of};
}

std::string rows_inside(const report::Measured& measured) {
  return fmt::format("{:.0f} of 10 published rows", 10 * measured.inside);
}

std::string_view plans_own_limit(double busiest_share, double of_least) {
  constexpr double kBusy = 0.9, kFar = 0.75;
  return busiest_share > kBusy && of_least < kFar
             ? ", which limits this plan; the least time is of any plan, at links' raw rates"
             : "";
}

std::string_view published_are(Duration time, const report::Measured& measured) {
  return time < measured.low ? "slower" : time > measured.high ? "faster" : "";
}

}  // namespace weft::cli
