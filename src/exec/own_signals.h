#pragma once

#include <map>
#include <utility>

#include "base/check.h"
#include "exec/fabric/fabric.h"
#include "exec/interpreter.h"

namespace weft::exec {

// Signals between the strands of one rank. They cross no fabric: a strand whose operation has finished has seen its
// effects, and one rank's strands run on one thread.
class OwnSignals {
 public:
  static void require(const OwnSignals* own) {
    WEFT_ASSERT(own != nullptr, "strands signal each other, but share nothing");
  }
  void send(int from, int to) { ++count_[{from, to}], ++sent_; }
  bool take(int from, int to) {
    const auto found = count_.find({from, to});
    if (found == count_.end() || found->second == 0) return false;
    --found->second;
    return true;
  }
  std::int64_t sent() const { return sent_; }

 private:
  std::map<std::pair<int, int>, std::int64_t> count_;
  std::int64_t sent_ = 0;
};

}  // namespace weft::exec
