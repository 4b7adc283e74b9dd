#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/fact.h"
#include "apps/doctor/line.h"

namespace weft::doctor {

// A job compares what its processes said about themselves: versions of NCCL, variables, networks and numbers of NICs
// that differ, ranks that never came, collectives that differ in watchdog lines, two jobs in one folder.
class Job {
 public:
  void line(const Line& line, const Process& process, const std::string& file, int number);
  void finish(const Finder& found) const;

  int rank_of(const std::string& process) const;          // -1: not known
  std::string host_of(const std::string& address) const;  // of "10.0.0.7" or "10.0.0.7<41234>"; empty: not known
  std::string mixed() const;                              // one sentence if there are two jobs; else empty
  std::string missing() const;                            // ranks that no line is of, in words; else empty
  // Smallest sequence number that a watchdog named, and its rank; -1: none.
  std::int64_t watchdog_sequence = -1;
  int watchdog_rank = -1;

  // Words of which one is in each line that is of interest.
  static const std::vector<std::string_view>& words();

 private:
  struct Said {
    std::string text, file;
    int line = 0;
  };
  struct Member {
    std::string host;
    int rank = -1, ranks = 0;
    bool started = false, complete = false;
    std::map<std::string, Said> values;  // version, network and variables
  };
  struct Timeout {
    int rank = -1;
    std::int64_t sequence = -1, elements = -1, enqueued = -1, completed = -1;
    std::string operation;
    Said said;
  };
  void watchdog(const Line& line, const std::string& file, int number);
  void compare(const std::string& value, std::string_view id, bool unset_differs, const Finder& found) const;
  using TimeoutValue = std::function<std::string(const Timeout&)>;
  void compare_timeouts(bool said, const Finder& found) const;
  static bool differing(const std::map<int, Timeout>& ranks, std::string_view id, const char* what,
                        const TimeoutValue& value, const Finder& found);
  static void lagging(const std::map<int, Timeout>& ranks, bool said, const Finder& found);
  bool compare_progress(const std::string& group, const Finder& found) const;
  void compare_nics(const Finder& found) const;
  void absent(const Finder& found) const;

  std::map<std::string, Member> members_;                              // by process
  std::map<std::string, std::string> hosts_;                           // by address
  std::map<std::string, std::map<int, Timeout>> timeouts_, progress_;  // by group, by rank
  std::map<int, Timeout> unnumbered_;                                  // without numbers, by rank
  std::map<std::string, std::set<std::string>> first_processes_;  // that are rank 0 of the largest group: by commId
  std::map<std::string, std::pair<int, Said>> nics_;              // by host
};

}  // namespace weft::doctor
