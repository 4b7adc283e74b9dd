#include <algorithm>
#include <cmath>

#include "apps/cli/commands.h"
#include "apps/doctor/causes.h"
#include "apps/doctor/tables.h"
#include "base/job_text.h"
#include "base/text.h"
#include "base/text_file.h"
#include "model/accuracy/predict.h"
#include "model/simulate/faults.h"

namespace weft::cli {
namespace {

using accuracy::Point;
using doctor::Cause;
using doctor::PerfTable;
using doctor::Residual;

struct Spec {
  std::string table, on, collective, json;
  std::int64_t ranks = 0, together = 0;
};

constexpr const char* kExamples = R"(
Is this table of nccl-tests what the machine should deliver? Reads the text of all_reduce_perf and its siblings, of OSU's
collectives or of weft bench as it was printed, with prompts and other lines around. Without --on the machine is guessed
from the table's list of devices. Each row is held against the model: what NCCL would choose, timed by weft's simulator.
If large messages are slow, causes are replayed in the simulated machine one after the other; they are listed by their
likelihood, and that the model is at fault is one of them. Both columns are judged, out of place and in place. Exit 1 if
the table is slow or counts wrong elements, 2 if it contradicts itself or is of no collective.

Examples:
  weft check perf.txt --on dgx-h100:nodes=2
  weft check gather.txt --on dgx-a100 --collective all_gather
)";

constexpr Bytes kLarge = Bytes{16} << 20;  // from which bandwidth alone counts
constexpr double kSlow = 1.25;    // times the model's time; its own error is a fifth of that there (docs/accuracy.md)
constexpr double kSmallSlow = 2;  // of small messages, where the model is less sure
constexpr double kExplained = 0.25;  // mean |ln| that an explanation may leave
constexpr double kShownLikelihood = 0.02;

double slow_from(Bytes bytes) { return bytes >= kLarge ? kSlow : kSmallSlow; }

// GPUs whose tables name the machine. Others have to be named with --on.
struct Known {
  std::string_view gpu, machine;
};
constexpr Known kKnown[] = {{"GB300", "gb300-nvl72"},       {"GB200", "gb200-nvl72"}, {"GH200", "gh200"},
                            {"H100 80GB HBM3", "dgx-h100"}, {"H200", "hgx-h200"},     {"B200", "hgx-b200"},
                            {"B300", "hgx-b300"},           {"A100-SXM", "dgx-a100"}, {"V100-SXM3", "dgx2"},
                            {"V100-SXM2", "dgx1-v100"},     {"MI300X", "mi300x"}};

Result<std::string> machine_of(const Spec& spec, const PerfTable& table) {
  if (!spec.on.empty() && spec.on != "this") return spec.on;
  const std::size_t hosts = table.hosts.size();
  for (const Known& known : kKnown) {
    if (table.gpu.find(known.gpu) == std::string::npos) continue;
    if (hosts <= 1) return std::string(known.machine);
    // As many GPUs of each host as the table lists: two hosts with one GPU each are not one node with two.
    const std::size_t each = static_cast<std::size_t>(table.ranks) / hosts;
    const std::string all = fmt::format("{}:nodes={}", known.machine, hosts);
    WEFT_TRY(const Machine whole, load_machine(all));
    const auto own = static_cast<std::size_t>(whole.view->endpoints()) / hosts;
    return each > 0 && each < own ? fmt::format("{},gpus={}", all, each) : all;
  }
  if (!table.gpu.empty())
    return bad_input("{}: no machine is known for '{}': weft check needs --on MACHINE", spec.table, shown(table.gpu));
  return bad_input("weft check needs --on MACHINE: the table names no GPU");
}

// How many ranks: as an option says, as the list says where it is whole, else as the ratio of bandwidths says.
std::int64_t ranks_of(const Spec& spec, const PerfTable& table) {
  if (spec.ranks > 0) return spec.ranks;
  const auto listed = static_cast<std::int64_t>(table.listed.size());
  if (table.ranks > 0 && (listed == 0 || listed == table.ranks)) return table.ranks;
  return std::max(table.ranks, doctor::infer_collective(table, 0).ranks);
}

// The table and the machine must be of one kind of GPU and of one size.
Status fits(const Spec& spec, const PerfTable& table, const Machine& machine) {
  constexpr std::string_view kGenerations[] = {"V100", "A100",   "H100", "H200", "B200",
                                               "B300", "MI300X", "4090", "3090"};
  const auto generation = [&](std::string_view text) {
    const auto* at = std::ranges::find_if(kGenerations, [&](auto g) { return text.find(g) != std::string_view::npos; });
    return at == std::end(kGenerations) ? std::string_view() : *at;
  };
  for (const auto& device : machine.view->topology().devices()) {
    if (device.kind != topology::DeviceKind::kGpu) continue;
    const auto ours = generation(table.gpu), theirs = generation(device.model);
    if (!ours.empty() && !theirs.empty() && ours != theirs)
      return bad_input("{}: the table is of {}, but {} has {}", spec.table, shown(table.gpu), machine.name,
                       device.model);
    break;
  }
  const auto ranks = static_cast<Rank>(std::min<std::int64_t>(ranks_of(spec, table), 1 << 30));
  if (ranks > machine.view->endpoints())
    return bad_input("{}: the table is of {} ranks, but {} has {}", spec.table, ranks, machine.name,
                     machine.view->endpoints());
  return {};
}

// Each row's measured time over the predicted one.
Result<std::vector<Residual>> residuals(accuracy::Predictor& predictor, const accuracy::Table& table) {
  std::vector<Residual> all;
  for (const Point& point : table.points) {
    WEFT_TRY(const auto prediction, predictor.predict(table, point));
    all.push_back({std::log(point.time / prediction.time), point.bytes >= kLarge});
  }
  return all;
}

Result<std::vector<Residual>> replayed(const Cause& cause, const Machine& machine, accuracy::Table table) {
  auto changed = doctor::changed(machine.view->topology(), cause);
  if (!changed) return bad_input("no such part");
  if (!cause.faults.empty()) {
    WEFT_TRY(auto faulted, simulate::apply_faults(*changed, cause.faults));
    *changed = std::move(faulted.machine);
  }
  for (Point& point : table.points)
    if (!cause.protocol.empty()) point.protocol = cause.protocol;
  accuracy::Predictor predictor(cost::MachineView(std::move(*changed), machine.view->costs(), machine.view->caches()));
  return residuals(predictor, table);
}

struct Explanation {
  std::string id, words, verify;
  double left = 0, likelihood = 0, spread = 0;
};

// A part of the rows is enough for a replay: neighbouring sizes say the same.
accuracy::Table sample(const accuracy::Table& table) {
  constexpr std::size_t kLargeRows = 4, kSmallRows = 2;
  accuracy::Table part = table;
  part.points.clear();
  for (const bool large : {false, true}) {
    std::vector<Point> rows;
    for (const Point& point : table.points)
      if ((point.bytes >= kLarge) == large) rows.push_back(point);
    const std::size_t wanted = std::min(large ? kLargeRows : kSmallRows, rows.size());
    for (std::size_t i = 0; i < wanted; ++i)
      part.points.push_back(rows[wanted == 1 ? rows.size() - 1 : i * (rows.size() - 1) / (wanted - 1)]);
  }
  return part;
}

// The largest row on machines with a slower network.
Result<std::vector<doctor::Slowdown>> slowdowns(accuracy::Predictor& predictor, const Machine& machine,
                                                const accuracy::Table& table) {
  std::vector<doctor::Slowdown> all = {{}};
  if (machine.view->topology().nodes() < 2) return all;
  const Point& last = *std::ranges::max_element(table.points, {}, &Point::bytes);
  WEFT_TRY(const auto healthy, predictor.predict(table, last));
  for (const double rate : {0.7, 0.5, 0.35, 0.2, 0.1}) {
    Cause slower;
    slower.network = rate;
    auto changed = doctor::changed(machine.view->topology(), slower);
    if (!changed) break;
    accuracy::Predictor slow(cost::MachineView(std::move(*changed), machine.view->costs(), machine.view->caches()));
    WEFT_TRY(const auto prediction, slow.predict(table, last));
    all.push_back({rate, prediction.time / healthy.time});
  }
  return all;
}

// All causes by their likelihood after the table, which sum to 1.
Result<std::vector<Explanation>> explanations(accuracy::Predictor& predictor, const Machine& machine,
                                              const accuracy::Table& table, const std::vector<Residual>& healthy) {
  WEFT_TRY(const auto slower, slowdowns(predictor, machine, table));
  WEFT_TRY(const auto causes, doctor::shipped_causes());
  std::vector<Explanation> all = {
      {"model", "the model is at fault, the machine is healthy", "weft calibrate", 0,
       std::log(doctor::kModelPrior) + doctor::log_likelihood(healthy, doctor::kModelSpread)}};
  all[0].left = doctor::distance(healthy);
  all[0].spread = doctor::kModelSpread;
  const bool several = table.points.front().ranks > machine.view->ranks_per_node(table.points.front().ranks);
  for (Cause cause : causes) {
    if (cause.network != 1) cause.network = doctor::rate_for(slower, cause.network);
    const auto rows = replayed(cause, machine, table);
    if (!rows) continue;  // the machine has no such part, or the cause cannot be on it
    all.push_back({cause.id, cause.words, cause.verify, doctor::distance(*rows),
                   std::log(several ? cause.several : cause.alone) + doctor::log_likelihood(*rows, cause.spread),
                   cause.spread});
  }
  const double best = std::ranges::max(all, {}, &Explanation::likelihood).likelihood;
  double sum = 0;
  for (Explanation& e : all) sum += e.likelihood = std::exp(e.likelihood - best);
  for (Explanation& e : all) e.likelihood /= sum;
  std::ranges::stable_sort(all, std::ranges::greater(), &Explanation::likelihood);
  return all;
}

struct Judged {
  nlohmann::json rows = nlohmann::json::array();
  std::string lines;
  std::size_t slow = 0, large = 0, slow_large = 0;
  double lost = 0;  // GB/s of bus bandwidth at the largest size
};

Result<Judged> judge(accuracy::Predictor& predictor, const accuracy::Table& table, Rank ranks) {
  Judged all;
  const double factor = schedule::bus_factor(table.collective, ranks);
  for (const Point& point : table.points) {
    WEFT_TRY(const auto prediction, predictor.predict(table, point));
    const double ratio = point.time / prediction.time, from = slow_from(point.bytes);
    const char* verdict = ratio > from ? "slow" : ratio < 1 / from ? "faster than the model" : "ok";
    all.slow += ratio > from ? 1 : 0;
    all.large += point.bytes >= kLarge ? 1 : 0;
    all.slow_large += ratio > from && point.bytes >= kLarge ? 1 : 0;
    const auto bus = [&](Duration time) { return static_cast<double>(point.bytes) / time.s() * 1e-9 * factor; };
    const double own = bus(point.time), expected = bus(prediction.time);
    all.lost = std::max(0.0, expected - own);
    all.lines += fmt::format("{:>12} {:>12.1f} {:>12.1f} {:>10.2f} {:>10.2f} {:>16} {:>9.2f}  {}\n",
                             format_bytes(point.bytes), point.time.us(), prediction.time.us(), own, expected,
                             fmt::format("{:.2f} to {:.2f}", expected / from, expected * from),
                             std::max(0.0, expected - own), verdict);
    all.rows.push_back({{"bytes", point.bytes},
                        {"measured_us", point.time.us()},
                        {"model_us", prediction.time.us()},
                        {"busbw_gbs", own},
                        {"model_busbw_gbs", expected},
                        {"expected_busbw_gbs", {expected / from, expected * from}},
                        {"lost_busbw_gbs", std::max(0.0, expected - own)},
                        {"verdict", verdict}});
  }
  return all;
}

std::string verdict_of(bool is_slow, const std::vector<Explanation>& causes) {
  if (!is_slow) return "is what the machine should deliver";
  if (causes.empty()) return "is slow at small messages (affinity, clocks, a debug variable)";
  const Explanation& first = causes.front();
  if (first.id == "model" || first.left > kExplained + first.spread)
    return "is slow, and no cause that was replayed explains it; the model may be at fault";
  return fmt::format("is slow; the likeliest cause ({:.0f} %) is {}", 100 * first.likelihood, first.words);
}

void print(const Judged& judged) {
  fmt::print("{:>12} {:>12} {:>12} {:>10} {:>10} {:>16} {:>9}  verdict\n", "size", "measured us", "model us",
             "busbw GB/s", "model GB/s", "expected GB/s", "lost GB/s");
  fmt::print("{}", judged.lines);
}

void print_causes(const std::vector<Explanation>& causes) {
  if (causes.empty()) return;
  fmt::print("\n{:>10} {:>9}  cause; what verifies it\n", "likelihood", "left |ln|");
  for (const Explanation& cause : causes)
    if (cause.likelihood >= kShownLikelihood || &cause == causes.data() || cause.id == "model")
      fmt::print("{:>8.0f} % {:>9.2f}  {}; {}\n", 100 * cause.likelihood, cause.left, cause.words, cause.verify);
}

// What is wrong with the table itself.
void print_notes(const PerfTable& table) {
  if (table.cut > 0)
    fmt::print("{} line{} that begin as rows are cut off or damaged and were left out.\n", table.cut,
               table.cut == 1 ? "" : "s");
  if (table.left_out > 0)
    fmt::print(
        "{} other section{} of this file left out: one collective on its largest number of processes is judged.\n",
        table.left_out, table.left_out == 1 ? " was" : "s were");
  const auto odd = doctor::non_monotonic(table);
  if (odd.empty()) return;
  std::string sizes;
  for (const std::int64_t bytes : odd) sizes += (sizes.empty() ? "" : ", ") + format_bytes(bytes);
  fmt::print("Faster than a smaller size by a fifth or more: {}. A change of algorithm or protocol, or noise.\n",
             sizes);
}

// What the table says of its ranks and its collective, what its bandwidths say, and what the options say must agree.
Status agrees(const Spec& spec, const PerfTable& table, const std::string& collective, std::int64_t ranks) {
  if (!table.refused.empty()) return bad_input("{}: {}", spec.table, shown(table.refused));
  if (!spec.collective.empty() && !table.collective.empty() && spec.collective != table.collective)
    return bad_input("{}: --collective {}, but the table is of {} ('{}')", spec.table, spec.collective,
                     table.collective, shown(table.named));
  const auto listed = static_cast<std::int64_t>(table.listed.size());
  const bool whole = listed > 0 && listed == table.ranks;
  if (spec.ranks > 0 && table.ranks > 0 && (spec.ranks < table.ranks || (whole && listed > 1 && spec.ranks != listed)))
    return bad_input("{}: --ranks {}, but the table {} {}", spec.table, spec.ranks,
                     whole ? "lists" : "names a rank of at least", table.ranks);
  if (ranks == 1)
    return bad_input("{}: the table is of one rank, which sends nothing to any other: there is nothing to judge",
                     spec.table);
  const auto kind = schedule::parse_collective(collective);
  const doctor::Inferred inferred = doctor::infer_collective(table, 0);
  if (!kind || ranks <= 0 || inferred.ratio <= 0) return {};
  constexpr double kNear = 0.02;
  const double factor = schedule::bus_factor(*kind, static_cast<Rank>(ranks));
  if (std::abs(inferred.ratio - factor) < kNear * factor) return {};
  const std::string means = inferred.ranks > 1 ? fmt::format(", which means {} ranks", inferred.ranks) : std::string();
  return bad_input("{}: its busbw is {:.3f} times its algbw{}, but {} of {} ranks has {:.3f}{}", spec.table,
                   inferred.ratio, means, collective, ranks, factor,
                   spec.ranks > 0 ? " (--ranks)"
                   : listed > 0   ? " (as many are listed)"
                                  : "");
}

// Rows whose size the model can time. `in_place`: those times.
std::vector<Point> points_of(const PerfTable& table, Rank ranks, bool in_place) {
  std::vector<Point> points;
  for (const PerfTable::Row& row : table.rows) {
    const double time = in_place ? row.in_place : row.microseconds;
    if (row.bytes <= kMostMessage && time > 0)
      points.push_back({.bytes = row.bytes, .ranks = ranks, .time = Duration::microseconds(time)});
  }
  return points;
}

bool is_slow_table(const Judged& judged, std::size_t rows) {
  return judged.slow > 0 && (judged.large == 0 ? 2 * judged.slow > rows : 2 * judged.slow_large > judged.large);
}

// "3 wrong elements at 1 GiB and 2 more sizes"; empty: none.
std::string wrong_in_words(const PerfTable& table) {
  std::size_t sizes = 0;
  const PerfTable::Row* first = nullptr;
  for (const PerfTable::Row& row : table.rows)
    if (row.wrong > 0 && sizes++ == 0) first = &row;
  if (first == nullptr) return "";
  return fmt::format("{} wrong element{} at {}{}", first->wrong, first->wrong == 1 ? "" : "s",
                     format_bytes(first->bytes),
                     sizes > 1 ? fmt::format(" and at {} more size{}", sizes - 1, sizes == 2 ? "" : "s") : "");
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(std::string text, read_text_file(spec.table));
  const PerfTable read = doctor::read_table(plain_text(std::move(text)));
  if (!read.refused.empty()) return bad_input("{}: {}", spec.table, shown(read.refused));
  if (read.rows.empty())
    return bad_input("{}: no row of nccl-tests (size count type redop root time algbw busbw …)", spec.table);
  const std::int64_t number = ranks_of(spec, read);
  const auto inferred = doctor::infer_collective(read, number);
  const std::string collective = !spec.collective.empty()       ? spec.collective
                                 : !read.collective.empty()     ? read.collective
                                 : !inferred.collective.empty() ? inferred.collective
                                                                : "all_reduce";
  WEFT_CHECK(agrees(spec, read, collective, number));
  WEFT_TRY(const std::string on, machine_of(spec, read));
  WEFT_TRY(const Machine machine, load_machine(on));
  WEFT_CHECK(fits(spec, read, machine));
  const std::string because = spec.collective.empty() && read.collective.empty()
                                  ? fmt::format(" (taken from the rows: {}; --collective says otherwise)",
                                                inferred.reason.empty() ? "they do not say" : inferred.reason)
                                  : "";
  accuracy::Table table{.name = spec.table,
                        .machine = machine.name,
                        .gpus_per_thread = static_cast<int>(spec.together > 0          ? spec.together
                                                            : read.gpus_per_thread > 0 ? read.gpus_per_thread
                                                                                       : 1)};
  WEFT_TRY(table.collective, schedule::parse_collective(collective));
  WEFT_TRY(const Rank ranks, ranks_on(machine, number > 0 ? number : -1));
  table.points = points_of(read, ranks, false);
  accuracy::Table in_place = table;
  in_place.points = points_of(read, ranks, true);
  if (table.points.empty()) std::swap(table, in_place);
  accuracy::Predictor predictor(
      cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
  WEFT_TRY(const Judged judged, judge(predictor, table, ranks));
  WEFT_TRY(const Judged beside, judge(predictor, in_place, ranks));
  const bool out_slow = is_slow_table(judged, table.points.size()),
             in_slow = is_slow_table(beside, in_place.points.size());
  const bool is_slow = out_slow || in_slow;
  const std::string wrong = wrong_in_words(read);
  std::vector<Explanation> causes;
  if (is_slow && (out_slow ? judged : beside).large > 0) {
    const accuracy::Table part = sample(out_slow ? table : in_place);
    WEFT_TRY(const auto healthy, residuals(predictor, part));
    WEFT_TRY(causes, explanations(predictor, machine, part, healthy));
  }
  const std::string verdict = (wrong.empty() ? "" : fmt::format("has wrong results ({}) and ", wrong)) +
                              (in_slow && !out_slow ? "in place " : "") + verdict_of(is_slow, causes);
  if (spec.json != "-") {
    fmt::print("This {} table{} {}: {} of {} rows are slow{} on {} ranks of {}{}.\n", collective, because, verdict,
               judged.slow, table.points.size(),
               in_place.points.empty()
                   ? ""
                   : fmt::format(" out of place, {} of {} in place", beside.slow, in_place.points.size()),
               ranks, machine.name, spec.on.empty() ? " (guessed from the table)" : "");
    print_notes(read);
    fmt::print("\n");
    print(judged);
    if (beside.slow > 0) {
      fmt::print("\nin place:\n");
      print(beside);
    }
    print_causes(causes);
  }
  if (!spec.json.empty()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Explanation& cause : causes)
      list.push_back({{"id", cause.id},
                      {"cause", cause.words},
                      {"likelihood", cause.likelihood},
                      {"left", cause.left},
                      {"verify", cause.verify}});
    WEFT_CHECK(write_json(spec.json, {{"schema", "weft.check/1"},
                                      {"machine", machine.name},
                                      {"collective", collective},
                                      {"inferred_from", because.empty() ? "" : inferred.reason},
                                      {"rows_left_out", read.cut},
                                      {"non_monotonic", doctor::non_monotonic(read)},
                                      {"verdict", verdict},
                                      {"slow", is_slow},
                                      {"lost_busbw_gbs", judged.lost},
                                      {"wrong", wrong},
                                      {"in_place_slow", in_slow},
                                      {"rows", judged.rows},
                                      {"in_place_rows", beside.rows},
                                      {"causes", list}}));
  }
  return is_slow || !wrong.empty() ? kBadAnswer : 0;
}

}  // namespace

Command add_check(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("check", "Is a table of nccl-tests what the machine should deliver");
  sub->add_option("table", spec->table, "text that all_reduce_perf or a sibling printed")->required();
  sub->add_option("--on", spec->on, "the machine it was measured on (default: guessed from the table)");
  sub->add_option("--collective", spec->collective, "that was measured (default: as the table says, else all_reduce)");
  sub->add_option("--ranks,-n", spec->ranks, "of it (default: as the table lists, else every GPU of the machine)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--gpus-per-thread", spec->together, "nccl-tests' -g (default: as the table says, else 1)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--json", spec->json, "write weft.check/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
