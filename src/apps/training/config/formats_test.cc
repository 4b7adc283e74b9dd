#include "apps/training/config/formats.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "apps/training/config/config.h"
#include "base/models/model.h"

namespace weft::training {
namespace {

Config read(std::string_view file, std::string_view text) {
  auto config = parse_config(file, text);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}

TEST(Formats, NanotronsParallelismAndTokensAreThePlan) {
  const Config c = read("n.yaml",
                        "parallelism:\n  dp: 8\n  pp: 2\n  tp: 4\n  recompute_layer: true\ntokens:\n"
                        "  micro_batch_size: 2\n  batch_accumulation_per_replica: 16\n  sequence_length: 4096\n"
                        "optimizer:\n  zero_stage: 1\nmodel:\n  model_config:\n    hidden_size: 2048\n"
                        "    intermediate_size: 5632\n    num_attention_heads: 32\n    num_hidden_layers: 22\n"
                        "    num_key_value_heads: 4\n    vocab_size: 32000\n    tie_word_embeddings: false\n");
  EXPECT_EQ(c.format, "nanotron");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->parameters(), load_model("tinyllama-1.1b")->parameters());
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("pp"), 2);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.numbers.at("seq"), 4096);
  EXPECT_EQ(c.numbers.at("zero"), 1);
  EXPECT_EQ(c.accumulate, 16);
  EXPECT_EQ(c.recompute, "full");
}

TEST(Formats, OlmosMlpCountsBothHalvesAndItsEmbeddingIsPadded) {
  const Config c = read("o.yaml",
                        "model:\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n  mlp_hidden_size: 22016\n"
                        "  weight_tying: false\n  max_sequence_length: 4096\n  vocab_size: 100278\n"
                        "  embedding_size: 100352\nglobal_train_batch_size: 512\ndevice_train_microbatch_size: 4\n");
  EXPECT_EQ(c.format, "OLMo");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->parameters(), load_model("olmo2-7b")->parameters());
  EXPECT_EQ(c.numbers.at("global-batch"), 512);
  EXPECT_EQ(c.numbers.at("micro-batch"), 4);
  EXPECT_EQ(c.numbers.at("zero"), 3);
}

TEST(Formats, OlmoCoresBatchesCountTokens) {
  const Config c = read("train.py",
                        "from olmo_core.nn.transformer import TransformerConfig\nSEQUENCE_LENGTH = 8192\n"
                        "GLOBAL_BATCH_SIZE = 1024 * SEQUENCE_LENGTH\n\ndef model(common):\n"
                        "    return TransformerConfig.olmo2_32B(vocab_size=common.size())\n\n"
                        "def module(common):\n    return TrainModuleConfig(\n"
                        "        rank_microbatch_size=2 * SEQUENCE_LENGTH,\n"
                        "        max_sequence_length=common.max_sequence_length, compile_model=True)\n\n"
                        "common = build(sequence_length=SEQUENCE_LENGTH, max_sequence_length=8192)\n");
  EXPECT_EQ(c.format, "OLMo-core");
  EXPECT_EQ(c.model_name, "olmo2-32b");
  EXPECT_EQ(c.numbers.at("global-batch"), 1024);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.numbers.at("eager"), 0);
}

TEST(Formats, GptNeoxWritesItsNamesWithHyphens) {
  const Config c = read("x.yml",
                        "{\n \"pipe-parallel-size\": 0,\n \"model-parallel-size\": 2,\n \"num-layers\": 36,\n"
                        " \"hidden-size\": 5120,\n \"num-attention-heads\": 40,\n \"seq-length\": 2048,\n"
                        " \"no-weight-tying\": true,\n \"vocab_file\": \"/d/20B_tokenizer.json\",\n"
                        " \"train_micro_batch_size_per_gpu\": 4,\n \"checkpoint-activations\": true,\n"
                        " \"zero_optimization\": {\"stage\": 1},\n}\n");
  EXPECT_EQ(c.format, "GPT-NeoX");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.numbers.at("tp"), 2);
  EXPECT_EQ(c.numbers.at("pp"), 1);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_NEAR(static_cast<double>(c.model->parameters()) * 1e-9, 11.85, 0.03);  // Pythia's largest
}

TEST(Formats, TorchtunesComponentAndLitgptsFolderNameTheModel) {
  const Config tune = read("t.yaml",
                           "tokenizer:\n  max_seq_len: 2048\nmodel:\n"
                           "  _component_: torchtune.models.qwen2_5.lora_qwen2_5_7b\n  lora_rank: 16\nbatch_size: 4\n"
                           "gradient_accumulation_steps: 8\nenable_activation_checkpointing: True\ncompile: True\n"
                           "optimizer_in_bwd: True\n");
  EXPECT_EQ(tune.format, "torchtune");
  EXPECT_EQ(tune.model_name, "qwen2.5-7b");
  EXPECT_EQ(tune.tuning, "LoRA");
  EXPECT_EQ(tune.numbers.at("lora"), 16);
  EXPECT_EQ(tune.numbers.at("eager"), 0);
  EXPECT_EQ(tune.not_modelled, std::vector<std::string>{"optimizer_in_bwd"});
  const Config lit = read("l.yaml",
                          "checkpoint_dir: checkpoints/mistralai/Mistral-7B-v0.3\ntrain:\n  global_batch_size: 32\n"
                          "  micro_batch_size: 2\n  max_seq_length: 1024\n");
  EXPECT_EQ(lit.format, "LitGPT");
  EXPECT_EQ(lit.model_name, "mistral-7b");
  EXPECT_EQ(lit.numbers.at("seq"), 1024);
}

TEST(Formats, PrimeRlsTomlOfFinetuningIsRead) {
  const Config c = read("sft.toml",
                        "max_steps = 9\n[model]\nname = \"Qwen/Qwen3-30B-A3B\"\nep = 4\ncp = 2\n"
                        "[model.ac]\nmode = \"full\"\n[data]\nname = \"x/y\"\nseq_len = 4096\nbatch_size = 32\n"
                        "micro_batch_size = 2\n[optim]\nlr = 1e-5\n");
  EXPECT_EQ(c.format, "prime-rl");
  EXPECT_EQ(c.model_name, "qwen3-30b-a3b");
  for (const auto& [name, value] :
       {std::pair{"ep", 4}, {"cp", 2}, {"seq", 4096}, {"global-batch", 32}, {"micro-batch", 2}, {"zero", 3}})
    EXPECT_EQ(c.numbers.at(name), value) << name;
  EXPECT_EQ(c.recompute, "full");
  EXPECT_TRUE(c.unread.empty()) << c.unread.front();
}

TEST(Formats, ACommandThatALauncherGetsAsOneWordIsRead) {
  const Config c =
      read("k.sh",
           "launch -p 8 -c 'python main.py \\\n --num-layers 4 --hidden-size 64 --num-attention-heads 4 \\\n"
           " --vocab-size 100 --micro-batch-size 3 --seq-length 128'\n");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->layers, 4);
  EXPECT_EQ(c.numbers.at("micro-batch"), 3);
}

TEST(Formats, OfVerlsJobTheActorIsTrained) {
  const Config c =
      read("run.sh",
           "TP=${TP:-4}\npython3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer.yaml' \\\n"
           "  data.train_batch_size=1024 data.max_prompt_length=512 data.max_response_length=3584 \\\n"
           "  actor_rollout_ref.model.path=Qwen/Qwen3-8B \\\n"
           "  actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=4 \\\n"
           "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\\n"
           "  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=$TP \\\n"
           "  +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full \\\n"
           "  actor_rollout_ref.actor.megatron.param_offload=True \\\n"
           "  actor_rollout_ref.rollout.tensor_model_parallel_size=2\n");
  EXPECT_EQ(c.format, "verl");
  EXPECT_EQ(c.model_name, "qwen3-8b");
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("seq"), 4096);
  EXPECT_EQ(c.numbers.at("global-batch"), 512);
  EXPECT_EQ(c.numbers.at("zero"), 1);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_EQ(c.not_modelled, std::vector<std::string>{"actor_rollout_ref.actor.megatron.param_offload"});
  ASSERT_FALSE(c.assumed.empty());
  EXPECT_NE(c.assumed.front().find("generation"), std::string::npos) << c.assumed.front();
}

TEST(Formats, OfNemosReinforcementTheWayOfTrainingThatIsOnCounts) {
  const std::string head =
      "policy:\n  model_name: Qwen/Qwen2.5-1.5B\n  train_global_batch_size: 512\n  train_micro_batch_size: 4\n"
      "  max_total_sequence_length: 512\n  generation:\n    vllm_cfg:\n      tensor_parallel_size: 2\n";
  const Config tensor = read("d.yaml", head +
                                           "  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: 1\n"
                                           "  megatron_cfg:\n    enabled: false\n    tensor_model_parallel_size: 8\n");
  EXPECT_EQ(tensor.format, "NeMo-RL");
  EXPECT_EQ(tensor.numbers.at("tp"), 1);
  EXPECT_EQ(tensor.numbers.at("zero"), 3);
  const Config megatron = read("m.yaml", head +
                                             "  dtensor_cfg:\n    enabled: false\n    tensor_parallel_size: 1\n"
                                             "  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 8\n");
  EXPECT_EQ(megatron.numbers.at("tp"), 8);
  EXPECT_EQ(megatron.numbers.at("zero"), 1);
}

TEST(Formats, OpenRlhfsArgumentsAndAPreferencesSecondAnswer) {
  const Config sft = read("train.sh",
                          "deepspeed --module openrlhf.cli.train_sft --max_len 2048 --train_batch_size 256 \\\n"
                          "  --micro_train_batch_size 2 --pretrain meta-llama/Llama-3.1-8B --zero_stage 2 --bf16 \\\n"
                          "  --gradient_checkpointing\n");
  EXPECT_EQ(sft.format, "OpenRLHF");
  EXPECT_EQ(sft.model_name, "llama-3.1-8b");
  EXPECT_EQ(sft.numbers.at("zero"), 2);
  EXPECT_EQ(sft.numbers.at("global-batch"), 256);
  const Config dpo = read("dpo.yaml",
                          "model_name_or_path: Qwen/Qwen2-7B-Instruct\nstage: dpo\npref_loss: sigmoid\n"
                          "finetuning_type: full\ncutoff_len: 2048\nper_device_train_batch_size: 1\n");
  EXPECT_EQ(dpo.model_name, "qwen2.5-7b");  // of the same shape
  EXPECT_NE(fmt::format("{}", fmt::join(dpo.assumed, ";")).find("reference model"), std::string::npos);
}

TEST(Formats, OlmoCoresDefaultsOfArgumentsAndItsEnumerationsCount) {
  const Config c = read("pre.py",
                        "from olmo_core.nn.transformer import TransformerConfig\nDEFAULT_LENGTH = 2048\n\n"
                        "def build_config(opts):\n    sequence_length = opts.sequence_length or DEFAULT_LENGTH\n"
                        "    model = TransformerConfig.olmo2_7B(vocab_size=tokenizer.size())\n"
                        "    loader = LoaderConfig(global_batch_size=512 * 2048)\n"
                        "    return TransformerTrainModuleConfig(\n        rank_microbatch_size=2 * 2048,\n"
                        "        max_sequence_length=sequence_length,\n"
                        "        ac_config=CheckpointingConfig(CheckpointingMode.full))\n");
  EXPECT_EQ(c.format, "OLMo-core");
  EXPECT_EQ(c.model_name, "olmo2-7b");
  EXPECT_EQ(c.numbers.at("seq"), 2048);
  EXPECT_EQ(c.numbers.at("global-batch"), 512);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.recompute, "full");
}

TEST(Formats, GptNeoxsGatedMlpHasAThirdOfItsWidthAndItsTokenizerADefault) {
  const Config c = read("l.yml",
                        "{\"pipe_parallel_size\": 1, \"model_parallel_size\": 1, \"num_layers\": 32,\n"
                        " \"hidden_size\": 4096, \"intermediate_size\": 32768, \"num_attention_heads\": 32,\n"
                        " \"seq_length\": 4096, \"activation\": \"swiglu\", \"mlp_multiple_of\": 256,\n"
                        " \"make_vocab_size_divisible_by\": 1, \"no_weight_tying\": true}\n");
  ASSERT_TRUE(c.model);
  const std::int64_t rows = 50257 - 32000;  // of the embedding and of the output
  EXPECT_EQ(c.model->parameters(), load_model("llama2-7b")->parameters() + 2 * rows * 4096);
}

TEST(Formats, OpenRlhfsArgumentsInSectionsAreRead) {
  const Config c = read("sft.sh",
                        "deepspeed --module openrlhf.cli.train_sft \\\n --data.max_len 1024 \\\n"
                        " --train.batch_size 128 \\\n --train.micro_batch_size 4 \\\n"
                        " --model.model_name_or_path Qwen/Qwen2.5-VL-7B-Instruct \\\n --ds.zero_stage 2 \\\n"
                        " --model.gradient_checkpointing_enable\n");
  EXPECT_EQ(c.format, "OpenRLHF");
  EXPECT_EQ(c.model_name, "qwen2.5-7b");
  EXPECT_EQ(c.numbers.at("zero"), 2);
  EXPECT_EQ(c.numbers.at("micro-batch"), 4);
  EXPECT_EQ(c.numbers.at("global-batch"), 128);
  EXPECT_EQ(c.numbers.at("seq"), 1024);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_NE(fmt::format("{}", fmt::join(c.assumed, "; ")).find("vision tower"), std::string::npos);
}

TEST(Formats, TheFsdpExamplesArgumentsAreAModel) {
  const Config c = read("t.sbatch",
                        "#!/bin/bash\ndeclare -a ARGS=(\n --max_context_width=4096\n --num_key_value_heads=32\n"
                        " --intermediate_size=11008\n --hidden_width=4096\n --num_layers=32\n --num_heads=32\n"
                        " --model_type=llama_v2\n --vocab_size=32000\n --train_batch_size=2\n)\n"
                        "srun torchrun train.py \"${ARGS[@]}\"\n");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->parameters(), load_model("llama2-7b")->parameters());
  EXPECT_EQ(c.numbers.at("zero"), 3);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.numbers.at("seq"), 4096);
}

TEST(Formats, LinguasMlpFollowsLlamasRule) {
  // 8 * 2048 / 3 = 5461, rounded up to a multiple of 256: 5632.
  const Config c = read("l.yaml",
                        "grad_acc_steps: 4\noptim:\n  lr: 1e-3\ndistributed:\n  fsdp_type: full_shard\n  tp_size: 2\n"
                        "model:\n  dim: 2048\n  n_layers: 22\n  n_heads: 32\n  n_kv_heads: 4\n  vocab_size: 32000\n"
                        "  multiple_of: 256\ndata:\n  batch_size: 6\n  seq_len: 2048\n");
  EXPECT_EQ(c.format, "lingua");
  ASSERT_TRUE(c.model);
  EXPECT_EQ(c.model->parameters(), load_model("tinyllama-1.1b")->parameters());
  EXPECT_EQ(c.numbers.at("micro-batch"), 6);
  EXPECT_EQ(c.numbers.at("zero"), 3);
  EXPECT_EQ(c.accumulate, 4);
}

TEST(Formats, PrimusNamesAModelsFileAndChangesItsKeys) {
  const Config c = read("p.yaml",
                        "work_group: ${TEAM:x}\nmodules:\n  pre_trainer:\n    framework: megatron\n"
                        "    model: ${PRIMUS_MODEL:qwen2.5_7B}.yaml\n    overrides:\n      micro_batch_size: 2\n"
                        "      global_batch_size: 64\n      seq_length: 8192\n      tensor_model_parallel_size: 4\n"
                        "      fp8: hybrid\n");
  EXPECT_EQ(c.format, "Primus");
  EXPECT_EQ(c.model_name, "qwen2.5-7b");
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("zero"), 1);
  EXPECT_EQ(c.precision, "fp8");
  EXPECT_TRUE(c.unread.empty()) << fmt::format("{}", fmt::join(c.unread, ", "));
}

TEST(Formats, MaxTextsBatchIsOfADevice) {
  const Config c = read("m.yml",
                        "model_name: 'llama3-8b'\nper_device_batch_size: 3\nmax_target_length: 4096\n"
                        "ici_tensor_parallelism: 2\nici_fsdp_parallelism: -1\nremat_policy: full\n");
  EXPECT_EQ(c.format, "MaxText");
  EXPECT_EQ(c.model_name, "llama3-8b");
  EXPECT_EQ(c.numbers.at("micro-batch"), 3);
  EXPECT_EQ(c.numbers.at("tp"), 2);
  EXPECT_EQ(c.recompute, "full");
  EXPECT_EQ(c.accumulate, 1);
}

TEST(Formats, TokensOfAMicroBatchAreSequences) {
  const Config c = read("r.yaml",
                        "pretrain: Qwen/Qwen3-8B\nprompt_length: 1024\nresponse_length: 3072\nactor_train:\n"
                        "  training_args:\n    per_device_train_batch_size: 1\n    gradient_accumulation_steps: 16\n"
                        "  strategy_args:\n    strategy_name: megatron_train\n    strategy_config:\n"
                        "      tensor_model_parallel_size: 2\n      use_distributed_optimizer: true\n"
                        "  max_tokens_per_microbatch_in_train: 12288\nactor_infer:\n  strategy_args:\n"
                        "    strategy_config:\n      tensor_model_parallel_size: 8\n");
  EXPECT_EQ(c.format, "ROLL");
  EXPECT_EQ(c.model_name, "qwen3-8b");
  EXPECT_EQ(c.numbers.at("tp"), 2);  // of the training, not of generation
  EXPECT_EQ(c.numbers.at("seq"), 4096);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);  // of three, a power of two
  EXPECT_EQ(c.numbers.at("zero"), 1);
}

TEST(Formats, ArealsAllocationIsLettersWithCounts) {
  const Config c =
      read("a.yaml",
           "actor:\n  backend: \"megatron:(attn:d1p2t4c2|ffn:d1p2t1e8)\"\n  path: Qwen/Qwen3-30B-A3B\n"
           "  mb_spec:\n    max_tokens_per_mb: 8192\ngconfig:\n  max_new_tokens: 2048\n  n_samples: 4\n"
           "train_dataset:\n  batch_size: 32\n  max_length: 2048\nrollout:\n  backend: \"sglang:d8p1t1\"\n");
  EXPECT_EQ(c.format, "AReaL");
  EXPECT_EQ(c.numbers.at("tp"), 4);
  EXPECT_EQ(c.numbers.at("pp"), 2);
  EXPECT_EQ(c.numbers.at("cp"), 2);
  EXPECT_EQ(c.numbers.at("ep"), 8);
  EXPECT_EQ(c.numbers.at("seq"), 4096);
  EXPECT_EQ(c.numbers.at("micro-batch"), 2);
  EXPECT_EQ(c.numbers.at("global-batch"), 128);
  EXPECT_EQ(c.numbers.at("zero"), 1);
}

TEST(Formats, SkyRlsMiniBatchCountsPrompts) {
  const Config c =
      read("s.sh",
           "uv run -m skyrl.train trainer.policy.model.path=\"Qwen/Qwen2.5-7B\" trainer.strategy=fsdp \\\n"
           "  trainer.policy_mini_batch_size=64 generator.n_samples_per_prompt=8 trainer.max_prompt_length=512 \\\n"
           "  generator.sampling_params.max_generate_length=1536 trainer.micro_train_batch_size_per_gpu=4\n");
  EXPECT_EQ(c.format, "SkyRL");
  EXPECT_EQ(c.model_name, "qwen2.5-7b");
  EXPECT_EQ(c.numbers.at("global-batch"), 512);
  EXPECT_EQ(c.numbers.at("seq"), 2048);
  EXPECT_EQ(c.numbers.at("micro-batch"), 4);
  EXPECT_EQ(c.numbers.at("zero"), 3);
}

}  // namespace
}  // namespace weft::training
