#include "plan/schedule/exchange/mscclpp_read.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

std::string plan(const std::string& head, const std::string& gpus) {
  return R"({"name":"p","inplace":true,)" + head + R"(,"gpus":[)" + gpus + "]}";
}

// Each of two gpus adds one half of its peer's input to its own and writes the sum to both.
std::string halves(
    const std::string& last =
        R"({"name":"signal","channel_ids":[0],"channel_type":"memory"},{"name":"wait","channel_ids":[0],"channel_type":"memory"})") {
  std::string gpus;
  for (const int gpu : {0, 1})
    gpus += (gpu == 0 ? "" : ",") + fmt::format(R"({{"id":{0},"input_chunks":2,"output_chunks":2,"scratch_chunks":0,
      "channels":[{{"channel_type":"memory","connected_to":[{1}]}}],"remote_buffers":[{{"rank":{1},"type":"i"}}],
      "threadblocks":[{{"id":0,"ops":[{{"name":"signal","channel_ids":[0],"channel_type":"memory"}},
        {{"name":"wait","channel_ids":[0],"channel_type":"memory"}},
        {{"name":"rres","src_buff":[{{"type":"i","index":{0},"size":1}},{{"buffer_id":0,"index":{0},"size":1}}],
          "dst_buff":[{{"type":"i","index":{0},"size":1}},{{"buffer_id":0,"index":{0},"size":1}}]}},{{"name":"nop"}},{2}],
        "channels":[{{"channel_type":"memory","channel_ids":[0]}}],
        "remote_buffer_refs":[{{"access_channel_type":"memory","remote_buffer_ids":[0]}}]}}]}})",
                                                gpu, 1 - gpu, last);
  return plan(R"("collective":"allreduce","protocol":"Simple")", gpus);
}

TEST(Mscclpp, APlanOfTwoHalvesIsReadAndProved) {
  const auto document = parse_mscclpp("p.json", halves());
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_TRUE(document->in_place);
  EXPECT_FALSE(document->out_of_place);
  const Proof proof = prove(*document);
  EXPECT_TRUE(proof.ok()) << locate(*document, "p.json", *proof.counterexample);
}

TEST(Mscclpp, APlanThatEndsBeforeItsPeerHasWrittenIsRefuted) {
  const auto document = parse_mscclpp("p.json", halves(R"({"name":"nop"})"));
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_FALSE(prove(*document).ok());
}

TEST(Mscclpp, PacketsAreMessagesBetweenTheThreadBlocksThatWriteAndReadThem) {
  std::string gpus;
  for (const int gpu : {0, 1})
    gpus += (gpu == 0 ? "" : ",") + fmt::format(R"({{"id":{0},"input_chunks":1,"output_chunks":2,"scratch_chunks":2,
      "channels":[{{"channel_type":"memory","connected_to":[{1}]}}],"remote_buffers":[{{"rank":{1},"type":"s"}}],
      "threadblocks":[{{"id":0,"ops":[{{"name":"ppkt","src_buff":[{{"type":"o","index":{0},"size":1}}],
          "dst_buff":[{{"buffer_id":0,"index":{0},"size":1}}]}}],
        "channels":[{{"channel_type":"memory","channel_ids":[0]}}],
        "remote_buffer_refs":[{{"access_channel_type":"memory","remote_buffer_ids":[0]}}]}},
       {{"id":1,"ops":[{{"name":"upkt","src_buff":[{{"type":"s","index":{1},"size":1}}],
          "dst_buff":[{{"type":"o","index":{1},"size":1}}]}}],"channels":[],"remote_buffer_refs":[]}}]}})",
                                                gpu, 1 - gpu);
  const auto document = parse_mscclpp("p.json", plan(R"("collective":"allgather","protocol":"LL")", gpus));
  ASSERT_TRUE(document) << document.error().message;
  const Proof proof = prove(*document);
  EXPECT_TRUE(proof.ok()) << locate(*document, "p.json", *proof.counterexample);
}

TEST(Mscclpp, WhatIsNotReadIsNamedWithItsPlace) {
  const auto error = [](const std::string& text) {
    const auto document = parse_mscclpp("p.json", text);
    return document ? std::string("read") : document.error().message;
  };
  EXPECT_EQ(error(halves(R"({"name":"barrier"})")), "p.json: gpu 0 tb 0 op 4: operation 'barrier' is not read");
  EXPECT_EQ(error(halves(R"({"name":"signal","channel_ids":[3],"channel_type":"memory"})")),
            "p.json: gpu 0 tb 0 op 4: there is no memory channel 3");
  EXPECT_EQ(error(halves(R"({"name":"signal","channel_ids":[0],"channel_type":"port"})")),
            "p.json: gpu 0 tb 0 op 4: 'signal' on a port channel is not read");
  EXPECT_EQ(error(plan(R"("collective":"frob")", "")).find("p.json: "), 0u);
  EXPECT_EQ(error("[]"), "p.json: no JSON object");
  EXPECT_NE(error(plan(R"("collective":"allreduce")", "")).find("0 gpus"), std::string::npos);
}

}  // namespace
}  // namespace weft::schedule
