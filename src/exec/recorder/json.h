#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/recorder/diagnosis.h"

namespace weft::recorder {

std::string_view name(Doing doing);  // "waiting"

// weft.ps/1: all communicators, every rank with what it does and its last operation.
nlohmann::json to_json(const std::vector<Standing>& standings);

// weft.record/1: everything that one rank's record holds, and the error that it was written for.
nlohmann::json to_json(const Snapshot& snapshot, const std::string& error);

// Writes weft.record/1 to a file of its own in the folder, which must exist; its path. Errors: kSystem with the path.
Result<std::string> leave_record(const std::string& folder, const Snapshot& snapshot, const std::string& error);

}  // namespace weft::recorder
