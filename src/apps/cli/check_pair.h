#pragma once

#include <string>

#include "apps/doctor/perftest.h"
#include "base/result.h"

namespace weft::cli {

// Holds a table of perftest against the NICs of the machine `on`: exit status 0, or 1 where a large message gets less
// than most of a port's rate. Errors (bad input): `on` is empty or has no NIC whose rate is known.
Result<int> check_pair(const std::string& file, const std::string& on, const std::string& json,
                       const doctor::PairTable& table);

}  // namespace weft::cli
