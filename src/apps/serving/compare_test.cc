#include "apps/serving/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weft::serving {
namespace {

// A row of one pool on two GPUs, with the clients and the sequences per GPU that a table gives.
ComparedRow row(const std::string& clients, const std::string& batch) {
  const std::string text =
      "id,model_path,system,backend,isl,osl,concurrency,batch_size,tp_size,silicon_ttft_ms,silicon_tpot_ms\n"
      "a,llama-3.1-8b,h200_sxm,vllm,512,64," +
      clients + "," + batch + ",2,10,5\n";
  auto found = compare_serving("rows.csv", text, {});
  EXPECT_TRUE(found) << found.error().message;
  return found->rows.at(0);
}

TEST(Compare, ClientsOfSeveralEnginesAreSharedWhereTheRowSaysSequencesPerGpu) {
  // 64 clients, 4 sequences per GPU: 16 GPUs, so 8 engines of two GPUs with 8 clients each.
  const ComparedRow several = row("64", "4"), one = row("8", "8");
  ASSERT_TRUE(several.answered() && one.answered()) << several.reason << one.reason;
  EXPECT_EQ(several.point.gpus, 16);
  EXPECT_DOUBLE_EQ(several.said_tpot, one.said_tpot);
  EXPECT_DOUBLE_EQ(several.said_ttft, one.said_ttft);
  // The engine's own sequences, or those per GPU of one engine, are of one engine.
  EXPECT_EQ(one.point.gpus, 2);
  EXPECT_EQ(row("8", "4").point.gpus, 2);
  EXPECT_EQ(row("8", "").point.gpus, 2);
}

// DeepSeek-R1 comes with a layer that predicts a second token; a row says with `drafts` whether it was used.
TEST(Compare, WhatARowLeavesOpenIsNamedAndAGroupOfItsOwn) {
  const std::string text =
      "id,model_path,system,backend,mode,isl,osl,concurrency,tp_size,moe_ep_size,decode_tp_size,decode_moe_ep_size,"
      "prefill_tp_size,prefill_moe_ep_size,drafts,accept,silicon_tpot_ms\n"
      "a,deepseek-r1,h200_sxm,sglang,agg,512,64,4,8,8,,,,,,,12\n"
      "b,deepseek-r1,h200_sxm,sglang,agg,512,64,4,8,8,,,,,2,0.8,6\n"
      "c,llama-3.1-8b,h200_sxm,vllm,agg,512,64,4,1,,,,,,,,6\n"
      "d,llama-3.1-8b,h200_sxm,vllm,disagg,512,64,4,,,1,,1,,,,6\n"
      "e,llama-3.1-8b,h200_sxm,vllm,agg,512,64,4,1,,,,,,2,1.5,6\n";
  const auto found = compare_serving("rows.csv", text, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->rows[0].open, "drafts");
  EXPECT_EQ(found->rows[1].open, "");
  EXPECT_LT(found->rows[1].said_tpot, 0.7 * found->rows[0].said_tpot);  // 2.4 tokens a step
  EXPECT_EQ(found->rows[2].open, "");
  EXPECT_EQ(found->rows[3].open, "engines");
  EXPECT_EQ(found->rows[4].reason, "accept '1.5' is no probability");
  std::vector<std::string> groups;
  for (const ErrorOf& e : found->errors()) groups.push_back(e.name);
  for (const char* name : {"nothing left open", "not said: drafts", "not said: engines"})
    EXPECT_NE(std::ranges::find(groups, name), groups.end()) << name;
}

}  // namespace
}  // namespace weft::serving
