#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "doctor/rules.h"

namespace weft::doctor {

// What a rule has found.
struct Fact {
  std::size_t rule = 0;                        // its number in Evidence::rules
  std::string file, text, host, peer, source;  // source: dmesg, nccl, pytorch, flight-recorder, table, tool
  int line = 0;
  int rank = -1;     // -1: not known
  std::string time;  // as printed, sortable; empty: none
};

// Facts of some files. Reads line by line; what it does not understand it counts.
class Evidence {
 public:
  explicit Evidence(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  // A file, or every file in a folder. Errors (bad input): no such file; an empty folder; a single file that is binary
  // or a pickle that cannot be read (see read_pickle) or is no flight recorder's dump.
  Status add_path(const std::string& path);
  // Text of a file. Flight recorder dumps in text are JSON with "entries".
  void add_text(const std::string& file, std::string_view text);
  // Compares ranks, once all files are there.
  void finish();

  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<Fact>& facts() const { return facts_; }
  std::int64_t lines() const { return lines_; }
  std::int64_t not_understood() const { return not_understood_; }
  const std::vector<std::string>& left_out() const { return left_out_; }
  std::size_t files() const { return files_; }
  // Smallest sequence number that a watchdog named, and its rank; -1: none.
  std::int64_t watchdog_sequence = -1;
  int watchdog_rank = -1;
  bool has_recorder() const { return !records_.empty(); }

 private:
  struct Record {
    int rank;
    std::string file, profiling, sizes, types, state;
  };
  struct Group {
    std::map<std::int64_t, std::vector<Record>> by_sequence;
    std::map<int, std::int64_t> last;  // by rank
    std::set<int> members;             // of pg_config
  };
  void add_line(const std::string& file, int number, const std::string& line);
  void add_table_row(const std::string& file, int number, const std::string& line);
  bool add_dump(const std::string& file, const nlohmann::json& dump);  // false: it is none
  // Both say what is wrong with the file; empty: nothing.
  std::string add_file(const std::string& file, std::string_view text);
  std::string add_pickle(const std::string& file, std::string_view text);
  void found(std::string_view id, Fact fact);

  std::vector<Rule> rules_;
  std::vector<Fact> facts_;
  std::map<std::string, int> rank_of_;  // "host:pid"
  std::map<std::string, Group> records_;
  std::set<int> dumped_;
  std::vector<std::string> left_out_;
  std::int64_t lines_ = 0, not_understood_ = 0;
  std::size_t files_ = 0;
};

}  // namespace weft::doctor
