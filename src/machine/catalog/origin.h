#pragma once

#include "machine/catalog/catalog.h"

namespace weft::topology {

// Where a link's numbers come from: the part of the catalogue whose rate, times the link's count, is the link's rate,
// and whose latency is the link's. Null where the catalogue has no such figure, as of links of a measured machine.
struct Origin {
  const Part* part = nullptr;
  const Figure* rate = nullptr;
  const Figure* latency = nullptr;
};
// `network`: the part that network links are of, where it is known (a switch's model). Points into the catalogue.
Origin origin_of(const Catalog& catalog, const Link& link, std::string_view network = {});

}  // namespace weft::topology
