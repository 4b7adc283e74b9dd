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
      "channels":[{{"channel_type":"memory","connected_to":[{1},{1}]}}],"remote_buffers":[{{"rank":{1},"type":"i"}}],
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
  EXPECT_EQ(error(halves(R"({"name":"frob"})")), "p.json: gpu 0 tb 0 op 4: operation 'frob' is not read");
  EXPECT_EQ(error(halves(R"({"name":"barrier"})")), "p.json: gpu 0 tb 0 op 4: a barrier without a number");
  EXPECT_EQ(error(halves(R"({"name":"signal","channel_ids":[3],"channel_type":"memory"})")),
            "p.json: gpu 0 tb 0 op 4: there is no memory channel 3");
  EXPECT_EQ(error(halves(R"({"name":"signal","channel_ids":[0],"channel_type":"port"})")),
            "p.json: gpu 0 tb 0 op 4: 'signal' on a port channel is not read");
  EXPECT_EQ(error(plan(R"("collective":"frob")", "")).find("p.json: "), 0u);
  EXPECT_EQ(error("[]"), "p.json: no JSON object");
  EXPECT_NE(error(plan(R"("collective":"allreduce")", "")).find("0 gpus"), std::string::npos);
}

// Two gpus exchange their halves in place. Gpu 0 sends in thread block 0 and takes in block 1; gpu 1 the other way
// round where `crossed`, so that signals join thread blocks of different numbers.
std::string exchange(bool crossed) {
  std::string gpus;
  for (const int gpu : {0, 1}) {
    const std::string put = fmt::format(
        R"({{"name":"rlxsignal","channel_ids":[1],"channel_type":"memory"}},
           {{"name":"rlxwait","channel_ids":[1],"channel_type":"memory"}},
           {{"name":"put","src_buff":[{{"type":"i","index":{0},"size":1}}],"dst_buff":[{{"buffer_id":0,"index":0,"size":1}}]}},
           {{"name":"signal","channel_ids":[0],"channel_type":"memory"}})",
        1 - gpu);
    const std::string take = fmt::format(
        R"({{"name":"sem_acquire","semaphore_ids":[0]}},{{"name":"wait","channel_ids":[0],"channel_type":"memory"}},
           {{"name":"copy","src_buff":[{{"type":"s","index":0,"size":1}}],"dst_buff":[{{"type":"i","index":{0},"size":1}}]}})",
        1 - gpu);
    const auto block = [](int id, const std::string& ops) {
      return fmt::format(R"({{"id":{},"ops":[{}],"channels":[{{"channel_type":"memory","channel_ids":[0,1]}}],
          "remote_buffer_refs":[{{"access_channel_type":"memory","remote_buffer_ids":[0]}}]}})",
                         id, ops);
    };
    const std::string sends = put + R"(,{"name":"sem_release","semaphore_ids":[0]})";
    const bool swapped = crossed && gpu == 1;
    gpus += (gpu == 0 ? "" : ",") + fmt::format(R"({{"id":{0},"input_chunks":2,"output_chunks":2,"scratch_chunks":1,
      "channels":[{{"channel_type":"memory","connected_to":[{1},{1}]}}],"remote_buffers":[{{"rank":{1},"type":"s"}}],
      "semaphores":[{{"init_value":0}}],"threadblocks":[{2},{3}]}})",
                                                gpu, 1 - gpu, block(0, swapped ? take : sends),
                                                block(1, swapped ? sends : take));
  }
  return plan(R"("collective":"alltoall","protocol":"Simple")", gpus);
}

TEST(Mscclpp, AnExchangeInPlaceIsProvedWhicheverThreadBlocksSignal) {
  for (const bool crossed : {false, true}) {
    const auto document = parse_mscclpp("p.json", exchange(crossed));
    ASSERT_TRUE(document) << document.error().message;
    const Proof proof = prove(*document);
    EXPECT_TRUE(proof.ok()) << crossed << ": " << locate(*document, "p.json", *proof.counterexample);
  }
}

// Thread block 1 reads what block 0 copied: only the barrier orders them.
std::string behind_barrier(bool barrier) {
  const std::string meet = barrier ? R"({"name":"barrier","barrier_id":0,"num_threadblocks":2})" : R"({"name":"nop"})";
  std::string gpus;
  for (const int gpu : {0, 1})
    gpus += (gpu == 0 ? "" : ",") + fmt::format(R"({{"id":{0},"input_chunks":1,"output_chunks":2,"scratch_chunks":1,
      "channels":[{{"channel_type":"memory","connected_to":[{1}]}}],"remote_buffers":[{{"rank":{1},"type":"o"}}],
      "threadblocks":[
       {{"id":0,"ops":[{{"name":"copy","src_buff":[{{"type":"o","index":{0},"size":1}}],"dst_buff":[{{"type":"s","index":0,"size":1}}]}},{2}],
        "channels":[],"remote_buffer_refs":[]}},
       {{"id":1,"ops":[{{"name":"signal","channel_ids":[0],"channel_type":"memory"}},{{"name":"wait","channel_ids":[0],"channel_type":"memory"}},{2},
         {{"name":"put","src_buff":[{{"type":"s","index":0,"size":1}}],"dst_buff":[{{"buffer_id":0,"index":{0},"size":1}}]}},
         {{"name":"signal","channel_ids":[0],"channel_type":"memory"}},{{"name":"wait","channel_ids":[0],"channel_type":"memory"}}],
        "channels":[{{"channel_type":"memory","channel_ids":[0]}}],
        "remote_buffer_refs":[{{"access_channel_type":"memory","remote_buffer_ids":[0]}}]}}]}})",
                                                gpu, 1 - gpu, meet);
  return plan(R"("collective":"allgather","protocol":"Simple")", gpus);
}

TEST(Mscclpp, ABarrierOrdersTheThreadBlocksOfAGpu) {
  const auto with = parse_mscclpp("p.json", behind_barrier(true));
  ASSERT_TRUE(with) << with.error().message;
  const Proof proof = prove(*with);
  EXPECT_TRUE(proof.ok()) << locate(*with, "p.json", *proof.counterexample);
  const auto without = parse_mscclpp("p.json", behind_barrier(false));
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_FALSE(prove(*without).ok());
}

TEST(Mscclpp, APutOfSeveralPairsMovesEachToItsOwnPlace) {
  std::string gpus;
  for (const int gpu : {0, 1, 2}) {
    const int a = gpu == 0 ? 1 : 0, b = gpu == 2 ? 1 : 2;
    gpus += (gpu == 0 ? "" : ",") + fmt::format(R"({{"id":{0},"input_chunks":3,"output_chunks":3,"scratch_chunks":0,
      "channels":[{{"channel_type":"memory","connected_to":[{1},{2}]}}],
      "remote_buffers":[{{"rank":{1},"type":"o"}},{{"rank":{2},"type":"o"}}],
      "threadblocks":[{{"id":0,"ops":[{{"name":"copy","src_buff":[{{"type":"i","index":{0},"size":1}}],"dst_buff":[{{"type":"o","index":{0},"size":1}}]}},
        {{"name":"signal","channel_ids":[0,1],"channel_type":"memory"}},{{"name":"wait","channel_ids":[0,1],"channel_type":"memory"}},
        {{"name":"put","src_buff":[{{"type":"i","index":{1},"size":1}},{{"type":"i","index":{2},"size":1}}],
          "dst_buff":[{{"buffer_id":0,"index":{0},"size":1}},{{"buffer_id":1,"index":{0},"size":1}}]}},
        {{"name":"signal","channel_ids":[0,1],"channel_type":"memory"}},{{"name":"wait","channel_ids":[0,1],"channel_type":"memory"}}],
        "channels":[{{"channel_type":"memory","channel_ids":[0,1]}}],
        "remote_buffer_refs":[{{"access_channel_type":"memory","remote_buffer_ids":[0,1]}}]}}]}})",
                                                gpu, a, b);
  }
  const auto document = parse_mscclpp(
      "p.json", R"({"name":"p","inplace":false,"collective":"alltoall","protocol":"Simple","gpus":[)" + gpus + "]}");
  ASSERT_TRUE(document) << document.error().message;
  const Proof proof = prove(*document);
  EXPECT_TRUE(proof.ok()) << locate(*document, "p.json", *proof.counterexample);
}

}  // namespace
}  // namespace weft::schedule
