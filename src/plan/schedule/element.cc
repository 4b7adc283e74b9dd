#include "plan/schedule/element.h"

#include <cctype>
#include <string>
#include <vector>

#include "base/nearest_words.h"

namespace weft::schedule {
namespace {

template <class T>
struct Word {
  T value;
  std::string_view text;
};

// The first word of each value is printed.
constexpr Word<DataType> kTypeWords[] = {
    {DataType::kInt8, "int8"},
    {DataType::kInt16, "int16"},
    {DataType::kInt32, "int32"},
    {DataType::kInt64, "int64"},
    {DataType::kUint8, "uint8"},
    {DataType::kUint16, "uint16"},
    {DataType::kUint32, "uint32"},
    {DataType::kUint64, "uint64"},
    {DataType::kFloat16, "half"},
    {DataType::kBfloat16, "bfloat16"},
    {DataType::kFloat32, "float"},
    {DataType::kFloat64, "double"},
    {DataType::kFloat8E4M3, "f8e4m3"},
    {DataType::kFloat8E5M2, "f8e5m2"},
    {DataType::kInt32, "int"},
    {DataType::kFloat16, "float16"},
    {DataType::kFloat16, "fp16"},
    {DataType::kFloat16, "f16"},
    {DataType::kBfloat16, "bf16"},
    {DataType::kFloat32, "float32"},
    {DataType::kFloat32, "fp32"},
    {DataType::kFloat32, "f32"},
    {DataType::kFloat64, "float64"},
    {DataType::kFloat64, "fp64"},
    {DataType::kFloat64, "f64"},
    {DataType::kFloat8E4M3, "fp8_e4m3"},
    {DataType::kFloat8E4M3, "float8_e4m3"},
    {DataType::kFloat8E5M2, "fp8_e5m2"},
    {DataType::kFloat8E5M2, "float8_e5m2"},
};

constexpr Word<ReduceOp> kOpWords[] = {
    {ReduceOp::kSum, "sum"},
    {ReduceOp::kProd, "prod"},
    {ReduceOp::kMin, "min"},
    {ReduceOp::kMax, "max"},
    {ReduceOp::kAvg, "avg"},
    {ReduceOp::kPremulSum, "mulsum"},
    {ReduceOp::kAnd, "and"},
    {ReduceOp::kOr, "or"},
    {ReduceOp::kXor, "xor"},
    {ReduceOp::kProd, "product"},
    {ReduceOp::kAvg, "average"},
    {ReduceOp::kAvg, "mean"},
    {ReduceOp::kMin, "minimum"},
    {ReduceOp::kMax, "maximum"},
    {ReduceOp::kPremulSum, "premul_sum"},
    {ReduceOp::kPremulSum, "premulsum"},
};

template <class T, std::size_t N>
std::string_view first_word(const Word<T> (&words)[N], T value) {
  for (const Word<T>& w : words)
    if (w.value == value) return w.text;
  return "?";
}

template <class T, std::size_t N>
std::string first_words(const Word<T> (&words)[N], std::string_view separator) {
  std::string all;
  for (const Word<T>& w : words)
    if (first_word(words, w.value) == w.text) all += fmt::format("{}{}", all.empty() ? "" : separator, w.text);
  return all;
}

// Capitals do not matter, nor does torch's prefix: torch.bfloat16, ReduceOp.SUM.
template <class T, std::size_t N>
Result<T> parse(const Word<T> (&words)[N], std::string_view text, std::string_view what) {
  std::string word(text.substr(text.rfind('.') + 1));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::vector<std::string> known;
  for (const Word<T>& w : words) {
    if (w.text == word) return w.value;
    known.emplace_back(w.text);
  }
  return bad_input("unknown {} '{}'; {}there are {}", what, text, did_you_mean(word, known), first_words(words, ", "));
}

}  // namespace

std::string_view name(DataType type) { return first_word(kTypeWords, type); }
std::string_view name(ReduceOp op) { return first_word(kOpWords, op); }
Result<DataType> parse_type(std::string_view text) { return parse(kTypeWords, text, "type"); }
Result<ReduceOp> parse_op(std::string_view text) { return parse(kOpWords, text, "operation"); }
bool order_matters(DataType type, ReduceOp op) {
  return is_float(type) && op != ReduceOp::kMin && op != ReduceOp::kMax;
}

namespace {

// An average of integers is a sum that is divided at the end.
bool is_sum(DataType type, ReduceOp op) { return op == ReduceOp::kSum || (op == ReduceOp::kAvg && !is_float(type)); }
bool is_extreme(ReduceOp op) { return op == ReduceOp::kMin || op == ReduceOp::kMax; }

}  // namespace

bool nvswitch_combines(DataType type, ReduceOp op) {
  if (size_of(type) == 1 || type == DataType::kInt16 || type == DataType::kUint16) return false;
  const bool extremes = !is_float(type) || size_of(type) == 2;
  return is_sum(type, op) || (extremes && is_extreme(op));
}

bool sharp_combines(DataType type, ReduceOp op) { return size_of(type) > 1 && (is_sum(type, op) || is_extreme(op)); }

std::string type_names(std::string_view separator) { return first_words(kTypeWords, separator); }
std::string op_names(std::string_view separator) { return first_words(kOpWords, separator); }

}  // namespace weft::schedule
