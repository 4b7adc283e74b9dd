#include "machine/catalog/origin.h"

#include <algorithm>
#include <cmath>

namespace weft::topology {
namespace {

bool equal(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

const Figure* latency_of(const Part& part, const Link& link) {
  for (const char* key : {"latency", "host_latency", "fabric_latency"})
    if (const Figure* f = part.figure(key); f != nullptr && equal(duration_of(*f).s(), link.latency.s())) return f;
  return nullptr;
}

}  // namespace

Origin origin_of(const Catalog& catalog, const Link& link, std::string_view network) {
  Origin best;
  int best_score = -1;
  for (const Part& part : catalog.parts()) {
    if (!network.empty() && part.name != network) continue;
    const auto as = catalog.link(part.name, link.count);
    if (!as || as->kind != link.kind) continue;
    // A trunk's rate is that of several ports, whatever their number.
    const double ports = link.rate_ab.value() / as->rate_ab.value();
    const bool same_rate = equal(ports, 1) || (link.kind == LinkKind::kNetwork && equal(ports, std::round(ports)));
    if (!same_rate) continue;
    const Figure* rate = part.figure(link.kind == LinkKind::kPcie ? "transfers" : "rate");
    const Origin found{&part, rate, latency_of(part, link)};
    // Several generations of NVLink have one rate; the count of a device with all its links decides.
    const Figure* all = part.figure("links");
    const int score = 2 * (found.latency != nullptr) + (all != nullptr && equal(all->value, link.count));
    if (score > best_score) best = found, best_score = score;
  }
  return best;
}

}  // namespace weft::topology
