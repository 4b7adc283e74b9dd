#include "apps/kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/kernels/files.h"
#include "machine/catalog/catalog.h"

namespace weft::kernels {
namespace {

using nlohmann::json;

struct Type {
  std::string_view name, peak;
  double weight, activation;  // bytes; 4-bit types with a scale of 8 bits per 16 (nvfp4) or 32 elements (mxfp4)
};
constexpr double kGiB = 1073741824.0;

constexpr std::array<Type, kPrecisions> kTypes = {{{"bfloat16", "bf16", 2, 2},
                                                   {"fp8", "fp8", 1, 1},
                                                   {"fp8_block", "fp8", 1, 1},
                                                   {"nvfp4", "fp4", 0.5625, 0.5625},
                                                   {"w4a16_mxfp4", "bf16", 0.53125, 2},
                                                   {"w4a8_mxfp4_mxfp8", "fp8", 0.53125, 1},
                                                   {"int4_wo", "bf16", 0.53125, 2},
                                                   {"int8", "int8", 1, 1},
                                                   {"w8a16", "bf16", 1, 2}}};
constexpr std::array<std::string_view, kKinds> kNames = {"gemm",   "moe",         "prefill",
                                                         "decode", "mla_prefill", "mla_decode"};

const Type& type(Precision p) { return kTypes[static_cast<std::size_t>(p)]; }

// Precisions whose shares stand for a missing one, the nearest first.
std::vector<Precision> nearest(Precision p) {
  using enum Precision;
  switch (p) {
    case kFp8:
      return {kFp8Block, kBf16};
    case kFp8Block:
      return {kFp8, kBf16};
    case kNvfp4:
      return {kMxfp4A8, kFp8, kMxfp4A16, kBf16};
    case kMxfp4A16:
      return {kInt4A16, kBf16};
    case kMxfp4A8:
      return {kNvfp4, kFp8, kBf16};
    case kInt4A16:
      return {kMxfp4A16, kBf16};
    case kInt8:
      return {kFp8, kBf16};
    case kW8A16:
      return {kInt4A16, kBf16};
    case kBf16:
      break;
  }
  return {};
}

// Cards of the same architecture share what kernels reach: by "sm" of the catalogue.
std::string_view stands_for(std::string_view part, std::string_view sm) {
  for (const std::string_view measured : {"H100-SXM5", "H200-SXM5", "B200-SXM6", "B300-SXM6", "GB200", "GB300"})
    if (part == measured) return measured;
  if (sm == "100") return "B200-SXM6";
  if (sm == "103") return "B300-SXM6";
  return "H100-SXM5";
}

}  // namespace

std::string_view name(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }
std::string_view name(Precision precision) { return type(precision).name; }
double weight_bytes(Precision precision) { return type(precision).weight; }
double activation_bytes(Precision precision) { return type(precision).activation; }

Result<std::vector<Entry>> shipped_entries() {
  std::vector<Entry> entries;
  for (const auto& file : embedded::kernel_files()) {
    if (!file.path.ends_with("/kernels.json")) continue;
    const json whole = json::parse(file.text, nullptr, false);
    if (!whole.is_object() || whole.value("schema", "") != "weft.kernels/1" || whole.value("source", "").empty() ||
        whole.value("date", "").empty())
      return bad_input("{}: no weft.kernels/1 with source and date", file.path);
    for (const json& e : whole["entries"]) {
      Entry entry{.card = e.value("card", ""), .software = e.value("software", "")};
      const auto kind = std::ranges::find(kNames, e.value("kind", ""));
      const auto precision = std::ranges::find(kTypes, e.value("precision", ""), &Type::name);
      if (kind == kNames.end() || precision == kTypes.end())
        return bad_input("{}: unknown kind or precision: {}", file.path, e.dump());
      entry.kind = static_cast<Kind>(kind - kNames.begin());
      entry.precision = static_cast<Precision>(precision - kTypes.begin());
      entry.constants = {.launch = e.value("launch_us", 0.0) * 1e-6,
                         .compute = e.value("compute", 0.0),
                         .memory = e.value("memory", 0.0),
                         .sharpness = e.value("sharpness", 1.0),
                         .grain = e.value("grain", 0.0),
                         .error = e.value("error_median", 0.0),
                         .rows = e.value("rows", std::int64_t{0})};
      const Constants& c = entry.constants;
      if (!(c.compute > 0 && c.memory > 0 && c.sharpness > 0))
        return bad_input("{}: a share is missing: {}", file.path, e.dump());
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

Result<Kernels> Kernels::load(std::string_view part_name, std::string_view software) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(part_name);
  if (part == nullptr || part->figure("memory_rate") == nullptr)
    return bad_input("accelerator '{}' is not in the catalogue (weft catalog)", part_name);
  Kernels k;
  k.part_ = part->name, k.title_ = part->title;
  for (const char* rate : {"bf16", "fp8", "fp4", "int8"})
    if (const auto* figure = part->figure(rate)) k.peaks_[rate] = figure->value * 1e12;
  if (!k.peaks_.contains("bf16"))
    if (const auto* figure = part->figure("fp16")) k.peaks_["bf16"] = figure->value * 1e12;
  if (!k.peaks_.contains("bf16")) return bad_input("{}: the catalogue has no 16-bit peak for it", part_name);
  // Data sheets of cards with FP8 give INT8 its rate, but for Blackwell Ultra, which has little of it.
  if (!k.has_peak("int8") && k.has_peak("fp8") && part->title.find("Ultra") == std::string::npos)
    k.peaks_["int8"] = k.peaks_["fp8"];
  // A data sheet that names FP4 alone (B300): FP8 is twice the 16-bit peak there as on its siblings.
  if (k.has_peak("fp4") && !k.has_peak("fp8")) k.peaks_["fp8"] = 2 * k.peaks_["bf16"];
  k.rate_ = part->figure("memory_rate")->value * 1e9;
  if (const auto* memory = part->figure("memory")) k.memory_ = memory->value * kGiB;
  const auto* sms = part->figure("multiprocessors");
  k.multiprocessors_ = sms != nullptr ? sms->value : 148;  // Blackwell's, where none is known
  const auto sm = part->facts.find("sm");
  k.measured_ = stands_for(part->name, sm == part->facts.end() ? "" : sm->second);
  WEFT_TRY(const std::vector<Entry> entries, shipped_entries());
  for (const bool exactly : {true, false})  // latent attention has one software's table
    for (const Entry& e : entries)
      if (e.card == k.measured_ && (e.software == software || !exactly))
        k.table_.try_emplace({e.kind, e.precision}, e.constants);
  // Both engines call the vendor's GEMMs: the better fit of the two tables counts, and the shorter launch, because the
  // longer one is the host's. Of other kernels a launch that is several times the other software's is the host's, too,
  // which CUDA graphs take away.
  constexpr double kHostBound = 1.5;
  for (const Entry& e : entries) {
    if (e.card != k.measured_) continue;
    Constants& own = k.table_.at({e.kind, e.precision});
    const double launch = std::min(own.launch, e.constants.launch);
    const bool bound = own.launch > kHostBound * e.constants.launch;
    if (e.constants.error < own.error && (bound || e.kind == Kind::kGemm)) own = e.constants;
    if (bound || e.kind == Kind::kGemm) own.launch = launch;
  }
  for (int kind = 0; kind < kKinds; ++kind)
    if (!k.table_.contains({static_cast<Kind>(kind), Precision::kBf16}))
      return bad_input("data/kernels/kernels.json has no {} of {}", kNames[static_cast<std::size_t>(kind)],
                       k.measured_);
  return k;
}

const Constants& Kernels::constants(Kind kind, Precision precision) const {
  if (const auto found = table_.find({kind, precision}); found != table_.end()) return found->second;
  for (const Precision p : nearest(precision))
    if (const auto found = table_.find({kind, p}); found != table_.end()) return found->second;
  return table_.at({kind, Precision::kBf16});
}

double Kernels::peak(Precision precision) const {
  const auto found = peaks_.find(std::string(type(precision).peak));
  return found != peaks_.end() ? found->second : peaks_.at("bf16");
}

double Kernels::time(const Constants& c, Precision precision, double flop, double bytes) const {
  const double compute = flop / (peak(precision) * c.compute), memory = bytes / (rate_ * c.memory);
  const double most = std::max(compute, memory);
  if (most <= 0) return 0;
  return c.launch * launch_share_ +
         most * std::pow(std::pow(compute / most, c.sharpness) + std::pow(memory / most, c.sharpness), 1 / c.sharpness);
}

double Kernels::gemm(Precision precision, double m, double n, double k) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  constexpr double kTile = 128, kLeastRows = 16;
  const Constants& c = constants(Kind::kGemm, precision);
  const double waves = std::ceil(m / kTile) * std::ceil(n / kTile) / multiprocessors_;
  // Half of a last wave that is not full is won back by splitting k.
  const double lost = waves > 1 ? 0.5 * (1 + std::ceil(waves) / waves) : 1;
  const Type& t = type(precision);
  return time(c, precision, 2 * std::max(m, kLeastRows) * n * (k + c.grain) * lost,
              t.activation * m * k + t.weight * n * k + 2 * m * n);
}

double Kernels::experts(Precision precision, const Experts& w) const {
  if (w.tokens <= 0 || w.experts <= 0) return 0;
  const Constants& c = constants(Kind::kExperts, precision);
  const Type& t = type(precision);
  const double width = w.width / w.tensor, weights = w.matrices * w.hidden * width;
  // Experts of this GPU that some token chooses, if all are as likely; tokens' copies that come here.
  const double touched = w.experts / w.expert_parallel * (1 - std::pow(1 - w.top_k / w.experts, w.tokens));
  const double copies = w.tokens * w.top_k / w.expert_parallel;
  return time(c, precision, 2 * (copies + touched * c.grain / 2) * weights,
              t.weight * touched * weights +
                  copies * (t.activation * (w.hidden + width) + 2 * ((w.matrices - 1) * width + w.hidden)) +
                  2 * w.tokens * w.hidden);
}

double Kernels::attention(const Sequences& s, int cache_bytes) const {
  if (s.count <= 0) return 0;
  const Precision cache = cache_bytes == 1 ? Precision::kFp8 : Precision::kBf16;
  if (s.tokens > 1) {
    const Constants& c = constants(Kind::kPrefill, cache);
    const double total = s.tokens + s.past, w = s.window;
    // Pairs of a query and a key that it sees, of one sequence and head.
    double pairs = s.tokens * s.past + s.tokens * s.tokens / 2;
    if (w > 0 && w < total)
      pairs =
          std::min(pairs, s.past >= w ? s.tokens * w : s.tokens * w - std::max(0.0, (w - s.past) * (w - s.past) / 2));
    return time(c, Precision::kBf16, 4 * s.count * s.heads * s.head_dim * (pairs + s.tokens * c.grain),
                s.count * s.head_dim * 2 * (2 * s.tokens * s.heads + 2 * total * s.kv_heads));
  }
  const Constants& c = constants(Kind::kDecode, cache);
  double seen = s.past + 1;
  if (s.window > 0) seen = std::min(seen, s.window);
  const double group = std::max(s.heads / s.kv_heads, 8.0);  // rows of a tensor core's tile
  return time(
      c, Precision::kBf16, 4 * s.count * s.kv_heads * group * s.head_dim * (seen + c.grain),
      s.count * (seen + c.grain) * 2 * s.kv_heads * s.head_dim * cache_bytes + 4 * s.count * s.heads * s.head_dim);
}

double Kernels::latent_attention(const Sequences& s, int cache_bytes) const {
  if (s.count <= 0) return 0;
  constexpr double kHead = 192 + 128, kLatent = 576, kLatentValue = 512;  // dimensions per token and head
  const Precision cache = cache_bytes == 1 ? Precision::kFp8 : Precision::kBf16;
  if (s.tokens > 1) {
    const Constants& c = constants(Kind::kLatentPrefill, cache);
    double pairs = s.tokens * s.past + s.tokens * s.tokens / 2;
    if (s.window > 0) pairs = std::min(pairs, s.tokens * s.window);
    return time(c, Precision::kBf16, 2 * s.count * s.heads * kHead * (pairs + s.tokens * c.grain),
                s.count * (s.tokens + s.past) * s.heads * 2 * 2 * kHead);
  }
  const Constants& c = constants(Kind::kLatentDecode, cache);
  double seen = s.past + 1;
  if (s.window > 0) seen = std::min(seen, s.window);
  return time(c, Precision::kBf16, 2 * s.count * std::max(s.heads, 16.0) * (kLatent + kLatentValue) * (seen + c.grain),
              s.count * (seen + c.grain) * kLatent * cache_bytes + 2 * s.count * s.heads * (kLatent + kLatentValue));
}

}  // namespace weft::kernels
