#include "workload/training/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "base/text_file.h"
#include "cost/shipped.h"
#include "topology/machine.h"
#include "workload/training/files.h"
#include "workload/training/step.h"

namespace weft::training {
namespace {

using nlohmann::json;

constexpr double kDiffer = 0.03;  // pairs whose steps are nearer to each other have no order

struct Line {
  int number = 0;
  std::vector<std::string> cells;
};

// Cells in quotes may hold commas and doubled quotes.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  Line line{1, {""}};
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

class Table {
 public:
  static Result<Table> parse(std::string_view file, std::string_view text) {
    Table table;
    table.file_ = file;
    table.lines_ = lines_of(text);
    if (table.lines_.size() < 2) return bad_input("{}: no rows below a line of columns", file);
    table.columns_ = table.lines_.front().cells;
    table.lines_.erase(table.lines_.begin());
    for (const char* needed :
         {"model", "layers", "hidden", "heads", "seq", "gbs", "gpus", "gpu", "precision", "tp", "pp", "step_s"})
      if (std::ranges::find(table.columns_, needed) == table.columns_.end())
        return bad_input("{}: column {} is missing", file, needed);
    for (const Line& line : table.lines_)
      if (line.cells.size() != table.columns_.size())
        return bad_input("{}:{}: {} cells, but {} columns", file, line.number, line.cells.size(),
                         table.columns_.size());
    return table;
  }

  const std::vector<Line>& lines() const { return lines_; }
  std::string text(const Line& line, std::string_view column) const {
    const auto at = std::ranges::find(columns_, column);
    return at == columns_.end() ? "" : line.cells[static_cast<std::size_t>(at - columns_.begin())];
  }
  // Empty cells are `otherwise`. Errors (bad input): not a number above zero.
  Result<double> number(const Line& line, std::string_view column, double otherwise) const {
    const std::string cell = text(line, column);
    if (cell.empty()) return otherwise;
    char* end = nullptr;
    const double value = std::strtod(cell.c_str(), &end);
    if (*end != '\0' || !(value > 0) || !std::isfinite(value))
      return bad_input("{}:{}: {} '{}' is no number above 0", file_, line.number, column, cell);
    return value;
  }
  Result<std::int64_t> count(const Line& line, std::string_view column, std::int64_t otherwise) const {
    WEFT_TRY(const double value, number(line, column, static_cast<double>(otherwise)));
    if (value != std::floor(value) || value > 1e12)
      return bad_input("{}:{}: {} '{}' is no count", file_, line.number, column, value);
    return static_cast<std::int64_t>(value);
  }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<Line> lines_;
};

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string precision_of(std::string_view text) {
  if (has(text, "fp4")) return "fp4";
  return has(text, "fp8") ? "fp8" : "bf16";
}

// The year of the framework, by what the table says of its source.
int software_of(const Table& table, const Line& line) {
  if (const std::string year = table.text(line, "software"); year.size() == 4) return std::atoi(year.c_str());
  const std::string extra = table.text(line, "extra"), source = table.text(line, "source");
  const auto two_digits = [](const std::string& text, std::string_view before) {
    const auto at = text.find(before);
    return at == std::string::npos ? 0 : std::atoi(text.substr(at + before.size(), 2).c_str());
  };
  if (const int year = two_digits(extra, "release="); year > 0) return 2000 + year;
  if (const int year = two_digits(source, "arXiv "); year > 0) return 2000 + year;
  if (has(source, "bigscience")) return 2022;
  if (has(source, "llm-foundry")) return 2023;
  return 2024;
}

Result<Model> model_of(const Table& table, const Line& line) {
  const std::string name = table.text(line, "model");
  for (const std::string& known : model_names())
    if (known == name) return load_model(known);
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
  return m;
}

Result<Plan> plan_of(const Table& table, const Line& line, std::int64_t gpus) {
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
  p.precision = precision_of(table.text(line, "precision"));
  p.gradient_bytes = p.software >= 2024 ? 2 : 4;
  return p;
}

// Machines by preset and nodes; what their collectives take is kept for all rows.
class Machines {
 public:
  struct Machine {
    std::unique_ptr<cost::MachineView> view;
    std::unique_ptr<Traffic> traffic;
  };
  struct Answer {
    Machine* machine;
    std::string card;
  };
  Result<Answer> find(const std::string& gpu, std::int64_t gpus) {
    for (const auto& file : embedded::training_files()) {
      if (file.path != "data/training/gpus.json") continue;
      const json table = json::parse(file.text, nullptr, false);
      for (const auto& entry : table["gpus"]) {
        if (!gpu.starts_with(entry.value("name", "?"))) continue;
        const std::string preset = entry.value("preset", "");
        const std::int64_t per_node = preset == "gb200-nvl72" ? 72 : 8;
        WEFT_TRY(Machine * machine,
                 load(fmt::format("{}:nodes={}", preset, std::max<std::int64_t>(1, (gpus + per_node - 1) / per_node))));
        return Answer{machine, entry.value("card", "")};
      }
    }
    return bad_input("GPU '{}' is in no row of data/training/gpus.json", gpu);
  }

 private:
  Result<Machine*> load(const std::string& name) {
    auto& machine = machines_[name];
    if (!machine.view) {
      WEFT_TRY(auto topology, topology::load_machine(name));
      WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
      machine.view = std::make_unique<cost::MachineView>(std::move(view));
      machine.traffic = std::make_unique<Traffic>(*machine.view);
    }
    return &machine;
  }
  std::map<std::string, Machine> machines_;
};

Status predict(const Table& table, const Line& line, Machines& machines, Compared& row) {
  WEFT_TRY(const std::int64_t gpus, table.count(line, "gpus", 0));
  row.gpus = static_cast<double>(gpus);
  WEFT_TRY(row.measured, table.number(line, "step_s", 0));
  const std::string memory = table.text(line, "mem_gib");
  row.out_of_memory = memory == "OOM";
  if (!row.out_of_memory) {
    WEFT_TRY(row.memory, table.number(line, "mem_gib", 0));
  }
  WEFT_TRY(const Model model, model_of(table, line));
  WEFT_TRY(row.plan, plan_of(table, line, gpus));
  row.moe = model.moe();
  row.plan_text = describe(row.plan);
  row.flops_per_gpu = model.flops_per_token(row.plan.seq) * static_cast<double>(row.plan.global_batch * row.plan.seq) /
                      row.gpus * (row.plan.recompute == Recompute::kFull ? 4.0 / 3 : 1);
  if (has(table.text(line, "arch"), "hybrid")) row.skipped = "layers without attention (Mamba) are not modelled";
  if (has(table.text(line, "flag"), "changes the model")) row.skipped = "the row changes the model";
  if (table.text(line, "schedule").starts_with("ZB-2p")) row.skipped = "schedule ZB-2p is not modelled";
  if (row.measured == 0 && !row.out_of_memory) row.skipped = "no step time";
  if (!row.skipped.empty()) return {};
  const auto found = machines.find(row.gpu, gpus);
  if (!found) return row.skipped = found.error().message, Status{};
  const auto card = load_card(found->card, row.plan.precision);
  if (!card) return row.skipped = card.error().message, Status{};
  if (const auto divides = check_plan(model, row.plan); !divides)
    return row.skipped = divides.error().message, Status{};
  const auto step = simulate_step(model, row.plan, *card, *found->machine->traffic);
  if (!step) return row.skipped = step.error().message, Status{};
  row.predicted = step->seconds;
  row.fits = step->fits;
  // Rows that say neither what they recompute nor what they need say nothing about memory.
  row.memory_judged = row.out_of_memory || row.memory > 0 || !table.text(line, "recompute").empty();
  row.memory_predicted = step->peak.total() / kGiB;
  return {};
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

template <class Chosen, class Error>
Spread spread(const std::vector<Compared>& rows, Chosen&& chosen, Error&& error) {
  std::vector<double> sizes, signs;
  for (const Compared& row : rows) {
    if (!row.skipped.empty() || row.measured <= 0 || !chosen(row)) continue;
    const std::optional<double> e = error(row);
    if (e) sizes.push_back(std::abs(*e)), signs.push_back(*e);
  }
  return {sizes.size(), quantile(sizes, 0.5), quantile(sizes, 0.9), quantile(signs, 0.5)};
}

std::optional<double> model_error(const Compared& r) { return r.error(); }
std::optional<double> simple_error(const Compared& r) {
  return r.simple > 0 ? std::optional(r.simple / r.measured - 1) : std::nullopt;
}

// One number per card and precision: the median rate that other models reached there.
void predict_simply(std::vector<Compared>& rows) {
  for (Compared& row : rows) {
    if (row.measured <= 0) continue;
    std::vector<double> rates;
    for (const Compared& other : rows)
      if (other.measured > 0 && other.gpu == row.gpu && other.plan.precision == row.plan.precision &&
          other.model != row.model)
        rates.push_back(other.flops_per_gpu / other.measured);
    if (!rates.empty()) row.simple = row.flops_per_gpu / quantile(rates, 0.5);
  }
}

void count_pairs(Comparison& c) {
  const auto same = [](const Compared& a, const Compared& b) {
    return a.set == b.set && a.source == b.source && a.model == b.model && a.gpu == b.gpu &&
           a.precision == b.precision && a.gpus == b.gpus && a.plan.global_batch == b.plan.global_batch &&
           a.plan.seq == b.plan.seq && a.plan_text != b.plan_text;
  };
  for (std::size_t i = 0; i < c.rows.size(); ++i)
    for (std::size_t j = i + 1; j < c.rows.size(); ++j) {
      const Compared &a = c.rows[i], &b = c.rows[j];
      if (!a.skipped.empty() || !b.skipped.empty() || a.measured <= 0 || b.measured <= 0 || !same(a, b)) continue;
      if (std::abs(std::log(a.measured / b.measured)) < kDiffer) continue;
      ++c.pairs;
      c.pairs_right += (a.measured < b.measured) == (a.predicted < b.predicted) ? 1 : 0;
    }
}

}  // namespace

Result<Comparison> compare_text(std::string_view file, std::string_view text, const CompareProgress& progress) {
  WEFT_TRY(const Table table, Table::parse(file, text));
  Comparison c;
  Machines machines;
  for (const Line& line : table.lines()) {
    if (progress) progress(c, std::ssize(table.lines()));
    Compared row{.id = table.text(line, "id"),
                 .set = table.text(line, "set"),
                 .group = table.text(line, "group"),
                 .model = table.text(line, "model"),
                 .gpu = table.text(line, "gpu"),
                 .precision = table.text(line, "precision"),
                 .source = table.text(line, "source")};
    if (row.id.empty()) row.id = fmt::format("line {}", line.number);
    WEFT_CHECK(predict(table, line, machines, row));
    c.rows.push_back(std::move(row));
  }
  conclude(c);
  return c;
}

void conclude(Comparison& c) {
  predict_simply(c.rows);
  count_pairs(c);
}

Result<Comparison> compare_file(const std::string& file, const CompareProgress& progress) {
  WEFT_TRY(const std::string text, read_text_file(file));
  return compare_text(file, text, progress);
}

std::string in_words(const Comparison& c, bool every_row) {
  const auto dense = spread(
      c.rows, [](const Compared& r) { return !r.moe; }, model_error);
  const auto moe = spread(
      c.rows, [](const Compared& r) { return r.moe; }, model_error);
  std::string text;
  if (every_row)
    text =
        "# Training accuracy\n\nMeasured steps beside the model's, written by `weft train --compare TABLE --top -1`. "
        "No constant was "
        "fitted to a\nmodel, paper or table. [Training steps](training.md#what-is-wrong) says what is wrong and "
        "why.\n\n";
  text += fmt::format(
      "Of {} measured steps, {} are predicted: dense models to {:.1f} % (median; {:.1f} % at 90 %), MoE to {:.1f} % "
      "({:.1f} %).\n\n",
      c.rows.size(), dense.rows + moe.rows, 100 * dense.median, 100 * dense.ninety, 100 * moe.median, 100 * moe.ninety);
  text += fmt::format(
      "| rows of | rows | median error % | 90 % | bias % | one number per card: median % | 90 % "
      "|\n|---|---|---|---|---|---|---|\n");
  const auto line = [&](const std::string& name, auto&& chosen) {
    const Spread s = spread(c.rows, chosen, model_error), simple = spread(c.rows, chosen, simple_error);
    if (s.rows == 0) return;
    text += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:+.1f} |", name, s.rows, 100 * s.median, 100 * s.ninety,
                        100 * s.bias);
    text +=
        simple.rows == 0 ? " - | - |\n" : fmt::format(" {:.1f} | {:.1f} |\n", 100 * simple.median, 100 * simple.ninety);
  };
  line("all dense models", [](const Compared& r) { return !r.moe; });
  line("all MoE models", [](const Compared& r) { return r.moe; });
  std::vector<std::string> sets;
  for (const Compared& r : c.rows)
    if (const std::string key = r.set + ", " + r.gpu + ", " + r.plan.precision + (r.moe ? ", MoE" : "");
        std::ranges::find(sets, key) == sets.end())
      sets.push_back(key);
  for (const std::string& set : sets)
    line(set, [&](const Compared& r) {
      return r.set + ", " + r.gpu + ", " + r.plan.precision + (r.moe ? ", MoE" : "") == set;
    });
  if (c.pairs > 0)
    text += fmt::format(
        "\nOf {} pairs that differ only in the plan, by more than {:.0f} %, {:.0f} % are in the right order.\n",
        c.pairs, 100 * kDiffer, 100.0 * static_cast<double>(c.pairs_right) / static_cast<double>(c.pairs));
  std::vector<double> memory;
  std::size_t failed = 0, found = 0, false_alarms = 0;
  for (const Compared& r : c.rows) {
    if (r.memory_predicted <= 0 || !r.memory_judged) continue;
    if (r.out_of_memory)
      ++failed, found += r.fits ? 0 : 1;
    else
      false_alarms += r.fits ? 0 : 1;
    if (r.memory > 0) memory.push_back(std::abs(r.memory_predicted / r.memory - 1));
  }
  text += fmt::format(
      "Memory of {} rows is predicted to {:.0f} % (median; {:.0f} % at 90 %); {} of {} out-of-memory rows are found, "
      "{} rows that ran are said not to fit.\n",
      memory.size(), 100 * quantile(memory, 0.5), 100 * quantile(memory, 0.9), found, failed, false_alarms);
  std::map<std::string, std::size_t> skipped;
  for (const Compared& r : c.rows)
    if (!r.skipped.empty()) ++skipped[r.skipped];
  for (const auto& [why, rows] : skipped) text += fmt::format("Not predicted: {} rows: {}\n", rows, why);
  if (!every_row) return text;
  text += "\n| row | model | GPUs | plan | measured s | model s | error % |\n|---|---|---|---|---|---|---|\n";
  for (const Compared& r : c.rows)
    if (r.skipped.empty() && r.measured > 0)
      text += fmt::format("| {} | {} | {:.0f} {} | {}, {} | {:.3f} | {:.3f} | {:+.1f} |\n", r.id, r.model, r.gpus,
                          r.gpu, r.precision, r.plan_text, r.measured, r.predicted, 100 * r.error());
  return text;
}

nlohmann::json to_json(const Comparison& c) {
  json rows = json::array();
  for (const Compared& r : c.rows)
    rows.push_back({{"id", r.id},
                    {"set", r.set},
                    {"model", r.model},
                    {"gpu", r.gpu},
                    {"plan", r.plan_text},
                    {"moe", r.moe},
                    {"measured_s", r.measured},
                    {"predicted_s", r.predicted},
                    {"one_number_per_card_s", r.simple},
                    {"memory_gib", r.memory},
                    {"memory_predicted_gib", r.memory_predicted},
                    {"out_of_memory", r.out_of_memory},
                    {"fits", r.fits},
                    {"skipped", r.skipped}});
  return {{"schema", "weft.train-compare/1"}, {"pairs", c.pairs}, {"pairs_in_order", c.pairs_right}, {"rows", rows}};
}

}  // namespace weft::training
