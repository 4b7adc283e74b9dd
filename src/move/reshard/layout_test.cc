#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "move/reshard/layout_json.h"
#include "move/reshard/plan.h"
#include "move/reshard/prove.h"
#include "move/reshard/safetensors.h"
#include "move/reshard/tensor_parallel.h"
#include "move/reshard/test_layouts.h"

namespace weft::reshard {
namespace {

TEST(Layout, ShardsHaveTorchChunksSizes) {
  // 10 rows over 4 ranks: chunks of ceil(10 / 4) = 3 rows, so 3, 3, 3, 1.
  const Layout l = with(line(4), {.name = "w", .shape = {10}, .splits = {{.axis = 0, .dim = 0}}});
  ASSERT_TRUE(check(l));
  EXPECT_EQ(rows(holding(l, l.tensors[0], 2).dims[0]), (Rows{{6, 3}}));
  EXPECT_EQ(rows(holding(l, l.tensors[0], 3).dims[0]), (Rows{{9, 1}}));
  // 5 rows over 4 ranks: 2, 2, 1, 0.
  const Layout few = with(line(4), {.name = "w", .shape = {5}, .splits = {{.axis = 0, .dim = 0}}});
  EXPECT_EQ(holding(few, few.tensors[0], 3).elements(), 0);
}

TEST(Layout, InterleavedPartsAreShardedEachForItselfAndCopiesShareAPart) {
  // q: 8 rows over 4 ranks; k: 2 rows with 2 copies: ranks 0 and 1 hold row 8, ranks 2 and 3 row 9.
  const Layout l =
      with(line(4), {.name = "qk",
                     .shape = {10},
                     .splits = {{.axis = 0, .dim = 0, .kind = Split::Kind::kInterleaved, .parts = {{8, 1}, {2, 2}}}}});
  ASSERT_TRUE(check(l));
  EXPECT_EQ(rows(holding(l, l.tensors[0], 1).dims[0]), (Rows{{2, 2}, {8, 1}}));
  EXPECT_EQ(rows(holding(l, l.tensors[0], 2).dims[0]), (Rows{{4, 2}, {9, 1}}));
}

TEST(Layout, PaddingHasRowsWithoutData) {
  // 5 rows padded to 8 over 2 ranks: 4 rows each, of which rank 1 has data in one.
  const Layout l = with(line(2), {.name = "w", .shape = {5}, .splits = {{.axis = 0, .dim = 0}}, .padded = {8}});
  ASSERT_TRUE(check(l));
  const Holding h = holding(l, l.tensors[0], 1);
  EXPECT_EQ(h.elements(), 1);
  EXPECT_EQ(h.local_elements(), 4);
}

std::string error_of(const std::string& text) {
  const auto layout = parse_layout("a.json", text);
  return layout ? "" : layout.error().message;
}

std::string layout_text(const std::string& tensor) {
  return R"({"schema": "weft.layout/1", "ranks": 2, "meshes": [{"name": "all", "axes": [{"name": "tp", "size": 2}]}], "tensors": [)" +
         tensor + "]}";
}

TEST(Layout, ErrorsNameFileTensorAndWhatIsWrong) {
  EXPECT_EQ(error_of("{"), error_of("{"));
  EXPECT_EQ(error_of(R"({"schema": "weft.layout/1", "ranks": 0, "tensors": []})"),
            "a.json: \"ranks\": 0: 1 to 1048576");
  EXPECT_EQ(error_of(layout_text(R"({"name": "w", "shape": [4], "type": "bf15"})")).substr(0, 31),
            "a.json: tensor w: type bf15: fl");
  EXPECT_EQ(error_of(layout_text(R"({"name": "w", "shape": [4], "element_bytes": 2, "shards": 1})")).substr(0, 40),
            "a.json: tensor w: unknown key \"shards\"; ");
  EXPECT_EQ(
      error_of(layout_text(
          R"({"name": "w", "shape": [5], "element_bytes": 2, "splits": [{"axis": "tp", "dim": 0, "even": true}]})")),
      "a.json: tensor w: 5 rows of dimension 0 do not divide evenly over 2 ranks of axis tp");
  EXPECT_EQ(
      error_of(layout_text(
          R"({"name": "w", "shape": [5], "element_bytes": 2, "boxes": [{"rank": 0, "offset": [0], "shape": [3]}, {"rank": 1, "offset": [2], "shape": [3]}]})")),
      "a.json: tensor w: the boxes of ranks 0 and 1 overlap in part");
  EXPECT_EQ(
      error_of(layout_text(
          R"({"name": "w", "shape": [5], "element_bytes": 2, "boxes": [{"rank": 1, "offset": [3], "shape": [3]}]})")),
      "a.json: tensor w: rank 1: rows 3 to 6 of dimension 0, which has 5");
  EXPECT_EQ(error_of(layout_text(R"({"name": "w", "shape": [4611686018427387904, 4], "element_bytes": 2})")),
            "a.json: tensor w: more than 2^62 bytes");
}

TEST(Layout, WrittenAndReadAgainItIsTheSame) {
  const std::string text = layout_text(
      R"({"name": "qkv", "shape": [10, 4], "type": "BF16", "holds": [{"name": "q", "size": 8}, {"name": "k", "size": 2}],
          "splits": [{"axis": "tp", "dim": 0, "as": "interleaved"}]},
         {"name": "c", "shape": [7], "element_bytes": 4, "padded": [8], "splits": [{"axis": "tp", "as": "block_cyclic", "block": 2}]},
         {"name": "o", "shape": [], "type": "float32", "owners": [1]})");
  const auto layout = parse_layout("a.json", text);
  ASSERT_TRUE(layout) << layout.error().message;
  const auto again = parse_layout("a.json", to_json(*layout).dump());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(layout->tensors, again->tensors);
  EXPECT_EQ(layout->meshes, again->meshes);
}

TEST(Layout, DtensorPlacementsAreRead) {
  const std::string text =
      R"J({"schema": "weft.layout/1", "ranks": 4, "meshes": [{"name": "m", "axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}]}],
    "tensors": [{"name": "w", "shape": [8, 4], "type": "torch.bfloat16", "placements": ["_StridedShard(dim=0, sf=2)", "Shard(dim=0)"]},
                {"name": "v", "shape": [8, 4], "type": "torch.bfloat16", "placements": ["Replicate()", "S(-1)"]}]})J";
  const auto layout = parse_layout("a.json", text);
  ASSERT_TRUE(layout) << layout.error().message;
  // tp first: rank (dp 0, tp 1) has rows 4 to 7, and of these dp 0 has the first two.
  EXPECT_EQ(rows(holding(*layout, layout->tensors[0], 1).dims[0]), (Rows{{4, 2}}));
  EXPECT_EQ(rows(holding(*layout, layout->tensors[0], 2).dims[0]), (Rows{{2, 2}}));
  EXPECT_EQ(rows(holding(*layout, layout->tensors[1], 3).dims[1]), (Rows{{2, 2}}));
}

void write_file(const std::filesystem::path& file, const std::string& header, std::uint64_t says,
                std::size_t data = 0) {
  std::ofstream out(file, std::ios::binary);
  for (int i = 0; i < 8; ++i) out.put(static_cast<char>(says >> 8 * i));
  out << header << std::string(data, 'x');
}

TEST(Safetensors, EveryFileOfAnIndexIsARankWithItsTensors) {
  const std::filesystem::path folder = ::testing::TempDir() + "/weft_safetensors";
  std::filesystem::create_directories(folder);
  const std::string one =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}})";
  const std::string two = R"({"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  write_file(folder / "1.safetensors", one, one.size(), 16);
  write_file(folder / "2.safetensors", two, two.size(), 4);
  const auto index = folder / "model.safetensors.index.json";
  std::ofstream(index) << R"({"metadata":{"total_size":20},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
  const auto layout = read_safetensors(index);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->ranks, 2);
  EXPECT_EQ(layout->tensors,
            (std::vector<Tensor>{
                {.name = "a", .type = "bfloat16", .shape = {4, 2}, .element_bytes = 2, .boxes = {{0, {0, 0}, {4, 2}}}},
                {.name = "b", .type = "float32", .element_bytes = 4, .boxes = {{1, {}, {}}}}}));
  std::ofstream(index) << R"({"weight_map":{"c":"1.safetensors"}})";
  EXPECT_EQ(read_safetensors(index).error().message,
            (folder / "1.safetensors").string() + ": tensor c: the index says it is here");
  std::ofstream(index) << R"({"weight_map":{"c":"../1.safetensors"}})";
  EXPECT_EQ(read_safetensors(index).error().message, index.string() + ": tensor c: its file is none beside the index");
  write_file(folder / "2.safetensors", two, two.size() + 1);
  EXPECT_NE(read_safetensors(folder / "2.safetensors").error().message.find("ends within its header"),
            std::string::npos);
  write_file(folder / "2.safetensors", two, std::uint64_t{1} << 63);
  EXPECT_NE(read_safetensors(folder / "2.safetensors").error().message.find("at most 100000000"), std::string::npos);
}

// header, bytes of data, what is wrong
TEST(Safetensors, DamagedFilesAreNamedWithTheirTensor) {
  const std::string file = ::testing::TempDir() + "weft_damaged.safetensors";
  const auto error = [&](const std::string& header, std::size_t data) {
    write_file(file, header, header.size(), data);
    const auto layout = read_safetensors(file);
    return layout ? "" : layout.error().message.substr(file.size() + 2);
  };
  const auto tensor = [](const std::string& name, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"BF16","shape":[4,4],"data_offsets":[)" + offsets + "]}";
  };
  EXPECT_EQ(error("{" + tensor("a", "0,32") + "}", 32), "");
  EXPECT_EQ(error("{" + tensor("a", "0,32") + "}", 10),
            "tensor a: ends at byte 32 of the data, of which the file has 10 B: it is cut off");
  EXPECT_EQ(error("{" + tensor("a", "0,30") + "}", 30),
            "tensor a: data_offsets [0, 30], and BF16 of shape [4, 4] takes 32 B");
  EXPECT_EQ(error("{" + tensor("a", "0,32") + "," + tensor("b", "16,48") + "}", 48),
            "tensor b: shares bytes 16 to 32 of the data with tensor a");
  EXPECT_EQ(error("{" + tensor("a", "64,96") + "}", 96),
            "tensor a: begins at byte 64 of the data; bytes from 0 on belong to no tensor");
  EXPECT_EQ(error("{" + tensor("a", "0,32") + "}", 40), "32 B of data end with tensor a, and the file has 40 B");
  EXPECT_EQ(error("{" + tensor("a", "0,32") + "," + tensor("a", "0,32") + "}", 32), "tensor a: is there twice");
  EXPECT_EQ(error(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
            "tensor a: key \"dtype\" is there twice");
  EXPECT_EQ(error(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "tensor a: has no data_offsets [BEGIN, END]");
  std::ofstream(file) << "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 498\n";
  EXPECT_NE(read_safetensors(file).error().message.find("is a git-lfs pointer"), std::string::npos);
}

TEST(Layout, WhatSaysTwoThingsIsRefused) {
  const std::string head = R"({"schema": "weft.layout/1", "ranks": 2, )";
  EXPECT_EQ(error_of(head + R"("ranks": 2, "tensors": []})"), "a.json: key \"ranks\" is there twice");
  EXPECT_EQ(error_of(layout_text(R"({"name": "w", "shape": [4], "element_bytes": 2, "shape": [4]})")),
            "a.json: key \"shape\" is there twice in tensors 0 (w)");
  const std::string tensor = R"("tensors": [{"name": "w", "shape": [4], "element_bytes": 2}]})";
  EXPECT_EQ(error_of(head + R"("meshes": [{"name": "m", "axes": [{"name": "x", "size": 2}]},
                                          {"name": "n", "axes": [{"name": "x", "size": 2}]}], )" +
                     tensor),
            "a.json: tensor w: has no \"mesh\"; there are m, n");
  EXPECT_EQ(
      error_of(head + R"("meshes": [{"name": "m", "axes": [{"name": "x", "size": 1}, {"name": "x", "size": 2}]}], )" +
               tensor),
      "a.json: mesh m: two axes have the name x");
  EXPECT_EQ(error_of(layout_text(R"({"name": "w", "shape": [9], "element_bytes": 2,
                                     "boxes": [{"rank": 0, "offset": [9223372036854775807], "shape": [9]}]})")),
            "a.json: tensor w: rank 0: 9 rows from 9223372036854775807 on of dimension 0, which has 9");
}

TEST(TensorParallel, NamesSayHowVllmSplitsTensors) {
  Layout of = line(1);
  of.tensors = {{.name = "model.layers.0.self_attn.q_proj.weight", .shape = {64, 32}, .element_bytes = 2},
                {.name = "model.layers.0.self_attn.k_proj.weight", .shape = {16, 32}, .element_bytes = 2},
                {.name = "model.layers.0.mlp.down_proj.weight", .shape = {32, 96}, .element_bytes = 2},
                {.name = "model.embed_tokens.weight", .shape = {100, 32}, .element_bytes = 2},
                {.name = "model.norm.weight", .shape = {32}, .element_bytes = 2}};
  const auto layout = tensor_parallel("vllm:tp=4,kv_heads=2", of);
  ASSERT_TRUE(layout) << layout.error().message;
  const auto part = [&](std::size_t t, Rank r, std::size_t d) {
    return rows(holding(*layout, layout->tensors[t], r).dims[d]);
  };
  EXPECT_EQ(part(0, 1, 0), (Rows{{16, 16}}));
  EXPECT_EQ(part(1, 1, 0), (Rows{{0, 8}}));  // 2 heads of 8 rows on 4 ranks: ranks 0 and 1 hold the first
  EXPECT_EQ(part(2, 3, 1), (Rows{{72, 24}}));
  EXPECT_EQ(part(3, 3, 0), (Rows{{96, 4}}));  // 100 rows padded to 128, 32 each
  EXPECT_EQ(holding(*layout, layout->tensors[3], 3).dims[0].extent, 32);
  EXPECT_EQ(part(4, 2, 0), (Rows{{0, 32}}));
  const auto plan = Plan::make(of, *layout);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(prove(*plan));
}

// tensor, its shape, what rank 1 of 2 holds along the dimension (-1: all of it)
TEST(TensorParallel, MixturesLatentAttentionAndQuantisedWeightsFollowTheirLayers) {
  struct Case {
    std::string name;
    std::vector<std::int64_t> shape;
    int dim;
    Rows held;
  };
  const std::string layer = "model.layers.3.";
  for (const auto& [name, shape, dim, held] :
       std::vector<Case>{{"mlp.gate.weight", {8, 16}, -1, {}},
                         {"mlp.gate.e_score_correction_bias", {8}, -1, {}},
                         {"mlp.experts.5.gate_proj.weight", {8, 16}, 0, {{4, 4}}},
                         {"mlp.shared_expert_gate.weight", {1, 16}, -1, {}},
                         {"self_attn.q_a_proj.weight", {8, 16}, -1, {}},
                         {"self_attn.kv_a_proj_with_mqa.weight_scale_inv", {1, 2}, -1, {}},
                         {"self_attn.q_b_proj.weight", {8, 16}, 0, {{4, 4}}},
                         {"self_attn.kv_b_proj.weight_scale_inv", {2, 4}, 0, {{1, 1}}},
                         {"mlp.down_proj.weight_scale_inv", {2, 4}, 1, {{2, 2}}},
                         {"mlp.down_proj.weight_scale", {16, 1}, -1, {}},
                         {"mlp.down_proj.weight_scale", {16, 4}, 1, {{2, 2}}},
                         {"mlp.down_proj.weight_packed", {16, 4}, 1, {{2, 2}}},
                         {"mlp.down_proj.weight_shape", {2}, -1, {}},
                         {"fc1.bias", {8}, 0, {{4, 4}}},
                         {"self_attn.out_proj.weight", {8, 8}, 1, {{4, 4}}},
                         {"feed_forward.w1.weight", {8, 4}, 0, {{4, 4}}},
                         {"mlp.up_proj.weight_scale", {1}, -1, {}},
                         {"mlp.up_proj.input_scale", {}, -1, {}},
                         {"block_sparse_moe.experts.1.w2.weight", {8, 16}, 1, {{8, 8}}},
                         {"block_sparse_moe.experts.1.w3.weight", {8, 16}, 0, {{4, 4}}},
                         {"self_attn.q_proj.qweight", {16, 4}, 1, {{2, 2}}},
                         {"self_attn.o_proj.scales", {4, 16}, 0, {{2, 2}}},
                         {"mlp.experts.gate_up_proj_blocks", {2, 8, 4, 16}, 1, {{4, 4}}},
                         {"mlp.experts.down_proj_scales", {2, 8, 4}, 2, {{2, 2}}},
                         {"self_attn.sinks", {4}, 0, {{2, 2}}},
                         {"self_attn.rotary_emb.inv_freq", {4}, -1, {}}}) {
    const auto layout = tensor_parallel("vllm:tp=2,heads=2", with(line(1), {.name = layer + name, .shape = shape}));
    ASSERT_TRUE(layout) << name << ": " << layout.error().message;
    EXPECT_EQ(layout->tensors[0].splits.empty(), dim < 0) << name;
    if (dim < 0) continue;
    EXPECT_EQ(rows(holding(*layout, layout->tensors[0], 1).dims[static_cast<std::size_t>(dim)]), held) << name;
  }
}

Rows held(std::string_view text, const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, int dim,
          Rank rank) {
  Layout of = line(1);
  for (const auto& [name, shape] : tensors) of.tensors.push_back({.name = name, .shape = shape});
  const auto layout = tensor_parallel(text, of);
  if (!layout) ADD_FAILURE() << layout.error().message;
  return layout ? rows(holding(*layout, layout->tensors[0], rank).dims[static_cast<std::size_t>(dim)]) : Rows{};
}

// Phi-3: 4 heads and 2 of keys and values, 2 rows each: q 0-7, k 8-11, v 12-15.
TEST(TensorParallel, FusedProjectionsAreCutPartByPart) {
  EXPECT_EQ(held("vllm:tp=2,heads=4,kv_heads=2", {{"l.qkv_proj.weight", {16, 4}}}, 0, 1),
            (Rows{{4, 4}, {10, 2}, {14, 2}}));
  EXPECT_EQ(held("vllm:tp=4,heads=4,kv_heads=2", {{"l.qkv_proj.weight", {16, 4}}}, 0, 1),
            (Rows{{2, 2}, {8, 2}, {12, 2}}));  // two ranks have copies of each head of keys
  EXPECT_EQ(held("vllm:tp=2", {{"mlp.gate_up_proj.weight", {8, 4}}}, 0, 1), (Rows{{2, 2}, {6, 2}}));
  // Falcon 7B: all heads share one of keys and values. GPT-NeoX: every head has its own, side by side.
  EXPECT_EQ(held("vllm:tp=2,heads=4,kv_heads=1", {{"h.0.self_attention.query_key_value.weight", {12, 4}}}, 0, 1),
            (Rows{{4, 8}}));  // q 4-7, and k and v whole
  EXPECT_EQ(held("vllm:tp=2,heads=4,kv_heads=4", {{"layers.0.attention.query_key_value.weight", {24, 4}}}, 0, 1),
            (Rows{{12, 12}}));
}

// Rank 2 beside 8 x 6 and 6 x 8 matrices: B is cut as a column-parallel layer's outputs, A as a row-parallel layer's
// inputs.
TEST(TensorParallel, AdaptersAreCutAsTheirLayersAre) {
  const std::string of = "base_model.model.model.layers.0.";
  EXPECT_EQ(held("vllm:tp=2", {{of + "self_attn.q_proj.lora_B.weight", {8, 2}}}, 0, 1), (Rows{{4, 4}}));
  EXPECT_EQ(held("vllm:tp=2", {{of + "self_attn.q_proj.lora_A.weight", {2, 6}}}, 0, 1), (Rows{{0, 2}}));
  EXPECT_EQ(held("vllm:tp=4,kv_heads=2", {{of + "self_attn.k_proj.lora_B.default.weight", {4, 2}}}, 0, 1),
            (Rows{{0, 2}}));
  EXPECT_EQ(held("vllm:tp=2", {{of + "mlp.down_proj.lora_A.weight", {2, 8}}}, 1, 1), (Rows{{4, 4}}));
  EXPECT_EQ(held("vllm:tp=2", {{of + "mlp.down_proj.lora_B.weight", {6, 2}}}, 0, 1), (Rows{{0, 6}}));
  EXPECT_EQ(held("vllm:tp=2", {{of + "mlp.gate_up_proj.lora_B.weight", {8, 2}}}, 0, 1), (Rows{{2, 2}, {6, 2}}));
  EXPECT_EQ(held("vllm:tp=2", {{of + "mlp.up_proj.base_layer.weight", {8, 6}}}, 0, 1), (Rows{{4, 4}}));
  Layout layout = line(1);
  layout.tensors = {{.name = of + "self_attn.q_proj.lora_magnitude_vector.weight",
                     .type = "float32",
                     .shape = {8},
                     .element_bytes = 4}};
  const auto dora = tensor_parallel("vllm:tp=2", layout);
  ASSERT_FALSE(dora);
  EXPECT_NE(dora.error().message.find("lora_magnitude_vector"), std::string::npos) << dora.error().message;
}

// [E, H, 2I] with [E, I, H], where H = 4 and I = 6; alternating columns where there is a bias of gate_up_proj.
TEST(TensorParallel, ExpertsInOneTensorAreCutAlongTheirWidthWhicheverDimensionItIs) {
  const std::pair<std::string, std::vector<std::int64_t>> in{"e.experts.gate_up_proj", {2, 4, 12}},
      out{"e.experts.down_proj", {2, 6, 4}}, bias{"e.experts.gate_up_proj_bias", {2, 12}};
  EXPECT_EQ(held("vllm:tp=2", {in, out}, 2, 1), (Rows{{3, 3}, {9, 3}}));
  EXPECT_EQ(held("vllm:tp=2", {in, out, bias}, 2, 1), (Rows{{6, 6}}));
  EXPECT_EQ(held("vllm:tp=2", {out, in}, 1, 1), (Rows{{3, 3}}));
  EXPECT_EQ(held("vllm:tp=2", {{"e.experts.gate_up_proj", {2, 12, 4}}, {"e.experts.down_proj", {2, 4, 6}}}, 1, 1),
            (Rows{{3, 3}, {9, 3}}));
  EXPECT_EQ(held("vllm:tp=2", {{"e.experts.down_proj", {2, 4, 6}}, {"e.experts.gate_up_proj", {2, 12, 4}}}, 2, 1),
            (Rows{{3, 3}}));
}

TEST(TensorParallel, ATypeIsOfFloatsOnly) {
  Layout of = line(1);
  of.tensors = {{.name = "x.up_proj.weight", .type = "float32", .shape = {8, 4}, .element_bytes = 4},
                {.name = "x.input_scale", .type = "int64", .shape = {}, .element_bytes = 8}};
  const auto layout = tensor_parallel("vllm:tp=2,type=bfloat16", of);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->tensors[0].type, "bfloat16");
  EXPECT_EQ(layout->tensors[0].element_bytes, 2);
  EXPECT_EQ(layout->tensors[1].type, "int64");
  EXPECT_EQ(tensor_parallel("vllm:tp=2,type=fp8", of).error().message,
            "vllm:tp=2,type=fp8: type fp8: there are float32, bfloat16, float16");
}

TEST(TensorParallel, NamesSayHowMegatronSplitsTensors) {
  Layout of = line(1);
  of.tensors = {{.name = "decoder.layers.0.mlp.linear_fc1.weight", .shape = {16, 4}},
                {.name = "embedding.word_embeddings.weight", .shape = {300, 4}}};
  const auto layout = tensor_parallel("megatron:tp=2", of);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(rows(holding(*layout, layout->tensors[0], 1).dims[0]),
            (Rows{{4, 4}, {12, 4}}));                                      // of gate and up each a half
  EXPECT_EQ(holding(*layout, layout->tensors[1], 1).dims[0].extent, 256);  // 300 padded to 2 * 256
}

std::string refused(std::string_view text,
                    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors) {
  Layout of = line(1);
  for (const auto& [name, shape] : tensors) of.tensors.push_back({.name = name, .shape = shape});
  const auto layout = tensor_parallel(text, of);
  return layout ? "" : layout.error().message.substr(text.size() + 2);
}

TEST(TensorParallel, AttentionHeadsAreNotCut) {
  // 48 heads of 128 and 8 of keys: 6144 rows divide by 64, 48 heads do not.
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> mixtral{{"x.q_proj.weight", {6144, 8}},
                                                                               {"x.k_proj.weight", {1024, 8}}};
  EXPECT_EQ(refused("vllm:tp=16,kv_heads=8", mixtral), "");
  EXPECT_EQ(refused("vllm:tp=64,kv_heads=8", mixtral),
            "tensor x.q_proj.weight: 48 attention heads do not divide evenly over 64 ranks");
  // DeepSeek-V3: 128 heads of 128 + 64 rows of queries, 128 + 128 of keys and values, 512 latents.
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> deepseek{
      {"x.q_b_proj.weight", {24576, 8}},
      {"x.kv_b_proj.weight", {32768, 512}},
      {"x.kv_a_proj_with_mqa.weight", {576, 8}},
      {"x.o_proj.weight", {8, 16384}}};
  EXPECT_EQ(refused("vllm:tp=128", deepseek), "");
  EXPECT_EQ(refused("vllm:tp=256", deepseek),
            "tensor x.q_b_proj.weight: 128 attention heads do not divide evenly over 256 ranks");
  EXPECT_EQ(
      refused("vllm:tp=2", {{"x.q_proj.weight", {64, 8}}}),
      "tensor x.q_proj.weight: needs heads=H: the shapes beside it do not say how many attention heads there are");
  EXPECT_EQ(refused("vllm:tp=2,heads=3", {{"x.q_proj.weight", {96, 8}}}),
            "3 attention heads do not divide evenly over 2 ranks");
}

TEST(TensorParallel, MegatronSplitsQueryGroupsAndGatesWhereThereAreSome) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> qkv{{"x.linear_qkv.weight", {6144, 8}}};
  EXPECT_EQ(refused("megatron:tp=8,kv_heads=8", qkv), "");
  EXPECT_EQ(refused("megatron:tp=8", qkv), "tensor x.linear_qkv.weight: needs kv_heads=K, the query groups");
  EXPECT_EQ(refused("megatron:tp=16,kv_heads=8", qkv),
            "tensor x.linear_qkv.weight: 8 query groups do not divide evenly over 16 ranks");
  EXPECT_EQ(refused("megatron:tp=8,kv_heads=7", qkv),
            "tensor x.linear_qkv.weight: 6144 rows are not of 7 query groups");
  Layout of = line(1);
  of.tensors = {{.name = "x.linear_fc1.weight", .shape = {16, 4}}, {.name = "x.linear_fc2.weight", .shape = {4, 16}}};
  const auto plain = tensor_parallel("megatron:tp=2", of);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(rows(holding(*plain, plain->tensors[0], 1).dims[0]), (Rows{{8, 8}}));
  EXPECT_EQ(tensor_parallel("megatron:tp=2,gated=1", of).error().message,
            "megatron:tp=2,gated=1: tensor x.linear_fc1.weight: gated=1, and it has 16 rows for 16 columns of "
            "linear_fc2");
  of.tensors.pop_back();
  const auto given = tensor_parallel("megatron:tp=2,gated=0", of);
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(rows(holding(*given, given->tensors[0], 1).dims[0]), (Rows{{8, 8}}));
}

TEST(TensorParallel, WhatDoesNotFitIsNamed) {
  const auto error = [](std::string_view text, const std::string& name, std::vector<std::int64_t> shape) {
    const auto layout = tensor_parallel(text, with(line(1), {.name = name, .shape = std::move(shape)}));
    return layout ? "" : layout.error().message;
  };
  EXPECT_EQ(error("vllm:tp=4", "x.k_proj.weight", {16, 4}), "vllm:tp=4: tensor x.k_proj.weight: needs kv_heads=K");
  EXPECT_EQ(error("vllm:tp=3,heads=3", "x.q_proj.weight", {16, 4}),
            "vllm:tp=3,heads=3: tensor x.q_proj.weight: 16 rows are not of 3 attention heads");
  EXPECT_EQ(
      error("vllm:tp=3", "x.gate_proj.weight", {16, 4}),
      "vllm:tp=3: tensor x.gate_proj.weight: 16 rows of dimension 0 do not divide evenly over 3 ranks of axis tp");
  EXPECT_EQ(
      error("vllm:tp=2", "x.router", {16}),
      "vllm:tp=2: how vllm names and splits tensors is not known of x.router (docs/reshard.md has the models that "
      "are covered)");
  EXPECT_EQ(error("vllm:tp=2", "x.q_norm.weight", {8, 64}),
            "vllm:tp=2: tensor x.q_norm.weight: has a weight per head: how such a norm is split is not known");
  EXPECT_EQ(error("vllm:kv_heads=2", "x", {16}), "vllm:kv_heads=2: has no tp=N");
  EXPECT_EQ(error("vllm:tp=0", "x", {16}), "vllm:tp=0: tp 0 is outside 1 … 65536");
  EXPECT_EQ(error("vllm:tp=8,kv_heads=8,tp=4", "x", {16}), "vllm:tp=8,kv_heads=8,tp=4: option tp is given twice");
  EXPECT_EQ(error("vllm:tp=2,gated=1", "x", {16}),
            "vllm:tp=2,gated=1: option gated: there are tp, type, heads and kv_heads");
  EXPECT_EQ(error("vllm:tp=2,pp=2", "x", {16}), "vllm:tp=2,pp=2: option pp: there are tp, type, heads and kv_heads");
}

}  // namespace
}  // namespace weft::reshard
