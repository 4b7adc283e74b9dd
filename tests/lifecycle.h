#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

namespace weft {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A communicator of processes over the transport that the parameter names.
class Lifecycle : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::string(GetParam()).ends_with("ucx")) return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  ConnectOptions options(std::chrono::milliseconds timeout = std::chrono::minutes(1)) const {
    const std::string over = GetParam();
    if (over == "mixed") return {.node = "machine", .timeout = timeout};
    if (over == "mixed_ucx") return {.transport = "shm+ucx", .node = "machine", .timeout = timeout};
    return {.transport = over, .timeout = timeout};
  }
};

// Reduces until the communicator breaks, then goes on with the survivors, until `goal` successive calls went well.
inline std::string stream_and_shrink(Communicator& comm, tests::Report& report, Rank goal_ranks) {
  Communicator current = comm;
  for (int good = 0;;) {
    const std::string wrong = tests::reduce_and_check(current, 20000);
    if (wrong.empty()) {
      if (++good == 10) report.say("running ");
      if (good >= 50 && current.ranks() == goal_ranks)
        return fmt::format("well as {} of {}", current.rank(), goal_ranks);
      continue;
    }
    if (wrong.find("instead of") != std::string::npos) return wrong;
    auto survivors = current.shrink();
    if (!survivors) return survivors.error().message;
    current = std::move(*survivors);
    if (current.ranks() < goal_ranks) return fmt::format("only {} go on", current.ranks());
    good = 11;
  }
}

}  // namespace weft
