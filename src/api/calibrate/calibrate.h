#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weft::calibrate {

// What this machine's cores and memory do at their best, measured in well under a second. Kept between runs
// (cache.h), although what a virtual machine gets changes within minutes: all runs then choose alike. Bandwidths count
// bytes read and bytes written.
struct Rates {
  BytesPerSecond core;    // one core, in its own cache
  BytesPerSecond shared;  // all cores together, in the last-level cache
  BytesPerSecond memory;  // all cores together, far beyond the caches
  Duration core_to_core;  // one cache line, one way; with one core: a thread switch
  // Messages of 32 KiB that two cores exchange through slots that are used in turn, copied or streamed there: payload
  // of each copy, into a slot or out of one. 0: unknown.
  BytesPerSecond plain_slots, streamed_slots;
  Bytes own_cache = 0;            // bytes of all cores' own caches together
  Bytes shared_cache = 0;         // bytes of the last-level cache
  Duration tcp;                   // from a send to its receipt on a loopback connection, both sides looking; 0: unknown
  BytesPerSecond tcp_connection;  // one loopback connection, one way
  // The same by UCX, between ranks of a machine and between machines (loopback in their place); 0: unknown.
  Duration ucx, ucx_across;
  BytesPerSecond ucx_connection, ucx_across_connection;
  std::string source;  // "measured 2026-11-21"

  bool operator==(const Rates&) const = default;
};

// Runs threads on the first cores this process may use. Thread: any, alone; `ucx`, which takes some tenths of a second
// more: the only one, since it forks.
Rates measure(bool ucx = false);

// The same on every processor that this process may have, also where its launcher has bound it to some. Without UCX.
Rates measure_unbound();

// What a usual server does; used where nothing was measured, so that all ranks choose alike.
Rates typical();

// One line of JSON (weft.rates/2), for files and for handing them to ranks, and back. Errors (bad input): names the
// text.
std::string to_text(const Rates& rates);
Result<Rates> from_text(const std::string& text);
// What from_text(to_text(rates)) gives, which may differ in the last bit, without parsing: no allocation but `source`.
Rates as_read(Rates rates);

}  // namespace weft::calibrate
