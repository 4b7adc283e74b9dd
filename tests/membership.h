#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/result.h"
#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

// What the tests of memberships have in common: ranks as processes, over every transport.
namespace weft::tests::membership {

using namespace std::chrono_literals;
using weft::tests::ConnectedJob;
using weft::tests::NoticeBoard;
using weft::tests::reduce_and_check;
using weft::tests::Report;
using Clock = std::chrono::steady_clock;

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string text_of(const Error& e) { return fmt::format("code {}: {}", static_cast<int>(e.code), e.message); }
inline std::string code_of(Code code) { return fmt::format("code {}:", static_cast<int>(code)); }
inline std::string text_of(const Status& s) { return s ? "ok" : text_of(s.error()); }
inline std::string text_of(const Result<Communicator>& c) {
  return c ? fmt::format("ok as {} of {}", c->rank(), c->ranks()) : text_of(c.error());
}

inline Status barrier_until_it_fails(Communicator& c) {
  for (;;)
    if (Status s = c.barrier(); !s) return s;
}

class Membership : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::string(GetParam()).ends_with("ucx")) return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  ConnectOptions options(std::chrono::milliseconds timeout) const {
    const std::string over = GetParam();
    if (over == "mixed") return {.node = "machine", .timeout = timeout};
    return {.transport = over, .timeout = timeout};
  }
  bool shm() const { return std::string(GetParam()) == "shm"; }
};

inline std::string text_of(const Result<Agreement>& a) {
  if (!a) return text_of(a.error());
  return fmt::format("{:x} without {} late {}", a->bits, fmt::join(a->ended, ","), fmt::join(a->late, ","));
}

}  // namespace weft::tests::membership
