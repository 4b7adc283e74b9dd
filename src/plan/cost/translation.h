#pragma once

#include "machine/topology.h"

namespace weft::cost {

// What a device reads or writes by DMA through an IOMMU that translates.
struct Translated {
  Bytes bytes = 0;              // of one transfer
  Bytes page = Bytes{4} << 10;  // of the IOMMU's table
  Bytes working_set = 0;        // of all transfers of the device; 0: they reuse one buffer
  bool ats = false;             // the device asks by ATS, and caches translations itself
};

// How long one of many transfers takes. A translation that the cache does not have is walked; a walk delays the
// transfer that waits for it, and several walks proceed at once. Misses are independent: their number is binomial.
struct TransferTimes {
  double miss = 0;         // probability per page
  std::int64_t pages = 0;  // of a transfer
  Duration walk;           // of one miss
  Duration p50, p99, p999;
  Duration untranslated;
};
// The path's latency where no translation is charged: what iommu=on has added on average is taken off.
Result<Duration> latency_untranslated(const topology::Topology& machine, const topology::Path& path);

// By `path`, with the IOTLB of data/catalog/cpus.json ("iotlb", "atc"). `translates`: an IOMMU does so.
// Errors (bad input): the catalogue lacks these parts.
Result<TransferTimes> transfer_times(const topology::Path& path, const Translated& what, bool translates);

}  // namespace weft::cost
