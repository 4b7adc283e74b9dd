#include "apps/explore/generations.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "machine/catalog/catalog.h"

namespace weft::explore {
namespace {

using topology::Figure;
using topology::Part;

// "nvlink4" is a generation, "nvlink3-x4" a bridge of one.
std::string family_of(const Part& part) {
  const auto numbered = [&](std::string_view stem) {
    return part.name.starts_with(stem) && part.name.size() > stem.size() &&
           std::ranges::all_of(part.name.substr(stem.size()), [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (part.kind == "nvlink" && numbered("nvlink")) return "NVLink";
  if (part.kind == "pcie" && numbered("pcie")) return "PCIe";
  if (part.kind != "network") return {};
  if (part.name.starts_with("ib-")) return "InfiniBand";
  if (numbered("roce-")) return "RoCE";
  if (numbered("eth-")) return "Ethernet";
  return {};
}

Generation generation_of(std::string family, const Part& part, const Figure& rate) {
  const auto year = part.facts.find("year");
  const double each = topology::rate_of(rate).gb() / (rate.direction == "both" ? 2 : 1);
  Generation g{std::move(family), part.title, year == part.facts.end() ? "" : year->second, {}, each,
               rate.source,       rate.date};
  const Figure* const links = part.figure("links");
  const Figure* const link = part.figure("rate");
  if (part.kind == "network")
    g.of = fmt::format("a port of {:g} {}", rate.value, rate.unit);
  else if (links != nullptr && link != nullptr)
    g.of = fmt::format("{:g} links of {:g} {}", links->value, link->value, link->unit);
  else
    g.of = "16 lanes, after line coding";
  return g;
}

}  // namespace

std::vector<Generation> generations() {
  std::vector<Generation> all;
  const auto& catalog = topology::Catalog::shipped();
  if (!catalog) return all;
  for (const Part& part : catalog->parts()) {
    std::string family = family_of(part);
    const Figure* rate = part.figure("aggregate");
    if (rate == nullptr) rate = part.figure("rate");
    if (!family.empty() && rate != nullptr) all.push_back(generation_of(std::move(family), part, *rate));
  }
  std::ranges::stable_sort(all, {}, [](const Generation& g) { return std::pair(g.family, g.GBps); });
  return all;
}

}  // namespace weft::explore
