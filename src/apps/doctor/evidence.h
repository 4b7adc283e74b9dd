#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/doctor/clocks.h"
#include "apps/doctor/elastic.h"
#include "apps/doctor/fact.h"
#include "apps/doctor/job.h"
#include "apps/doctor/line.h"
#include "apps/doctor/parts.h"
#include "apps/doctor/pitfalls.h"
#include "apps/doctor/ras.h"
#include "apps/doctor/recorder.h"
#include "apps/doctor/records.h"
#include "apps/doctor/rules.h"
#include "apps/doctor/tool_states.h"
#include "apps/doctor/traces.h"
#include "apps/doctor/trouble.h"
#include "apps/doctor/words.h"

namespace weft::topology {
class Topology;
}

namespace weft::doctor {

// Facts of some files. Reads line by line; what it does not understand it counts.
class Evidence {
 public:
  explicit Evidence(std::vector<Rule> rules);

  // A file, or every file in a folder. Errors (bad input): no such file; an empty folder; a single file that is binary
  // or a pickle that cannot be read (see read_pickle) or is no flight recorder's dump.
  Status add_path(const std::string& path);
  // Text of a file. Flight recorder dumps in text are JSON with "entries".
  void add_text(const std::string& file, std::string_view text);
  // Judges a machine that was read from a file of a form that only topology/detect reads (hwloc's XML).
  void add_machine(const std::string& file, const topology::Topology& machine);
  // Compares ranks and clocks, once all files are there.
  void finish();

  const std::vector<Rule>& rules() const { return rules_; }
  // At most kMostFacts of each rule; count() says how many there were.
  const std::vector<Fact>& facts() const { return facts_; }
  static constexpr std::size_t kMostFacts = 1000;
  std::size_t count(std::size_t rule) const { return counts_[rule]; }
  // Ranks of all facts of a rule.
  const std::set<int>& ranks(std::size_t rule) const { return ranks_[rule]; }
  bool has(std::string_view rule) const;  // a fact of the rule with this id, and none that its own guard forbids

  // Lines that report trouble and that no rule knows: the first of each rank (or of each file, where no rank is named)
  // in the order of time, the worst kind first where there is no time.
  struct Unknown {
    Fact fact;  // fact.rule has no sense here
    Trouble trouble = Trouble::kNone;
  };
  const std::vector<Unknown>& unknown() const { return unknown_; }
  std::size_t unknown_lines() const { return unknown_lines_; }

  std::int64_t lines() const { return lines_; }
  std::int64_t not_understood() const { return not_understood_ + recorder_.not_understood(); }
  const std::vector<std::string>& left_out() const { return left_out_; }
  const std::vector<std::string>& notes() const { return notes_; }  // on the evidence as a whole, a sentence each
  std::size_t files() const { return files_; }
  const Job& job() const { return job_; }
  bool has_recorder() const { return !recorder_.empty(); }
  const std::vector<Recorder::Damaged>& damaged() const { return recorder_.damaged(); }
  // Files with tables of measured collectives, which `weft check` judges.
  const std::vector<std::string>& tables() const { return tables_; }

 private:
  void add_line(const std::string& file, int number, std::string_view line);
  // A flight recorder's dump or a record of weft. Nothing: the text is none of them; else what is wrong with a dump of
  // which no entry can be read, or empty.
  std::optional<std::string> add_document(const std::string& file, std::string_view text);
  bool add_dump(const std::string& file, const nlohmann::json& dump, std::string damage = {});  // false: it is none
  std::vector<int> matching(std::string_view line) const;
  // Both say what is wrong with the file; empty: nothing.
  std::string add_file(const std::string& file, std::string text);
  std::string add_pickle(const std::string& file, std::string_view text);
  void found(std::string_view id, Fact fact);
  void keep(Fact fact, std::size_t times = 1);
  void forget(std::string_view rule, const std::string& file, int line);
  void settle_times();
  void settle_unknown();
  void fragmented(const std::string& file, int number, std::string_view original);
  void judge_machine(const std::string& file, std::string_view text);
  void keep_unknown(const std::string& file, int number, std::string_view original);
  // Whether the line is of a traceback and reports nothing by itself: its exception does. `known`: a rule has found it.
  void note_init(std::string_view text, const Process& process, std::string_view original);
  bool in_traceback(const std::string& file, int number, std::string_view original, bool known);
  static Fact plain_fact(const std::string& file, int number, std::string_view original);

  std::vector<Rule> rules_;
  Words words_;
  std::vector<std::uint32_t> hit_;  // by owner of words: the number of the line that had one last
  std::vector<int> hits_;
  std::uint32_t line_ = 0;
  std::vector<Fact> facts_;
  std::vector<std::size_t> counts_;   // by rule
  std::vector<std::set<int>> ranks_;  // by rule
  Job job_;
  Parts parts_;
  Ras ras_;
  Pitfalls pitfalls_;
  ToolStates tools_;
  ElasticSummary elastic_;
  Recorder recorder_;
  Clocks clocks_;
  Traces traces_;
  Records records_;
  std::vector<Unknown> unknown_;
  std::size_t unknown_lines_ = 0;
  std::map<std::pair<std::string, int>, Fact> open_tracebacks_;      // by file and rank
  std::map<std::pair<std::string, std::string>, std::string> nics_;  // names, by host and address
  std::vector<std::string> left_out_, notes_, tables_;
  std::vector<std::pair<std::string, std::string>> unread_;  // files, and what is wrong with them
  std::size_t rows_ = 0;                                     // of tables, of the file that is read
  std::int64_t lines_ = 0, not_understood_ = 0;
  std::size_t files_ = 0;
};

}  // namespace weft::doctor
