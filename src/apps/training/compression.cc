#include "apps/training/compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/training/card.h"
#include "apps/training/model.h"
#include "apps/training/plan.h"
#include "base/text.h"

namespace weft::training {
namespace {

using Kind = Compression::Kind;

double d(std::int64_t n) { return static_cast<double>(n); }

// Bytes read and written per value, all in FP32 but where said. Counted from what PyTorch's hooks do.
constexpr double kHalfTraffic = 2 * (4 + 2);  // FP32 to 16 bit before, back after
// FP8: the largest value is looked for, then the part is scaled and rounded; back after.
constexpr double kFp8Traffic = 4 + 2 * (4 + 1);
// PowerSGD: gradient and error are added (2 read, 1 written), the sum is read for each of two products, the
// approximation is written, and the new error is the difference (2 read, 1 written).
constexpr double kPowerSgdTraffic = 4.0 * (3 + 1 + 1 + 1 + 3);
// Top-k: gradient and error are added; a radix selection reads four times 8 bits, and once more to gather; the error
// without what was sent is written.
constexpr double kTopKTraffic = 4.0 * (3 + 4 + 1 + 1);
constexpr double kSector = 32;  // bytes of memory that a single value's update reads and writes

// Values of the factors over values of the matrices, of a layer's matrices on one rank.
double factors(const Model& m, const Plan& plan, double rank) {
  double values = 0, sent = 0;
  const auto matrix = [&](double rows, double columns, double times) {
    if (rows <= 0 || columns <= 0 || times <= 0) return;
    values += times * rows * columns;
    sent += times * std::min(rank * (rows + columns), rows * columns);
  };
  const double h = d(m.hidden), tp = d(plan.tp), ffn = d(m.ffn > 0 ? m.ffn : m.moe_ffn) / tp;
  matrix(h, d(m.query_width()) / tp, 2);                     // queries, output
  matrix(h, d(std::max(m.kv_width(), m.head_dim)) / tp, 2);  // keys, values
  matrix(h, ffn, m.gated ? 3 : 2);
  return values > 0 ? sent / values : 1;
}

// A positive number and what follows it.
std::optional<std::pair<double, std::string_view>> number_at(std::string_view text) {
  double value = 0;
  const auto [end, problem] = read_number(text, value);
  if (problem != std::errc() || !(value > 0)) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(end - text.data())));
}

}  // namespace

Result<Compression> parse_compression(std::string_view text) {
  if (text == "none") return Compression{};
  if (text == "fp16") return Compression{Kind::kHalf, 0};
  if (text == "bf16") return Compression{Kind::kBf16, 0};
  if (text == "fp8") return Compression{Kind::kFp8, 0};
  constexpr std::string_view kPower = "powersgd:", kTop = "topk:";
  if (text.starts_with(kPower)) {
    const auto rank = number_at(text.substr(kPower.size()));
    if (rank && rank->second.empty() && rank->first <= 1024 && rank->first == std::floor(rank->first))
      return Compression{Kind::kPowerSgd, rank->first};
    return bad_input("--compress {}: the rank is a number from 1 to 1024, as in powersgd:4", text);
  }
  if (text.starts_with(kTop)) {
    const auto share = number_at(text.substr(kTop.size()));
    if (share && share->second == "%" && share->first <= 100) return Compression{Kind::kTopK, share->first / 100};
    return bad_input("--compress {}: the share of values that are sent is in percent, as in topk:1%", text);
  }
  return bad_input("--compress {}: none, fp16, bf16, fp8, powersgd:RANK or topk:SHARE%", text);
}

std::string name(const Compression& c) {
  switch (c.kind) {
    case Kind::kNone:
      return "none";
    case Kind::kHalf:
      return "fp16";
    case Kind::kBf16:
      return "bf16";
    case Kind::kFp8:
      return "fp8";
    case Kind::kPowerSgd:
      return fmt::format("powersgd:{:.0f}", c.amount);
    case Kind::kTopK:
      return fmt::format("topk:{:g}%", 100 * c.amount);
  }
  return "none";
}

Encoded encoded(double bytes, std::int64_t ranks, const Model& model, const Plan& plan, const Card& card) {
  const double values = bytes / plan.gradient_bytes;
  switch (plan.compression.kind) {
    case Kind::kNone:
      return {.bytes = bytes};
    case Kind::kHalf:
    case Kind::kBf16:
      return {.bytes = 2 * values, .seconds = card.memory_time(kHalfTraffic * values)};
    case Kind::kFp8:  // summed by its ranks in FP32, so that it is rounded twice: all-to-all, then all-gather
      return {.bytes = values, .seconds = card.memory_time(kFp8Traffic * values)};
    case Kind::kPowerSgd: {
      const double rank = plan.compression.amount, sent = 4 * values * factors(model, plan, rank);
      // Two products before and one after; on FP32 inputs they run at the rate of 16 bit at best (TF32 at half of it).
      const double products = 3 * 2 * values * rank / (0.5 * card.peak16 * card.gemm);
      return {.bytes = sent / 2,
              .collectives = 2,
              .seconds = std::max(card.memory_time(kPowerSgdTraffic * values), products)};
    }
    case Kind::kTopK: {
      // All ranks' values and 32-bit indices come to every rank, which adds them one by one.
      const double sent = plan.compression.amount * values, received = sent * d(ranks);
      return {.collective = Collective::kAllGather,
              .bytes = 8 * received,
              .seconds = card.memory_time(kTopKTraffic * values) + card.memory_time(2 * kSector * received)};
    }
  }
  return {.bytes = bytes};
}

}  // namespace weft::training
