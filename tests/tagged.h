#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

// What tests of sends and receives with tags have in common.
namespace weft {

using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::reduce_and_check;
using tests::Report;
using Numbers = std::vector<std::int32_t>;

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string text_of(const Error& e) {
  return fmt::format("code {} blame {} ranks {}: {}", static_cast<int>(e.code), static_cast<int>(e.blame),
                     fmt::join(e.ranks, ","), e.message);
}

inline Numbers numbers(std::size_t count, std::int32_t first) {
  Numbers all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Empty, or what is wrong with what a receive of `expected` from `source` brought.
inline std::string check(const Result<Received>& got, const Numbers& buffer, const Numbers& expected, Rank source,
                         int tag) {
  if (!got) return text_of(got.error());
  if (got->count != expected.size() || got->source != source || got->tag != tag)
    return fmt::format("{} elements from {} with tag {} instead of {} from {} with {}", got->count, got->source,
                       got->tag, expected.size(), source, tag);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (buffer[i] != expected[i])
      return fmt::format("tag {}: element {} of {} is {} instead of {}", tag, i, expected.size(), buffer[i],
                         expected[i]);
  return "";
}

#define SAY(expression)                                                       \
  do {                                                                        \
    if (const std::string wrong = (expression); !wrong.empty()) return wrong; \
  } while (false)

inline std::string said(const Status& s) { return s ? "" : text_of(s.error()); }

inline Status send(Communicator& c, const Numbers& data, Rank peer, int tag) {
  return c.send(std::span<const std::int32_t>(data), peer, tag);
}

class Tagged : public testing::TestWithParam<const char*> {
 protected:
  using Body = std::function<std::string(Communicator&)>;

  void SetUp() override {
    if (over() != "ucx") return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  std::string over() const { return GetParam(); }
  ConnectOptions options(std::chrono::milliseconds timeout) const {
    if (over() == "mixed") return {.node = "machine", .timeout = timeout};
    return {.transport = over(), .timeout = timeout};
  }
  std::vector<std::string> run(Rank ranks, const Body& body,
                               std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    if (over() != "threads")
      return ConnectedJob(ranks, options(timeout), [&](Communicator& c, Report&, NoticeBoard&) { return body(c); })
          .join();
    auto all = Communicator::threads(ranks).value();
    std::vector<std::string> reports(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (auto& one : all)
      threads.emplace_back([&reports, &body, timeout, c = std::move(one)]() mutable {
        c.set_timeout(timeout);
        reports[static_cast<std::size_t>(c.rank())] = body(c);
      });
    for (auto& thread : threads) thread.join();
    return reports;
  }
  void all_well(Rank ranks, const Body& body, std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    const auto reports = run(ranks, body, timeout);
    for (std::size_t r = 0; r < reports.size(); ++r) EXPECT_EQ(reports[r], "") << "rank " << r;
  }
};

}  // namespace weft
