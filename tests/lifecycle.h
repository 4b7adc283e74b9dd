#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

namespace weft {

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

}  // namespace weft
