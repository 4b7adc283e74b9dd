#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded.h"
#include "machine/topology.h"

namespace weft::topology {

// A number of the catalogue with everything needed to check it.
struct Figure {
  double value = 0;
  std::string unit;
  std::string direction;  // of a rate: "each", "both", or "total" (a memory's); else empty
  std::string source;     // title of the document
  std::string date;       // of the document: "2022-03"
  std::string note;
};

// A link generation, accelerator, NIC or network.
struct Part {
  std::string name;
  std::string kind;  // "nvlink", "xgmi", "chip-link", "pcie", "inter-socket", "memory", "network", "switch", …
  std::string title;
  std::map<std::string, Figure> figures;
  std::map<std::string, std::string> facts;  // what is not a number: PCI ids, the part it plugs into

  const Figure* figure(std::string_view key) const;
};

// The parts that machines are built from, read from data/catalog. A value type.
class Catalog {
 public:
  // Reads every file under data/catalog/ in `files`.
  // Errors (bad input): not JSON, a number outside a figure, a figure without known unit, source or date, a rate that
  // does not say which direction it means, a part named twice. The message names file, part and figure.
  static Result<Catalog> load(std::span<const embedded::File> files);
  // The files that are compiled in, read once per process. Thread: any.
  static const Result<Catalog>& shipped();

  std::span<const Part> parts() const { return parts_; }
  const Part* find(std::string_view name) const;
  // The part of this kind whose fact `key` (a list of words) holds `word`, e.g. ("nvlink", "sm", "90").
  const Part* find(std::string_view kind, std::string_view key, std::string_view word) const;

  // A link of `count` links (NVLink, XGMI, sockets, network ports), lanes (PCIe) or channels (memory) of a part,
  // with rates and latency; its ends are left to the caller. `at_host`: the PCIe link ends at a CPU's root port.
  // Errors (bad input): unknown part, or one that is no link.
  Result<Link> link(std::string_view part, std::int32_t count, bool at_host = false) const;
  std::string ending_in(std::string_view generation) const;

  // All links between two sockets of the CPU "vendor/family/model", e.g. "GenuineIntel/6/143". An unknown CPU counts as
  // the slowest server CPU still common.
  Result<Link> socket_link(std::string_view cpu_id) const;
  // All memory channels of one such CPU; an unknown one as above.
  Result<Link> memory_link(std::string_view cpu_id) const;

 private:
  std::vector<Part> parts_;
};

// Requires: a figure whose unit is a rate (GB/s, Gb/s), or a time (ns, us).
BytesPerSecond rate_of(const Figure& figure);
Duration duration_of(const Figure& figure);

}  // namespace weft::topology
