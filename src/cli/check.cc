#include <cmath>

#include "accuracy/predict.h"
#include "accuracy/score.h"
#include "base/text.h"
#include "base/text_file.h"
#include "cli/commands.h"
#include "simulate/faults.h"

namespace weft::cli {
namespace {

using accuracy::Point;
using topology::DeviceKind;
using topology::LinkKind;

struct Spec {
  std::string table, on, collective = "all_reduce", json;
  std::int64_t ranks = 0, together = 1;
};

constexpr const char* kExamples = R"(
Is this table of nccl-tests what the machine should deliver? Reads the text of all_reduce_perf and its siblings as it was
printed, with prompts and other lines around. Each row is held against the model: what NCCL would choose, timed by weft's
simulator. If large messages are slow, faults are put into the simulated machine one after the other; the one that explains
the table best is named, if it explains it. Exit 1 if the table is slow.

Examples:
  weft check perf.txt --on dgx-h100:nodes=2
  weft check gather.txt --on dgx-a100 --collective all_gather
)";

// Rows that nccl-tests prints: size, count, type, operation, root, then time, algbw, busbw, #wrong out of place.
std::vector<Point> rows_of(std::string_view text) {
  std::vector<Point> points;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string line(text.substr(0, std::min<std::size_t>(end, 1024)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    long long bytes = 0, count = 0;
    int root = 0;
    char type[32] = "", operation[32] = "";
    double time = 0, algbw = 0, busbw = 0;
    if (std::sscanf(line.c_str(), " %lld %lld %31s %31s %d %lf %lf %lf", &bytes, &count, type, operation, &root, &time,
                    &algbw, &busbw) != 8)
      continue;
    const bool known_type = std::string_view(type).find_first_of("0123456789") == std::string_view::npos ||
                            std::string_view(type).find("int") != std::string_view::npos ||
                            std::string_view(type).find("float") != std::string_view::npos;
    if (bytes > 0 && bytes <= kMostMessage && time > 0 && std::isfinite(time) && known_type)
      points.push_back({.bytes = bytes, .time = Duration::microseconds(time)});
  }
  return points;
}

// What is tried, in words, and how it changes a link.
struct Cause {
  std::string words;
  double network = 1, nvlink = 1;  // factors of rates
  std::vector<std::string> faults = {};
};

std::vector<Cause> causes_on(const topology::Topology& machine) {
  std::vector<Cause> causes = {{"NVLink at half its rate (links missing: nvidia-smi nvlink -s)", 1, 0.5}};
  if (machine.nodes() < 2) return causes;
  for (const auto& [factor, words] :
       {std::pair{0.5,
                  "the network at half its rate (one of two ports, PCIe generation or width, GPU Direct RDMA off)"},
        {0.25, "the network at a quarter of its rate (half of the rails gone, GPU Direct RDMA off)"},
        {0.1, "the network at a tenth of its rate (TCP instead of RDMA)"}})
    causes.push_back({words, factor, 1});
  causes.push_back({"a NIC of one node down", 1, 1, {"nic:0=down"}});
  return causes;
}

Result<cost::MachineView> with(const Cause& cause, const cost::MachineView& healthy) {
  topology::Topology machine = healthy.topology();
  if (!cause.faults.empty()) {
    WEFT_TRY(auto faulted, simulate::apply_faults(machine, cause.faults));
    machine = std::move(faulted.machine);
  }
  topology::Topology changed;
  changed.title = machine.title;
  changed.routing = machine.routing;
  for (const topology::Device& device : machine.devices()) changed.add(device);
  for (topology::Link link : machine.links()) {
    const double factor = link.kind == LinkKind::kNetwork    ? cause.network
                          : topology::is_scale_up(link.kind) ? cause.nvlink
                                                             : 1;
    link.rate_ab = link.rate_ab * factor;
    link.rate_ba = link.rate_ba * factor;
    changed.connect(link);
  }
  return cost::MachineView(std::move(changed), healthy.costs(), healthy.caches());
}

constexpr Bytes kLarge = Bytes{16} << 20;  // from which bandwidth alone counts
constexpr double kSlow = 1.25;    // times the model's time; its own error is a fifth of that there (docs/accuracy.md)
constexpr double kSmallSlow = 2;  // of small messages, where the model is less sure
constexpr double kExplained = 0.12;  // mean |ln| that a cause may leave

double slow_from(Bytes bytes) { return bytes >= kLarge ? kSlow : kSmallSlow; }

// Mean |ln(measured / predicted)| of large messages.
Result<double> distance(accuracy::Predictor& predictor, const accuracy::Table& table) {
  double sum = 0;
  int rows = 0;
  for (const Point& point : table.points) {
    if (point.bytes < kLarge) continue;
    WEFT_TRY(const auto prediction, predictor.predict(table, point));
    sum += std::abs(std::log(point.time / prediction.time));
    ++rows;
  }
  return rows > 0 ? sum / rows : 0;
}

struct Explanation {
  std::string words;
  double distance = 0;
};

Result<std::vector<Explanation>> explanations(const Machine& machine, const accuracy::Table& table, double healthy) {
  std::vector<Explanation> all = {{"none: the machine is healthy", healthy}};
  for (const Cause& cause : causes_on(machine.view->topology())) {
    auto view = with(cause, *machine.view);
    if (!view) continue;  // the machine has no such part
    accuracy::Predictor predictor(std::move(*view));
    const auto left = distance(predictor, table);
    if (left) all.push_back({cause.words, *left});
  }
  std::ranges::stable_sort(all, {}, &Explanation::distance);
  return all;
}

Result<int> run(const Spec& spec) {
  if (spec.on.empty() || spec.on == "this") return bad_input("weft check needs --on MACHINE");
  WEFT_TRY(const std::string text, read_text_file(spec.table));
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  accuracy::Table table{
      .name = spec.table, .machine = machine.name, .gpus_per_thread = static_cast<int>(spec.together)};
  WEFT_TRY(table.collective, schedule::parse_collective(spec.collective));
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks > 0 ? spec.ranks : -1));
  table.points = rows_of(text);
  if (table.points.empty())
    return bad_input("{}: no row of nccl-tests (size count type redop root time algbw busbw …)", spec.table);
  const double factor = schedule::bus_factor(table.collective, ranks);
  accuracy::Predictor predictor(
      cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
  nlohmann::json rows = nlohmann::json::array();
  std::string lines;
  std::size_t slow = 0, slow_large = 0, large = 0;
  for (Point& point : table.points) {
    point.ranks = ranks;
    WEFT_TRY(const auto prediction, predictor.predict(table, point));
    const double ratio = point.time / prediction.time, from = slow_from(point.bytes);
    const char* verdict = ratio > from ? "slow" : ratio < 1 / from ? "faster than the model" : "ok";
    slow += ratio > from ? 1 : 0;
    large += point.bytes >= kLarge ? 1 : 0;
    slow_large += ratio > from && point.bytes >= kLarge ? 1 : 0;
    const auto bus = [&](Duration time) { return static_cast<double>(point.bytes) / time.s() * 1e-9 * factor; };
    lines += fmt::format("{:>12} {:>12.1f} {:>12.1f} {:>10.2f} {:>10.2f} {:>8.2f}  {}\n", format_bytes(point.bytes),
                         point.time.us(), prediction.time.us(), bus(point.time), bus(prediction.time), ratio, verdict);
    rows.push_back({{"bytes", point.bytes},
                    {"measured_us", point.time.us()},
                    {"model_us", prediction.time.us()},
                    {"verdict", verdict}});
  }
  WEFT_TRY(const double healthy, distance(predictor, table));
  const bool is_slow = slow > 0 && (large == 0 ? 2 * slow > table.points.size() : 2 * slow_large > large);
  std::vector<Explanation> causes;
  if (is_slow && large > 0) {
    WEFT_TRY(causes, explanations(machine, table, healthy));
  }
  const bool explained = !causes.empty() && causes.front().distance < kExplained;
  const std::string verdict = !is_slow    ? "is what the machine should deliver"
                              : explained ? fmt::format("is slow; the likeliest cause is {}", causes.front().words)
                              : causes.empty()
                                  ? "is slow at small messages (affinity, clocks, a debug variable)"
                                  : "is slow, and no fault that was tried explains it; the model may be at fault";
  if (spec.json != "-") {
    fmt::print("This {} table {}: {} of {} rows are slow on {} ranks of {}.\n\n", spec.collective, verdict, slow,
               table.points.size(), ranks, machine.name);
    fmt::print("{:>12} {:>12} {:>12} {:>10} {:>10} {:>8}  verdict\n", "size", "measured us", "model us", "busbw GB/s",
               "model GB/s", "ratio");
    fmt::print("{}", lines);
    if (!causes.empty()) fmt::print("\n{:>9}  cause\n", "left |ln|");
    for (const Explanation& cause : causes) fmt::print("{:>9.2f}  {}\n", cause.distance, cause.words);
  }
  if (!spec.json.empty()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Explanation& cause : causes) list.push_back({{"cause", cause.words}, {"left", cause.distance}});
    WEFT_CHECK(write_json(spec.json, {{"schema", "weft.check/1"},
                                      {"machine", machine.name},
                                      {"verdict", verdict},
                                      {"slow", is_slow},
                                      {"rows", rows},
                                      {"causes", list}}));
  }
  return is_slow ? kBadAnswer : 0;
}

}  // namespace

Command add_check(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("check", "Is a table of nccl-tests what the machine should deliver");
  sub->add_option("table", spec->table, "text that all_reduce_perf or a sibling printed")->required();
  sub->add_option("--on", spec->on, "the machine it was measured on");
  sub->add_option("--collective", spec->collective, "that was measured")->capture_default_str();
  sub->add_option("--ranks,-n", spec->ranks, "of it (default: every GPU of the machine)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--gpus-per-thread", spec->together, "nccl-tests' -g")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--json", spec->json, "write weft.check/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
