#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// Transfers, caches and resharding.
namespace weft {
namespace {

using nlohmann::json;

// Small files for the commands about caches.
std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// The transfers that the page promises, with every byte looked at.
TEST(Command, MovesListsBetweenTwoProcessesWithoutAWrongByte) {
  for (const char* more : {"", "--op write", "--unregistered", "--transport tcp", "--verify", "--op write --verify"}) {
    const Answer a = weft(std::string("bench transfer --block 4K --blocks 100 --check --json - ") + more);
    ASSERT_EQ(a.code, 0) << more << a.err;
    const json row = json::parse(a.out)["rows"][0];
    EXPECT_EQ(row["errors"], 0) << more;
    EXPECT_EQ(row["bytes"], 409600) << more;
  }
  EXPECT_EQ(json::parse(weft("bench transfer --min 1K --max 4K --json -").out)["rows"].size(), 3U);
}

// 1 GiB over NVLink 4 at 450 GB/s takes at least 2.386 ms.
TEST(Command, SimulatesATransferOnAModelledMachine) {
  const auto time = [](const std::string& on) {
    const Answer a = weft("bench transfer --min 1G --max 1G --json - --on " + on);
    EXPECT_EQ(a.code, 0) << a.err;
    return json::parse(a.out)["rows"][0]["time_us"].get<double>();
  };
  EXPECT_GT(time("dgx-h100"), 2386);
  EXPECT_LT(time("dgx-h100"), 2386 * 1.5);
}

// Eight drives of 14 GB/s bound eight ranks: 8 * 64 MiB / 112 GB/s = 4.793 ms, and 70 us to the first byte.
TEST(Command, SaysWhatReloadingFromATierTakes) {
  const Answer a = weft("bench transfer --on dgx-h100 --ranks 8 --from nvme-gen5*8 --min 64M --max 64M --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json row = json::parse(a.out)["rows"][0];
  EXPECT_NEAR(row["time_us"].get<double>(), 4793.5 + 70, 5);
  EXPECT_EQ(row["bound"], "nvme-gen5*8");
}

// 2 * 80 layers * 8 heads * 128 * 2 bytes = 327,680 bytes per token.
TEST(Command, ChoosesBetweenFetchingAndComputing) {
  const std::string config = file_with("llama.json", R"({"hidden_size": 8192, "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "torch_dtype": "float16"})");
  const std::string ask = "kv fetch " + config + " --tp 8 --tokens 8192 --json - --on dgx-h100:nodes=2";
  EXPECT_NE(weft(ask + " --prefill 1024:5,512:9").err.find("--prefill 1024:5,512:9: these times"), std::string::npos);
  EXPECT_NE(weft(ask + " --prefill llama2-70b/H100-SXM5/tp8").err.find("does not name"), std::string::npos);
  const json far = json::parse(weft(ask + " --prefill llama2-70b/H100-SXM5/tp8").out)["rows"][0];
  EXPECT_EQ(far["bytes"], 8192 * 327680LL);
  EXPECT_LT(far["fetch_us"].get<double>() * 20, far["recompute_us"].get<double>());
  const json drive = json::parse(weft(ask + " --from nvme-gen4 --prefill llama2-70b/H100-SXM5/tp8").out)["rows"][0];
  EXPECT_EQ(drive["choice"], "both");
  EXPECT_LT(drive["both_us"], drive["fetch_us"]);
  EXPECT_LT(drive["both_us"], drive["recompute_us"]);
  EXPECT_EQ(drive["computed_tokens"].get<int>() % 16, 0);
}

TEST(Command, ReadsAFilePastThePageCache) {
  const std::string file = testing::TempDir() + "/weft-blocks-" + std::to_string(getpid());
  const Answer a = weft("bench transfer --block 4K --blocks 64 --json - --file " + file);
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(std::filesystem::file_size(file), 64 * 4096U);
  EXPECT_EQ(json::parse(a.out)["rows"][0]["blocks"], 64);
  EXPECT_EQ(weft("bench transfer --op write --block 4K --blocks 64 --file " + file).code, 2) << "it is not ours";
  std::filesystem::remove(file);
}

TEST(Command, PredictsATransferAndSaysWhyItsPathWasChosen) {
  const Answer a = weft("bench transfer --block 4K --blocks 100 --verbose");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("  predicted "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("  not tcp: it does not listen"), std::string::npos) << a.out;
}

// Two requests of the same three blocks: 3 of 6 with room for all; with room for two, the prefix of two.
TEST(Command, ReplaysATraceOfPrompts) {
  const std::string trace = file_with("trace.jsonl", "{\"hash_ids\":[1,2,3]}\n{\"hash_ids\":[1,2,3]}\n");
  const json all = json::parse(weft("kv replay " + trace + " --blocks 3 --json -").out);
  EXPECT_EQ(all["rows"].size(), 4U);
  for (const json& row : all["rows"]) EXPECT_EQ(row["hit_blocks"], 3) << row;
  EXPECT_EQ(json::parse(weft("kv replay " + trace + " --blocks 2 --policy lru --json -").out)["rows"][0]["hit_blocks"],
            2);
  const std::string broken = file_with("broken.jsonl", "{\"hash_ids\":[1]}\n{\"hash_ids\":\n");
  const Answer cut = weft("kv replay " + trace + " --blocks 2 --block-tokens 32");
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.err.find("--block-tokens 32"), std::string::npos) << cut.err;
  const Answer refused = weft("kv replay " + broken + " --blocks 2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("broken.jsonl:2: no JSON object"), std::string::npos) << refused.err;
}

// 2 * 36 layers * 8 heads * 128 * 2 bytes = 147,456 bytes per token; 5.12 million tokens: 755 GB.
TEST(Command, SizesACacheFromAModelsConfig) {
  const std::string config = file_with("config.json",
                                       R"({"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
                                           "head_dim": 128, "torch_dtype": "bfloat16"})");
  const json size = json::parse(weft("kv size " + config + " --tokens 5120000 --json -").out);
  EXPECT_EQ(size["token_bytes"], 147456);
  EXPECT_EQ(size["total_bytes"], 754974720000);
  EXPECT_EQ(weft("kv size " + config + " --tp 3").code, 2);
  const std::string odd = file_with("heads48.json", R"({"hidden_size": 6144, "num_hidden_layers": 2,
      "num_attention_heads": 48, "num_key_value_heads": 8, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(weft("kv size " + odd + " --tp 16").code, 0);
  EXPECT_NE(weft("kv size " + odd + " --tp 64").err.find("--tp 64: 48 attention heads of layer 0"), std::string::npos);
  EXPECT_EQ(weft("kv size /nonexistent.json").code, 2);
}

TEST(Reshard, IsCarriedOutHereAndSimulatedAndBadLayoutsAreOneLine) {
  const std::string corpus = std::string(WEFT_SOURCE) + "/tests/fuzz/corpus/layout/";
  const std::string files = "reshard --from " + corpus + "trainer.json --to " + corpus + "inference.json ";
  // q and k of 2 B are wanted once: 2 * 1280 * 1024 B; norm by 4 ranks: 4 * 2048 B; down once: 2 * 1024 * 2048 B.
  constexpr std::int64_t kBytes = 2 * 1280 * 1024 + 4 * 2048 + 2 * 1024 * 2048;
  const Answer here = weft(files + "--check --json -");
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(json::parse(here.out)["bytes"], kBytes);
  EXPECT_EQ(json::parse(here.out)["here"]["wrong_bytes"], 0);
  const Answer there = weft(files + "--on dgx-h100:nodes=2,gpus=4 --json -");
  ASSERT_EQ(there.code, 0) << there.err;
  std::int64_t out = 0;
  const json simulated = json::parse(there.out)["simulated"];
  for (const auto& nic : simulated["nics"]) out += nic["out_bytes"].get<std::int64_t>();
  EXPECT_EQ(out, kBytes);  // from one node to the other
  EXPECT_GT(simulated["time_us"].get<double>(), 0);
  const Answer small = weft(files + "--on dgx-h100:nodes=1,gpus=4");
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("8 ranks, the machine has 4"), std::string::npos) << small.err;
  EXPECT_NE(weft("reshard --from " + corpus + "trainer.json --to vllm:tp=0").err.find("--to vllm:tp=0: tp 0"),
            std::string::npos);
  const Answer names = weft("reshard --from " + corpus + "trainer.json --to vllm:tp=2");
  EXPECT_EQ(names.code, 2);
  EXPECT_NE(names.err.find("vllm:tp=2: how vllm names and splits tensors is not known of q, k"), std::string::npos)
      << names.err;
  EXPECT_EQ(std::count(names.err.begin(), names.err.end(), '\n'), 1);
  EXPECT_EQ(weft(files + "--on dgx-h100 --check").code, 2);
}

// q, k, norm and down in float32 for 2 ranks, from 4 that have them in bfloat16.
TEST(Reshard, ConvertsAndReadsOnlyWhatHasChangedWhereItIsAskedTo) {
  const std::string corpus = std::string(WEFT_SOURCE) + "/tests/fuzz/corpus/layout/";
  const std::string from = corpus + "trainer.json", to = corpus + "float32.json";
  const std::string files = "reshard --from " + from + " --to " + to;
  const Answer other = weft(files);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("tensor q: has elements of float32"), std::string::npos) << other.err;
  const Answer a = weft(files + " --convert --changed 2% --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out), here = report["here"];
  EXPECT_EQ(report["bytes"], 4 * 1024 * 1024 + 2 * 256 * 1024);
  EXPECT_EQ(report["converted_tensors"], 1);
  EXPECT_EQ(here["wrong_bytes"], 0);
  EXPECT_EQ(here["changed"]["wrong_bytes"], 0);
  EXPECT_LT(here["changed"]["bytes"], report["bytes"].get<std::int64_t>() / 4);
  const Answer there = weft(files + " --convert --changed 2% --on dgx-h100 --json -");
  ASSERT_EQ(there.code, 0) << there.err;
  const json simulated = json::parse(there.out)["simulated"];
  EXPECT_LT(simulated["changed"]["time_us"], simulated["time_us"].get<double>());
  for (const std::string bad : {"--changed 0%", "--changed 101%", "--changed 0.01", "--changed x"}) {
    const Answer b = weft(files + " --convert " + bad);
    EXPECT_EQ(b.code, 2) << bad;
    EXPECT_EQ(std::count(b.err.begin(), b.err.end(), '\n'), 1) << b.err;
  }
  EXPECT_EQ(weft("reshard --convert --from " + from + " --to " + from).code, 2);  // nothing to convert
}

}  // namespace
}  // namespace weft
