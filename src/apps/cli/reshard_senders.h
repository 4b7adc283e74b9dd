#pragma once

#include <optional>
#include <string>

#include "apps/cli/reshard_values.h"
#include "base/unique_fd.h"
#include "weft/transfer.h"

namespace weft::cli {

// The process that has the memory of all ranks of a plan's first layout, an agent each.
class ReshardSenders {
 public:
  struct Job {
    const reshard::Layout& from;          // as it is before conversion
    const reshard::Converted* converted;  // null: nothing is converted
    const ReshardValues& values;          // that version 1 and 2 have
    bool versions = false;                // publish tables of them
    std::string key;                      // of the agents
    std::optional<transfer::Network> network;
  };
  // Forks: to be called before there are threads.
  explicit ReshardSenders(const Job& job);
  ~ReshardSenders();
  ReshardSenders(const ReshardSenders&) = delete;
  ReshardSenders& operator=(const ReshardSenders&) = delete;

  struct Said {
    std::uint32_t region = 0;
    std::optional<std::uint32_t> table;
    double convert_seconds = 0;  // of the rank's parts
    std::string metadata;
  };
  // Receives what the next rank says. Errors: those of the process, in one line.
  Result<Said> receive() const;
  // All ranks write and publish version 2. Returns when they have.
  Status next_version() const;

 private:
  bool take(void* to, std::size_t n) const;
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

inline constexpr int kReshardPages = 16;  // of an agent's table of fenced pages, which trials need none of

}  // namespace weft::cli
