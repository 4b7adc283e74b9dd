#include "plan/schedule/exchange/msccl_xml.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weft::schedule {
namespace {

// An all_gather of two ranks, in place; what rank 0 sends and receives is the test's.
std::string pair(
    std::string_view send =
        R"(<step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>)",
    std::string_view receive =
        R"(<step s="0" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>)",
    std::string_view head = R"(nchunksperloop="2" ngpus="2" coll="allgather")") {
  return fmt::format(R"(<algo name="pair" proto="Simple" nchannels="1" {} inplace="1">
<gpu id="0" i_chunks="0" o_chunks="2" s_chunks="1">
<tb id="0" send="1" recv="-1" chan="0">
{}
</tb>
<tb id="1" send="-1" recv="1" chan="0">
{}
</tb>
</gpu>
<gpu id="1" i_chunks="0" o_chunks="2" s_chunks="1">
<tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb>
</gpu>
</algo>
)",
                     head, send, receive);
}

std::string step(std::string_view type, int src, int dst, int count = 1, int dep_tb = -1, int dep = -1, int s = 0) {
  return fmt::format(
      R"(<step s="{}" type="{}" srcbuf="o" srcoff="{}" dstbuf="o" dstoff="{}" cnt="{}" depid="{}" deps="{}" hasdep="0"/>)",
      s, type, src, dst, count, dep_tb, dep);
}

std::string error_of(const std::string& text) {
  const auto read = parse_msccl_xml("f.xml", text);
  return read ? "read" : read.error().message;
}

std::string verdict(const std::string& text) {
  const auto read = parse_msccl_xml("f.xml", text);
  if (!read) return "not read: " + read.error().message;
  const Proof proof = prove(*read);
  return proof.ok() ? "proved" : locate(*read, "f.xml", *proof.counterexample);
}

TEST(MscclXml, ReadsAFileForCallsInPlace) {
  const auto read = parse_msccl_xml("f.xml", pair());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->schedule.shape, (Shape{Collective::kAllGather, 2, 0, 2}));
  EXPECT_EQ(read->schedule.lanes, 2);
  EXPECT_EQ(to_string(read->schedule.strand(0, 0)[0]), "move chunk 0: out[0] -> message to 1");
  EXPECT_EQ(to_string(read->schedule.strand(0, 1)[0]), "move chunk 1: message from 1 -> out[1]");
  EXPECT_TRUE(read->in_place && !read->out_of_place);
  EXPECT_EQ(verdict(pair()), "proved");
}

TEST(MscclXml, MistakesAreOneLineThatNamesFileLineGpuBlockAndStep) {
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"<algo", "f.xml:1: not XML"},
      {"", "f.xml:1: not XML"},
      {pair().substr(0, 400), "not XML"},
      {"<system/>", "f.xml:1: <system> where MSCCL's <algo> is expected"},
      {pair(step("jump", 0, 0)), "f.xml:4: gpu 0 tb 0 step 0: unknown type 'jump'"},
      {pair(step("s", 2, 0)), "f.xml:4: gpu 0 tb 0 step 0: srcoff 2 with cnt 1 is outside the 2 chunks of buffer o"},
      {pair(step("s", -1, 0)), "gpu 0 tb 0 step 0: srcoff -1 with cnt 1 is outside"},
      {pair(step("s", 1, 0, 1000000)), "srcoff 1 with cnt 1000000 is outside"},
      {pair(step("s", 0, 0, 1000000000)), "cnt 1000000000 is outside"},
      {pair(step("s", 0, 0, 0)), "gpu 0 tb 0 step 0: cnt 0: it moves nothing"},
      {pair(step("r", 0, 0)), "gpu 0 tb 0 step 0: r in a tb that receives from no gpu"},
      {pair(step("s", 0, 0, 1, 9, 0)), "gpu 0 tb 0 step 0: it waits for tb 9, which is not there"},
      {pair(step("s", 0, 0, 1, 1, 7)), "gpu 0 tb 0 waits for step 7 of tb 1, which is not there"},
      {pair(step("s", 0, 0, 1, -1, -1, 5)), "gpu 0 tb 0 step 0: it is numbered 5"},
      {pair(step("nop", 0, 0)), "gpu 1 tb 0 step 1: r waits for gpu 0, which never sends to gpu 1 on channel 0"},
      {pair("", "", R"(nchunksperloop="1000000000" ngpus="2" coll="allgather")"),
       "nchunksperloop 1000000000 is outside"},
      {pair("", "", R"(nchunksperloop="2" ngpus="1000000000" coll="allgather")"),
       "ngpus 1000000000 is outside 1 … 1024"},
      {pair("", "", R"(nchunksperloop="1024" ngpus="1024" coll="alltoall")"), "are more than the 2097152"},
      {pair("", "", R"(nchunksperloop="3" ngpus="2" coll="allgather")"), "nchunksperloop 3 is not a whole number"},
      {pair("", "", R"(nchunksperloop="2" ngpus="2" coll="allscatter")"), "unknown collective 'allscatter'"},
      {pair("", "", R"(nchunksperloop="4" ngpus="2" coll="allgather")"), "o_chunks 2, but all_gather"},
      {pair("", "", R"(ngpus="2" coll="allgather")"), "<algo> has no nchunksperloop"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.says), std::string::npos) << error << "\nexpected: " << c.says;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(MscclXml, IdsThatAreThereTwiceAreNamed) {
  std::string gpus = pair(), blocks = pair(), ends = pair();
  gpus.replace(gpus.find("<gpu id=\"1\""), 11, "<gpu id=\"0\"");
  EXPECT_NE(error_of(gpus).find("gpu 0 is there twice"), std::string::npos) << error_of(gpus);
  blocks.replace(blocks.find("<tb id=\"1\""), 10, "<tb id=\"0\"");
  EXPECT_NE(error_of(blocks).find("gpu 0 tb 0 is there twice"), std::string::npos) << error_of(blocks);
  ends.replace(ends.find("<tb id=\"1\" send=\"-1\""), 20, "<tb id=\"1\" send=\"1\"");
  ends.replace(ends.find("type=\"r\""), 8, "type=\"rcs\"");
  EXPECT_NE(error_of(ends).find("gpu 0 tb 1: another tb sends to gpu 1 on channel 0 too"), std::string::npos)
      << error_of(ends);
}

TEST(MscclXml, ACycleOfWaitsIsADeadlockThatIsPrinted) {
  EXPECT_EQ(verdict(pair(step("s", 0, 0, 1, 1, 0), step("r", 1, 1, 1, 0, 0))),
            "f.xml:4: gpu 0 tb 0 step 0: deadlock: rank 0 lane 0 step 0 (move chunk 0: out[0] -> message to 1): waits "
            "for a step of lane 1 in a cycle: 0 lane 0 -> 0 lane 1 -> 0 lane 0");
}

// Receives chunk 1 into place 0, which is sent by another thread block that does not wait for it.
TEST(MscclXml, ThreadBlocksThatDoNotWaitForEachOtherRace) {
  const std::string text = verdict(pair(step("s", 0, 0), step("r", 0, 0)));
  EXPECT_NE(text.find("gpu 0 tb"), std::string::npos) << text;
  EXPECT_TRUE(text.find("race") != std::string::npos || text.find("bad operand") != std::string::npos) << text;
  const auto to_scratch = [](std::string copy) { return copy.replace(copy.find("dstbuf=\"o\""), 10, "dstbuf=\"s\""); };
  const std::string racing = to_scratch(step("cpy", 0, 0)) + step("s", 0, 0, 1, -1, -1, 1);
  std::string copies = pair(racing, step("r", 1, 1) + to_scratch(step("cpy", 0, 0, 1, -1, -1, 1)));
  EXPECT_NE(verdict(copies).find("race"), std::string::npos) << verdict(copies);
  copies = pair(racing, step("r", 1, 1) + to_scratch(step("cpy", 0, 0, 1, 0, 1, 1)));  // now it waits
  EXPECT_EQ(verdict(copies), "proved");
}

TEST(MscclXml, AMessageOfSeveralChunksMustBeTakenAsOne) {
  const std::string text =
      verdict(pair(step("s", 0, 0, 2), step("r", 1, 1), R"(nchunksperloop="2" ngpus="2" coll="allreduce")"));
  EXPECT_NE(text.find("wrong chunk"), std::string::npos) << text;
}

TEST(MscclXml, HugeFilesAreRefusedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(error_of(std::string(limits::kBytes + 1, ' ')).find("more than the 16 MiB"), std::string::npos);
  EXPECT_NE(error_of(std::string(std::size_t(limits::kElements) + 1, '<')).find("elements are more than"),
            std::string::npos);
  std::string many;  // 10^5 steps of 10^5 chunks
  for (int i = 0; i < 100'000; ++i) many += R"(<step cnt="100000"/>)";
  EXPECT_NE(error_of(pair(many)).find("more than 1048576 chunks are moved"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(MscclXml, ACustomCollectiveSaysThatNothingCanBeProved) {
  EXPECT_NE(error_of(pair("", "", R"(nchunksperloop="2" ngpus="2" coll="custom")")).find("nothing can be proved"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::schedule
