#include "onesided/pgas/trace.h"

#include <gtest/gtest.h>

namespace weft::pgas {
namespace {

constexpr const char* kFile =
    "weft.pgas_trace/1 rank 1 of 4\n"
    "100 200 put 2 0:64 8 = ff\n"
    "200 210 put_signal 3 1:8 4096 = 7\n"
    "210 220 get 0 0:128 1048576\n"
    "220 230 atomic 0 0:0 4 = ffffffff\n"
    "230 240 fetch 0 0:0 8\n"
    "240 300 wait 0:256 8 >= 3\n"
    "300 300 fence\n"
    "300 310 quiet\n"
    "310 400 meet all_reduce 24 0 1 4\n";

TEST(Trace, WhatIsWrittenIsRead) {
  const auto read = parse_trace("t", kFile);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->ranks, 4);
  std::string again = heading(read->rank, read->ranks);
  for (const Event& e : read->events) again += to_line(e);
  EXPECT_EQ(again, kFile);
  EXPECT_EQ(read->events[5].compare, Compare::kGreaterEqual);
  EXPECT_EQ(read->events[1].place, (Place{1, 8}));
}

TEST(Trace, WhatDoesNotFitIsNamedWithItsLine) {
  const std::string head = "weft.pgas_trace/1 rank 0 of 2\n";
  for (const auto& [text, message] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", "t: not weft.pgas_trace/1"},
           {"something else\n", "t:1: 'something' does not fit"},
           {"weft.pgas_trace/1 rank 2 of 2\n", "t:1: '2' does not fit"},
           {head + "0 1 teleport\n", "t:2: 'teleport' does not fit"},
           {head + "0 1 put 2 0:0 8\n", "t:2: '2' does not fit"},
           {head + "0 1 put 1 0 8\n", "t:2: the line ends too early"},
           {head + "0 1 put 1 0:0\n", "t:2: the line ends too early"},
           {head + "0 1 put 1 0:0 -8\n", "t:2: '-8' does not fit"},
           {head + "0 1 put 1 0:0 8 ff\n", "t:2: 'ff' does not fit"},
           {head + "0 1 fence\n2 1 quiet\n", "t:3: 'an end before the begin' does not fit"},
           {head + "0 1 wait 0:0 8 ~ 1\n", "t:2: '~' does not fit"},
           {head + "0 1 meet barrier 0 1 1 2\n", "t:2: 'the group' does not fit"},
           {head + "0 1 fence now\n", "t:2: 'now' does not fit"}}) {
    const auto read = parse_trace("t", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, message) << text;
    EXPECT_EQ(read.error().blame, Blame::kInput);
  }
}

}  // namespace
}  // namespace weft::pgas
