#include "plan/cost/translation.h"

#include <algorithm>
#include <cmath>

#include "machine/catalog/catalog.h"

namespace weft::cost {
namespace {

// The least number of misses that at most 1 - `quantile` of all transfers exceed.
std::int64_t misses_at(double quantile, std::int64_t pages, double miss) {
  if (miss <= 0) return 0;
  if (miss >= 1) return pages;
  const auto n = static_cast<double>(pages);
  double below = 0;
  for (std::int64_t k = 0; k < pages; ++k) {
    const auto x = static_cast<double>(k);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(miss) +
                      (n - x) * std::log1p(-miss));
    if (below >= quantile) return k;
  }
  return pages;
}

}  // namespace

Result<Duration> latency_untranslated(const topology::Topology& machine, const topology::Path& path) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* on = catalog.find("iommu-on");
  if (on == nullptr || on->figure("latency") == nullptr) return bad_input("the catalogue has no iommu-on");
  const Duration each = topology::duration_of(*on->figure("latency")) * 0.5;  // per root port
  Duration latency = path.latency;
  for (const topology::Hop& hop : path.hops) {
    const topology::Link& l = machine.link(hop.link);
    const bool root = machine.device(l.a).kind == topology::DeviceKind::kCpu ||
                      machine.device(l.b).kind == topology::DeviceKind::kCpu;
    if (root && l.kind == topology::LinkKind::kPcie) latency = latency - each;
  }
  return latency;
}

Result<TransferTimes> transfer_times(const topology::Path& path, const Translated& what, bool translates) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* cache = catalog.find(what.ats ? "atc" : "iotlb");
  const topology::Figure* entries = cache != nullptr ? cache->figure("entries") : nullptr;
  const topology::Figure* walk = cache != nullptr ? cache->figure("latency") : nullptr;
  const topology::Figure* walkers = cache != nullptr ? cache->figure("walkers") : nullptr;
  if (entries == nullptr || walk == nullptr || walkers == nullptr)
    return bad_input("the catalogue has no cache of translations");
  TransferTimes t{.pages = (what.bytes + what.page - 1) / what.page};
  const Duration wire = what.bytes / path.rate;
  t.untranslated = path.latency + wire;
  const double reach = entries->value * static_cast<double>(what.page);
  const auto set = static_cast<double>(std::max(what.working_set, what.bytes));
  t.miss = translates ? std::max(0.0, 1 - reach / set) : 0;
  t.walk = topology::duration_of(*walk);
  if (what.ats) t.walk += path.latency * 2;  // the question crosses to the IOMMU, and its answer comes back
  const auto time = [&](double quantile) {
    const auto misses = static_cast<double>(misses_at(quantile, t.pages, t.miss));
    return path.latency + std::max(wire, t.walk * (misses / walkers->value)) + (misses > 0 ? t.walk : Duration());
  };
  t.p50 = time(0.5);
  t.p99 = time(0.99);
  t.p999 = time(0.999);
  return t;
}

}  // namespace weft::cost
