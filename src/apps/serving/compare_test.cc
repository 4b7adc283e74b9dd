#include "apps/serving/compare.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace weft::serving
