#include "move/reshard/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace weft::reshard {
namespace {

template <class To>
To one(float value, const std::string& type) {
  To out{};
  EXPECT_TRUE(
      convert("float32", std::as_bytes(std::span(&value, 1)), type, std::as_writable_bytes(std::span(&out, 1))));
  return out;
}
template <class From>
float back(From code, const std::string& type) {
  float out = 0;
  EXPECT_TRUE(convert(type, std::as_bytes(std::span(&code, 1)), "float32", std::as_writable_bytes(std::span(&out, 1))));
  return out;
}

// Ties go to the even neighbour: 1 + 2^-8 lies between 1 and 1 + 2^-7.
TEST(Convert, Bfloat16RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(one<std::uint16_t>(1.0F, "bfloat16"), 0x3f80);
  EXPECT_EQ(one<std::uint16_t>(1.0F + 0x1p-8F, "bfloat16"), 0x3f80);
  EXPECT_EQ(one<std::uint16_t>(1.0F + 0x3p-8F, "bfloat16"), 0x3f82);
  EXPECT_EQ(one<std::uint16_t>(-INFINITY, "bfloat16"), 0xff80);
  EXPECT_TRUE(std::isnan(back(one<std::uint16_t>(NAN, "bfloat16"), "bfloat16")));
}

// Every code but the NaNs is what its value becomes again; the largest is 448, what is above saturates.
TEST(Convert, EveryCodeOfFloat8ComesBackAndLargeValuesSaturate) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(one<std::uint8_t>(back(byte, "float8_e4m3fn"), "float8_e4m3fn"), code);
  }
  EXPECT_EQ(back(std::uint8_t{0x7e}, "float8_e4m3fn"), 448.0F);
  EXPECT_EQ(back(std::uint8_t{0x01}, "float8_e4m3fn"), 0x1p-9F);
  EXPECT_EQ(one<std::uint8_t>(1e9F, "float8_e4m3fn"), 0x7e);
  EXPECT_EQ(one<std::uint8_t>(17.0F, "float8_e4m3fn"), 0x58);  // 16 and 18 are codes: 17 is a tie, 16 even
  EXPECT_EQ(one<std::uint8_t>(NAN, "float8_e4m3fn") & 0x7f, 0x7f);
}

TEST(Convert, EveryCodeOfFloat16ComesBack) {
  for (int code = 0; code < 0x10000; ++code) {
    if ((code & 0x7fff) > 0x7c00) continue;  // NaN
    const auto half = static_cast<std::uint16_t>(code);
    ASSERT_EQ(one<std::uint16_t>(back(half, "float16"), "float16"), code);
  }
  EXPECT_EQ(one<std::uint16_t>(65520.0F, "float16"), 0x7c00);  // halfway to 2^16: infinity
}

Layout layout_of(const char* name, Rank ranks, const std::string& type, std::int64_t bytes, int dim, bool scales) {
  Layout layout{.name = name, .ranks = ranks};
  Mesh mesh{.name = "m", .axes = {{"tp", ranks}}};
  for (Rank r = 0; r < ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  layout.tensors.push_back(
      {.name = "w", .type = type, .shape = {512, 256}, .element_bytes = bytes, .splits = {{.axis = 0, .dim = dim}}});
  if (scales) layout.tensors.push_back({.name = "w_scale_inv", .type = "float32", .shape = {4, 2}, .element_bytes = 4});
  return layout;
}

TEST(Converted, ATensorMovesInTheReceiversTypeWithAScalePerBlock) {
  const Layout from = layout_of("a", 4, "bfloat16", 2, 0, false), to = layout_of("b", 2, "float8_e4m3fn", 1, 1, true);
  EXPECT_NE(Plan::make(from, to).error().message.find("has elements of float8_e4m3fn, in a of bfloat16"),
            std::string::npos);
  const auto c = converted(from, to);
  ASSERT_TRUE(c) << c.error().message;
  const auto plan = Plan::make(c->layout, to);
  ASSERT_TRUE(plan) << plan.error().message;
  std::int64_t bytes = 0;
  for (const PairTotal& p : plan->pairs()) bytes += p.bytes;
  EXPECT_EQ(bytes, 512 * 256 + 2 * 8 * 4);  // half of bfloat16's, and 8 scales for each of two ranks
  // Rank 1 has rows 128 to 255: two blocks, whose largest values are 10 and 3.
  const Memory in = memory_of(from, 1), out = memory_of(c->layout, 1);
  std::vector<std::byte> a(static_cast<std::size_t>(in.bytes)), b(static_cast<std::size_t>(out.bytes));
  std::vector<float> values(128 * 256);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (i % 256 < 128 ? 10.0F : 3.0F) * static_cast<float>(i % 128) / 127.0F;
  ASSERT_TRUE(convert("float32", std::as_bytes(std::span(values)), "bfloat16", {a.data(), 2 * values.size()}));
  ASSERT_TRUE(convert_parts(from, *c, 1, a, b));
  float scales[2];
  std::memcpy(scales, b.data() + out.offsets[1], sizeof scales);
  EXPECT_FLOAT_EQ(scales[0], 10.0F / 448);
  EXPECT_FLOAT_EQ(scales[1], 3.0F / 448);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float is = back(static_cast<std::uint8_t>(b[static_cast<std::size_t>(out.offsets[0]) + i]), "float8_e4m3fn") *
                     scales[i % 256 / 128];
    ASSERT_NEAR(is, values[i], 0.07 * values[i] + 1e-4) << i;  // 2^-4, and bfloat16's own error
  }
}

TEST(Converted, AShardThatCutsABlockIsAnErrorWithTensorAndRank) {
  const Layout from = layout_of("a", 8, "bfloat16", 2, 0, false), to = layout_of("b", 2, "float8_e4m3fn", 1, 1, true);
  EXPECT_EQ(converted(from, to).error().message,
            "a: tensor w: rank 0: rows 0 to 63 of dimension 0 cut a block of 128 that shares a scale");
}

TEST(Converted, TypesThatAreNotConvertedAreNamed) {
  const Layout from = layout_of("a", 4, "int8", 1, 0, false), to = layout_of("b", 2, "float8_e4m3fn", 1, 1, false);
  EXPECT_EQ(converted(from, to).error().message,
            "a: tensor w: elements of int8: float32, bfloat16, float16 and float8_e4m3fn are converted");
}

// q and k in one tensor at the senders, each of its own at the receivers, and the other way round.
TEST(Converted, FusedTensorsAndTheirPartsAreConvertedAsOne) {
  Layout parts{.name = "parts", .ranks = 1}, fused{.name = "fused", .ranks = 1};
  parts.tensors = {
      {.name = "q", .type = "bfloat16", .shape = {4, 3}, .element_bytes = 2, .boxes = {{0, {0, 0}, {4, 3}}}},
      {.name = "k", .type = "bfloat16", .shape = {2, 3}, .element_bytes = 2, .boxes = {{0, {0, 0}, {2, 3}}}}};
  fused.tensors = {{.name = "qk",
                    .type = "float32",
                    .shape = {6, 3},
                    .element_bytes = 4,
                    .boxes = {{0, {0, 0}, {6, 3}}},
                    .components = {{"q", 4}, {"k", 2}}}};
  for (const auto& [from, to, conversions] : {std::tuple(&fused, &parts, 1), std::tuple(&parts, &fused, 2)}) {
    const auto c = converted(*from, *to);
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->conversions.size(), static_cast<std::size_t>(conversions));
    const auto plan = Plan::make(c->layout, *to);
    EXPECT_TRUE(plan) << plan.error().message;
  }
  parts.tensors[1].type = "float16";
  EXPECT_EQ(converted(fused, parts).error().message,
            "fused: tensor qk: its parts q and k are wanted as bfloat16 and float16: they are converted together");
}

TEST(Converted, ElementsThatHaveScalesAlreadyAreNotConvertedWithoutThem) {
  const Layout from = layout_of("a", 4, "float8_e4m3fn", 1, 0, true), to = layout_of("b", 2, "bfloat16", 2, 1, false);
  EXPECT_EQ(converted(from, to).error().message,
            "a: tensor w: has scales w_scale_inv already: they are neither taken off nor made anew");
}

}  // namespace
}  // namespace weft::reshard
