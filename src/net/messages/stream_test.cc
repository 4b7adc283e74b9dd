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
