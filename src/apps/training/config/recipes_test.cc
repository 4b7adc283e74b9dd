#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/training/config/config.h"

namespace weft::training {
namespace {

Config read(std::string_view file, std::string_view text, const ConfigHints& hints = {}) {
  auto config = parse_config(file, text, hints);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}
std::string error_of(std::string_view file, std::string_view text, const ConfigHints& hints = {}) {
  const auto config = parse_config(file, text, hints);
  return config ? "" : config.error().message;
}

// A recipe of NeMo 2 names its model by a class of another file; NAME says which, a longer sequence aside.
TEST(Recipes, NemosRecipeIsNamedByItsConstant) {
  const std::string text = R"(import nemo_run as run
NAME = "mixtral_8x7b_64k"

def model() -> run.Config:
    return run.Config(MixtralModel, config=run.Config(MixtralConfig8x7B, seq_length=65536))

def pretrain_recipe(
    dir: Optional[str] = None,
    tensor_parallelism: int = 4,
    context_parallelism: int = 8,
    global_batch_size=256,
    micro_batch_size=1,
    seq_length=65536,
    fn=pretrain,
) -> run.Partial:
    return run.Partial(
        fn,
        model=model(),
        trainer=trainer(tensor_parallelism=tensor_parallelism, num_nodes=8),
        data=run.Config(MockDataModule, seq_length=seq_length),
    )
)";
  const Config c = read("recipe.py", text, {.function = "pretrain_recipe"});
  EXPECT_EQ(c.model_name, "mixtral-8x7b");
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("cp"), 8);
  EXPECT_EQ(c.numbers.at("seq"), 65536);
  EXPECT_FALSE(std::ranges::any_of(c.unread, [](const std::string& path) { return path.starts_with("fn."); }))
      << fmt::format("{}", fmt::join(c.unread, " "));
}

TEST(Recipes, TheFilesNameIsTheLastResortAndAFunctionsIsNone) {
  const std::string text = "def recipe(tensor_model_parallel_size=2, seq_length=4096):\n    return 1\n";
  EXPECT_EQ(read("conf/starcoder2_15b.py", text, {.function = "recipe"}).model_name, "starcoder2-15b");
  EXPECT_EQ(read("conf/mine.py", text, {.function = "recipe"}).model_name, "");
}

TEST(Recipes, ModelsOfOtherArchitecturesAreRefusedByName) {
  const std::string yaml =
      "name: megatron_griffin\nmodel:\n  micro_batch_size: 2\n  num_layers: 26\n  hidden_size: 256\n"
      "  num_attention_heads: 4\n  vocab_size: 1000\n";
  EXPECT_NE(error_of("c.yaml", yaml).find("megatron_griffin is no decoder"), std::string::npos)
      << error_of("c.yaml", yaml);
  EXPECT_NE(error_of("hyena_7b.py", "def pretrain_recipe(tensor_model_parallel_size=2):\n    return 1\n",
                     {.function = "pretrain_recipe"})
                .find("hyena_7b"),
            std::string::npos);
  EXPECT_NE(
      error_of("run.sh", "pretrain --encoder-num-layers 12 --hidden-size 256 --micro-batch-size 1 --num-layers 2\n")
          .find("encoder_num_layers"),
      std::string::npos);
  EXPECT_EQ(error_of("c.yaml", yaml.substr(yaml.find("model"))), "");
}

TEST(Recipes, ListedModulesToComputeAgainAreSelectiveRecomputing) {
  const Config c = read("r.py",
                        "def llama3_8b_pretrain():\n    cfg.model.recompute_modules = [\"core_attn\", 'mlp']\n"
                        "    cfg.model.seq_length = 8192\n",
                        {.function = "llama3_8b_pretrain"});
  EXPECT_EQ(c.recompute, "selective");
}

// The script's own arguments decide what it runs: "run.sh 70B 8 16" as a shell would start it.
TEST(Recipes, AScriptsArgumentsAreItsPositionalParameters) {
  const std::string script = R"(#!/bin/bash
SIZE=$1
TP=${2}
SEQ=${10:-4096}
ZERO=$3
if [ "$ZERO" == "" ]; then
  ZERO=2
fi
if [ $SIZE = small ]; then
  SIZES="--num-layers 4 --hidden-size 256 --num-attention-heads 4"
elif [ $SIZE = large ]; then
  SIZES="--num-layers 8 --hidden-size 512 --num-attention-heads 8"
fi
torchrun pretrain_gpt.py $SIZES --tensor-model-parallel-size $TP --seq-length $SEQ --micro-batch-size 1 \
  --zero-stage $ZERO --vocab-size 1000
)";
  const Config small = read("run.sh", script, {.arguments = {"small", "2"}});
  ASSERT_TRUE(small.model);
  EXPECT_EQ(small.model->layers, 4);
  EXPECT_EQ(small.numbers.at("tp"), 2);
  EXPECT_EQ(small.numbers.at("seq"), 4096);
  EXPECT_EQ(small.numbers.at("zero"), 2);
  const Config large = read("run.sh", script, {.arguments = {"large", "4", "3", "", "", "", "", "", "", "1024"}});
  ASSERT_TRUE(large.model);
  EXPECT_EQ(large.model->layers, 8);
  EXPECT_EQ(large.numbers.at("seq"), 1024);
  EXPECT_EQ(large.numbers.at("zero"), 3);
}

// A file of arguments whose launcher stands elsewhere.
TEST(Recipes, DegreesOfVariablesCountWhereNoCommandUsesThem) {
  const Config c = read("model.sh",
                        "TP=${TP:-4}\nPP_SIZE=2\nOPTIONS=\" --num-layers 8 --hidden-size 512 --num-attention-heads 8 "
                        "--vocab-size 1000 --seq-length 1024 --micro-batch-size 1\"\n");
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("pp"), 2);
  EXPECT_TRUE(std::ranges::any_of(c.assumed, [](const std::string& s) { return s.find("TP=4") != std::string::npos; }));
}

TEST(Recipes, ATrainingScriptOfSomeonesOwnIsReadByItsModelAndBatch) {
  const Config c = read("go.sh",
                        "#!/bin/bash\nfor SIZE in 2 4; do\n  bash ./run.sh --model meta-llama/Llama-2-13b-hf "
                        "--batch-size $SIZE --seq-length 2048 --zero-stage 3 --activation-checkpointing\ndone\n");
  EXPECT_EQ(c.model_name, "llama2-13b");
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.numbers.at("seq"), 2048);
  EXPECT_EQ(c.numbers.at("zero"), 3);
  EXPECT_EQ(c.recompute, "full");
}

TEST(Recipes, ATokenizerOfADistilledModelIsItsStudents) {
  const auto vocabulary = [](const std::string& tokenizer) {
    const Config c = read("m.sh",
                          "pretrain --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 512 "
                          "--micro-batch-size 1 --tokenizer-type HuggingFaceTokenizer --tokenizer-model " +
                              tokenizer + "\n");
    return c.model ? c.model->vocab : 0;
  };
  EXPECT_EQ(vocabulary("me/DeepSeek-R1-Distill-Qwen-14B"), 152064);
  EXPECT_EQ(vocabulary("me/DeepSeek-R1-Distill-Llama-70B"), 128256);
  EXPECT_EQ(vocabulary("deepseek-ai/DeepSeek-R1"), 129280);
}

TEST(Recipes, AFileWithoutWhichTheScriptEndsIsTakenToBeThere) {
  const Config c = read("go.sh",
                        "#!/bin/bash\nif [ -f ds.json ]; then\n  CMD=\"train.py --model_name_or_path Qwen/Qwen3-4B "
                        "--per_device_train_batch_size 3\"\nelse\n  echo missing\n  exit 1\nfi\neval $CMD\n");
  EXPECT_EQ(c.numbers.at("micro-batch"), 3);
}

TEST(Recipes, FieldsOfALineAreReadIntoVariablesAndUnknownOnesAreNamed) {
  const Config c = read("go.sh",
                        "#!/bin/bash\nfor ROW in '2:4:8' '4:4:8'; do\n  IFS=':' read -r TP PP MORE <<< \"$ROW\"\n"
                        "  torchrun t.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --vocab-size 1000 "
                        "--seq-length 512 --micro-batch-size 1 --tensor-model-parallel-size $TP "
                        "--pipeline-model-parallel-size $PP --context-parallel-size $CP\ndone\n");
  EXPECT_EQ(c.numbers.at("tp"), 2);
  EXPECT_EQ(c.numbers.at("pp"), 4);
  EXPECT_FALSE(c.numbers.contains("cp"));
  EXPECT_TRUE(std::ranges::any_of(c.assumed, [](const std::string& s) {
    return s.find("context_parallel_size: $CP is known to the running script only") != std::string::npos;
  })) << fmt::format("{}", fmt::join(c.assumed, "; "));
}

TEST(Recipes, MegatronBridgesOverridesNameTheirRecipe) {
  const std::string script =
      "#!/bin/bash\nuv run python run_recipe.py --recipe qwen3_8b_$1_config --mode $2 train.global_batch_size=32 "
      "train.micro_batch_size=2 model.tensor_model_parallel_size=4 model.seq_length=2048\n";
  const Config lora = read("run.sh", script, {.arguments = {"peft", "lora"}});
  EXPECT_EQ(lora.format, "Megatron-Bridge overrides");
  EXPECT_EQ(lora.model_name, "qwen3-8b");
  EXPECT_EQ(lora.numbers.at("lora"), 32);
  EXPECT_EQ(lora.numbers.at("tp"), 4);
  EXPECT_EQ(lora.numbers.at("global-batch"), 32);
  const Config full = read("run.sh", script, {.arguments = {"sft", "sft"}});
  EXPECT_EQ(full.tuning, "");
  EXPECT_FALSE(full.numbers.contains("lora"));
}

TEST(Recipes, AKindOfFp8CountsOnlyWhereItIsOn) {
  const std::string yaml =
      "model:\n  micro_batch_size: 1\n  seq_length: 512\n  bf16: true\n  fp8_hybrid: true\n  fp8: ";
  EXPECT_EQ(read("m.yaml", yaml + "false\n").precision, "bf16");
  EXPECT_EQ(read("m.yaml", yaml + "true\n").precision, "fp8");
}

TEST(Recipes, VeOmnisLlamaFactorysAndXTunersNamesAreRead) {
  const Config omni = read("v.yaml",
                           "model:\n  model_path: Qwen3-30B-A3B\ndata:\n  max_seq_len: 8192\ntrain:\n"
                           "  accelerator:\n    ulysses_size: 2\n    ep_size: 4\n  global_batch_size: 64\n"
                           "  micro_batch_size: 2\n  gradient_checkpointing:\n    enable: true\n");
  EXPECT_EQ(omni.format, "VeOmni");
  EXPECT_EQ(omni.model_name, "qwen3-30b-a3b");
  EXPECT_EQ(omni.numbers.at("cp"), 2);
  EXPECT_EQ(omni.numbers.at("ep"), 4);
  EXPECT_EQ(omni.numbers.at("seq"), 8192);
  EXPECT_EQ(omni.numbers.at("zero"), 3);
  EXPECT_EQ(omni.recompute, "full");
  const Config factory = read("f.yaml",
                              "model: Qwen/Qwen3-4B\ntrain_dataset: d.yaml\ncutoff_len: 1024\nmicro_batch_size: 2\n"
                              "dist_config:\n  name: fsdp2\n");
  EXPECT_EQ(factory.format, "LLaMA-Factory v1");
  EXPECT_EQ(factory.model_name, "qwen3-4b");
  EXPECT_EQ(factory.numbers.at("zero"), 3);
  EXPECT_EQ(factory.tuning, "");
  const Config xtuner = read("x.py",
                             "from xtuner.model import SupervisedFinetune\n"
                             "pretrained_model_name_or_path = \"meta-llama/Llama-2-7b-hf\"\nmax_length = 1024\n"
                             "batch_size = 2\naccumulative_counts = 8\nmodel = dict(\n    type=SupervisedFinetune,\n"
                             "    lora=dict(type=LoraConfig, r=32))\n");
  EXPECT_EQ(xtuner.format, "XTuner");
  EXPECT_EQ(xtuner.model_name, "llama2-7b");
  EXPECT_EQ(xtuner.numbers.at("micro-batch"), 2);
  EXPECT_EQ(xtuner.accumulate, 8);
  EXPECT_EQ(xtuner.numbers.at("lora"), 32);
}

}  // namespace
}  // namespace weft::training
