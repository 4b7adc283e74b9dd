#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/cli/check_causes.h"
#include "apps/cli/check_matrix.h"
#include "apps/cli/check_pair.h"
#include "apps/cli/commands.h"
#include "apps/doctor/columns.h"
#include "apps/doctor/matrix.h"
#include "apps/doctor/tables.h"
#include "base/counted.h"
#include "base/job_text.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

using accuracy::Point;
using doctor::PerfTable;

struct Spec {
  std::string table, on, collective, column, json;
  std::int64_t ranks = 0, together = 0;
};

constexpr const char* kExamples = R"(
Is this table of nccl-tests what the machine should deliver? Reads the text of all_reduce_perf and its siblings, of
OSU's and IMB's collectives, of perftest or of weft bench as it was printed, with prompts and other lines around; and
tables with columns of their own (text, Markdown, CSV) whose header names a size and a time or a bandwidth. Matrices of
nvbandwidth and p2pBandwidthLatencyTest are held against the machine's links, or pair against pair.
Without --on the machine is guessed from the table's list of devices. Each row is held against the model: what NCCL
would choose, timed by weft's simulator. If large messages are slow, causes are replayed in the simulated machine one
after the other; they are listed by their likelihood, and that the model is at fault is one of them. Both columns are
judged, out of place and in place. Exit 1 if the table is slow or counts wrong elements, 2 if it contradicts itself or
is of no collective.

Examples:
  weft check perf.txt --on dgx-h100:nodes=2
  weft check gather.txt --on dgx-a100 --collective all_gather
)";

constexpr Bytes kLarge = kLargeMessage;
constexpr double kSlow = 1.25;    // times the model's time; its own error is a fifth of that there (docs/accuracy.md)
constexpr double kSmallSlow = 2;  // of small messages, where the model is less sure
constexpr double kExplained = 0.25;  // mean |ln| that an explanation may leave
constexpr double kShownLikelihood = 0.02;

double slow_from(Bytes bytes) { return bytes >= kLarge ? kSlow : kSmallSlow; }

Result<std::string> machine_of(const Spec& spec, const PerfTable& table) {
  if (!spec.on.empty() && spec.on != "this") return spec.on;
  const std::size_t hosts = table.hosts.size();
  if (const std::string_view known = machine_with(table.gpu); !known.empty()) {
    if (hosts <= 1) return std::string(known);
    // As many GPUs of each host as the table lists: two hosts with one GPU each are not one node with two.
    const std::size_t each = static_cast<std::size_t>(table.ranks) / hosts;
    const std::string all = fmt::format("{}:nodes={}", known, hosts);
    WEFT_TRY(const Machine whole, load_machine(all));
    const auto own = static_cast<std::size_t>(whole.view->endpoints()) / hosts;
    return each > 0 && each < own ? fmt::format("{},gpus={}", all, each) : all;
  }
  constexpr const char* kQuestion =
      "which machine is it? Say --on MACHINE:nodes=N (weft catalog), or a file of its topology (nvidia-smi topo -m)";
  if (!table.gpu.empty())
    return bad_input("{}: no machine is known for '{}': {}", spec.table, shown(table.gpu), kQuestion);
  return bad_input("{}: the table names no GPU: {}", spec.table, kQuestion);
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
    return fmt::format(
        "is slow, and no cause that was replayed explains all of it ({} comes nearest); the model may be at fault",
        first.words);
  return fmt::format("is slow; the likeliest cause ({:.0f} %) is {}", 100 * first.likelihood, first.words);
}

void print(const Judged& judged) {
  fmt::print("{:>12} {:>12} {:>12} {:>10} {:>10} {:>16} {:>9}  verdict\n", "size", "measured us", "model us",
             "busbw GB/s", "model GB/s", "expected GB/s", "lost GB/s");
  fmt::print("{}", judged.lines);
}

void print_causes(const std::vector<Explanation>& causes) {
  if (causes.empty()) return;
  fmt::print("\n{:>10} {:>9}  cause, and how likely it is among these; what verifies it\n", "likelihood", "left |ln|");
  for (const Explanation& cause : causes)
    if (cause.likelihood >= kShownLikelihood || &cause == causes.data() || cause.id == "model")
      fmt::print("{:>8.0f} % {:>9.2f}  {}; {}\n", 100 * cause.likelihood, cause.left, cause.words, cause.verify);
}

// What is wrong with the table itself.
void print_notes(const PerfTable& table) {
  if (table.cut > 0)
    fmt::print("{} that begin as rows are cut off or damaged and were left out.\n", counted(table.cut, "line"));
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

// An all_gather and an all_to_all print the same columns. The file's name decides, else the model that is nearer.
Result<std::string> gather_or_exchange(const Spec& spec, const PerfTable& read, const Machine& machine,
                                       std::int64_t number) {
  std::string name = spec.table.substr(spec.table.rfind('/') == std::string::npos ? 0 : spec.table.rfind('/') + 1);
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("alltoall") != std::string::npos || name.find("a2a") != std::string::npos) return "all_to_all";
  if (name.find("allgather") != std::string::npos) return "all_gather";
  WEFT_TRY(const Rank ranks, ranks_on(machine, number > 0 ? number : -1));
  std::string best;
  double least = 0;
  for (const char* collective : {"all_gather", "all_to_all"}) {
    accuracy::Table table{.name = spec.table, .machine = machine.name, .gpus_per_thread = 1};
    WEFT_TRY(table.collective, schedule::parse_collective(collective));
    table.points = points_of(read, ranks, read.rows.front().microseconds <= 0);
    accuracy::Predictor predictor(
        cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
    WEFT_TRY(const auto rows, residuals(predictor, sample(table)));
    const double far = doctor::distance(rows);
    if (best.empty() || far < least) best = collective, least = far;
  }
  return best;
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
  return fmt::format("{} at {}{}", counted(first->wrong, "wrong element"), format_bytes(first->bytes),
                     sizes > 1 ? fmt::format(" and at {} more size{}", sizes - 1, sizes == 2 ? "" : "s") : "");
}

// A table with columns of its own in place of none. What was judged, in words.
Result<std::string> take_columns(const Spec& spec, std::string_view text, const std::optional<doctor::ColumnTable>& own,
                                 PerfTable& read) {
  if (!own)
    return bad_input(
        "{}: no row of nccl-tests (size count type redop root time algbw busbw …), OSU or IMB, no matrix of "
        "nvbandwidth, "
        "and no header with a size and a time or a bandwidth",
        spec.table);
  if (own->no_column)
    return bad_input("{}: --column {}: its columns of times are {}", spec.table, shown(*own->no_column),
                     fmt::join(own->times, ", "));
  const PerfTable around = std::exchange(read, own->table);
  read.ranks = std::max(read.ranks, around.ranks);
  read.listed = around.listed, read.hosts = around.hosts, read.gpu = around.gpu;
  if (read.collective.empty()) read.collective = around.collective, read.named = around.named;
  if (read.collective.empty()) read.collective = doctor::collective_in(text), read.named = "its own words";
  if (read.collective.empty()) read.collective = doctor::collective_in(spec.table), read.named = "the file's name";
  // Of all collectives only all_reduce counts more on the bus than its algorithm moves.
  if (read.collective.empty() && doctor::infer_collective(read, 0).ratio > 1.01)
    read.collective = "all_reduce", read.named = "busbw above algbw";
  if (read.collective.empty() && spec.collective.empty())
    return bad_input(
        "{}: a table with columns of its own that does not say which collective it measures: "
        "--collective all_reduce, all_gather, reduce_scatter, all_to_all, broadcast",
        spec.table);
  std::string words = own->chosen.empty() ? "its bandwidths" : fmt::format("column '{}'", shown(own->chosen));
  if (own->times.size() > 1) words += fmt::format(" of {}; --column takes another", fmt::join(own->times, ", "));
  return words;
}

// Leaves out rows that contradict themselves. Where most do, they may only look like nccl-tests' and stand under a
// header with columns of its own.
Status settle_rows(const Spec& spec, std::string_view text, PerfTable& read, std::string& own_columns) {
  const PerfTable printed = read;
  const std::string contradiction = doctor::leave_out_contradictions(read);
  if (contradiction.empty()) return {};
  if (2 * read.rows.size() > printed.rows.size()) {
    fmt::print(stderr, "weft: {}: {} of {} rows are left out, which contradict themselves: {}\n", spec.table,
               printed.rows.size() - read.rows.size(), printed.rows.size(), contradiction);
    return {};
  }
  const auto columns = doctor::read_columns(text, spec.column);
  if (!own_columns.empty() || !columns || columns->pair)
    return bad_input("{}: the table contradicts itself: {}", spec.table, contradiction);
  read = printed;
  WEFT_TRY(own_columns, take_columns(spec, text, columns, read));
  return settle_rows(spec, text, read, own_columns);
}

// Machines of weft have chips as ranks.
Status settle_cores(const Spec& spec, PerfTable& read) {
  if (read.cores == 0) return {};
  if (spec.ranks <= 0)
    return bad_input(
        "{}: its {} ranks are NeuronCores, several of a chip: how many chips are they? Say --ranks CHIPS; cores of one "
        "chip use no link",
        spec.table, read.cores);
  for (PerfTable::Row& row : read.rows) row.busbw = 0;  // its factor is that of the cores
  return {};
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(std::string text, read_text_file(spec.table));
  text = plain_text(std::move(text));
  if (const auto pair = doctor::read_perftest(text)) return check_pair(spec.table, spec.on, spec.json, *pair);
  if (const auto matrices = doctor::read_matrices(text); !matrices.all.empty() || !matrices.waived.empty())
    return check_matrices(spec.table, spec.on, spec.json, matrices);
  PerfTable read = doctor::read_table(text);
  if (!read.refused.empty()) return bad_input("{}: {}", spec.table, shown(read.refused));
  std::string own_columns;
  if (read.rows.empty()) {
    const auto columns = doctor::read_columns(text, spec.column);
    if (columns && columns->pair) return check_pair(spec.table, spec.on, spec.json, *columns->pair);
    WEFT_TRY(own_columns, take_columns(spec, text, columns, read));
  }
  WEFT_CHECK(settle_rows(spec, text, read, own_columns));
  WEFT_CHECK(settle_cores(spec, read));
  const std::int64_t number = ranks_of(spec, read);
  const auto inferred = doctor::infer_collective(read, number);
  std::string collective = !spec.collective.empty()       ? spec.collective
                           : !read.collective.empty()     ? read.collective
                           : !inferred.collective.empty() ? inferred.collective
                                                          : "all_reduce";
  WEFT_CHECK(agrees(spec, read, collective, number));
  WEFT_TRY(const std::string on, machine_of(spec, read));
  WEFT_TRY(const Machine machine, load_machine(on));
  WEFT_CHECK(fits(spec, read, machine));
  const bool taken = spec.collective.empty() && read.collective.empty();
  std::string because = taken ? fmt::format(" (taken from the rows: {}; --collective says otherwise)",
                                            inferred.reason.empty() ? "they do not say" : inferred.reason)
                              : "";
  if (taken && collective == "all_gather") {
    WEFT_TRY(const std::string nearer, gather_or_exchange(spec, read, machine, number));
    if (!nearer.empty()) {
      collective = nearer;
      because = fmt::format(
          " (taken from the rows and the file: {}, which all_gather and all_to_all share; --collective "
          "says otherwise)",
          inferred.reason);
    }
  }
  accuracy::Table table{.name = spec.table,
                        .machine = machine.name,
                        .gpus_per_thread = static_cast<int>(spec.together > 0          ? spec.together
                                                            : read.gpus_per_thread > 0 ? read.gpus_per_thread
                                                                                       : 1)};
  WEFT_TRY(table.collective, schedule::parse_collective(collective));
  WEFT_TRY(const Rank ranks, ranks_on(machine, number > 0 ? number : -1));
  for (PerfTable::Row& row : read.rows)  // a table of bandwidths on the bus alone
    if (row.microseconds <= 0 && row.in_place <= 0 && row.busbw > 0)
      row.microseconds =
          static_cast<double>(row.bytes) * schedule::bus_factor(table.collective, ranks) / row.busbw * 1e-3;
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
    if (spec.on.empty() && read.hosts.size() > 1)
      fmt::print(
          "The table does not say which network joins the hosts: that of the preset is assumed (weft topo --on {}); "
          "another one is --on {},net=….\n",
          on, on);
    if (!own_columns.empty()) fmt::print("Judged: {}.\n", own_columns);
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
  sub->add_option("--column", spec->column, "of times, in a table with columns of its own: a part of its name");
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
