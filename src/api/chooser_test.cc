#include "api/chooser.h"

#include <gtest/gtest.h>

#include <cstring>

#include "api/this_machine.h"
#include "net/memory/endpoint.h"
#include "net/memory/test_segment.h"
#include "plan/tune/tune.h"

namespace weft::api {
namespace {

using protocol::Protocol;
using tune::Candidate;

// All candidates for a broadcast of `bytes` among ranks that share memory on this machine's cores.
std::vector<Candidate> broadcasts(const cost::MachineView& machine, Rank ranks, Bytes bytes) {
  return tune::candidates(machine, {.task = {.collective = Collective::kBroadcast,
                                             .ranks = ranks,
                                             .ranks_per_node = ranks,
                                             .elements = bytes},
                                    .can = net::memory::capabilities("shm")})
      .value();
}

const Candidate& find(const std::vector<Candidate>& all, std::string_view algorithm, Protocol protocol) {
  return *std::ranges::find_if(
      all, [&](const Candidate& c) { return c.plan.algorithm->name == algorithm && c.plan.protocol == protocol; });
}

// One call of 8 B waits for its turn by any protocol; of many, LL64 takes the most along at a turn.
TEST(Choice, OfRanksThatShareCoresIsMadeForCallsInARow) {
  const auto machine = this_machine(calibrate::typical()).value();
  const Rank ranks = 2 * machine->endpoints();
  const auto all = broadcasts(*machine, ranks, 8);
  const Candidate &lines = find(all, "spread", Protocol::kLL64), &simple = find(all, "spread", Protocol::kSimple);
  EXPECT_LT(simple.estimate.total, lines.estimate.total);
  EXPECT_LT(lines.back_to_back, simple.back_to_back);
  EXPECT_TRUE(lines.chosen) << all.front().plan.algorithm->name;
  EXPECT_TRUE(lines.reason.starts_with("fastest back to back: ")) << lines.reason;
  EXPECT_NE(simple.reason.find("fewer are under way at once"), std::string::npos) << simple.reason;
}

// Somewhere reading the root's memory is faster for one call, but slower where calls follow each other.
TEST(Choice, OfPlansThatReadPeersMemoryCountsTheWaiting) {
  const auto machine = this_machine(calibrate::typical()).value();
  if (machine->endpoints() < 2) GTEST_SKIP() << "two ranks of one core wait for their turns";
  bool found = false;
  for (Bytes bytes = 64; bytes <= Bytes{64} << 20; bytes *= 2) {
    const auto all = broadcasts(*machine, 2, bytes);
    const Candidate& direct = find(all, "direct", Protocol::kDirect);
    if (direct.chosen || direct.estimate.total >= all.front().estimate.total) continue;
    found = true;
    EXPECT_EQ(direct.back_to_back, direct.estimate.total);
    EXPECT_LT(all.front().back_to_back, direct.back_to_back);
    EXPECT_NE(direct.reason.find("ranks wait until others have read their memory"), std::string::npos) << direct.reason;
  }
  EXPECT_TRUE(found);
}

// Memory of ranks of one machine, and a chooser that shares choices in it.
class SharedChoice : public testing::Test {
 protected:
  static constexpr Rank kRanks = 4;
  static std::string all_reduce(const session::Chooser& choose) {
    const schedule::Task task{.collective = Collective::kAllReduce,
                              .ranks = kRanks,
                              .ranks_per_node = kRanks,
                              .elements = 2,
                              .element_bytes = 4};
    const schedule::Plan plan = choose(task, {}, net::memory::capabilities("shm"), true).value();
    protocol_ = plan.protocol;
    return std::string(plan.algorithm->name);
  }
  session::Chooser chooser(const std::string& depends_on) const {
    return chooser_of(this_machine(calibrate::typical()).value(), {}, std::make_shared<const Log>(),
                      SharedChoices{segment_, depends_on});
  }
  static inline Protocol protocol_ = Protocol::kSimple;  // of the last choice
  net::memory::Choice& only() const { return segment_.header().choices[0]; }

  const net::memory::TestSegment memory_{kRanks};
  const net::memory::Segment segment_ = memory_.segment;
};

TEST_F(SharedChoice, OfAnotherRankIsTakenOverForTheSameCallOnly) {
  const std::string chosen = all_reduce(chooser("rates"));
  ASSERT_EQ(only().state, net::memory::Choice::kThere);
  EXPECT_EQ(only().algorithm, chosen);
  const std::string other = chosen == "ring" ? "recursive_doubling" : "ring";
  std::memset(only().algorithm, 0, sizeof only().algorithm);
  other.copy(only().algorithm, sizeof only().algorithm - 1);
  EXPECT_EQ(all_reduce(chooser("rates")), other);
  EXPECT_EQ(all_reduce(chooser("other rates")), chosen);
}

// What waits for a search takes what the searching rank found; one that was given up is searched again.
TEST_F(SharedChoice, IsSearchedByOneRankAndTakenOverByThoseThatWait) {
  const std::string chosen = all_reduce(chooser("rates"));
  const std::uint64_t key = only().key;
  only().state = net::memory::Choice::kEmpty;
  {
    const net::memory::SearchClaim claim(segment_, key);
    EXPECT_TRUE(net::memory::is_searched(segment_, key));
    EXPECT_FALSE(net::memory::find_choice(segment_, key));
    net::memory::keep_choice(segment_, key, {.algorithm = "ring", .channels = 1});
    EXPECT_EQ(only().state, net::memory::Choice::kThere);  // the claimed place, not another
  }
  EXPECT_EQ(net::memory::find_choice(segment_, key)->algorithm, "ring");
  only().state = net::memory::Choice::kEmpty;
  { const net::memory::SearchClaim claim(segment_, key); }
  EXPECT_FALSE(net::memory::is_searched(segment_, key));
  EXPECT_EQ(all_reduce(chooser("rates")), chosen);
}

TEST_F(SharedChoice, ThatIsDamagedIsNotUsed) {
  const std::string chosen = all_reduce(chooser("rates"));
  const Protocol protocol = protocol_;
  only().protocol = 200;
  EXPECT_EQ(all_reduce(chooser("rates")), chosen);
  EXPECT_EQ(protocol_, protocol);
  only().protocol = 0;
  std::memset(only().algorithm, 'x', sizeof only().algorithm);
  EXPECT_EQ(all_reduce(chooser("rates")), chosen);
}

}  // namespace
}  // namespace weft::api
