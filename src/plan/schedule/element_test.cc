#include "plan/schedule/element.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

TEST(Element, EveryTypeAndOperationIsUnderstoodByThePrintedName) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    ASSERT_TRUE(parse_type(name(type))) << t;
    EXPECT_EQ(*parse_type(name(type)), type);
  }
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    ASSERT_TRUE(parse_op(name(op))) << o;
    EXPECT_EQ(*parse_op(name(op)), op);
  }
}

TEST(Element, OtherUsualNamesMeanTheSame) {
  EXPECT_EQ(*parse_type("fp16"), DataType::kFloat16);
  EXPECT_EQ(*parse_type("float16"), DataType::kFloat16);
  EXPECT_EQ(*parse_type("bf16"), DataType::kBfloat16);
  EXPECT_EQ(*parse_type("float32"), DataType::kFloat32);
  EXPECT_EQ(*parse_type("fp64"), DataType::kFloat64);
  EXPECT_EQ(*parse_type("float8_e4m3"), DataType::kFloat8E4M3);
  EXPECT_EQ(*parse_type("fp8_e5m2"), DataType::kFloat8E5M2);
  EXPECT_EQ(*parse_op("premul_sum"), ReduceOp::kPremulSum);
}

TEST(Element, AnUnknownNameIsRefusedWithAllThatThereAre) {
  const auto type = parse_type("quarter");
  ASSERT_FALSE(type);
  for (const char* word : {"'quarter'", "int8", "uint64", "half", "f8e5m2"})
    EXPECT_NE(type.error().message.find(word), std::string::npos) << type.error().message;
  const auto op = parse_op("median");
  ASSERT_FALSE(op);
  for (const char* word : {"'median'", "sum", "prod", "avg", "mulsum", "xor"})
    EXPECT_NE(op.error().message.find(word), std::string::npos) << op.error().message;
}

}  // namespace
}  // namespace weft::schedule
