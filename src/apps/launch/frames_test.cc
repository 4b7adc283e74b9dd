#include "apps/launch/frames.h"

#include <gtest/gtest.h>

namespace weft::launch {
namespace {

TEST(Frames, ComeOutWholeWhateverPiecesTheyArriveIn) {
  const std::string bytes = encode({FrameKind::kOutput, 3, "hello\n"}) + encode({FrameKind::kDone, -1, ""});
  FrameReader reader;
  std::vector<Frame> frames;
  for (const char c : bytes) {
    reader.add({&c, 1});
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    if (*frame) frames.push_back(**frame);
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].kind, FrameKind::kOutput);
  EXPECT_EQ(frames[0].rank, 3);
  EXPECT_EQ(frames[0].text, "hello\n");
  EXPECT_EQ(frames[1].kind, FrameKind::kDone);
}

TEST(Frames, BytesThatAreNoFrameAreAnError) {
  FrameReader reader;
  reader.add("Last login: Tuesday");
  EXPECT_FALSE(reader.next());
}

TEST(Frames, WhatAShellPrintsBeforeTheGreetingIsSkipped) {
  FrameReader reader;
  reader.add("Welcome to node1\nno weft-agent here\nweft-");
  EXPECT_FALSE(reader.greeting().value());
  reader.add("agent 0.1.0\n" + encode({FrameKind::kHello, -1, "{}"}));
  EXPECT_EQ(reader.greeting().value(), "0.1.0");
  EXPECT_EQ(reader.next().value()->text, "{}");
}

}  // namespace
}  // namespace weft::launch
