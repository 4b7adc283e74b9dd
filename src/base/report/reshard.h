#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace weft::report {

// What it takes to turn one layout of tensors into another.
struct ReshardReport {
  std::string from, to;
  Rank from_ranks = 1, to_ranks = 1;
  std::int64_t tensors = 0, patterns = 0, unwanted = 0;
  std::int64_t converted = 0;  // tensors whose senders change their type
  double changed = 0;          // share of blocks that are new in a second version
  bool same_ranks = false;
  Bytes bytes = 0, stays = 0;          // between ranks; within ranks that are both
  std::int64_t pieces = 0, pairs = 0;  // contiguous pieces; pairs of ranks with traffic
  std::vector<Bytes> sent, received;   // by rank of each layout
  double plan_seconds = 0, prove_seconds = 0;
  std::int64_t proved_moves = 0, proved_tensors = 0;

  struct Nic {
    std::string name;
    Bytes out = 0, in = 0;
  };
  struct OnMachine {
    std::string name;
    Duration time;
    std::string busiest_link;
    double busiest_share = 0;
    std::vector<Nic> nics;
    std::optional<Duration> changed_time;  // of the version of which little has changed, tables included
  };
  std::optional<OnMachine> machine;  // simulated there
  // A second version, of which a share of the blocks is new.
  struct Changed {
    double share = 0;
    Bytes bytes = 0;  // that receivers read again
    double seconds = 0;
    std::int64_t wrong = -1;  // as of Here
  };
  struct Here {
    std::string path;                      // how agents reached each other
    double seconds = 0, copy_seconds = 0;  // until the last receiver had all; the same bytes by memcpy
    std::int64_t wrong = -1;               // bytes; -1: not compared
    double convert_seconds = 0;            // of all senders, one after the other
    std::optional<Changed> changed;
  };
  std::optional<Here> here;  // run between processes

  double gb_per_second() const {
    return machine && machine->time.ps() > 0 ? static_cast<double>(bytes) / machine->time.s() * 1e-9 : 0;
  }
};

nlohmann::json to_json(const ReshardReport& report);  // weft.reshard/1

}  // namespace weft::report
