#include "plan/cost/timetable.h"

#include <gtest/gtest.h>

#include <memory>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::cost {
namespace {

using schedule::Schedule;

constexpr Bytes kVector = 320, kChunk = 100 * kVector;

// Every rank sends one chunk to every other rank: `to` of rank r's k-th message.
template <class To>
Schedule everybody_sends(Rank ranks, const To& to) {
  Schedule s{.shape = {.collective = Collective::kAllToAll, .ranks = ranks, .chunks = ranks * ranks},
             .lanes = 2,
             .strands = std::vector<std::vector<schedule::Step>>(static_cast<std::size_t>(2 * ranks))};
  for (Rank k = 1; k < ranks; ++k)
    for (Rank r = 0; r < ranks; ++r) {
      const Rank peer = to(r, k);
      const schedule::ChunkId chunk = r * ranks + peer;
      s.strand(r, 0).push_back(schedule::move(chunk, {schedule::in(chunk)}, {schedule::to(peer, 0)}));
    }
  for (Rank k = 1; k < ranks; ++k)
    for (Rank r = 0; r < ranks; ++r) {
      // The k-th message that it gets, whatever it is.
      for (Rank from = 0; from < ranks; ++from)
        if (from != r && to(from, k) == r)
          s.strand(r, 1).push_back(
              schedule::move(from * ranks + r, {schedule::from(from, 0)}, {schedule::out(from * ranks + r)}));
    }
  return s;
}

Schedule spread(Rank ranks) {
  return everybody_sends(ranks, [=](Rank r, Rank k) { return (r + k) % ranks; });
}

// Eight cards, every pair joined: every message has a link of its own, and all go at once.
TEST(Timetable, MessagesOnLinksOfTheirOwnGoAtOnce) {
  const auto view = shipped_view(topology::load_machine("groq-node").value());
  const Timetable t = compile_timetable(*view, spread(8), kChunk).value();
  ASSERT_EQ(t.messages.size(), 56U);
  EXPECT_EQ(violation(*view, t), "");
  EXPECT_NEAR(t.slot.ns(), 320 / 15.0, 0.01);  // a vector of 320 B on a link of 15 GB/s
  for (const TimedMessage& m : t.messages) EXPECT_EQ(m.left, 0);
  const std::int64_t latency = static_cast<std::int64_t>(std::ceil(700 / (320 / 15.0)));  // a link's 700 ns
  EXPECT_EQ(t.slots, 100 + latency);
}

// Two ranks of a ring of chips that send the same way share a link: one waits, and what is proved then is that they do.
TEST(Timetable, MessagesOfOneLinkFollowEachOther) {
  const auto view = shipped_view(topology::load_machine("tpu-v4:shape=4x1x1").value());
  ASSERT_EQ(view->endpoints(), 4);
  const Timetable t = compile_timetable(*view, spread(4), kChunk).value();
  EXPECT_EQ(violation(*view, t), "");
  EXPECT_GT(t.slots, 200);  // six link directions or so carry eight ways of two links beside eight of one
}

TEST(Timetable, AChangedTableIsRefusedWithLinkAndMessages) {
  const auto view = shipped_view(topology::load_machine("tpu-v4:shape=4x1x1").value());
  Timetable t = compile_timetable(*view, spread(4), kChunk).value();
  for (std::size_t i = 1; i < t.reservations.size(); ++i) {
    if (t.reservations[i - 1].direction != t.reservations[i].direction) continue;
    t.reservations[i].first = t.reservations[i - 1].first + 1;
    break;
  }
  EXPECT_NE(violation(*view, t).find("collide"), std::string::npos);
}

TEST(Timetable, WhatIsPassedOnLeavesAfterItHasCome) {
  const auto view = shipped_view(topology::load_machine("groq-node").value());
  Schedule s{.shape = {.collective = Collective::kBroadcast, .ranks = 3, .chunks = 1},
             .lanes = 1,
             .strands = std::vector<std::vector<schedule::Step>>(3)};
  s.strand(0, 0).push_back(schedule::move(0, {schedule::in(0)}, {schedule::to(1)}));
  s.strand(1, 0).push_back(schedule::move(0, {schedule::from(0)}, {schedule::out(0), schedule::to(2)}));
  s.strand(2, 0).push_back(schedule::move(0, {schedule::from(1)}, {schedule::out(0)}));
  Timetable t = compile_timetable(*view, s, kChunk).value();
  ASSERT_EQ(t.messages.size(), 2U);
  EXPECT_EQ(t.messages[1].left, t.messages[0].there);
  EXPECT_EQ(violation(*view, t), "");
  t.messages[1].left = 0;
  EXPECT_NE(violation(*view, t).find("before it is there"), std::string::npos);
}

}  // namespace
}  // namespace weft::cost
