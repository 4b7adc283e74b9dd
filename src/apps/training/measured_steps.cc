#include "apps/training/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <regex>
#include <tuple>
#include <utility>

#include "apps/training/files.h"
#include "apps/training/layout.h"
#include "apps/training/software.h"
#include "base/counted.h"
#include "base/models/model.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

using nlohmann::json;

// Cells in quotes may hold commas and doubled quotes.
std::vector<StepLine> lines_of(std::string_view text) {
  std::vector<StepLine> lines;
  StepLine line{1, {""}};
  bool quoted = false;
  int number = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      line.cells.back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      line.cells.emplace_back();
    else if (c == '\n' && !quoted) {
      if (line.cells.size() > 1 || !line.cells[0].empty()) lines.push_back(std::move(line));
      line = {++number, {""}};
    } else if (c != '\r') {
      number += c == '\n' ? 1 : 0;
      line.cells.back() += c;
    }
  }
  if (line.cells.size() > 1 || !line.cells[0].empty()) lines.push_back(std::move(line));
  return lines;
}

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// MXFP8 has a scale per 32 values, which costs passes of its own.
std::string precision_of(std::string_view text) {
  if (has(text, "fp4")) return "fp4";
  if (has(text, "mxfp8") || has(text, "fp8-mx") || has(text, "alt-granularity")) return "mxfp8";
  return has(text, "fp8") ? "fp8" : "bf16";
}

// "2025-06", "202412", "25.04" behind a mark: year and month.
Release date_in(std::string_view text, std::string_view mark) {
  Release r;
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return r;
  std::string digits;
  for (const char c : text.substr(at + mark.size()))
    if (c >= '0' && c <= '9')
      digits += c;
    else if (c != '.' && c != '-')
      break;
  if (digits.starts_with("20") && digits.size() >= 6) digits.erase(0, 2);
  if (digits.size() < 4) return r;
  r.year = 2000 + std::atoi(digits.substr(0, 2).c_str());
  r.month = std::atoi(digits.substr(2, 2).c_str());
  return r;
}

// Framework, year and month, by what the table says of its source.
Result<Release> release_of(const StepTable& table, const StepLine& line) {
  const std::string extra = table.text(line, "extra"), source = table.text(line, "source");
  Release r;
  if (const std::string cell = table.text(line, "software"); !cell.empty()) {
    if (auto read = parse_release(cell))
      r = *read;
    else if (cell.find_first_not_of("0123456789.") == std::string::npos)
      return bad_input("{}:{}: software '{}': {}", table.file(), line.number, cell, read.error().message);
  }
  if (r.framework.empty()) r.framework = framework_of(source + " " + table.text(line, "software"));
  if (r.framework.empty()) r.framework = framework_of(table.text(line, "set"));
  if (r.year > 0) return r;
  const auto dated = [&](const Release& date) {
    if (date.year > 0) r.year = date.year, r.month = date.month;
    return date.year > 0;
  };
  // As below; the zero-bubble paper's own times of a stage say it: a backward pass for weights, which is GEMMs alone,
  // takes half of a forward pass, whose GEMMs are as many.
  if (has(source, "2401.10241")) return r.year = 2022, r;
  if (dated(date_in(extra, "release=")) || dated(date_in(table.text(line, "group"), "dgxc")) ||
      dated(date_in(source, "llama3_h100_")) || dated(date_in(source, "arXiv ")))
    return r;
  r.year = has(source, "bigscience")          ? 2022
           : has(source, "llm-foundry")       ? 2023
           : r.framework == "megatron-bridge" ? 2026  // its first releases are of the end of 2025
                                              : 2024;
  // Megatron-LM of 2023 without its option to fuse attention: MegaScale counts fused attention among its own additions.
  if (has(table.text(line, "overlap"), "none of MegaScale")) r.year = 2022;
  return r;
}

// The network's rate for each GPU, as words of the cell: "8xHDR200 IB/node", "1600 Gb/s RoCE per node", "400G/GPU".
double rate_per_gpu(const std::string& network, std::int64_t per_node) {
  static const std::regex kNics(R"((\d+)x[A-Za-z]*(\d+))"), kNode(R"((\d+) Gb/s)"), kGpu(R"((\d+)G/GPU)");
  std::smatch m;
  if (std::regex_search(network, m, kNics)) return std::stod(m[1]) * std::stod(m[2]) / static_cast<double>(per_node);
  if (std::regex_search(network, m, kGpu)) return std::stod(m[1]);
  if (std::regex_search(network, m, kNode)) return std::stod(m[1]) / static_cast<double>(per_node);
  return 0;
}

// ",net=…" of the nearest generation; empty: the preset's own.
std::string network_of(const std::string& network, std::int64_t per_node) {
  const double rate = rate_per_gpu(network, per_node);
  if (rate < 20 || rate > 1000) return "";
  const bool ethernet = has(network, "RoCE") || has(network, "Ethernet") || has(network, "Omni");
  std::string_view nearest;
  double apart = std::numeric_limits<double>::infinity();
  for (const auto& [gbit, infiniband, roce] : {std::tuple(56.0, "ib-fdr", "ib-fdr"),
                                               {100.0, "ib-edr", "roce-100"},
                                               {200.0, "ib-hdr", "roce-200"},
                                               {400.0, "ib-ndr", "roce-400"},
                                               {800.0, "ib-xdr", "roce-800"}})
    if (const double off = std::abs(std::log(rate / gbit)); off < apart)
      apart = off, nearest = ethernet ? roce : infiniband;
  return fmt::format(",net={}", nearest);
}

}  // namespace

Result<StepTable> StepTable::parse(std::string_view file, std::string_view text) {
  StepTable table;
  table.file_ = file;
  table.lines_ = lines_of(text);
  if (table.lines_.size() < 2) return bad_input("{}: no rows below a line of columns", file);
  table.columns_ = table.lines_.front().cells;
  table.lines_.erase(table.lines_.begin());
  for (const char* needed :
       {"model", "layers", "hidden", "heads", "seq", "gbs", "gpus", "gpu", "precision", "tp", "pp", "step_s"})
    if (std::ranges::find(table.columns_, needed) == table.columns_.end())
      return bad_input("{}: column {} is missing", file, needed);
  for (const StepLine& line : table.lines_)
    if (line.cells.size() != table.columns_.size())
      return bad_input("{}:{}: {}, but {}", file, line.number, counted(line.cells.size(), "cell"),
                       counted(table.columns_.size(), "column"));
  return table;
}

std::string StepTable::text(const StepLine& line, std::string_view column) const {
  const auto at = std::ranges::find(columns_, column);
  return at == columns_.end() ? "" : line.cells[static_cast<std::size_t>(at - columns_.begin())];
}

Result<double> StepTable::number(const StepLine& line, std::string_view column, double otherwise) const {
  const std::string cell = text(line, column);
  if (cell.empty()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (*end != '\0' || !(value > 0) || !std::isfinite(value))
    return bad_input("{}:{}: {} '{}' is no number above 0", file_, line.number, column, cell);
  return value;
}

Result<std::int64_t> StepTable::count(const StepLine& line, std::string_view column, std::int64_t otherwise) const {
  WEFT_TRY(const double value, number(line, column, static_cast<double>(otherwise)));
  if (value != std::floor(value) || value > 1e12)
    return bad_input("{}:{}: {} '{}' is no count", file_, line.number, column, value);
  return static_cast<std::int64_t>(value);
}

namespace {

std::string letters(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) plain += static_cast<char>(std::tolower(c));
  return plain;
}

// The model of the catalogue that the row names, in full or by its beginning ("nemotron3-nano"), where its layers and
// width are those of the row: a model of the same name that is cut to other sizes is taken as the row says.
std::optional<Model> known_model(const StepTable& table, const StepLine& line) {
  const std::string name = table.text(line, "model"), layers = table.text(line, "layers"),
                    hidden = table.text(line, "hidden");
  const auto as_row = [&](const Model& m) {
    return (layers.empty() || layers == std::to_string(m.layers)) &&
           (hidden.empty() || hidden == std::to_string(m.hidden));
  };
  if (const std::string known = models::catalog_name(name); !known.empty())
    if (auto model = load_model(known); model && as_row(*model)) return *model;
  if (layers.empty() || hidden.empty()) return std::nullopt;
  for (const std::string& known : models::catalog_names())
    if (letters(known).starts_with(letters(name)))
      if (auto model = load_model(known); model && as_row(*model)) return *model;
  return std::nullopt;
}

}  // namespace

Result<Model> model_of(const StepTable& table, const StepLine& line) {
  const std::string name = table.text(line, "model");
  if (auto known = known_model(table, line)) return *known;
  if (has(table.text(line, "arch"), "hybrid"))
    return bad_input("{}:{}: {} is in no catalogue, and a row has no column for layers that differ", table.file(),
                     line.number, name);
  Model m;
  m.name = name;
  WEFT_TRY(m.layers, table.count(line, "layers", 0));
  WEFT_TRY(m.hidden, table.count(line, "hidden", 0));
  WEFT_TRY(m.heads, table.count(line, "heads", 0));
  WEFT_TRY(m.kv_heads, table.count(line, "kv_heads", m.heads));
  WEFT_TRY(m.ffn, table.count(line, "ffn", 4 * m.hidden));
  WEFT_TRY(m.vocab, table.count(line, "vocab", 51200));
  WEFT_TRY(m.experts, table.count(line, "experts", 0));
  WEFT_TRY(m.top_k, table.count(line, "topk", 0));
  WEFT_TRY(m.moe_ffn, table.count(line, "moe_ffn", m.ffn));
  WEFT_TRY(m.head_dim, table.count(line, "head_dim", m.heads > 0 ? m.hidden / m.heads : 0));
  WEFT_TRY(const std::int64_t shared, table.count(line, "shared_experts", 0));
  WEFT_TRY(m.shared_ffn, table.count(line, "shared_ffn", shared * m.moe_ffn));
  if (m.experts > 0 && m.top_k == 0)
    return bad_input("{}:{}: topk is missing beside experts {}", table.file(), line.number, m.experts);
  const auto wrong = [&](const char* column, std::int64_t value, const char* why) {
    return bad_input("{}:{}: {} {} {}; are columns swapped?", table.file(), line.number, column, value, why);
  };
  if (m.layers == 0 || m.hidden == 0 || m.heads == 0)
    return bad_input("{}:{}: layers, hidden and heads are needed", table.file(), line.number);
  if (m.heads > m.hidden) return wrong("heads", m.heads, "are more than hidden");
  if (m.layers > m.hidden) return wrong("layers", m.layers, "are more than hidden");
  if (m.kv_heads > m.heads) return wrong("kv_heads", m.kv_heads, "are more than heads");
  if (m.experts == 0 && m.ffn > 0 && m.ffn < m.hidden) return wrong("ffn", m.ffn, "is less than hidden");
  const bool gpt = name.starts_with("gpt") || name.starts_with("mpt") || name.starts_with("nemotron");
  m.gated = !gpt;
  m.composed_gelu = name.starts_with("gpt2"), m.head_norms = name.starts_with("qwen3");
  WEFT_TRY(const std::int64_t tied, table.count(line, "tied", name.starts_with("gpt") || name.starts_with("mpt")));
  m.tied = tied != 0;
  return uniform_model(std::move(m));
}

namespace {

std::int64_t sharding_of(std::string_view text, const Plan& plan) {
  if (has(text, "FSDP") || has(text, "HSDP") || has(text, "ZeRO-3")) return 3;
  if (has(text, "ZeRO-2")) return 2;
  return plan.software >= 2023 || has(text, "ZeRO-1") || has(text, "optimizer") ? 1 : 0;
}

}  // namespace

Result<MemoryOf> memory_of(const StepTable& table, const StepLine& line, const Plan& plan) {
  const std::string own = table.text(line, "mem_of");
  const auto of = parse_memory_of(own.empty() ? published_memory(plan.framework) : own);
  if (!of) return bad_input("{}:{}: {}", table.file(), line.number, of.error().message);
  return *of;
}

Result<Plan> plan_of(const StepTable& table, const StepLine& line, std::int64_t gpus) {
  Plan p;
  WEFT_TRY(const Release release, release_of(table, line));
  p.software = release.year, p.month = release.month, p.framework = release.framework;
  WEFT_TRY(p.tp, table.count(line, "tp", 1));
  WEFT_TRY(p.pp, table.count(line, "pp", 1));
  WEFT_TRY(p.vp, table.count(line, "vp", 1));
  WEFT_TRY(p.cp, table.count(line, "cp", 1));
  WEFT_TRY(p.ep, table.count(line, "ep", 1));
  WEFT_TRY(p.etp, table.count(line, "etp", 1));
  WEFT_TRY(p.micro_batch, table.count(line, "mbs", 1));
  WEFT_TRY(p.global_batch, table.count(line, "gbs", 0));
  WEFT_TRY(p.seq, table.count(line, "seq", 0));
  if (p.tp > gpus)
    return bad_input("{}:{}: tp {} is more than {} gpus; are columns swapped?", table.file(), line.number, p.tp, gpus);
  if (p.micro_batch > p.global_batch)
    return bad_input("{}:{}: mbs {} is more than gbs {}; are columns swapped?", table.file(), line.number,
                     p.micro_batch, p.global_batch);
  p.dp = std::max<std::int64_t>(1, gpus / (p.tp * p.pp * p.cp));
  const std::string sharding = table.text(line, "sharding"), recompute = table.text(line, "recompute");
  const std::string schedule = table.text(line, "schedule");
  const std::string extra = table.text(line, "extra"), overlap = table.text(line, "overlap");
  p.zero = sharding_of(sharding, p);
  if (has(sharding, "HSDP") || has(sharding, "HYBRID")) p.shard = std::gcd(p.replicas(), std::int64_t{8});
  p.recompute = has(recompute, "full")        ? Recompute::kFull
                : has(recompute, "selective") ? Recompute::kSelective
                                              : Recompute::kNone;
  p.sequence_parallel = p.software >= 2023 || has(recompute, "sequence");
  if (schedule.starts_with("ZB-1p")) p.schedule = Schedule::kZeroBubble;
  if (schedule.starts_with("ZB-2p")) p.schedule = Schedule::kZeroBubble2;
  p.precision = precision_of(table.text(line, "precision"));
  p.eager = has(overlap, "eager") ? 1 : has(overlap, "compiled") || !p.transformers() ? 0 : -1;
  p.async_tensor = p.framework != "torchtitan" || has(overlap, "AsyncTP");
  p.gradient_bytes = p.software >= 2024 && p.framework != "torchtitan" ? 2 : 4;
  WEFT_TRY(const std::int64_t gradient_bytes, table.count(line, "gradient_bytes", p.gradient_bytes));
  WEFT_TRY(const std::int64_t optimizer_bytes, table.count(line, "optimizer_bytes", p.optimizer_bytes));
  p.gradient_bytes = static_cast<int>(gradient_bytes), p.optimizer_bytes = static_cast<int>(optimizer_bytes);
  if (p.framework == "megatron-deepspeed" && has(table.text(line, "precision"), "bf16")) p.more_gradient_bytes = 6;
  // Megatron-Bridge's and NeMo's adapters have rank 32 by default.
  const bool lora = has(table.text(line, "role"), "LoRA") || has(extra, "phase=lora");
  WEFT_TRY(p.lora, table.count(line, "lora", lora ? 32 : 0));
  WEFT_TRY(p.mtp, table.count(line, "mtp", 0));
  if (has(table.text(line, "optimizer"), "muon")) p.optimizer = Optimizer::kMuon, p.optimizer_bytes = 8;
  if (const std::string by = table.text(line, "cp_by"); !by.empty()) {
    WEFT_TRY(p.context_by, parse_context_by(by));
  }
  if (const std::string layout = table.text(line, "layout"); !layout.empty()) {
    WEFT_TRY(Layout read, parse_layout(layout));
    p.layout = std::move(read.layers), p.mtp = std::max(p.mtp, read.mtp);
  }
  if (p.ep > 1 && (has(overlap, "DualPipe") || has(overlap, "EP overlap on"))) p.overlap_experts = 1;
  if (const std::string allocator = table.text(line, "allocator"); !allocator.empty()) {
    WEFT_TRY(p.expandable_segments, parse_allocator(allocator));
  }
  const std::string words = table.text(line, "dispatcher") + " " + overlap;
  if (has(words, "HybridEP") || has(words, "hybridep"))
    p.dispatcher = Dispatcher::kHybridEp;
  else if (!has(words, "alltoall") && p.framework == "megatron-bridge")
    p.dispatcher = Dispatcher::kDeepEp;
  return p;
}

Result<StepMachines::Answer> StepMachines::find(const std::string& gpu, std::int64_t gpus, const std::string& network) {
  for (const auto& file : embedded::training_files()) {
    if (file.path != "data/training/gpus.json") continue;
    const json table = json::parse(file.text, nullptr, false);
    for (const auto& entry : table["gpus"]) {
      const std::string name = entry.value("name", "?");
      if (!gpu.starts_with(name)) continue;
      for (const auto& other : table["gpus"])
        if (const auto at = gpu.find(other.value("name", "?"), name.size()); at != std::string::npos)
          return bad_input("GPU '{}' names several cards: a step is that of one kind", gpu);
      const std::string preset = entry.value("preset", "");
      const std::int64_t whole = preset.ends_with("nvl72") ? 72 : 8;
      const std::int64_t nodes = std::max<std::int64_t>(1, (gpus + whole - 1) / whole);
      // Racks are filled evenly, as schedulers place jobs.
      const std::int64_t used = (gpus + nodes - 1) / nodes;
      std::string on = fmt::format("{}:nodes={}", preset, nodes);
      if (whole > 8 && nodes > 1 && used < whole) on += fmt::format(",gpus={}", used);
      const std::string wires = nodes > 1 ? network_of(network, whole == 72 ? 72 : 8) : "";
      WEFT_TRY(Machine * machine, load(on + wires, preset + wires));
      return Answer{machine, entry.value("card", "")};
    }
  }
  return bad_input("GPU '{}' is in no row of data/training/gpus.json", gpu);
}

Result<StepMachines::Machine*> StepMachines::load(const std::string& name, const std::string& kind) {
  auto& machine = machines_[name];
  if (!machine.view) {
    WEFT_TRY(auto topology, topology::load_machine(name));
    WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
    machine.view = std::make_unique<cost::MachineView>(std::move(view));
    auto& parts = parts_[kind];
    machine.traffic = std::make_unique<Traffic>(*machine.view, std::vector<int>{}, parts);
    parts = machine.traffic->parts();
  }
  return &machine;
}

}  // namespace weft::training
