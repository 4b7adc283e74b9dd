#include "move/reshard/version_switch.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft::reshard {
namespace {

// Receivers in this process, which know each other.
class Group {
 public:
  explicit Group(Rank ranks) {
    std::vector<std::string> names;
    for (Rank r = 0; r < ranks; ++r) {
      names.push_back(fmt::format("to{}", r));
      agents_.push_back(*transfer::Agent::open(
          {.name = names.back(), .key = std::string(32, 'k'), .pages = 16, .network = transfer::Network::kTcp}));
    }
    for (auto& a : agents_)
      for (auto& b : agents_)
        if (&a != &b) {
          EXPECT_TRUE(a.load(*b.metadata()));
        }
    for (Rank r = 0; r < ranks; ++r) switches_.emplace_back(agents_[static_cast<std::size_t>(r)], r, names);
  }
  VersionSwitch& of(Rank r) { return switches_[static_cast<std::size_t>(r)]; }
  // Hands out what has arrived until nothing comes for a while; the notifications that were for nobody.
  int deliver() {
    int others = 0;
    for (int quiet = 0; quiet < 20;) {
      bool any = false;
      for (std::size_t r = 0; r < agents_.size(); ++r)
        for (const auto& n : agents_[r].notifications()) {
          any = true;
          const auto taken = switches_[r].take(n);
          others += taken && !*taken;
        }
      quiet = any ? 0 : quiet + 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return others;
  }
  std::vector<std::int64_t> versions() const {
    std::vector<std::int64_t> all;
    for (const auto& s : switches_) all.push_back(s.version());
    return all;
  }
  transfer::Agent& agent(Rank r) { return agents_[static_cast<std::size_t>(r)]; }

 private:
  std::vector<transfer::Agent> agents_;
  std::vector<VersionSwitch> switches_;
};

TEST(VersionSwitch, NobodySwitchesBeforeAllHaveAllBytes) {
  Group group(4);
  for (const Rank r : {2, 0, 3}) {
    ASSERT_TRUE(group.of(r).arrived(1));
    group.deliver();
    EXPECT_EQ(group.versions(), std::vector<std::int64_t>(4, 0)) << "after rank " << r;
  }
  ASSERT_TRUE(group.of(1).arrived(1));
  group.deliver();
  EXPECT_EQ(group.versions(), std::vector<std::int64_t>(4, 1));
}

TEST(VersionSwitch, AFastReceiverWaitsForTheSlowestVersion) {
  Group group(2);
  ASSERT_TRUE(group.of(1).arrived(3));
  ASSERT_TRUE(group.of(0).arrived(2));
  group.deliver();
  EXPECT_EQ(group.versions(), std::vector<std::int64_t>(2, 2));
}

TEST(VersionSwitch, NotificationsOfOthersAreLeftToTheCaller) {
  Group group(3);
  ASSERT_TRUE(group.agent(1).notify("to0", "hello"));
  ASSERT_TRUE(group.agent(1).notify("to0", "weft.reshard arrived x"));
  ASSERT_TRUE(group.agent(1).notify("to2", "weft.reshard switch 9"));  // rank 0 alone says that
  EXPECT_EQ(group.deliver(), 3);
  EXPECT_EQ(group.versions(), std::vector<std::int64_t>(3, 0));
}

}  // namespace
}  // namespace weft::reshard
