// dispatch and combine for real: every table of experts brings every token to its ranks, and their sums back.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/connected_job.h"

namespace weft {
namespace {

constexpr int kPerToken = 3, kExpertsEach = 2;

// Of all ranks' tokens; the same on every rank. Some tokens have no expert, some ranks get none.
std::vector<std::int32_t> table(std::mt19937& random, Rank ranks, std::size_t tokens) {
  std::vector<std::int32_t> experts;
  const int all = ranks * kExpertsEach, some = 1 + static_cast<int>(random() % static_cast<unsigned>(all));
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks) * tokens * kPerToken; ++i)
    experts.push_back(random() % 5 == 0 ? -1 : static_cast<std::int32_t>(random() % static_cast<unsigned>(some)));
  return experts;
}

bool goes(const std::vector<std::int32_t>& experts, std::size_t token, Rank rank) {
  for (std::size_t k = 0; k < kPerToken; ++k) {
    const std::int32_t e = experts[token * kPerToken + k];
    if (e >= 0 && e / kExpertsEach == rank) return true;
  }
  return false;
}

float value(std::size_t token, std::size_t at) { return static_cast<float>(token * 64 + at % 61); }

// One dispatch and the combine of what experts made of it; empty, or what was wrong.
std::string round_trip(Communicator& comm, const std::vector<std::int32_t>& experts, std::size_t tokens,
                       std::size_t hidden, const std::string& algorithm) {
  const Rank self = comm.rank(), ranks = comm.ranks();
  const std::size_t n = static_cast<std::size_t>(ranks), first = static_cast<std::size_t>(self) * tokens;
  std::vector<float> own(tokens * hidden), all(n * tokens * hidden, -1), back(tokens * hidden, -2);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < hidden; ++i) own[t * hidden + i] = value(first + t, i);
  Request r{.collective = Collective::kDispatch,
            .in = own.data(),
            .out = all.data(),
            .count = own.size(),
            .experts = experts,
            .per_token = kPerToken,
            .expert_count = ranks * kExpertsEach,
            .algorithm = algorithm};
  if (const Status done = comm.run(r); !done) return done.error().message;
  for (std::size_t t = 0; t < n * tokens; ++t)
    for (std::size_t i = 0; i < hidden; ++i) {
      float& got = all[t * hidden + i];
      const float expected = goes(experts, t, self) ? value(t, i) : -1;
      if (got != expected) return fmt::format("token {} element {} is {}, not {}", t, i, got, expected);
      got *= static_cast<float>(self + 1);  // what the experts here make of it
    }
  r.collective = Collective::kCombine;
  r.in = all.data();
  r.out = back.data();
  if (const Status done = comm.run(r); !done) return done.error().message;
  for (std::size_t t = 0; t < tokens; ++t) {
    float times = 0;
    for (Rank to = 0; to < ranks; ++to) times += goes(experts, first + t, to) ? static_cast<float>(to + 1) : 0;
    for (std::size_t i = 0; i < hidden; ++i) {
      const float expected = times == 0 ? -2 : times * value(first + t, i);
      if (back[t * hidden + i] != expected)
        return fmt::format("sum of token {} element {} is {}, not {}", t, i, back[t * hidden + i], expected);
    }
  }
  return "";
}

class Experts : public testing::TestWithParam<std::tuple<const char*, Rank>> {};

TEST_P(Experts, GetTheirTokensAndGiveTheirSumsBackWhateverTheTable) {
  const auto [transport, ranks] = GetParam();
  const ConnectOptions options{.transport = transport, .node = std::string(transport) == "shm+tcp" ? "experts" : ""};
  tests::ConnectedJob job(ranks, options, [](Communicator& comm, tests::Report&, tests::NoticeBoard&) -> std::string {
    std::mt19937 random(5);
    constexpr int kTables = 40;  // more than are kept
    for (int i = 0; i < kTables; ++i) {
      const std::size_t tokens = 1 + random() % 9, hidden = std::array<std::size_t, 4>{1, 7, 64, 3000}[random() % 4];
      const auto experts = table(random, comm.ranks(), tokens);
      const std::string algorithm = i % 3 == 0 ? "" : i % 3 == 1 ? "spread" : "once_per_node";
      if (const std::string wrong = round_trip(comm, experts, tokens, hidden, algorithm); !wrong.empty())
        return fmt::format("table {}, {} tokens of {}, '{}': {}", i, tokens, hidden, algorithm, wrong);
    }
    return "";
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

INSTANTIATE_TEST_SUITE_P(All, Experts,
                         testing::Combine(testing::Values("shm", "tcp", "shm+tcp"), testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::ranges::replace(name, '+', '_');
                           return name + "_" + std::to_string(std::get<1>(info.param));
                         });

TEST(Experts, TablesThatDifferAreNamedAndNeverSummed) {
  const ConnectOptions options{.transport = "shm", .timeout = std::chrono::seconds(20)};
  tests::ConnectedJob job(2, options, [](Communicator& comm, tests::Report&, tests::NoticeBoard&) -> std::string {
    const std::vector<std::int32_t> experts = {comm.rank(), 1, 0, 1};  // rank 0 says {0, 1, 0, 1}
    std::vector<float> own(4, 1), all(8, 0);
    const Status done = comm.run({.collective = Collective::kDispatch,
                                  .in = own.data(),
                                  .out = all.data(),
                                  .count = 4,
                                  .experts = experts,
                                  .per_token = 1,
                                  .expert_count = 2});
    if (done) return "ok";
    return done.error().code == Code::kMismatch ? "mismatch" : done.error().message;
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "mismatch");
}

TEST(Experts, WhatDoesNotFitIsNamed) {
  tests::ConnectedJob job(2, {.transport = "shm"}, [](Communicator& comm, tests::Report&, tests::NoticeBoard&) {
    std::vector<float> own(6, 1), all(12, 0);
    const std::vector<std::int32_t> experts = {0, 1, 2, 3};
    Request r{.collective = Collective::kDispatch,
              .in = own.data(),
              .out = all.data(),
              .count = 6,
              .experts = experts,
              .per_token = 1,
              .expert_count = 4};
    std::string said;
    const auto refused = [&](const Request& request) { said += comm.run(request).error().message + "\n"; };
    Request wrong = r;
    wrong.count = 5;
    refused(wrong);
    wrong = r, wrong.expert_count = 3;
    refused(wrong);
    wrong = r, wrong.expert_count = 2;
    refused(wrong);
    wrong = r, wrong.per_token = 0;
    refused(wrong);
    wrong = r, wrong.collective = Collective::kAllGather;
    refused(wrong);
    wrong = r, wrong.collective = Collective::kCombine, wrong.op = ReduceOp::kAvg;
    refused(wrong);
    return said;
  });
  for (const std::string& said : job.join())
    EXPECT_EQ(said,
              "dispatch: 5 elements are not 2 tokens of one size\n"
              "dispatch: 3 experts do not lie evenly on 2 ranks: the number of experts is a multiple of the ranks\n"
              "dispatch: rank 1 token 0: expert 2 of 2\n"
              "dispatch: 4 numbers of experts are not 0 per token of 2 ranks, as many tokens on each\n"
              "all_gather: experts are for dispatch and combine\n"
              "combine: avg: tokens have different numbers of experts; multiply by weights before\n");
}

}  // namespace
}  // namespace weft
