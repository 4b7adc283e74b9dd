#include "apps/training/config/config.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/models/model.h"

namespace weft::training {
namespace {

TEST(Config, AScriptsEnvironmentSaysHowPytorchAllocatesAndLaunches) {
  const std::string program =
      "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 \\\n"
      "  --seq-length 128 --micro-batch-size 1 --global-batch-size 8 --vocab-size 100\n";
  const auto set = parse_config("run.sh",
                                "export CUDA_LAUNCH_BLOCKING=1\n"
                                "PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True,max_split_size_mb:64' " +
                                    program);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->allocator, "expandable");
  EXPECT_EQ(set->launch, "blocking");
  EXPECT_TRUE(set->unread.empty()) << fmt::format("{}", fmt::join(set->unread, " "));
  const auto off = parse_config("run.sh", "export CUDA_LAUNCH_BLOCKING=0\n" + program);
  ASSERT_TRUE(off) << off.error().message;
  EXPECT_EQ(off->allocator, "");
  EXPECT_EQ(off->launch, "");
}

TEST(Config, MegatronsArgumentsWithVariablesOfTheirScript) {
  const auto c = parse_config("run.sh", R"(#!/bin/bash
TP=8
export PP=4
ARGS=(
    --num-layers 80 --hidden-size 8192   # a remark
    --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
    --ffn-hidden-size 28672 --swiglu --untie-embeddings-and-output-weights
    --vocab-size 128256 --seq-length 8192 --micro-batch-size 1 --global-batch-size 512
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP}
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer
    --recompute-activations --bf16 --mtp-num-layers 1
))");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "Megatron-LM arguments");
  const Model published = *load_model("llama3-70b");
  ASSERT_TRUE(c->model);
  EXPECT_EQ(c->model->parameters(), published.parameters());
  EXPECT_EQ(c->numbers.at("tp"), 8);
  EXPECT_EQ(c->numbers.at("pp"), 4);
  EXPECT_EQ(c->numbers.at("vp"), 4);  // 80 layers on 4 stages, 5 in a chunk
  EXPECT_EQ(c->numbers.at("zero"), 1);
  EXPECT_EQ(c->numbers.at("seq"), 8192);
  EXPECT_EQ(c->recompute, "selective");
  EXPECT_EQ(c->precision, "bf16");
  EXPECT_EQ(c->numbers.at("mtp"), 1);
  EXPECT_TRUE(c->not_modelled.empty());
}

TEST(Config, NemosYamlCountsVirtualStages) {
  const auto c = parse_config("gpt.yaml",
                              "trainer:\n  precision: bf16\nmodel:\n  micro_batch_size: 2\n  global_batch_size: 256\n"
                              "  tensor_model_parallel_size: 4 # within a node\n  pipeline_model_parallel_size: 2\n"
                              "  virtual_pipeline_model_parallel_size: 3\n  encoder_seq_length: 4096\n"
                              "  num_layers: null\n");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "NeMo");
  EXPECT_FALSE(c->model);
  EXPECT_EQ(c->numbers.at("vp"), 3);
  EXPECT_EQ(c->numbers.at("micro-batch"), 2);
  EXPECT_EQ(c->numbers.at("seq"), 4096);
}

TEST(Config, AnActivationIsGatedIfItsNameSaysSo) {
  const auto parameters = [](const char* activation) {
    const auto c = parse_config("m.yaml", std::string("micro_batch_size: 1\nnum_layers: 2\nhidden_size: 64\n"
                                                      "num_attention_heads: 4\nffn_hidden_size: 256\nvocab_size: 100\n"
                                                      "activation: ") +
                                              activation + "\n");
    EXPECT_TRUE(c && c->model) << activation;
    return c && c->model ? c->model->parameters() : 0;
  };
  EXPECT_EQ(parameters("swiglu"), parameters("fast-swiglu"));
  EXPECT_EQ(parameters("swiglu") - parameters("gelu"), 2 * 64 * 256);  // a third matrix in each of two layers
}

TEST(Config, TorchtitansTomlNamesItsModelAndShards) {
  const auto c = parse_config("llama3_8b.toml",
                              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n"
                              "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n"
                              "tensor_parallel_degree = 2\n[activation_checkpoint]\nmode = \"selective\"\n");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->model_name, "llama3-8b");
  EXPECT_EQ(c->numbers.at("zero"), 3);
  EXPECT_EQ(c->numbers.at("tp"), 2);
  EXPECT_EQ(c->recompute, "selective");
  EXPECT_EQ(c->numbers.at("eager"), 1);
  EXPECT_EQ(
      parse_config("compiled.toml", "[compile]\nenable = true\n[training]\nseq_len = 8192\n")->numbers.at("eager"), 0);
}

TEST(Config, DeepspeedsJsonIsAPlanWithoutAModel) {
  const auto c = parse_config("ds.json", R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto",
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->format, "DeepSpeed");
  EXPECT_FALSE(c->model);
  EXPECT_EQ(c->numbers.at("zero"), 3);
  EXPECT_EQ(c->numbers.at("global-batch"), 512);
  EXPECT_FALSE(c->numbers.contains("micro-batch"));
  EXPECT_EQ(c->not_modelled, std::vector<std::string>{"zero_optimization.offload_param.device"});
}

TEST(Config, WhatCannotBeUnderstoodIsNamedWithItsFile) {
  const auto message = [](std::string_view text) {
    const auto c = parse_config("x", text);
    return c ? std::string() : c.error().message;
  };
  EXPECT_EQ(
      message("hello"),
      "x: neither arguments of Megatron-LM or of Hugging Face's Trainer nor a file of NeMo, Automodel, torchtitan, "
      "LLaMA-Factory, axolotl, accelerate, DeepSpeed, nanotron, OLMo, GPT-NeoX, torchtune, LitGPT, LLM Foundry, "
      "lingua, "
      "MaxText, Primus, verl, NeMo-RL, OpenRLHF, slime, ROLL, SkyRL, AReaL, VeOmni or XTuner");
  EXPECT_EQ(message("{}"), "x: JSON without train_batch_size or zero_optimization is no file of DeepSpeed");
  EXPECT_EQ(message("--tensor-model-parallel-size four"), "x: tensor_model_parallel_size: four is no count");
  EXPECT_EQ(message("--num-layers 4 --hidden-size 64 --num-attention-heads 4"),
            "x: vocab_size is missing and no tokenizer of a known vocabulary is named; give --vocab");
  EXPECT_EQ(message("--num-layers 10 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
                    "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2"),
            "x: num_layers_per_virtual_pipeline_stage: 2 layers on 4 stages do not divide 10 layers");
}

Config parsed(std::string_view file, std::string_view text, const ConfigHints& hints = {}) {
  auto config = parse_config(file, text, hints);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}

// The first argument after a quote counts, as it does in a shell.
TEST(Config, ArgumentsInAQuotedVariableAreAllRead) {
  const Config c =
      parsed("run.sh", R"(OPTS="--pipeline-model-parallel-size 4 --num-layers 8 --hidden-size 64 --num-attention-heads 4
     --vocab-size 1000"
srun bash -c "torchrun pretrain_gpt.py $OPTS --global-batch-size 64")");
  EXPECT_EQ(c.numbers.at("pp"), 4);
  EXPECT_EQ(c.numbers.at("global-batch"), 64);
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->layers, 8);
}

TEST(Config, ShellsDefaultsArithmeticBranchesAndFunctionsAreFollowed) {
  const Config c = parsed("run.sh", R"(#!/bin/bash
set -euo pipefail
SIZE=${1:-"13B"}   # positional, with its default
NODES=${NNODES:-4}
cat > conf.json <<EOF
{"--tensor-model-parallel-size": 99}
EOF
layers_of() { LAYERS=$1; }
case $SIZE in
  7B|8B) layers_of 32 ;;
  13*) layers_of 40; HIDDEN=5120 ;;
  *) exit 1 ;;
esac
if [[ $SIZE == 7B && -n "$HIDDEN" ]]; then TP=1; elif [ "$NODES" -ge 4 ]; then TP=$((NODES * 2)); else TP=4; fi
ARGS=(--num-layers $LAYERS --hidden-size ${HIDDEN} --num-attention-heads 40
      --vocab-size 32000)   # a remark --pipeline-model-parallel-size 7
ARGS+=("--tensor-model-parallel-size $TP")
[ -n "$WANDB_KEY" ] && ARGS+=(--context-parallel-size 2)
torchrun --nnodes $NODES pretrain_gpt.py ${ARGS[@]} --micro-batch-size=2 \
  --save "$OUT/with spaces" 2>&1 | tee log.txt)");
  EXPECT_EQ(c.numbers.at("tp"), 8);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_FALSE(c.numbers.contains("pp"));
  EXPECT_FALSE(c.numbers.contains("cp"));
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->layers, 40);
  EXPECT_EQ(c.model->hidden, 5120);
}

TEST(Config, WhatOnlyTheRunningScriptKnowsIsLeftToTheCommandLine) {
  const Config c = parsed("run.sh",
                          "python pretrain.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 "
                          "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 100\n");
  EXPECT_FALSE(c.numbers.contains("tp"));
  EXPECT_EQ(c.numbers.at("pp"), 2);
}

// 50,257 rounded up to a multiple of 128 * 2.
TEST(Config, ATokenizersVocabularyIsPaddedAsMegatronDoes) {
  const std::string start = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --tensor-model-parallel-size 2 ";
  EXPECT_EQ(parsed("a", start + "--tokenizer-type GPT2BPETokenizer").model->vocab, 50432);
  EXPECT_EQ(parsed("a", start + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen3-8B").model->vocab,
            152064);
  EXPECT_EQ(parsed("a", start, {.vocab = 777}).model->vocab, 777);
}

TEST(Config, KeysThatMatterAndKeysThatAreUnknownAreNamedApart) {
  const Config c = parsed("a",
                          "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 9 --lr 1e-4 "
                          "--expert-tensor-parallel-size 2 --window-size 64 --frobnicate-layers 3 --log-interval 5");
  EXPECT_EQ(c.numbers.at("etp"), 2);
  EXPECT_EQ(c.not_modelled, std::vector<std::string>{"window_size"});
  EXPECT_EQ(c.unread, std::vector<std::string>{"frobnicate_layers"});
}

TEST(Config, OmegaConfsInterpolationIsResolved) {
  const Config c = parsed("gpt.yaml", R"(
defaults_tp: &tp 2
trainer: {num_nodes: "${oc.env:NODES,4}", precision: bf16}
model:
  micro_batch_size: 1
  tensor_model_parallel_size: *tp
  pipeline_model_parallel_size: ${trainer.num_nodes}
  global_batch_size: ${multiply:${model.micro_batch_size},64}
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 8
  hidden_size: 64
  num_attention_heads: 4
  kv_channels: null
  tokenizer:
    library: sentencepiece
    model: ???
)");
  EXPECT_EQ(c.format, "NeMo");
  EXPECT_EQ(c.numbers.at("tp"), 2);
  EXPECT_EQ(c.numbers.at("pp"), 4);
  EXPECT_EQ(c.numbers.at("global-batch"), 64);
  EXPECT_EQ(c.numbers.at("seq"), 2048);
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->seq, 2048);
  EXPECT_EQ(c.model->vocab, 32000);
}

TEST(Config, FilesUnderDefaultsAreComposedInTheirOrder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("defaults" + std::to_string(getpid()));
  fs::create_directories(folder / "model");
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("base.yaml", "trainer: {num_nodes: 2, precision: bf16}\nmodel: {micro_batch_size: 4, global_batch_size: 64}\n");
  write("model/small.yaml",
        "tensor_model_parallel_size: 2\nnum_layers: 8\nhidden_size: 64\nnum_attention_heads: 4\n"
        "encoder_seq_length: 2048\nvocab_size: 32000\n");
  const Config c = parsed(
      (folder / "run.yaml").string(),
      "defaults:\n  - base\n  - model: small\n  - optional tp_overlap@model.ub_cfg:\n  - optim@model.optim: adam\n"
      "model:\n  micro_batch_size: 1\n  pipeline_model_parallel_size: ${trainer.num_nodes}\n");
  fs::remove_all(folder);
  EXPECT_EQ(c.format, "NeMo");
  EXPECT_EQ(c.numbers.at("tp"), 2);
  EXPECT_EQ(c.numbers.at("pp"), 2);
  EXPECT_EQ(c.numbers.at("micro-batch"), 1);  // the file's own values come last
  EXPECT_EQ(c.numbers.at("global-batch"), 64);
  ASSERT_TRUE(c.model);
  ASSERT_FALSE(c.assumed.empty());
  EXPECT_NE(c.assumed[0].find("adam.yaml is named under defaults and is not here"), std::string::npos);
}

TEST(Config, FineTuningFilesNameTheirModelAndWhatIsTrained) {
  const Config factory = parsed("sft.yaml", R"(
model_name_or_path: Qwen/Qwen3-8B
finetuning_type: lora
lora_rank: 16
cutoff_len: 2048
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
deepspeed: configs/ds_z3_config.json
bf16: true
)");
  EXPECT_EQ(factory.format, "LLaMA-Factory");
  EXPECT_EQ(factory.model_name, "qwen3-8b");
  EXPECT_EQ(factory.numbers.at("zero"), 3);
  EXPECT_EQ(factory.numbers.at("micro-batch"), 2);
  EXPECT_EQ(factory.accumulate, 8);
  EXPECT_TRUE(factory.numbers.contains("lora"));
  EXPECT_TRUE(factory.not_modelled.empty());
  const Config axolotl = parsed("a.yml",
                                "base_model: NousResearch/Meta-Llama-3-8B\nsequence_len: 4096\nmicro_batch_size: 1\n"
                                "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n");
  EXPECT_EQ(axolotl.format, "axolotl");
  EXPECT_EQ(axolotl.model_name, "llama3-8b");
  EXPECT_EQ(axolotl.numbers.at("zero"), 3);
  const Config automodel = parsed("m.yaml", R"(
step_scheduler: {global_batch_size: 256, local_batch_size: 4}
distributed: {_target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager, tp_size: 2, ep_size: 8}
model:
  _target_: x.from_config
  config: {pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B}
dataset: {seq_len: 4096}
)");
  EXPECT_EQ(automodel.format, "Automodel");
  EXPECT_EQ(automodel.model_name, "qwen3-30b-a3b");
  EXPECT_EQ(automodel.numbers.at("ep"), 8);
  EXPECT_EQ(automodel.numbers.at("micro-batch"), 4);
  EXPECT_EQ(automodel.numbers.at("seq"), 4096);
}

constexpr std::string_view kRegistry = R"(from torchtitan.trainer import Trainer
def base() -> Trainer.Config:
    """seq_len=1"""
    return Trainer.Config(
        hf_assets_path="./assets/hf/Llama-3.1-70B",  # seq_len=2
        training=TrainingConfig(local_batch_size=2, seq_len=4 * 2048),
        activation_checkpoint=FullAC.Config(),
    )

def wide():
    config = base()
    config.parallelism = ParallelismConfig(
        tensor_parallel_degree=8)
    return config
)";

TEST(Config, APythonFilesFunctionIsReadAsSyntax) {
  const Config c = parsed("r.py", kRegistry, {.function = "wide"});
  EXPECT_EQ(c.format, "torchtitan");
  EXPECT_EQ(c.model_name, "llama-3.1-70b");
  EXPECT_EQ(c.numbers.at("tp"), 8);
  EXPECT_EQ(c.numbers.at("seq"), 8192);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_EQ(parse_config("r.py", kRegistry, {.function = "narrow"}).error().message,
            "r.py: no function narrow; there are base, wide");
  EXPECT_EQ(parse_config("r.py", kRegistry).error().message.substr(0, 44),
            "r.py: 2 configurations; name one, e.g. r.py:");
}

// Masters of 2 bytes and two moments of 2 bytes each.
TEST(Config, TypesOfTheOptimizersStateAreRead) {
  const Config deepspeed = parsed("ds.json", R"({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3},
    "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})");
  EXPECT_EQ(deepspeed.numbers.at("optimizer-bytes"), 6);
  EXPECT_EQ(deepspeed.numbers.at("gradient-bytes"), 2);
  const Config megatron =
      parsed("a", "--micro-batch-size 1 --use-precision-aware-optimizer --exp-avg-dtype bf16 --main-grads-dtype bf16");
  EXPECT_EQ(megatron.numbers.at("optimizer-bytes"), 10);
  EXPECT_EQ(megatron.numbers.at("gradient-bytes"), 2);
}

TEST(Config, BrokenFilesNameTheirLine) {
  const auto message = [](std::string_view file, std::string_view text) {
    const auto c = parse_config(file, text);
    return c ? std::string() : c.error().message;
  };
  EXPECT_EQ(message("a.yaml", "model:\n  a: [1, 2\n").substr(0, 7), "a.yaml:");
  EXPECT_EQ(message("a.toml", "[training]\nseq_len = = 3\n").substr(0, 9), "a.toml:2:");
  EXPECT_EQ(message("b.yaml", "model:\n  a: {b: 1\nc: 2\n").substr(0, 7), "b.yaml:");
  EXPECT_EQ(message("b.json", "{\"train_batch_size\": 8,\n \"zero_optimization\": {\"stage\" 2}}").substr(0, 12),
            "b.json:2:32:");
  // As in a shell a quote or a bracket without an end is an error; a branch or a recursion without one is read.
  EXPECT_EQ(message("a.sh", "TP=2\nB='--pp 4\ntorchrun t.py --num-layers 4\n"), "a.sh:2: ' has no end");
  EXPECT_EQ(message("a.sh", "echo \"it's\"\nA=(--num-layers 4"), "a.sh:2: ( has no end");
  EXPECT_EQ(message("a.sh", "echo ok # it's\nN=${A:-4\n"), "a.sh:2: ${ has no end");
  EXPECT_EQ(parsed("a.sh", "if [ 1 ]; then A=(--num-layers 4)").format, "Megatron-LM arguments");
  EXPECT_FALSE(message("a.sh", "f() { f; }\nf\nf\n").empty());
}

TEST(Config, AMethodThatTrainsAPartOfTheWeightsIsNamed) {
  const std::string head =
      "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 2048\nper_device_train_batch_size: 2\n";
  EXPECT_EQ(parsed("a.yaml", head + "finetuning_type: full\n").tuning, "");
  EXPECT_EQ(parsed("a.yaml", head + "finetuning_type: lora\n").tuning, "LoRA");
  EXPECT_EQ(parsed("a.yaml", head + "finetuning_type: freeze\n").tuning, "freeze");
  EXPECT_EQ(parsed("a.yaml", head).tuning, "LoRA") << "LLaMA-Factory's default";
  const std::string axolotl = "base_model: NousResearch/Meta-Llama-3-8B\nmicro_batch_size: 2\nsequence_len: 4096\n";
  EXPECT_EQ(parsed("b.yml", axolotl).tuning, "");
  EXPECT_EQ(parsed("b.yml", axolotl + "adapter: lora\nload_in_4bit: true\n").tuning, "QLoRA");
}

TEST(Config, LlamaFactoryRecomputesUnlessItIsToldNotTo) {
  const std::string head = "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: full\ncutoff_len: 2048\n";
  EXPECT_EQ(parsed("a.yaml", head).recompute, "full");
  EXPECT_EQ(parsed("a.yaml", head + "disable_gradient_checkpointing: true\n").recompute, "");
}

TEST(Config, WhatAcceleratesFileSaysOfProcessesAndFp16IsNotDroppedInSilence) {
  const Config config =
      parsed("c.yaml", "distributed_type: FSDP\nmixed_precision: fp16\nnum_processes: 12\nnum_machines: 3\n");
  const std::string all = fmt::format("{}", fmt::join(config.assumed, "; "));
  EXPECT_NE(all.find("num_processes 12"), std::string::npos) << all;
  EXPECT_NE(all.find("num_machines 3"), std::string::npos) << all;
  EXPECT_NE(all.find("fp16 as bf16"), std::string::npos) << all;
}

TEST(Config, AModelMayBeNamedByTheShortestKey) {
  EXPECT_EQ(parsed("s.sh", "#!/bin/bash\nswift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 1\n").model_name,
            models::catalog_name("Qwen/Qwen3-8B"));
  EXPECT_EQ(parsed("v1.yaml", "model: Qwen/Qwen3-8B\ncutoff_len: 512\nmicro_batch_size: 1\n").model_name,
            models::catalog_name("Qwen/Qwen3-8B"));
}

TEST(Config, WhatMayBeMissingStandsInTheRefusal) {
  const auto alone = parse_config("f.sh", "#!/bin/bash\nPP=2\n. `pwd`/SIZES.sh\n");
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message.find("SIZES.sh"), std::string::npos) << alone.error().message;
}

TEST(Config, TheOldSwitchesOfRecomputingCount) {
  const Config config = *parse_config("f.sh",
                                      "#!/bin/bash\npython pretrain_gpt.py --num-layers 4 --hidden-size 512 "
                                      "--num-attention-heads 8 --seq-length 512 --merge-file m.txt "
                                      "--activations-checkpoint-method uniform\n");
  EXPECT_EQ(config.recompute, "full");
}

}  // namespace
}  // namespace weft::training
