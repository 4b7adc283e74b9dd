#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "api/stream/member.h"

namespace weft::compat::nccl {

// Do the ranks of one process call the same on their kernels? Kernels themselves only wait for each other until their
// time is up. Thread: any.
class SameCalls {
 public:
  // Returns the one that all ranks of the group share.
  static std::shared_ptr<SameCalls> of(const stream::Group& group);
  explicit SameCalls(Rank ranks) : ranks_(ranks) {}

  // The rank's next collective. Errors: see trouble().
  Status add(Rank rank, const Request& request, const stream::Prepared& prepared);
  // kMismatch: the first two calls that differ, with both ranks.
  Status trouble() const;

 private:
  struct Call {
    std::uint64_t signature = 0;
    Rank rank = 0;
    Collective collective = {};
    std::size_t count = 0;
    std::string_view algorithm, protocol;
    int channels = 0;
    Rank came = 0;
    std::string text() const;
  };
  const Rank ranks_;
  mutable std::mutex mutex_;
  std::map<Rank, std::uint64_t> called_;
  std::map<std::uint64_t, Call> calls_;  // that some ranks have not made yet
  Status failed_;
};

}  // namespace weft::compat::nccl
