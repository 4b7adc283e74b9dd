#include "move/reshard/plan.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "base/text.h"
#include "move/reshard/prove.h"
#include "move/reshard/test_layouts.h"

namespace weft::reshard {
namespace {

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

// Layers of seven tensors on `fsdp` x `tp` ranks: the first axis splits rows or holds copies, the second one dimension.
Layout layers(std::string name, std::int64_t fsdp, std::int64_t tp, bool split_rows, int tensors) {
  Layout layout{.name = std::move(name), .ranks = static_cast<Rank>(fsdp * tp)};
  Mesh mesh{.name = "m", .axes = {{"fsdp", fsdp}, {"tp", tp}}};
  for (Rank r = 0; r < layout.ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  struct Kind {
    std::vector<std::int64_t> shape;
    int cut;  // -1: none
  };
  const std::vector<Kind> kinds = {{{4096, 4096}, 0},  {{1024, 4096}, 0}, {{4096, 4096}, 1}, {{14336, 4096}, 0},
                                   {{4096, 14336}, 1}, {{4096}, -1},      {{128}, -1}};
  for (int i = 0; i < tensors; ++i) {
    const Kind& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    Tensor t{.name = fmt::format("layers.{}.weight", i), .shape = kind.shape, .element_bytes = 2};
    if (split_rows) t.splits.push_back({.axis = 0, .dim = 0});
    if (kind.cut >= 0) t.splits.push_back({.axis = 1, .dim = kind.cut});
    layout.tensors.push_back(std::move(t));
  }
  return layout;
}

TEST(Plan, AHundredThousandTensorsOnThousandsOfRanksShareSevenPatterns) {
  const int tensors = 100'000;
  Layout from = layers("a", 128, 8, true, tensors), to = layers("b", 64, 8, false, tensors);
  std::int64_t wanted = 0;  // by each receiver: an eighth of what is cut, all of what is not
  for (const Tensor& t : to.tensors) {
    std::int64_t elements = t.element_bytes;
    for (const std::int64_t rows : t.shape) elements *= rows;
    wanted += t.splits.empty() ? elements : elements / 8;
  }
  const std::clock_t begin = std::clock();
  const auto plan = Plan::make(std::move(from), std::move(to));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(plan) << plan.error().message;
  RecordProperty("cpu_seconds", fmt::format("{:.2f}", seconds));
  EXPECT_EQ(plan->patterns(), 7);
  EXPECT_EQ(plan->pairs().size(),
            1024U * 512U);  // of what is not cut every sender has a part that every receiver wants
  std::vector<std::int64_t> received(512);
  for (const PairTotal& p : plan->pairs()) received[static_cast<std::size_t>(p.receiver)] += p.bytes;
  EXPECT_EQ(received, std::vector<std::int64_t>(512, wanted));
  EXPECT_LT(seconds, 20) << "a plan is one of patterns, not of tensors and ranks";  // 0.4 s; sanitizers need more
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

// The moves, run on bytes whose value says which element of which tensor they are, against the definitions.
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

// [2^33, 4], by columns over 2, wanted whole: 2^34 pieces of 2 elements.
TEST(Prove, PiecesAtEqualDistancesAreProvedTogether) {
  const std::int64_t rows = std::int64_t{1} << 33;
  const Tensor columns{.name = "w", .shape = {rows, 4}, .element_bytes = 2, .splits = {{.axis = 0, .dim = 1}}};
  const Tensor whole{.name = "w", .shape = {rows, 4}, .element_bytes = 2};
  for (const auto& [a, b] : {std::pair(columns, whole), std::pair(whole, columns)}) {
    const auto plan = Plan::make(with(line(2), a), with(line(2, "b"), b));
    ASSERT_TRUE(plan) << plan.error().message;
    const auto proof = prove(*plan);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_GT(proof->pieces, rows);
    auto moves = plan->moves();
    ASSERT_GT(moves[0].count, 1);
    moves[0].source_stride += 2;
    EXPECT_FALSE(prove(plan->from(), plan->to(), moves));
  }
}

// Two fused tensors, by rows and by columns of the concatenation, to and from their parts.
TEST(Prove, RowsOfFusedTensorsEndWithTheirComponent) {
  for (const int along : {0, 1}) {
    Layout separate = line(2), fused = line(3, "b");
    separate.tensors = {{.name = "q", .shape = {6, 6}, .splits = {{.axis = 0, .dim = 1}}},
                        {.name = "k", .shape = {6, 6}, .splits = {{.axis = 0, .dim = 0}}}};
    fused.tensors = {{.name = "qk",
                      .shape = along == 0 ? std::vector<std::int64_t>{12, 6} : std::vector<std::int64_t>{6, 12},
                      .splits = {{.axis = 0, .dim = 1 - along}},
                      .concat_dim = along,
                      .components = {{"q", 6}, {"k", 6}}}};
    for (const auto& [a, b] : {std::pair(separate, fused), std::pair(fused, separate)}) {
      const auto plan = Plan::make(a, b);
      ASSERT_TRUE(plan) << plan.error().message;
      const auto proof = prove(plan->from(), plan->to(), plan->moves());
      ASSERT_TRUE(proof) << proof.error().message;
      // One long move over both components reads from one of them only.
      auto moves = plan->moves();
      moves[0].count += 1;
      EXPECT_FALSE(prove(plan->from(), plan->to(), moves));
    }
  }
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
