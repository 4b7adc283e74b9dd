#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apps/doctor/fact.h"

namespace weft::doctor {

// The rank that a line of weft's blames, "rank 0: all_reduce #7 (…): rank 1 (process 42) has ended"; -1: none, or two.
int blamed_by_weft(std::string_view line);

// Records that weft's ranks left when their communicator broke (WEFT_RECORD_DIR). Their errors are lines for the rules;
// W40 is a rank that has left no record where others have.
class Records {
 public:
  // The error of a record, as weft prints it; null: the document is no record.
  const std::string* add(const std::string& file, const nlohmann::json& document);
  void finish(const Finder& found) const;

 private:
  struct Communicator {
    std::string file, error;  // of the last record that has one
    std::int64_t ranks = 0;
    std::set<std::int64_t> recorded;
  };
  using Name = std::pair<std::string, std::string>;  // job, communicator
  std::map<Name, Communicator> communicators_;
};

}  // namespace weft::doctor
