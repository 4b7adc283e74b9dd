#include "api/session/description.h"

#include <numeric>

#include "plan/collectives/registry.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"

namespace weft::session {
namespace {

// The fields from the lowest bit on.
struct Field {
  int shift, bits;

  std::uint64_t put(std::uint64_t value) const { return (value & mask()) << shift; }
  std::uint64_t of(const fabric::Description& d) const { return d.fields >> shift & mask(); }
  std::uint64_t mask() const { return (std::uint64_t{1} << bits) - 1; }
};
constexpr Field kCollective{0, 5}, kType{5, 5}, kOp{10, 4}, kProtocol{14, 3}, kChannels{17, 8}, kRoot{25, 20},
    kAlgorithm{45, 19};

constexpr std::uint64_t kFirstInside = 24;
static_assert(kFirstInside >= std::size(schedule::kCollectives));

std::uint64_t number_of(std::string_view algorithm) { return std::hash<std::string_view>{}(algorithm); }

std::string algorithm_of(const fabric::Description& d, Collective collective) {
  for (const schedule::Algorithm* a : collectives::algorithms_for(collective))
    if ((number_of(a->name) & kAlgorithm.mask()) == kAlgorithm.of(d)) return std::string(a->name);
  return "a schedule from a file";
}

}  // namespace

fabric::Description describe(const Request& r, const schedule::Plan& plan) {
  if (r.collective == Collective::kBarrier)
    return {.fields = kCollective.put(static_cast<std::uint64_t>(r.collective)) |
                      kAlgorithm.put(number_of(plan.algorithm->name))};
  const bool sums_counts = r.collective == Collective::kAllGatherV || r.collective == Collective::kReduceScatterV;
  const std::size_t counted = schedule::uneven(r.collective) ? 0 : r.count;
  return {.count = sums_counts ? std::accumulate(r.counts.begin(), r.counts.end(), std::size_t{0}) : counted,
          .fields = kCollective.put(static_cast<std::uint64_t>(r.collective)) |
                    kType.put(static_cast<std::uint64_t>(r.type)) |
                    kOp.put(schedule::reduces(r.collective) ? static_cast<std::uint64_t>(r.op) : 0) |
                    kProtocol.put(static_cast<std::uint64_t>(plan.protocol)) |
                    kChannels.put(static_cast<std::uint64_t>(plan.channels)) |
                    kRoot.put(schedule::rooted(r.collective) ? static_cast<std::uint64_t>(r.root) : 0) |
                    kAlgorithm.put(number_of(plan.algorithm->name))};
}

std::string_view name(Inside call) {
  constexpr std::string_view kNames[] = {"", "finalize", "split", "grow"};
  return kNames[static_cast<std::size_t>(call)];
}

// A barrier has no elements: its count is free. Others have a number behind those of collectives.
fabric::Description inside(Inside call, std::uint64_t count, fabric::Description collective) {
  if (call == Inside::kFinalize) return {.count = 1, .fields = collective.fields};
  return {.count = count, .fields = kCollective.put(kFirstInside + static_cast<std::uint64_t>(call))};
}

std::string text_of(const fabric::Description& d) {
  const auto number = kCollective.of(d);
  if (number == kFirstInside + static_cast<std::uint64_t>(Inside::kSplit)) return "split";
  if (number == kFirstInside + static_cast<std::uint64_t>(Inside::kGrow))
    return fmt::format("grow to {} ranks", d.count);
  if (number >= std::size(schedule::kCollectives)) return "an unknown collective";
  const auto collective = static_cast<Collective>(number);
  const std::string name(schedule::name(collective));
  const std::string algorithm = algorithm_of(d, collective);
  if (collective == Collective::kBarrier) return fmt::format("{} ({})", d.count > 0 ? "finalize" : name, algorithm);
  std::string text = name;
  if (collective != Collective::kAllToAllV) text += fmt::format(" of {}", d.count);
  text += fmt::format(" {}", schedule::name(static_cast<DataType>(kType.of(d))));
  if (schedule::rooted(collective)) text += fmt::format(", root {}", kRoot.of(d));
  text += " (";
  if (schedule::reduces(collective)) text += fmt::format("{}, ", schedule::name(static_cast<ReduceOp>(kOp.of(d))));
  const auto protocol = static_cast<protocol::Protocol>(kProtocol.of(d));
  return text + fmt::format("{}, {} x {})", algorithm, protocol::traits(protocol).name, kChannels.of(d));
}

std::string differing_field(const fabric::Description& a, const fabric::Description& b) {
  const auto differ = [&](Field field) { return field.of(a) != field.of(b); };
  const bool barriers = kCollective.of(a) == static_cast<std::uint64_t>(Collective::kBarrier);
  if (differ(kCollective) || (barriers && a.count != b.count)) return "collective";
  if (a.count != b.count) return "count";
  if (differ(kType)) return "type";
  if (differ(kOp)) return "operation";
  if (differ(kRoot)) return "root";
  if (differ(kAlgorithm)) return "algorithm";
  if (differ(kProtocol)) return "protocol";
  return differ(kChannels) ? "channels" : "";
}

}  // namespace weft::session
