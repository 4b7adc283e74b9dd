#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"

namespace weft::report {

// One list of blocks, moved between two processes of this machine.
struct TransferRow {
  Bytes block = 0;           // of one descriptor
  std::int64_t blocks = 0;   // descriptors
  Duration post, time;       // until post() returned; until the request was done
  Duration copy;             // the same blocks by memcpy within one process
  Duration predicted;        // from this machine's costs; 0: not asked for
  std::int64_t errors = -1;  // wrong bytes; -1: not looked at

  Bytes bytes() const { return block * blocks; }
  double gb_per_second() const { return time.ps() > 0 ? static_cast<double>(bytes()) / time.s() * 1e-9 : 0; }
  double of_copy() const { return time.ps() > 0 ? copy / time : 0; }
};

struct TransferReport {
  std::string operation;  // read, write
  std::string path;       // why this path, in the agent's words
  bool plain = false;     // the memory is not of the agent's allocator
  bool verified = false;  // every page's checksum was compared
  std::vector<TransferRow> rows;
};

// Every rank of a modelled machine gets as many bytes out of a tier, all at once.
struct TierRow {
  Bytes rank_bytes = 0;
  Duration time;
  std::string bound;  // the busiest link or part
};
struct TierReport {
  std::string machine, from, stack;  // stack: empty where no system's software is in it
  std::vector<std::string> faults;
  bool write = false, bounce = false;
  Rank ranks = 1;
  std::vector<TierRow> rows;

  Bytes bytes(const TierRow& row) const { return row.rank_bytes * ranks; }
  double gb_per_second(const TierRow& row) const {
    return row.time.ps() > 0 ? static_cast<double>(bytes(row)) / row.time.s() * 1e-9 : 0;
  }
};

nlohmann::json to_json(const TransferReport& report);  // weft.transfer/1
nlohmann::json to_json(const TierReport& report);      // weft.transfer_tier/1

}  // namespace weft::report
