#include "model/predict/estimate_gap.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/text.h"

namespace weft::predict {
namespace {

// The parts of a time that both models know.
enum Part : std::size_t { kHops, kBytes, kWaits, kParts };

Part part_of(sim::Cause cause) {
  using enum sim::Cause;
  switch (cause) {
    case kLaunch:
    case kHop:
    case kProxy:
    case kSum:
    case kRest:
    case kJitter:
      return kHops;
    case kLink:
    case kChannel:
    case kCopy:
    case kHost:
    case kStaging:
      return kBytes;
    case kSlot:
    case kStrand:
    case kSlowRank:
      return kWaits;
  }
  return kWaits;
}

struct Parts {
  std::array<double, kParts> us{};
  std::string largest_link;
};

Parts parts_of(const simulate::Outcome& outcome) {
  Parts parts;
  double largest = 0;
  for (const sim::PathShare& share : outcome.why) {
    parts.us[part_of(share.cause)] += share.time.us();
    if (share.cause == sim::Cause::kLink && share.time.us() > largest) {
      largest = share.time.us();
      parts.largest_link = share.where;
    }
  }
  return parts;
}

std::string reason(Part part, bool estimate_is_longer, const std::string& link) {
  if (part == kWaits) return "the estimate knows neither full slots nor strands that wait for each other";
  if (part == kHops)
    return estimate_is_longer ? "the estimate adds hops up that pass while other chunks are sent"
                              : "messages queue where they are posted and taken, which the estimate leaves out";
  if (estimate_is_longer) return "the estimate shares links among all that use them in a step, though some end sooner";
  return fmt::format("{} has more users at a time than the estimate counts", link.empty() ? "some link" : link);
}

}  // namespace

bool estimate_is_off(Duration estimate, Duration simulated) {
  return simulated > Duration() && std::abs(estimate / simulated - 1) > kExplainedGap;
}

std::string estimate_gap(const cost::Estimate& estimate, const simulate::Outcome& outcome) {
  if (!estimate_is_off(estimate.total, outcome.time) || outcome.why.empty()) return {};
  const Parts simulated = parts_of(outcome);
  const std::array<double, kParts> estimated = {estimate.latency.us(), (estimate.total - estimate.latency).us(), 0};
  constexpr std::array<const char*, kParts> kNames = {"launch and hops", "bytes", "waits"};
  const bool longer = estimate.total > outcome.time;
  std::size_t most = kHops;
  std::string text;
  for (std::size_t p = 0; p < kParts; ++p) {
    const double now = estimated[p] - simulated.us[p], best = estimated[most] - simulated.us[most];
    if (longer ? now > best : now < best) most = p;
    text +=
        fmt::format("{}{} {:.1f} us instead of {:.1f}", p == 0 ? "" : ", ", kNames[p], estimated[p], simulated.us[p]);
  }
  return fmt::format("the estimate is {:.0f} % {}: {}; {}", 100 * std::abs(estimate.total / outcome.time - 1),
                     longer ? "longer" : "shorter", text,
                     reason(static_cast<Part>(most), longer, simulated.largest_link));
}

}  // namespace weft::predict
