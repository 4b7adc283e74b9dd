#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::report {

struct DoctorFact {
  std::string file, text, host, time;
  int line = 0, rank = -1;
};

struct DoctorFinding {
  std::string id, finding, role, confidence;  // confidence: confirmed or suspected
  std::vector<int> ranks;
  std::string peer;                // that most ranks name
  std::vector<std::string> parts;  // of the machine that the evidence names: "mlx5_10 port 1", "GPU 0000:b3:00.0"
  std::vector<DoctorFact> evidence;
  std::size_t facts = 0;  // of them in all
  std::string cost, remedy, verify, refuted, versions;
};

struct DoctorReport {
  std::string verdict;                // one sentence
  std::vector<DoctorFinding> roots;   // at most three
  std::vector<DoctorFinding> slow;    // paths that work and are slow
  std::vector<DoctorFinding> folded;  // effects, and what is less likely
  // Lines that report trouble and that no rule knows, the first of each rank in the order of time; `severity` of each:
  // fatal, error or warning.
  struct Unknown {
    DoctorFact fact;
    std::string severity;
  };
  std::vector<Unknown> unknown;
  std::vector<DoctorFact> damaged;     // dumps that are cut or damaged, and what is wrong with them
  std::string peer;                    // that effects name most, where there is no root
  bool tables = false;                 // tables of measured collectives are among the files
  std::vector<int> culprits, victims;  // ranks that the first finding blames, and those that only suffer from it
  std::size_t unknown_lines = 0;       // of them in all
  bool troubled = false;               // something failed, was slow or warns: the command's status is then 1
  std::string next;                    // what to set and run again
  std::int64_t files = 0, lines = 0, not_understood = 0;
  std::vector<std::string> left_out;
  std::vector<std::string> notes;  // on the evidence as a whole, a sentence each
};

// weft.doctor/1, the stable form.
nlohmann::json to_json(const DoctorReport& report);

}  // namespace weft::report
