#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace weft::doctor {

// A flight recorder's dump in JSON, as far as it can be read.
struct Dump {
  nlohmann::json document;  // an object with a list "entries"
  std::string damage;       // what is wrong with the file and where; empty: it was read whole
};

// Does the text begin as a dump in JSON does, whether or not it can be parsed?
bool looks_like_dump(std::string_view text);

// Entries that are no JSON are left out, and those in front of the place where a dump breaks off are kept.
Dump read_dump(std::string_view text);

// "comm_lib_trace_rank_3", "rank3_host12.json", "dump.7": the number behind "rank", else the last one; -1: none.
int rank_in_name(const std::string& file);

}  // namespace weft::doctor
