// The collectives whose parts differ in size: every algorithm that can, with parts of any size, none among them.

#include <gtest/gtest.h>

#include <numeric>

#include "plan/collectives/registry.h"
#include "tests/communicators.h"

namespace weft {
namespace {

using Numbers = std::vector<std::int32_t>;
using Counts = std::vector<std::size_t>;

constexpr Rank kRanks = 4;

std::size_t index(Rank r) { return static_cast<std::size_t>(r); }

std::size_t part(Rank from, Rank to) {  // elements; every third part is empty
  const Rank kind = (from * 5 + to * 3) % 6;
  return kind % 3 == 0 ? 0 : index(kind * kind * 700 + from + 1);
}

void append(Numbers& to, std::size_t count, std::int32_t first) {
  for (std::size_t i = 0; i < count; ++i) to.push_back(first + static_cast<std::int32_t>(i));
}

// Elements that no rank or part shares.
std::int32_t first_of(Rank from, Rank to) { return from * 10'000'000 + to * 100'000; }

void every_way(Collective collective, const std::function<void(Communicator&, const Request&)>& body) {
  for (const auto* a : collectives::algorithms_for(collective)) {
    if (!a->uneven) continue;
    SCOPED_TRACE(std::string(a->name));
    tests::on_threads(tests::thread_communicators(kRanks), [&](Communicator& c) {
      body(c, {.collective = collective, .type = DataType::kInt32, .algorithm = std::string(a->name)});
    });
  }
}

TEST(Uneven, AllGatherVBringsEveryPartToEverybody) {
  every_way(Collective::kAllGatherV, [](Communicator& c, Request r) {
    Counts counts;
    Numbers in, expected;
    for (Rank from = 0; from < kRanks; ++from) {
      counts.push_back(part(from, 1));
      append(expected, counts.back(), first_of(from, 0));
    }
    append(in, counts[index(c.rank())], first_of(c.rank(), 0));
    Numbers out(expected.size(), -1);
    r.in = in.data();
    r.out = out.data();
    r.counts = counts;
    const Status s = c.run(r);
    ASSERT_TRUE(s) << s.error().message;
    EXPECT_EQ(out, expected);
  });
}

TEST(Uneven, ReduceScatterVGivesEveryRankTheSumOfItsPart) {
  every_way(Collective::kReduceScatterV, [](Communicator& c, Request r) {
    Counts counts;
    Numbers in, expected;
    for (Rank to = 0; to < kRanks; ++to) {
      counts.push_back(part(2, to));
      for (std::size_t i = 0; i < counts.back(); ++i) {
        const auto at = static_cast<std::int32_t>(i) + 1000 * to;
        in.push_back((c.rank() + 1) * at);
        if (to == c.rank()) expected.push_back(kRanks * (kRanks + 1) / 2 * at);
      }
    }
    Numbers out(expected.size(), -1);
    r.in = in.data();
    r.out = out.data();
    r.counts = counts;
    const Status s = c.run(r);
    ASSERT_TRUE(s) << s.error().message;
    EXPECT_EQ(out, expected);
  });
}

// One rank's side of an all_to_all_v in which every pair of ranks has a size of its own.
void exchange_all(Communicator& c, Request r) {
  Counts counts, receive_counts;
  Numbers in, expected;
  for (Rank peer = 0; peer < kRanks; ++peer) {
    counts.push_back(part(c.rank(), peer));
    receive_counts.push_back(part(peer, c.rank()));
    append(in, counts.back(), first_of(c.rank(), peer));
    append(expected, receive_counts.back(), first_of(peer, c.rank()));
  }
  Numbers out(expected.size(), -1);
  r.in = in.data();
  r.out = out.data();
  r.counts = counts;
  r.receive_counts = receive_counts;
  const Status s = c.run(r);
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(out, expected);
}

TEST(Uneven, AllToAllVMovesEveryPartWhereItBelongs) {
  every_way(Collective::kAllToAllV, [](Communicator& c, const Request& r) { exchange_all(c, r); });
}

TEST(Uneven, RanksThatKnowDifferentSizesOfAnAllToAllVChooseAlike) {
  // A rank that chooses by size: ranks whose sizes differ must still see the same.
  const session::Chooser by_size = [](const schedule::Task& task, const Request& request,
                                      const protocol::Capabilities& can, bool registered) {
    Request forced = request;
    const auto sum = std::accumulate(task.counts->begin(), task.counts->end(), Bytes{0});
    const auto algorithms = collectives::algorithms_for(task.collective);
    std::vector<const schedule::Algorithm*> fitting;
    for (const auto* a : algorithms)
      if (a->uneven) fitting.push_back(a);
    forced.algorithm = fitting[static_cast<std::size_t>(sum) % fitting.size()]->name;
    forced.channels = 1 + static_cast<int>(sum % 3);
    return tests::forcing_chooser()(task, forced, can, registered);
  };
  tests::on_threads(tests::thread_communicators(kRanks, tests::patient(kRanks), by_size), [](Communicator& c) {
    exchange_all(c, {.collective = Collective::kAllToAllV, .type = DataType::kInt32});
  });
}

}  // namespace
}  // namespace weft
