#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/fact.h"
#include "apps/doctor/line.h"

namespace weft::doctor {

// What a job does that costs it time and that no single line says: more sockets than NCCL opens, memory reserved far
// above what is allocated, communicators made again and again, collectives of small messages, nodes scattered over
// switches, buffers registered on some ranks only.
class Pitfalls {
 public:
  void line(const Line& line, const Process& process, const std::string& file, int number);
  void finish(const Finder& found) const;

  // Words of which one is in each line that is of interest.
  static const std::vector<std::string_view>& words();

 private:
  struct Seen {
    std::string text, file;
    int line = 0, rank = -1;
  };
  struct Sockets {
    int threads = 0, each = 0;
    Seen seen;
  };
  struct Memory {  // in bytes, or in the line's own unit where it names none
    double allocated = 0, reserved = 0;
    std::string unit;
    Seen seen;
  };
  struct Communicators {
    int made = 0, again = 0, ended = 0;  // again: after one has ended
    Seen seen;
  };
  void sockets(std::string_view text, const std::string& of, Seen seen);
  void memory(std::string_view text, const std::string& of, Seen seen);
  void communicators(std::string_view text, const Process& process, Seen seen);
  void collective(std::string_view text, const Seen& seen);
  void placement(std::string_view text, const Seen& seen);
  void registration(std::string_view text, const Seen& seen);
  void report_communicators(const Finder& found) const;
  void report_placement(const Finder& found) const;
  void report_registration(const Finder& found) const;

  std::map<std::string, Sockets> sockets_;              // by process or file
  std::map<std::string, Memory> memory_;                // by rank or file
  std::map<std::string, Communicators> communicators_;  // by process
  std::int64_t calls_ = 0, small_calls_ = 0;
  Seen small_;
  std::map<std::string, std::set<std::string>> below_;  // nodes by leaf switch
  std::set<std::string> inner_;                         // switches that are below others
  std::vector<std::string> nodes_;                      // of the job
  Seen nodes_seen_;
  std::set<int> registered_, ranks_;
  int job_ranks_ = 0;
  Seen registered_seen_;
};

}  // namespace weft::doctor
