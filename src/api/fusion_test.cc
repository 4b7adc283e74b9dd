#include "api/session/fusion.h"

#include <gtest/gtest.h>

#include <thread>

#include "weft/group.h"

namespace weft::api {
namespace {

using session::fusible;

constexpr Rank kRanks = 3;

// Calls body(communicator) on a thread per rank.
template <class F>
void on_ranks(F&& body) {
  auto all = Communicator::threads(kRanks).value();
  std::vector<std::thread> threads;
  for (Communicator& comm : all) threads.emplace_back([&] { body(comm); });
  for (std::thread& t : threads) t.join();
}

Request reduce(std::vector<float>& in, std::vector<float>& out) {
  return {.collective = Collective::kAllReduce, .in = in.data(), .out = out.data(), .count = in.size()};
}

TEST(Fusion, SmallCallsOfOneKindAreOne) {
  std::vector<float> a(1024), b(7), c(1 << 20), d(5);
  std::vector<Request> all{reduce(a, a), reduce(b, b), reduce(d, d), reduce(c, c)};
  EXPECT_EQ(fusible(all, kRanks), 3u);  // 4 MiB stand alone
  EXPECT_EQ(fusible(std::span(all).subspan(3), kRanks), 1u);
  all[1].op = ReduceOp::kMax;
  EXPECT_EQ(fusible(all, kRanks), 1u);
  all[1] = reduce(b, b);
  all[2].type = DataType::kInt32;
  EXPECT_EQ(fusible(all, kRanks), 2u);
  EXPECT_EQ(fusible({}, kRanks), 0u);
}

// The second reads what the first writes: its sum is of sums.
TEST(Fusion, ACallThatReadsWhatAnotherWritesComesAfterIt) {
  std::vector<float> a(4), b(4), c(4);
  const std::vector<Request> chain{reduce(a, b), reduce(b, c)}, apart{reduce(a, b), reduce(a, c)};
  EXPECT_EQ(fusible(chain, kRanks), 1u);
  EXPECT_EQ(fusible(apart, kRanks), 2u);
  on_ranks([](Communicator& comm) {
    std::vector<float> x(4, 1), y(4), z(4);
    ASSERT_TRUE(comm.run(std::vector<Request>{reduce(x, y), reduce(y, z)}));
    EXPECT_EQ(z, std::vector<float>(4, 9));  // 3 ranks, twice
  });
}

TEST(Fusion, GroupsGiveWhatSingleCallsGive) {
  on_ranks([](Communicator& comm) {
    const auto me = static_cast<float>(comm.rank());
    std::vector<std::vector<float>> in, sums, gathered, scattered, parts, sent;
    Group group;
    for (std::size_t i = 0; i < 20; ++i) {
      in.emplace_back(i * 3 + 1, me + static_cast<float>(i));
      sums.emplace_back(in[i].size());
      gathered.emplace_back(in[i].size() * kRanks);
      parts.emplace_back(in[i].size() * kRanks, me + static_cast<float>(i));
      scattered.emplace_back(in[i].size());
      sent.emplace_back(in[i].size(), comm.rank() == 1 ? static_cast<float>(i) : -1.0f);
    }
    for (std::size_t i = 0; i < 20; ++i) group.add(comm, reduce(in[i], sums[i]));
    for (std::size_t i = 0; i < 20; ++i)
      group.add(
          comm,
          {.collective = Collective::kAllGather, .in = in[i].data(), .out = gathered[i].data(), .count = in[i].size()});
    for (std::size_t i = 0; i < 20; ++i)
      group.add(comm, {.collective = Collective::kReduceScatter,
                       .in = parts[i].data(),
                       .out = scattered[i].data(),
                       .count = in[i].size()});
    for (std::size_t i = 0; i < 20; ++i)
      group.add(comm, {.collective = Collective::kBroadcast,
                       .in = sent[i].data(),
                       .out = sent[i].data(),
                       .count = in[i].size(),
                       .root = 1});
    ASSERT_TRUE(group.run());
    for (std::size_t i = 0; i < 20; ++i) {
      const auto n = static_cast<float>(i), sum = 3 * n + 3;  // 0 + 1 + 2, and i from each
      EXPECT_EQ(sums[i], std::vector<float>(in[i].size(), sum));
      EXPECT_EQ(scattered[i], std::vector<float>(in[i].size(), sum));
      EXPECT_EQ(sent[i], std::vector<float>(in[i].size(), n));
      for (std::size_t k = 0; k < gathered[i].size(); ++k)
        EXPECT_EQ(gathered[i][k], static_cast<float>(k / in[i].size()) + n);
    }
  });
}

TEST(Fusion, ErrorsOfArgumentsStayWhatTheyWere) {
  on_ranks([](Communicator& comm) {
    std::vector<float> a(4, 1), b(4, 1);
    Request bad = reduce(b, b);
    bad.in = nullptr;
    const Status one = comm.run(bad), among = comm.run(std::vector<Request>{reduce(a, a), bad});
    ASSERT_FALSE(one);
    ASSERT_FALSE(among);
    EXPECT_EQ("call 2 of 2: " + one.error().message, among.error().message);
    ASSERT_TRUE(comm.run(std::vector<Request>{reduce(a, a), reduce(b, b)}));
  });
}

}  // namespace
}  // namespace weft::api
