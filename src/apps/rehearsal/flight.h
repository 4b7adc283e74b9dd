#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::rehearsal {

// PyTorch's flight recorder: the last calls of each rank's groups, kept for the day on which a job hangs.

// True for the value of such a dump: {"entries": […], "pg_config": {…}, …}.
bool is_flight_record(const nlohmann::json& dump);

struct FlightRecord {
  std::string file;
  nlohmann::json dump;
};
// Each rank's dump as weft.rehearsal/1, in the dumps' order: calls alone, each group's on a stream of its own and each
// peer's messages on one, awaited at the end. Where dumps begin at different calls of a group (the recorder keeps the
// last ones), all begin at the latest of these. A rank's number is the dump's `rank`, else the last number in the
// file's name. Errors (bad input): names the file and what the dump lacks.
Result<std::vector<std::string>> recordings_of_flight_records(const std::vector<FlightRecord>& records);

}  // namespace weft::rehearsal
