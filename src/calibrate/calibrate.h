#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weft::calibrate {

// What this machine's cores and memory do, measured in about half a second.
struct Rates {
  BytesPerSecond core;     // one core: bytes read and written per second while they stay in its own cache
  BytesPerSecond memory;   // all cores together, far beyond the caches
  Duration core_to_core;   // one cache line, one way; with one core: a thread switch
  Bytes cache = 0;         // bytes of all cores' own caches together
  std::string source;      // "measured 2026-11-21"

  bool operator==(const Rates&) const = default;
};

// Runs threads on the first cores this process may use. Thread: any, alone.
Rates measure();

// What a usual server does; used where nothing was measured, so that all ranks choose alike.
Rates typical();

// One line of text for an environment variable, and back. Errors (bad input): names the text.
std::string to_text(const Rates& rates);
Result<Rates> from_text(const std::string& text);

// Kept between runs, so that commands start at once. The file is JSON (weft.rates/1).
// Errors: kNotFound; bad input naming the file (another schema, a rate that is not positive).
Result<Rates> load(const std::string& file);
// Writes a new file and renames it into place. Errors: kSystem.
Status save(const Rates& rates, const std::string& file);

}  // namespace weft::calibrate
