#include "net/messages/stream.h"

#include <gtest/gtest.h>

namespace weft::net::messages {
namespace {

constexpr std::uint64_t kTag = 7;

// A message of 8 bytes that has come whole.
void bring_message(Stream& stream, Blocks& blocks) {
  const Frame frame{.flags = kEnd, .length = 8, .number = 1, .tag = kTag, .total = 8};
  const std::byte* const at = stream.place(frame, blocks);
  ASSERT_NE(at, nullptr);
  stream.arrived(frame, at);
}

TEST(Stream, AMessageWhoseLastPartsAreEmptyIsNoMismatch) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  bring_message(stream, blocks);
  EXPECT_EQ(stream.find({0, 8}, false, kTag), Stream::Found::kHere);
  EXPECT_EQ(stream.find({8, 8}, true, kTag), Stream::Found::kHere);
}

TEST(Stream, AMessageThatIsTooShortIsAMismatchAtOnce) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  bring_message(stream, blocks);
  EXPECT_EQ(stream.find({0, 12}, true, kTag), Stream::Found::kMismatch);
  EXPECT_EQ(stream.find({0, 12}, false, kTag), Stream::Found::kMismatch);
}

TEST(Stream, AMessageThatIsTooLongIsAMismatch) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  bring_message(stream, blocks);
  EXPECT_EQ(stream.find({0, 4}, true, kTag), Stream::Found::kMismatch);
  EXPECT_EQ(stream.find({0, 4}, false, kTag), Stream::Found::kHere);
}

Frame stripe(std::uint32_t offset, std::uint32_t length, std::uint32_t total) {
  return {.flags = kEnd | kStriped, .length = length, .number = 1, .tag = kTag, .offset = offset, .total = total};
}

TEST(Stream, StripesInAnyOrderAreAMessage) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  for (const Frame& f : {stripe(8, 4, 12), stripe(0, 8, 12)}) {
    EXPECT_EQ(stream.find({0, 12}, true, kTag), Stream::Found::kNot);
    const std::byte* const at = stream.place(f, blocks);
    ASSERT_NE(at, nullptr);
    stream.arrived(f, at);
  }
  EXPECT_EQ(stream.find({0, 12}, true, kTag), Stream::Found::kHere);
}

// Otherwise bytes that never came would count as received, and a message could be complete without a block.
TEST(Stream, WhatALyingPeerMixesIsOutOfTurn) {
  struct Lie {
    const char* what;
    Frame first, second;
  };
  const Frame part{.length = 4, .number = 1, .tag = kTag};
  Frame other_tag = stripe(8, 4, 16);
  other_tag.tag = kTag + 1;
  for (const Lie& lie :
       {Lie{"the same stripe twice", stripe(0, 8, 16), stripe(0, 8, 16)},
        Lie{"stripes that overlap", stripe(0, 8, 16), stripe(7, 9, 16)},
        Lie{"a stripe within another", stripe(0, 16, 16), stripe(4, 4, 16)},
        Lie{"two totals", stripe(0, 8, 16), stripe(8, 4, 12)}, Lie{"two tags", stripe(0, 8, 16), other_tag},
        Lie{"a part after a stripe", stripe(4, 4, 16), part}, Lie{"a stripe after a part", part, stripe(4, 4, 8)},
        Lie{"an empty stripe", stripe(0, 8, 16), stripe(8, 0, 16)}}) {
    Blocks blocks(kSlotBytes);
    Stream stream;
    ASSERT_NE(stream.place(lie.first, blocks), nullptr) << lie.what;
    EXPECT_EQ(stream.place(lie.second, blocks), nullptr) << lie.what;
  }
}

TEST(Stream, AMessageHasNoMoreStripesThanThereCanBeConnections) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  for (std::uint32_t i = 0; i < 16; ++i) ASSERT_NE(stream.place(stripe(i, 1, 100), blocks), nullptr) << i;
  EXPECT_EQ(stream.place(stripe(16, 1, 100), blocks), nullptr);
}

// A part went straight to where it was wanted, another over it into no block: its bytes were read from nowhere.
TEST(Stream, AStripeOverOneThatWentToItsTargetLeavesNoMessageWithoutABlock) {
  Blocks blocks(kSlotBytes);
  Stream stream;
  std::byte target[16];
  stream.want({0, 16}, kTag, target);
  const Frame first = stripe(0, 8, 16);
  std::byte* at = stream.place(first, blocks);
  ASSERT_EQ(at, target);
  stream.arrived(first, at);
  EXPECT_EQ(stream.place(first, blocks), nullptr);
  EXPECT_EQ(stream.find({0, 16}, true, kTag), Stream::Found::kNot);
}

TEST(Stream, ASignalOfAnotherCallDoesNotAgreeAlsoIfItOvertakesOne) {
  Stream stream;
  stream.signal_came(2, kTag + 1);
  EXPECT_EQ(stream.signals_came, 2u);
  EXPECT_TRUE(stream.signal_agrees(kTag));  // the first is on its way
  stream.signal_came(1, kTag);
  EXPECT_TRUE(stream.signal_agrees(kTag));
  stream.take_signal();
  EXPECT_FALSE(stream.signal_agrees(kTag));
  EXPECT_TRUE(stream.signal_agrees(kTag + 1));
}

}  // namespace
}  // namespace weft::net::messages
