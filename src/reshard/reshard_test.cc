#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "reshard/layout_json.h"
#include "reshard/plan.h"
#include "reshard/prove.h"
#include "reshard/safetensors.h"
#include "reshard/tensor_parallel.h"

namespace weft::reshard {
namespace {

Layout line(Rank ranks, std::string name = "a") {
  Layout layout{.name = std::move(name), .ranks = ranks};
  Mesh mesh{.name = "all", .axes = {{"tp", ranks}}};
  for (Rank r = 0; r < ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  return layout;
}

Layout with(Layout layout, Tensor tensor) {
  layout.tensors.push_back(std::move(tensor));
  return layout;
}

std::vector<std::pair<std::int64_t, std::int64_t>> rows(const DimensionPart& part) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (const Interval& i : part.intervals) all.emplace_back(i.global, i.length);
  return all;
}

using Rows = std::vector<std::pair<std::int64_t, std::int64_t>>;

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

void write_file(const std::filesystem::path& file, const std::string& header, std::uint64_t says) {
  std::ofstream out(file, std::ios::binary);
  for (int i = 0; i < 8; ++i) out.put(static_cast<char>(says >> 8 * i));
  out << header;
}

TEST(Safetensors, EveryFileOfAnIndexIsARankWithItsTensors) {
  const std::filesystem::path folder = ::testing::TempDir() + "/weft_safetensors";
  std::filesystem::create_directories(folder);
  const std::string one =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}})";
  const std::string two = R"({"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  write_file(folder / "1.safetensors", one, one.size());
  write_file(folder / "2.safetensors", two, two.size());
  const auto index = folder / "model.safetensors.index.json";
  std::ofstream(index) << R"({"metadata":{"total_size":20},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
  const auto layout = read_safetensors(index);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->ranks, 2);
  EXPECT_EQ(layout->tensors,
            (std::vector<Tensor>{{.name = "a", .shape = {4, 2}, .element_bytes = 2, .boxes = {{0, {0, 0}, {4, 2}}}},
                                 {.name = "b", .element_bytes = 4, .boxes = {{1, {}, {}}}}}));
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

TEST(TensorParallel, WhatDoesNotFitIsNamed) {
  const auto error = [](std::string_view text, const std::string& name, std::vector<std::int64_t> shape) {
    const auto layout = tensor_parallel(text, with(line(1), {.name = name, .shape = std::move(shape)}));
    return layout ? "" : layout.error().message;
  };
  EXPECT_EQ(error("vllm:tp=4", "x.k_proj.weight", {16, 4}), "vllm:tp=4: tensor x.k_proj.weight: needs kv_heads=K");
  EXPECT_EQ(error("vllm:tp=3", "x.q_proj.weight", {16, 4}),
            "vllm:tp=3: tensor x.q_proj.weight: 16 rows of dimension 0 do not divide evenly over 3 ranks of axis tp");
  EXPECT_EQ(error("vllm:tp=2", "x.router", {16}),
            "vllm:tp=2: tensor x.router: no row of data/reshard/tensor_parallel.tsv matches");
  EXPECT_EQ(error("vllm:kv_heads=2", "x", {16}), "vllm:kv_heads=2: has no tp=N");
  EXPECT_EQ(error("vllm:tp=2,pp=2", "x", {16}), "vllm:tp=2,pp=2: option pp: there are tp and kv_heads");
}

TEST(Plan, RowsOfColumnsAreStridedPieces) {
  // [4, 8] of 2 B: split by columns over 2, wanted split by rows over 2: rank 0 wants rows 0 and 1, of each 4 columns
  // from either sender: two pieces of 8 B, 8 B apart at the sender and 16 B apart here.
  const auto plan = Plan::make(
      with(line(2), {.name = "w", .shape = {4, 8}, .element_bytes = 2, .splits = {{.axis = 0, .dim = 1}}}),
      with(line(2, "b"), {.name = "w", .shape = {4, 8}, .element_bytes = 2, .splits = {{.axis = 0, .dim = 0}}}));
  ASSERT_TRUE(plan) << plan.error().message;
  const auto moves = plan->moves(0);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[1], (Move{.sender = 1,
                            .receiver = 0,
                            .source = 0,
                            .destination = 8,
                            .bytes = 8,
                            .count = 2,
                            .source_stride = 8,
                            .destination_stride = 16}));
  EXPECT_EQ(plan->pairs().size(), 4U);
  EXPECT_TRUE(prove(*plan));
}

TEST(Plan, EqualSourcesSendEquallyMuch) {
  // One replicated tensor of 4 KiB on 4 ranks, wanted by 4 ranks: each sends it once.
  const Tensor w{.name = "w", .shape = {1024}, .element_bytes = 4};
  const auto plan = Plan::make(with(line(4), w), with(line(4, "b"), w));
  ASSERT_TRUE(plan);
  std::vector<std::int64_t> sent(4);
  for (const PairTotal& p : plan->pairs()) sent[static_cast<std::size_t>(p.sender)] += p.bytes;
  EXPECT_EQ(sent, std::vector<std::int64_t>(4, 4096));
}

TEST(Plan, WhatIsThereAlreadyStays) {
  const Tensor w{.name = "w", .shape = {1024}, .element_bytes = 4};
  const auto plan = Plan::make(with(line(4), w), with(line(4, "b"), w), {.same_ranks = true});
  ASSERT_TRUE(plan);
  for (const PairTotal& p : plan->pairs()) EXPECT_TRUE(plan->stays(p.sender, p.receiver));
}

TEST(Plan, ErrorsNameTensorAndRank) {
  const auto error = [](Tensor a, Tensor b) {
    const auto plan = Plan::make(with(line(2), std::move(a)), with(line(2, "b"), std::move(b)));
    return plan ? "" : plan.error().message;
  };
  const Tensor w{.name = "w", .shape = {8}};
  EXPECT_EQ(error(w, {.name = "v", .shape = {8}}), "b: tensor v: a has none of this name");
  EXPECT_EQ(error(w, {.name = "w", .shape = {9}}), "b: tensor w: has shape [9], in a [8]");
  EXPECT_EQ(error({.name = "w", .shape = {8}, .boxes = {{1, {0}, {5}}}}, w),
            "b: tensor w: rank 0 wants 8 elements, of which no rank of a has 3");
}

TEST(Plan, SizesBeyondFourGigabytesAreAddresses) {
  const std::int64_t rows = std::int64_t{5} << 32;
  const Tensor a{.name = "w", .shape = {rows, 3}, .element_bytes = 2, .splits = {{.axis = 0, .dim = 0}}};
  const Tensor b{.name = "w", .shape = {rows, 3}, .element_bytes = 2};
  const auto plan = Plan::make(with(line(3), a), with(line(1, "b"), b));
  ASSERT_TRUE(plan);
  const auto moves = plan->moves();
  ASSERT_EQ(moves.size(), 3U);
  const std::int64_t chunk = (rows + 2) / 3;  // ceil(5 * 2^32 / 3)
  EXPECT_EQ(moves[2].destination, 2 * chunk * 6);
  EXPECT_TRUE(prove(*plan));
}

// Tensors of fused projections, as vLLM holds them, from the separate ones of a checkpoint.
TEST(Plan, TensorsAreFusedAndTakenApart) {
  Layout separate = line(2);
  separate.tensors = {{.name = "q", .shape = {8, 4}, .splits = {{.axis = 0, .dim = 0}}},
                      {.name = "k", .shape = {4, 4}}};
  Layout fused = line(4, "b");
  fused.tensors = {{.name = "qk",
                    .shape = {12, 4},
                    .splits = {{.axis = 0, .dim = 0, .kind = Split::Kind::kInterleaved, .parts = {{8, 1}, {4, 2}}}},
                    .components = {{"q", 8}, {"k", 4}}}};
  for (const auto& [a, b] : {std::pair(separate, fused), std::pair(fused, separate)}) {
    const auto plan = Plan::make(a, b);
    ASSERT_TRUE(plan) << plan.error().message;
    const auto proof = prove(plan->from(), plan->to(), plan->moves());
    EXPECT_TRUE(proof) << proof.error().message;
  }
}

// What a rank's part of a tensor holds, element by element, by the definitions of the splits alone: nothing of
// `holding`, intervals or plans. -1: padding. Elements are numbered through the tensor, row-major.
std::vector<std::int64_t> reference(const Layout& l, const Tensor& t, Rank rank) {
  std::vector<std::vector<std::int64_t>> index;  // by dimension, the rows that the rank holds
  const std::size_t dims = t.shape.size();
  std::vector<std::int64_t> place;
  if (t.boxes.empty()) {
    const Mesh& mesh = l.meshes[static_cast<std::size_t>(t.mesh)];
    std::int64_t at = 0, size = 1;
    for (const auto& a : mesh.axes) size *= a.size;
    while (at < size && mesh.ranks[static_cast<std::size_t>(at)] != rank) ++at;
    if (at == size) return {};
    for (const auto& a : mesh.axes) {
      size /= a.size;
      place.push_back(at / size % a.size);
    }
  }
  const Box* box = nullptr;
  for (const Box& b : t.boxes)
    if (b.rank == rank) box = &b;
  if (!t.boxes.empty() && box == nullptr) return {};
  for (std::size_t d = 0; d < dims; ++d) {
    std::vector<std::int64_t> held;
    for (std::int64_t i = 0; i < (t.padded.empty() ? t.shape[d] : t.padded[d]); ++i)
      if (box == nullptr || (i >= box->offset[d] && i < box->offset[d] + box->shape[d]))
        held.push_back(i < t.shape[d] ? i : -1);
    for (const Split& s : t.splits) {
      if (s.dim != static_cast<int>(d)) continue;
      const std::int64_t k = l.meshes[static_cast<std::size_t>(t.mesh)].axes[static_cast<std::size_t>(s.axis)].size;
      const std::int64_t p = place[static_cast<std::size_t>(s.axis)];
      std::vector<std::int64_t> kept;
      const auto shard = [&](std::int64_t first, std::int64_t n, std::int64_t copies) {
        std::int64_t chunk = 0;
        while (chunk * (k / copies) < n) ++chunk;
        for (std::int64_t i = 0; i < n; ++i)
          if (i / chunk == p / copies) kept.push_back(held[static_cast<std::size_t>(first + i)]);
      };
      const auto n = static_cast<std::int64_t>(held.size());
      if (s.kind == Split::Kind::kShard) shard(0, n, s.copies);
      if (s.kind == Split::Kind::kBlockCyclic)
        for (std::int64_t i = 0; i < n; ++i)
          if (i / s.block % k == p) kept.push_back(held[static_cast<std::size_t>(i)]);
      std::int64_t first = 0;
      for (const auto& part : s.parts) shard(first, part.size, part.copies), first += part.size;
      held = kept;
    }
    index.push_back(held);
  }
  std::vector<std::int64_t> all{0};
  for (std::size_t d = 0; d < dims; ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t outer : all)
      for (const std::int64_t i : index[d]) next.push_back(outer < 0 || i < 0 ? -1 : outer * t.shape[d] + i);
    all = std::move(next);
  }
  return all;
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  std::int64_t to(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random_); }
  bool one_in(int n) { return to(n - 1) == 0; }

  Layout layout(const char* name, const std::vector<std::vector<std::int64_t>>& shapes, bool covers) {
    Layout l{.name = name};
    Mesh mesh{.name = "m"};
    std::int64_t size = 1;
    for (std::int64_t axes = to(2); axes >= 0; --axes) {
      mesh.axes.push_back({fmt::format("x{}", axes), 1 + to(3)});
      size *= mesh.axes.back().size;
    }
    l.ranks = static_cast<Rank>(size + to(2));
    for (Rank r = 0; r < l.ranks; ++r) mesh.ranks.push_back(r);
    std::shuffle(mesh.ranks.begin(), mesh.ranks.end(), random_);
    mesh.ranks.resize(static_cast<std::size_t>(size));
    l.meshes.push_back(mesh);
    for (std::size_t i = 0; i < shapes.size(); ++i) l.tensors.push_back(tensor(l, i, shapes[i], covers));
    return l;
  }

 private:
  Tensor tensor(const Layout& l, std::size_t number, const std::vector<std::int64_t>& shape, bool covers) {
    Tensor t{
        .name = fmt::format("t{}", number), .shape = shape, .element_bytes = 1 + static_cast<std::int64_t>(number % 3)};
    if (one_in(5)) {
      Box box{static_cast<Rank>(to(l.ranks - 1)), {}, shape};
      box.offset.resize(shape.size());
      if (!covers)
        for (std::size_t d = 0; d < shape.size(); ++d)
          box.offset[d] = to(shape[d]), box.shape[d] = to(shape[d] - box.offset[d]);
      t.boxes.push_back(box);
      return t;
    }
    if (shape.empty()) return t;
    if (one_in(3)) {
      t.padded = shape;
      t.padded[static_cast<std::size_t>(to(static_cast<std::int64_t>(shape.size()) - 1))] += to(5);
    }
    std::vector<bool> split(shape.size());
    for (std::size_t a = 0; a < l.meshes[0].axes.size(); ++a) {
      if (one_in(4)) continue;  // copies
      const auto d = static_cast<std::size_t>(to(static_cast<std::int64_t>(shape.size()) - 1));
      const std::int64_t rows = t.padded.empty() ? shape[d] : t.padded[d], size = l.meshes[0].axes[a].size;
      Split s{.axis = static_cast<int>(a),
              .dim = static_cast<int>(d),
              .kind = static_cast<Split::Kind>(to(split[d] ? 1 : 2))};
      if (s.kind == Split::Kind::kBlockCyclic) s.block = 1 + to(3);
      if (s.kind == Split::Kind::kShard && size % 2 == 0 && one_in(3)) s.copies = 2;
      if (s.kind == Split::Kind::kInterleaved)
        for (std::int64_t left = rows; left > 0;) {
          s.parts.push_back({1 + to(left - 1), size % 2 == 0 && one_in(3) ? 2 : 1});
          left -= s.parts.back().size;
        }
      split[d] = true;
      t.splits.push_back(s);
    }
    return t;
  }
  std::mt19937 random_;
};

// The moves, carried out on bytes whose value says which element of which tensor they are, against the definitions.
void expect_right(const Plan& plan) {
  const auto bytes_of = [](const Layout& l, std::size_t t, Rank r) {
    std::vector<std::int64_t> bytes;
    for (const std::int64_t e : reference(l, l.tensors[t], r))
      for (std::int64_t b = 0; b < l.tensors[t].element_bytes; ++b) bytes.push_back(e < 0 ? -1 : e * 8 + b);
    return bytes;
  };
  std::map<std::pair<std::int32_t, Rank>, std::vector<std::int64_t>> here, there;
  for (std::size_t t = 0; t < plan.from().tensors.size(); ++t) {
    for (Rank r = 0; r < plan.from().ranks; ++r) there[{static_cast<std::int32_t>(t), r}] = bytes_of(plan.from(), t, r);
    for (Rank r = 0; r < plan.to().ranks; ++r)
      here[{static_cast<std::int32_t>(t), r}].resize(bytes_of(plan.to(), t, r).size(), -1);
  }
  std::int64_t pieces = 0, bytes = 0;
  plan.for_each([&](const Move& m) {
    auto &to = here.at({m.to, m.receiver}), &from = there.at({m.from, m.sender});
    for (std::int64_t i = 0; i < m.count; ++i, ++pieces)
      for (std::int64_t b = 0; b < m.bytes; ++b, ++bytes) {
        auto& byte = to.at(static_cast<std::size_t>(m.destination + i * m.destination_stride + b));
        ASSERT_EQ(byte, -1) << "written twice";
        byte = from.at(static_cast<std::size_t>(m.source + i * m.source_stride + b));
      }
  });
  for (std::size_t t = 0; t < plan.to().tensors.size(); ++t)
    for (Rank r = 0; r < plan.to().ranks; ++r)
      ASSERT_EQ((here[{static_cast<std::int32_t>(t), r}]), bytes_of(plan.to(), t, r))
          << "tensor " << t << " rank " << r;
  for (const PairTotal& p : plan.pairs()) pieces -= p.pieces, bytes -= p.bytes;
  ASSERT_EQ(pieces, 0);
  ASSERT_EQ(bytes, 0);
}

TEST(Plan, TenThousandRandomPairsOfLayoutsArriveAndAreProved) {
  std::int64_t moved = 0;
  for (unsigned seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draws draws(seed);
    std::vector<std::vector<std::int64_t>> shapes(static_cast<std::size_t>(1 + draws.to(1)));
    for (auto& shape : shapes)
      for (std::int64_t d = draws.to(3); d > 0; --d)
        shape.push_back(draws.one_in(12) ? 0 : 1 + draws.to(d > 2 ? 4 : 11));
    Layout a = draws.layout("a", shapes, true), b = draws.layout("b", shapes, false);
    const bool same = draws.one_in(3);
    const Rank per_node = draws.one_in(3) ? static_cast<Rank>(1 + draws.to(3)) : 0;
    const auto plan = Plan::make(std::move(a), std::move(b), {.same_ranks = same, .per_node = per_node});
    ASSERT_TRUE(plan) << plan.error().message;
    expect_right(*plan);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
    const auto proof = prove(plan->from(), plan->to(), plan->moves());
    ASSERT_TRUE(proof) << proof.error().message;
    const auto whole = prove(*plan);
    ASSERT_TRUE(whole) << whole.error().message;
    moved += proof->pieces;
  }
  EXPECT_GT(moved, 100'000);  // the draws are not all empty
}

// Damage to a move, of every kind, in every move of random plans: the proof finds it.
TEST(Prove, DroppedDoubledAndShiftedMovesAreFound) {
  std::int64_t damaged = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    const std::vector<std::vector<std::int64_t>> shapes{{6, 5}};
    const auto plan = Plan::make(draws.layout("a", shapes, true), draws.layout("b", shapes, false));
    ASSERT_TRUE(plan);
    const auto moves = plan->moves();
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const auto found = [&](const std::function<void(std::vector<Move>&)>& damage) {
        auto damaged_moves = moves;
        damage(damaged_moves);
        ++damaged;
        const auto proof = prove(plan->from(), plan->to(), damaged_moves);
        EXPECT_FALSE(proof) << "seed " << seed << " move " << i;
        if (!proof) {
          EXPECT_NE(proof.error().message.find("rank"), std::string::npos) << proof.error().message;
        }
      };
      const auto at = static_cast<std::ptrdiff_t>(i);
      found([&](auto& m) { m.erase(m.begin() + at); });
      found([&](auto& m) { m.push_back(m[i]); });
      found([&](auto& m) { m[i].source += 1; });
      found([&](auto& m) { m[i].source -= 1; });
      found([&](auto& m) { m[i].destination += 1; });
      found([&](auto& m) { m[i].bytes += 1; });
      found([&](auto& m) { m[i].bytes -= 1; });
      found([&](auto& m) { m[i].count += 1; });
      if (moves[i].count > 1) {
        found([&](auto& m) { m[i].source_stride += 1; });
        found([&](auto& m) { m[i].destination_stride -= 1; });
      }
    }
  }
  EXPECT_GT(damaged, 10'000);
}

TEST(Prove, TheMessageSaysTensorRankAndOffset) {
  const auto plan =
      Plan::make(with(line(2), {.name = "w", .shape = {8}, .element_bytes = 2, .splits = {{.axis = 0, .dim = 0}}}),
                 with(line(1, "b"), {.name = "w", .shape = {8}, .element_bytes = 2}));
  auto moves = plan->moves();
  ASSERT_EQ(moves.size(), 2U);
  auto dropped = moves, doubled = moves, wrong = moves;
  dropped.pop_back();
  EXPECT_EQ(prove(plan->from(), plan->to(), dropped).error().message, "tensor w: rank 0: offset 8 is never written");
  doubled.push_back(moves[1]);
  EXPECT_EQ(prove(plan->from(), plan->to(), doubled).error().message, "tensor w: rank 0: offset 8 is written twice");
  wrong[1].sender = 0;
  EXPECT_EQ(prove(plan->from(), plan->to(), wrong).error().message,
            "tensor w: rank 0: offset 8 wants element 4 and gets element 0 of rank 0");
}

}  // namespace
}  // namespace weft::reshard
