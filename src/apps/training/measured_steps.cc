#include "apps/training/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/training/files.h"
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

std::string precision_of(std::string_view text) {
  if (has(text, "fp4")) return "fp4";
  return has(text, "fp8") ? "fp8" : "bf16";
}

// The year of the framework, by what the table says of its source.
int software_of(const StepTable& table, const StepLine& line) {
  if (const std::string year = table.text(line, "software"); year.size() == 4) return std::atoi(year.c_str());
  const std::string extra = table.text(line, "extra"), source = table.text(line, "source");
  const auto two_digits = [](const std::string& text, std::string_view before) {
    const auto at = text.find(before);
    return at == std::string::npos ? 0 : std::atoi(text.substr(at + before.size(), 2).c_str());
  };
  // As below; the zero-bubble paper's own times of a stage say it: a backward pass for weights, which is GEMMs alone,
  // takes half of a forward pass, whose GEMMs are as many.
  if (has(source, "2401.10241")) return 2022;
  if (const int year = two_digits(extra, "release="); year > 0) return 2000 + year;
  if (const int year = two_digits(source, "arXiv "); year > 0) return 2000 + year;
  if (has(source, "bigscience")) return 2022;
  // Megatron-LM of 2023 without its option to fuse attention: MegaScale counts fused attention among its own additions.
  if (has(table.text(line, "overlap"), "none of MegaScale")) return 2022;
  if (has(source, "llm-foundry")) return 2023;
  // PyTorch's own attention is FlashAttention-2; nothing of tensor parallelism overlaps unless it is asked to.
  if (has(source, "torchtitan") && !has(table.text(line, "overlap"), "AsyncTP")) return 2023;
  return 2024;
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
      return bad_input("{}:{}: {} cells, but {} columns", file, line.number, line.cells.size(), table.columns_.size());
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

Result<Model> model_of(const StepTable& table, const StepLine& line) {
  const std::string name = table.text(line, "model");
  if (const auto names = models::catalog_names(); std::ranges::binary_search(names, name)) return load_model(name);
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
  const auto wrong = [&](const char* column, std::int64_t value, const char* why) {
    return bad_input("{}:{}: {} {} {}; are columns swapped?", table.file(), line.number, column, value, why);
  };
  if (m.layers == 0 || m.hidden == 0 || m.heads == 0)
    return bad_input("{}:{}: layers, hidden and heads are needed", table.file(), line.number);
  if (m.heads > m.hidden) return wrong("heads", m.heads, "are more than hidden");
  if (m.layers > m.hidden) return wrong("layers", m.layers, "are more than hidden");
  if (m.kv_heads > m.heads) return wrong("kv_heads", m.kv_heads, "are more than heads");
  if (m.ffn > 0 && m.ffn < m.hidden) return wrong("ffn", m.ffn, "is less than hidden");
  m.head_dim = m.hidden / m.heads;
  const bool gpt = name.starts_with("gpt") || name.starts_with("mpt") || name.starts_with("nemotron");
  m.gated = !gpt;
  m.tied = name.starts_with("gpt") || name.starts_with("mpt");
  return uniform_model(std::move(m));
}

Result<Plan> plan_of(const StepTable& table, const StepLine& line, std::int64_t gpus) {
  Plan p;
  p.software = software_of(table, line);
  WEFT_TRY(p.tp, table.count(line, "tp", 1));
  WEFT_TRY(p.pp, table.count(line, "pp", 1));
  WEFT_TRY(p.vp, table.count(line, "vp", 1));
  WEFT_TRY(p.cp, table.count(line, "cp", 1));
  WEFT_TRY(p.ep, table.count(line, "ep", 1));
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
  p.zero = has(sharding, "FSDP")                                                         ? 3
           : p.software >= 2023 || has(sharding, "ZeRO-1") || has(sharding, "optimizer") ? 1
                                                                                         : 0;
  p.recompute = has(recompute, "full")        ? Recompute::kFull
                : has(recompute, "selective") ? Recompute::kSelective
                                              : Recompute::kNone;
  p.sequence_parallel = p.software >= 2023 || has(recompute, "sequence");
  if (schedule.starts_with("ZB-1p")) p.schedule = Schedule::kZeroBubble;
  if (schedule.starts_with("ZB-2p")) p.schedule = Schedule::kZeroBubble2;
  p.precision = precision_of(table.text(line, "precision"));
  p.eager = has(table.text(line, "overlap"), "eager") ? 1 : 0;
  p.gradient_bytes = p.software >= 2024 ? 2 : 4;
  return p;
}

Result<StepMachines::Answer> StepMachines::find(const std::string& gpu, std::int64_t gpus) {
  for (const auto& file : embedded::training_files()) {
    if (file.path != "data/training/gpus.json") continue;
    const json table = json::parse(file.text, nullptr, false);
    for (const auto& entry : table["gpus"]) {
      if (!gpu.starts_with(entry.value("name", "?"))) continue;
      const std::string preset = entry.value("preset", "");
      const std::int64_t per_node = preset.ends_with("nvl72") ? 72 : 8;
      WEFT_TRY(Machine * machine,
               load(fmt::format("{}:nodes={}", preset, std::max<std::int64_t>(1, (gpus + per_node - 1) / per_node))));
      return Answer{machine, entry.value("card", "")};
    }
  }
  return bad_input("GPU '{}' is in no row of data/training/gpus.json", gpu);
}

Result<StepMachines::Machine*> StepMachines::load(const std::string& name) {
  auto& machine = machines_[name];
  if (!machine.view) {
    WEFT_TRY(auto topology, topology::load_machine(name));
    WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
    machine.view = std::make_unique<cost::MachineView>(std::move(view));
    machine.traffic = std::make_unique<Traffic>(*machine.view);
  }
  return &machine;
}

}  // namespace weft::training
