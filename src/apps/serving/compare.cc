#include "apps/serving/compare.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/serving/files.h"
#include "base/counted.h"
#include "base/models/model.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::serving {
namespace {

using nlohmann::json;
using Row = std::map<std::string, std::string>;

// Cells in quotes may hold commas and doubled quotes.
std::vector<std::vector<std::string>> cells_of(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line{""};
  bool quoted = false;
  const auto end = [&] {
    if (line.size() > 1 || !line[0].empty()) lines.push_back(std::move(line));
    line = {""};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      line.back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      line.emplace_back();
    else if (c == '\n' && !quoted)
      end();
    else if (c != '\r')
      line.back() += c;
  }
  end();
  return lines;
}

std::string text_of(const Row& row, const std::string& key) {
  const auto at = row.find(key);
  return at == row.end() ? "" : at->second;
}

Result<double> number(const Row& row, const std::string& key, double otherwise) {
  const std::string cell = text_of(row, key);
  if (cell.empty()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0) return bad_input("{} '{}' is no number", key, cell);
  return value == 0 ? otherwise : value;
}

Result<Rank> count(const Row& row, const std::string& key) {
  WEFT_TRY(const double value, number(row, key, 1));
  if (value != std::floor(value) || value > 4096)
    return bad_input("{} '{}' is no count up to 4096", key, text_of(row, key));
  return static_cast<Rank>(value);
}

// Decode engines of a benchmark that does not say how many, from 16 to 1023 clients; half of it with fewer clients,
// twice with more. Of 1, 2 and 4 the number that explains the rows of data/silicon/serving best.
constexpr int kDecodeEngines = 4;

// N of a name like "…_tpN_epN_994"; 0: it says none.
Rank plan_of_id(const std::string& id) {
  const auto at = id.rfind("_tp");
  return at == std::string::npos ? 0 : std::atoi(id.c_str() + at + 3);
}

// Names of types in tables; empty: the row names none, so the model's own file counts.
std::string precision_of(const std::string& name) {
  if (name == "nvfp4" || name.find("mxfp4") != std::string::npos) return "fp4";
  if (name == "bfloat16" || name == "float16") return "bf16";
  return name.starts_with("int4") ? "int4" : name;
}

Result<Plan> plan_of(const Row& row, const std::string& pool) {
  Plan plan;
  WEFT_TRY(plan.tp, count(row, pool + "tp_size"));
  WEFT_TRY(plan.pp, count(row, pool + "pp_size"));
  WEFT_TRY(plan.dp, count(row, pool + "attention_dp_size"));
  WEFT_TRY(plan.ep, count(row, pool + "moe_ep_size"));
  WEFT_TRY(const Rank moe_tp, count(row, pool + "moe_tp_size"));
  // A benchmark that runs tp N with ep N stands in some tables as N x N GPUs; its name says N.
  if (plan.ep > 1 && moe_tp == plan.ep && plan.stage() == plan.ep * moe_tp &&
      plan_of_id(text_of(row, "id")) == plan.ep) {
    if (plan.dp > 1)
      plan.dp = plan.ep, plan.tp = 1;
    else
      plan.tp = plan.ep;
  }
  // Experts on more GPUs than attention has by the row: attention has a replica for each of the others.
  if (text_of(row, pool + "attention_dp_size").empty() && moe_tp * plan.ep > plan.tp && moe_tp * plan.ep % plan.tp == 0)
    plan.dp = moe_tp * plan.ep / plan.tp;
  if (plan.ep > plan.stage()) plan.ep = plan.stage();
  plan.precision = precision_of(text_of(row, "gemm_quant_mode"));
  plan.experts = precision_of(text_of(row, "moe_quant_mode"));
  if (plan.precision.empty()) plan.precision = precision_of(text_of(row, "precision"));
  return plan;
}

// Engines of a row of one pool: tables that give the clients of all of them give the sequences per GPU beside.
Result<int> replicas_of(const Row& row, const Question& q) {
  WEFT_TRY(const double batch, number(row, "batch_size", 0));
  if (q.prefill || batch <= 0 || text_of(row, "concurrency").empty()) return 1;
  const double engines = static_cast<double>(q.load.concurrency) / batch / static_cast<double>(q.plan.gpus());
  return engines >= 2 && engines == std::floor(engines) ? static_cast<int>(engines) : 1;
}

Result<Question> question_of(const Row& row) {
  Question q;
  WEFT_TRY(q.shape, load_shape(text_of(row, "model_path")));
  // Rows with a date are of a benchmark whose lengths vary by a fifth and that sets the engines' intervals; the others
  // are of exact lengths.
  const bool apart = text_of(row, "mode") == "disagg";
  const bool benchmark = !text_of(row, "measured_on").empty();
  std::string engine = text_of(row, "backend");
  if (const std::string version = text_of(row, "backend_version");
      !version.empty() && std::isdigit(static_cast<unsigned char>(version[0])) != 0 && !apart)
    engine += "-" + version;
  WEFT_TRY(q.engine, load_engine(engine, benchmark, apart));
  WEFT_TRY(q.plan, plan_of(row, apart ? "decode_" : ""));
  if (apart) {
    WEFT_TRY(q.prefill, plan_of(row, "prefill_"));
    WEFT_TRY(q.prefills, count(row, "prefill_num_workers"));
    WEFT_TRY(q.decodes, count(row, "decode_num_workers"));
    // Tables without the numbers of engines: prefill engines as rate matching needs them, set below.
    if (text_of(row, "prefill_num_workers").empty()) q.prefills = 0;
  }
  for (const auto& [key, value] : {std::pair{"isl", &q.load.input}, {"osl", &q.load.output}}) {
    WEFT_TRY(const double n, number(row, key, 0));
    if (n < 1 || n > 1e7) return bad_input("{} '{}' is no length", key, text_of(row, key));
    *value = static_cast<std::int64_t>(n);
  }
  WEFT_TRY(double clients, number(row, "concurrency", 0));
  if (clients == 0) {  // tables without it give the sequences of an iteration of one GPU
    WEFT_TRY(const double batch, number(row, apart ? "decode_batch_size" : "batch_size", 0));
    clients = batch * q.plan.dp * q.decodes;
  }
  if (clients < 1 || clients > 1e6)
    return bad_input("concurrency '{}' is no number of clients", text_of(row, "concurrency"));
  q.load.concurrency = static_cast<std::int64_t>(clients);
  WEFT_TRY(q.replicas, replicas_of(row, q));
  WEFT_TRY(const double drafts, number(row, "drafts", 0));
  WEFT_TRY(q.engine.accept, number(row, "accept", 0));
  if (drafts < 0 || drafts > 64 || drafts != std::floor(drafts))
    return bad_input("drafts '{}' is no number of tokens up to 64", text_of(row, "drafts"));
  if (q.engine.accept < 0 || q.engine.accept > 1)
    return bad_input("accept '{}' is no probability", text_of(row, "accept"));
  q.engine.drafts = static_cast<int>(drafts);
  if (apart && q.prefills == 0) q.decodes = clients < 16 ? 2 : clients < 1024 ? kDecodeEngines : 2 * kDecodeEngines;
  q.load.spread = benchmark ? 0.8 : 1;
  return q;
}

// The times of a row depend on what this names and the row does not say: "engines", "drafts", both, or nothing.
std::string left_open(const Row& row) {
  std::vector<std::string_view> open;
  if (text_of(row, "mode") == "disagg" && text_of(row, "prefill_num_workers").empty()) open.emplace_back("engines");
  if (const auto config = models::config_of(text_of(row, "model_path")); config && text_of(row, "drafts").empty()) {
    const auto model = models::parse_config(config->file, config->text);
    if (model && model->predict_layers > 0) open.emplace_back("drafts");
  }
  return fmt::format("{}", fmt::join(open, " and "));
}

// Machines by system and nodes.
class Places {
 public:
  Result<Place*> find(const std::string& system, Rank gpus) {
    std::vector<std::string> names;
    for (const auto& file : embedded::serving_files()) {
      if (!file.path.ends_with("/systems.json")) continue;
      const json table = json::parse(file.text, nullptr, false);
      for (const json& s : table["systems"]) {
        names.push_back(s.value("name", ""));
        if (names.back() != system) continue;
        const Rank per_node = s.value("gpus_per_node", 8);
        return load(fmt::format("{}:nodes={}", s.value("preset", ""), (gpus + per_node - 1) / per_node));
      }
    }
    return bad_input("system '{}': there are {}", system, fmt::join(names, ", "));
  }

 private:
  struct Known {
    std::unique_ptr<cost::MachineView> view;
    std::optional<Place> place;
  };
  Result<Place*> load(const std::string& name) {
    Known& known = known_[name];
    if (!known.place) {
      WEFT_TRY(auto topology, topology::load_machine(name));
      WEFT_TRY(auto view, cost::shipped_view(std::move(topology)));
      known.view = std::make_unique<cost::MachineView>(std::move(view));
      WEFT_TRY(known.place, Place::open(*known.view));
    }
    return &*known.place;
  }
  std::map<std::string, Known> known_;
};

Result<Point> predict(const Row& row, Places& places) {
  WEFT_TRY(Question q, question_of(row));
  // Groups that do not divide the heads can only have a replica of attention on each GPU.
  for (Plan* plan : {&q.plan, q.prefill ? &*q.prefill : nullptr})
    if (plan != nullptr && plan->tp > 1 && q.shape.latent() && q.shape.heads() % plan->tp != 0)
      plan->dp *= plan->tp, plan->tp = 1, plan->ep = plan->dp;
  // With rate matching the machine has as many nodes as that may take.
  Question largest = q;
  if (q.prefill && q.prefills == 0) largest.prefills = 8;
  WEFT_TRY(Place * place, places.find(text_of(row, "system"), largest.gpus()));
  if (q.prefill && q.prefills == 0) {
    WEFT_TRY(const int matching, matching_prefills(*place, q));
    q.prefills = std::min(matching, 8);
  }
  auto point = answer(*place, q);
  if (point || q.shape.quantised.empty()) return point;
  // Tables give some models the type of their activations: where those weights do not fit, the file's own count.
  for (Plan* plan : {&q.plan, q.prefill ? &*q.prefill : nullptr})
    if (plan != nullptr && plan->precision == "bf16") plan->precision.clear(), plan->experts.clear();
  if (auto own = answer(*place, q)) return own;
  return point;
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::ranges::sort(v);
  return v.size() % 2 == 1 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}
double mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

template <class Chosen>
ErrorOf error_of(const std::vector<ComparedRow>& rows, const std::string& name, Chosen&& chosen) {
  ErrorOf e{.name = name};
  std::vector<double> tpot, ttft, tpot_signs, ttft_signs;
  for (const ComparedRow& r : rows) {
    if (!chosen(r)) continue;
    ++e.rows;
    if (!r.answered()) continue;
    ++e.answered;
    if (r.tpot > 0) tpot_signs.push_back(r.said_tpot / r.tpot - 1), tpot.push_back(std::abs(tpot_signs.back()));
    if (r.ttft > 0) ttft_signs.push_back(r.said_ttft / r.ttft - 1), ttft.push_back(std::abs(ttft_signs.back()));
  }
  e.tpot_measured = tpot.size(), e.ttft_measured = ttft.size();
  e.tpot_median = median(tpot), e.tpot_mean = mean(tpot), e.tpot_bias = median(tpot_signs);
  e.ttft_median = median(ttft), e.ttft_mean = mean(ttft), e.ttft_bias = median(ttft_signs);
  return e;
}

}  // namespace

std::size_t ServingComparison::answered() const {
  return static_cast<std::size_t>(std::ranges::count_if(rows, &ComparedRow::answered));
}

const RowColumns& columns_of_rows() {
  static const RowColumns columns = [] {
    RowColumns c{.needed = {"id", "model_path", "system", "backend", "isl", "osl"},
                 .optional = {"backend_version", "concurrency", "batch_size", "decode_batch_size", "mode",
                              "measured_on", "precision", "gemm_quant_mode", "moe_quant_mode", "prefill_num_workers",
                              "decode_num_workers", "drafts", "accept", "silicon_ttft_ms", "silicon_tpot_ms"}};
    for (const char* pool : {"", "prefill_", "decode_"})
      for (const char* size : {"tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"})
        c.optional.push_back(std::string(pool) + size);
    return c;
  }();
  return columns;
}

std::vector<ErrorOf> ServingComparison::errors() const {
  std::vector<ErrorOf> all{error_of(rows, "all", [](const ComparedRow&) { return true; })};
  for (std::string ComparedRow::*part :
       {&ComparedRow::mode, &ComparedRow::model, &ComparedRow::system, &ComparedRow::backend}) {
    std::map<std::string, int> names;
    for (const ComparedRow& r : rows) ++names[r.*part];
    for (const auto& [name, n] : names)
      all.push_back(error_of(rows, name, [&](const ComparedRow& r) { return r.*part == name; }));
  }
  std::map<std::string, int> open;
  for (const ComparedRow& r : rows) ++open[r.open];
  if (open.size() > 1 || !open.contains(""))
    for (const auto& [what, n] : open)
      all.push_back(error_of(rows, what.empty() ? "nothing left open" : "not said: " + what,
                             [&](const ComparedRow& r) { return r.open == what; }));
  return all;
}

Result<ServingComparison> compare_serving(std::string_view file, std::string_view text,
                                          const std::function<void(std::size_t, std::size_t)>& progress) {
  const auto lines = cells_of(text);
  if (lines.size() < 2) return bad_input("{}: no rows below a line of columns", file);
  const auto& columns = lines.front();
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (const std::string& name : columns_of_rows().needed)
    if (!has(columns, name)) return bad_input("{}: column {} is missing", file, name);
  ServingComparison found;
  for (const std::string& name : columns)
    if (!has(columns_of_rows().needed, name) && !has(columns_of_rows().optional, name)) found.not_read.push_back(name);
  Places places;
  for (std::size_t l = 1; l < lines.size(); ++l) {
    if (progress) progress(l, lines.size() - 1);
    Row row;
    for (std::size_t c = 0; c < columns.size() && c < lines[l].size(); ++c) row[columns[c]] = lines[l][c];
    ComparedRow r{.id = row["id"],
                  .model = row["model_path"],
                  .system = row["system"],
                  .backend = row["backend"],
                  .mode = row["mode"].empty() ? "agg" : row["mode"]};
    if (lines[l].size() != columns.size()) {
      r.reason = fmt::format("{}, but {}", counted(lines[l].size(), "cell"), counted(columns.size(), "column"));
      found.rows.push_back(std::move(r));
      continue;
    }
    r.open = left_open(row);
    r.ttft = number(row, "silicon_ttft_ms", 0).value_or(0);
    r.tpot = number(row, "silicon_tpot_ms", 0).value_or(0);
    if (auto point = predict(row, places)) {
      r.point = std::move(*point);
      r.said_ttft = r.point.ttft.mean * 1e3;
      r.said_tpot = r.point.tpot.mean * 1e3;
    } else {
      r.reason = point.error().message;
    }
    found.rows.push_back(std::move(r));
  }
  return found;
}

std::string predictions_csv(const ServingComparison& comparison) {
  std::string text =
      "id,ttft_ms,tpot_ms,reason,queue_ms,prefill_ms,transfer_ms,step_ms,dense_ms,attention_ms,experts_ms,small_ms,"
      "tensor_"
      "ms,exchange_ms,host_ms,batch,cache_used,preemptions,not_said\n";
  for (const ComparedRow& r : comparison.rows) {
    if (!r.answered()) {
      std::string reason = r.reason;
      std::ranges::replace(reason, '"', '\'');
      text += fmt::format("{},,,\"{}\",,,,,,,,,,,,,,,{}\n", r.id, reason, r.open);
      continue;
    }
    const Point& p = r.point;
    const Parts& d = p.decode;
    text += fmt::format(
        "{},{:.4f},{:.4f},,{:.3f},{:.3f},{:.3f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.1f},{:.3f},{"
        "},"
        "{}\n",
        r.id, r.said_ttft, r.said_tpot, p.queue * 1e3, p.reading * 1e3, p.moving * 1e3, p.step * 1e3, d.dense * 1e3,
        d.attention * 1e3, d.experts * 1e3, d.small * 1e3, d.tensor * 1e3, d.exchange * 1e3, d.host * 1e3, p.batch,
        p.cache_used, p.preemptions, r.open);
  }
  return text;
}

std::string in_words(const ServingComparison& comparison) {
  std::string text = fmt::format("{} of {} answered.\n", comparison.answered(), counted(comparison.rows.size(), "row"));
  if (!comparison.not_read.empty())
    text += fmt::format("Columns that are not read: {}.\n", fmt::join(comparison.not_read, ", "));
  text += fmt::format("\n{:<28} {:>5} {:>8}  {:>26}  {:>26}\n", "rows of", "rows", "answered",
                      "TPOT median mean bias %", "TTFT median mean bias %");
  const auto cells = [](std::size_t measured, double median, double mean, double bias) {
    return measured == 0 ? fmt::format("{:>10} {:>7} {:>7}", "-", "-", "-")
                         : fmt::format("{:>10.1f} {:>7.1f} {:>+7.1f}", 100 * median, 100 * mean, 100 * bias);
  };
  for (const ErrorOf& e : comparison.errors())
    text += fmt::format("{:<28} {:>5} {:>8}  {}  {}\n", e.name.empty() ? "(not said)" : e.name, e.rows, e.answered,
                        cells(e.tpot_measured, e.tpot_median, e.tpot_mean, e.tpot_bias),
                        cells(e.ttft_measured, e.ttft_median, e.ttft_mean, e.ttft_bias));
  std::map<std::string, std::size_t> reasons;
  for (const ComparedRow& r : comparison.rows)
    if (!r.answered()) ++reasons[r.reason];
  for (const auto& [reason, n] : reasons) text += fmt::format("{:>5} not answered: {}\n", n, reason);
  return text;
}

}  // namespace weft::serving
