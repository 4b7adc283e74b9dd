// Schedules from files run: every algorithm written out, read again and called, and what must be refused.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "plan/collectives/registry.h"
#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/schedule_json.h"
#include "plan/schedule/exchange/written.h"
#include "tests/communicators.h"

namespace weft {
namespace {

constexpr Rank kRanks = 4;

std::string file_of(const std::string& name, const std::string& text) {
  const std::string file = testing::TempDir() + "/" + name;
  std::ofstream(file) << text;
  return file;
}

schedule::Document document_of(const schedule::Algorithm& a) {
  return {.name = std::string(a.name),
          .schedule = schedule::write_out(a, {.ranks = kRanks, .ranks_per_node = kRanks}),
          .in_place = schedule::may_be_in_place(a.collective),
          .origins = {}};
}

// Element i of rank r's input; sums of all ranks' stay exact.
std::int32_t value(Rank r, std::size_t i) { return static_cast<std::int32_t>(i % 1009) * (r + 1) + r; }

// An all_reduce in place and not, of sizes that take no, one and several rounds.
void all_reduce_by(const std::string& file) {
  SCOPED_TRACE(file);
  tests::on_threads(tests::thread_communicators(kRanks), [&](Communicator& c) {
    for (const std::size_t count : {0, 3, 1000, 600001})
      for (const bool in_place : {false, true}) {
        std::vector<std::int32_t> in(count), out(count, -1), expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          in[i] = value(c.rank(), i);
          for (Rank r = 0; r < kRanks; ++r) expected[i] += value(r, i);
        }
        Request request{.in = in.data(),
                        .out = in_place ? in.data() : out.data(),
                        .count = count,
                        .type = DataType::kInt32,
                        .algorithm = file};
        const Status s = c.run(request);
        ASSERT_TRUE(s) << s.error().message;
        EXPECT_EQ(in_place ? in : out, expected) << count << " elements";
      }
  });
}

TEST(Written, EveryAllReduceOfMessagesRunsFromMscclXml) {
  for (const auto* a : collectives::algorithms_for(Collective::kAllReduce))
    if (const auto xml = schedule::to_msccl_xml(document_of(*a)))
      all_reduce_by(file_of(std::string(a->name) + ".xml", *xml));
}

TEST(Written, EveryAllReduceOfMessagesRunsFromJson) {
  for (const auto* a : collectives::algorithms_for(Collective::kAllReduce))
    if (!a->needs.memory())
      all_reduce_by(file_of(std::string(a->name) + ".json", schedule::to_schedule_json(document_of(*a))));
}

// Every thread block of a rank sums into its own part of the scratch that others fill: messages of several rounds go
// wrong where a round begins before all of them have ended the one before.
constexpr const char* kShared = R"(<algo name="two_blocks" proto="Simple" ngpus="2" nchannels="1" nchunksperloop="1"
  coll="allreduce" inplace="1">
<gpu id="0" i_chunks="1" o_chunks="0" s_chunks="1"><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/></tb>
<tb id="1" send="-1" recv="-1" chan="0">
<step s="0" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="0" deps="1" hasdep="0"/></tb></gpu>
<gpu id="1" i_chunks="1" o_chunks="0" s_chunks="1"><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/></tb>
<tb id="1" send="-1" recv="-1" chan="0">
<step s="0" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="0" deps="1" hasdep="0"/></tb></gpu>
</algo>)";

TEST(Written, LanesThatShareScratchMeetBetweenRounds) {
  const std::string file = file_of("two_blocks.xml", kShared);
  tests::on_threads(tests::thread_communicators(2), [&](Communicator& c) {
    constexpr std::size_t kCount = 4'000'000;
    std::vector<std::int32_t> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i) data[i] = value(c.rank(), i);
    const Status s =
        c.run({.in = data.data(), .out = data.data(), .count = kCount, .type = DataType::kInt32, .algorithm = file});
    ASSERT_TRUE(s) << s.error().message;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], value(0, i) + value(1, i)) << i;
  });
}

// A plan that is known does not know the place of the next call.
TEST(Written, ACallOutOfPlaceIsRefusedAlsoAfterOneInPlace) {
  const std::string file = file_of("two_blocks.xml", kShared);
  tests::on_threads(tests::thread_communicators(2), [&](Communicator& c) {
    std::int32_t in = c.rank(), out = -1;
    Request request{.in = &in, .out = &in, .count = 1, .type = DataType::kInt32, .algorithm = file};
    ASSERT_TRUE(c.run(request));
    EXPECT_EQ(in, 1);
    request.out = &out;
    const Status s = c.run(request);
    ASSERT_FALSE(s);
    EXPECT_NE(s.error().message.find("in place only"), std::string::npos) << s.error().message;
    EXPECT_EQ(out, -1);
  });
}

std::string refusal(Request request) {
  std::string text;
  std::int32_t in = 1, out = 0;
  request.in = &in;
  if (request.out == nullptr) request.out = &out;
  tests::on_threads(tests::thread_communicators(2), [&](Communicator& c) {
    const Status s = c.run(request);
    if (c.rank() == 0) text = s ? "" : s.error().message;
  });
  return text;
}

TEST(Written, ANameStandsForATextAsAFileDoesAndKeepsIt) {
  const std::string name = "ring of a program.json";
  const schedule::Document ring = document_of(*collectives::find_algorithm(Collective::kAllReduce, "ring").value());
  const std::string text = schedule::to_schedule_json(ring);
  ASSERT_TRUE(schedule::name_schedule(name, text));
  EXPECT_TRUE(schedule::name_schedule(name, text));
  EXPECT_EQ(schedule::read_document(name)->schedule, ring.schedule);
  all_reduce_by(name);
  const Status other = schedule::name_schedule(name, text + "\n");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("is another schedule already"), std::string::npos) << other.error().message;
  EXPECT_FALSE(schedule::name_schedule("ring.xml", text));
  EXPECT_FALSE(schedule::name_schedule("cut off.json", text.substr(0, text.size() / 2)));
}

TEST(Written, WhatAFileIsNotForIsRefused) {
  const Request request{.count = 1, .type = DataType::kInt32, .algorithm = file_of("two_blocks.xml", kShared)};
  EXPECT_NE(refusal(request).find("in place only"), std::string::npos) << refusal(request);
  Request other = request;
  other.collective = Collective::kBroadcast;
  EXPECT_NE(refusal(other).find("a schedule of all_reduce, not of broadcast"), std::string::npos) << refusal(other);
  other = request;
  other.algorithm = testing::TempDir() + "/none.json";
  EXPECT_NE(refusal(other).find("no such file"), std::string::npos) << refusal(other);
  std::string racing(kShared);
  for (std::size_t at; (at = racing.find(R"(depid="0" deps="1")")) != std::string::npos;)
    racing.replace(at, 18, R"(depid="-1" deps="-1")");
  other.algorithm = file_of("racing.xml", racing);
  EXPECT_NE(refusal(other).find("not proved, so not run"), std::string::npos) << refusal(other);
}

}  // namespace
}  // namespace weft
