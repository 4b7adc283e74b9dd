#include "apps/cli/check_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/cli/check_causes.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::cli {
namespace {

using accuracy::Point;
using doctor::PerfTable;

constexpr Bytes kLarge = kLargeMessage;
constexpr double kSlow = 1.25;    // times the model's time; its own error is a fifth of that there (docs/accuracy.md)
constexpr double kSmallSlow = 2;  // of small messages, where the model is less sure
constexpr double kExplained = 0.25;  // mean |ln| that an explanation may leave
constexpr double kShownLikelihood = 0.02;

double slow_from(Bytes bytes) { return bytes >= kLarge ? kSlow : kSmallSlow; }

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
  fmt::print("\n{:>10} {:>8}  cause, and how likely it is among these; what verifies it\n", "likelihood", "off by");
  for (const Explanation& cause : causes)
    if (cause.likelihood >= kShownLikelihood || &cause == causes.data() || cause.id == "model")
      fmt::print("{:>8.0f} % {:>6.0f} %  {}; {}\n", 100 * cause.likelihood, 100 * (std::exp(cause.left) - 1),
                 cause.words, cause.verify);
  fmt::print("off by: how far the table's times still are, on average, from those of the machine with that cause\n");
}

// "3 rows left out: line 7 (size -8), line 9 (no time) and 1 more".
std::string left_out_in_words(const PerfTable& table) {
  std::vector<std::string> named;
  for (const auto& one : table.dropped)
    named.push_back(one.line > 0 ? fmt::format("line {} ({})", one.line, one.why) : one.why);
  return fmt::format("{} left out: {}{}", counted(table.cut, "row"), fmt::join(named, ", "),
                     table.cut > named.size() ? fmt::format(" and {} more", table.cut - named.size()) : "");
}

// What is wrong with the table itself.
void print_notes(const PerfTable& table) {
  if (table.cut > 0) fmt::print("{}.\n", left_out_in_words(table));
  if (table.left_out > 0)
    fmt::print("{} other section{} of this table left out: the one with the largest message is judged.\n",
               table.left_out, table.left_out == 1 ? " was" : "s were");
  const auto odd = doctor::non_monotonic(table);
  if (odd.empty()) return;
  std::string sizes;
  for (const std::int64_t bytes : odd) sizes += (sizes.empty() ? "" : ", ") + format_bytes(bytes);
  fmt::print("Faster than a smaller size by a fifth or more: {}. A change of algorithm or protocol, or noise.\n",
             sizes);
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
Result<std::string> gather_or_exchange(const CheckSpec& spec, const PerfTable& read, const Machine& machine,
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
                     sizes > 1 ? fmt::format(" and at {} more {}", sizes - 1, plural(sizes - 1, "size")) : "");
}

// The collective that is judged, and where it comes from.
struct Named {
  std::string collective, because, reason;
};

Result<Named> named(const CheckSpec& spec, const PerfTable& read, const Machine& machine, std::int64_t number,
                    const doctor::Inferred& inferred, std::string collective) {
  Named name{.collective = std::move(collective), .reason = inferred.reason};
  if (!spec.collective.empty() || !read.collective.empty()) return name;
  name.because = fmt::format(" (taken from the rows: {}; --collective says otherwise)",
                             inferred.reason.empty() ? "they do not say" : inferred.reason);
  if (name.collective != "all_gather") return name;
  WEFT_TRY(const std::string nearer, gather_or_exchange(spec, read, machine, number));
  if (nearer.empty()) return name;
  name.collective = nearer;
  name.because = fmt::format(
      " (taken from the rows and the file: {}, which all_gather and all_to_all share; --collective says otherwise)",
      inferred.reason);
  return name;
}

// Both columns of a table, held against the model.
struct Both {
  Judged out, in;
  std::size_t out_rows = 0, in_rows = 0;
  bool out_slow = false, in_slow = false;
  std::vector<Explanation> causes;
  std::string wrong, verdict;

  bool slow() const { return out_slow || in_slow; }
};

Result<Both> judge_both(const Machine& machine, accuracy::Table table, const PerfTable& read, Rank ranks) {
  table.points = points_of(read, ranks, false);
  accuracy::Table in_place = table;
  in_place.points = points_of(read, ranks, true);
  if (table.points.empty()) std::swap(table, in_place);
  accuracy::Predictor predictor(
      cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
  Both both{.out_rows = table.points.size(), .in_rows = in_place.points.size(), .wrong = wrong_in_words(read)};
  WEFT_TRY(both.out, judge(predictor, table, ranks));
  WEFT_TRY(both.in, judge(predictor, in_place, ranks));
  both.out_slow = is_slow_table(both.out, both.out_rows), both.in_slow = is_slow_table(both.in, both.in_rows);
  if (both.slow() && (both.out_slow ? both.out : both.in).large > 0) {
    const accuracy::Table part = sample(both.out_slow ? table : in_place);
    WEFT_TRY(const auto healthy, residuals(predictor, part));
    WEFT_TRY(both.causes, explanations(predictor, machine, part, healthy));
  }
  both.verdict = (both.wrong.empty() ? "" : fmt::format("has wrong results ({}) and ", both.wrong)) +
                 (both.in_slow && !both.out_slow ? "in place " : "") + verdict_of(both.slow(), both.causes);
  return both;
}

void print(const CheckSpec& spec, const PerfTable& read, const Named& name, const Both& both, const Machine& machine,
           const std::string& on, const accuracy::Table& table, Rank ranks) {
  fmt::print("This {} table{} {}: {} of {} rows are slow{} on {} ranks of {}{}.\n", name.collective, name.because,
             both.verdict, both.out.slow, both.out_rows,
             both.in_rows == 0 ? "" : fmt::format(" out of place, {} of {} in place", both.in.slow, both.in_rows),
             ranks, machine.name, spec.on.empty() ? " (guessed from the table)" : "");
  if (spec.on.empty() && read.hosts.size() > 1)
    fmt::print(
        "The table does not say which network joins the hosts: that of the preset is assumed (weft topo --on {}); "
        "another one is --on {},net=….\n",
        on, on);
  if (const std::string mixed = mixed_in_words(read); !mixed.empty())
    fmt::print("Care: {}; it is judged as if all were those of {}.\n", mixed, machine.name);
  if (table.gpus_per_thread > 1)
    fmt::print(
        "One thread launches on {} GPUs in turn (nGpus {}), so small messages take longer than with a process for each "
        "GPU (-g 1): the model's times have that.\n",
        table.gpus_per_thread, table.gpus_per_thread);
}

nlohmann::json json_of(const std::vector<Explanation>& causes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Explanation& cause : causes)
    list.push_back({{"id", cause.id},
                    {"cause", cause.words},
                    {"likelihood", cause.likelihood},
                    {"left", cause.left},
                    {"verify", cause.verify}});
  return list;
}

nlohmann::json json_of(const PerfTable& read, const Named& name, const Both& both, const Machine& machine) {
  nlohmann::json dropped = nlohmann::json::array();
  for (const auto& one : read.dropped) dropped.push_back({{"line", one.line}, {"why", one.why}});
  return {{"schema", "weft.check/1"},
          {"machine", machine.name},
          {"line", read.line},
          {"collective", name.collective},
          {"inferred_from", name.because.empty() ? "" : name.reason},
          {"rows_left_out", read.cut},
          {"left_out", dropped},
          {"non_monotonic", doctor::non_monotonic(read)},
          {"verdict", both.verdict},
          {"slow", both.slow()},
          {"lost_busbw_gbs", both.out.lost},
          {"wrong", both.wrong},
          {"in_place_slow", both.in_slow},
          {"rows", both.out.rows},
          {"in_place_rows", both.in.rows},
          {"causes", json_of(both.causes)}};
}

}  // namespace

Result<CheckAnswer> check_table(const CheckSpec& spec, std::string_view text, PerfTable read, std::string own_columns) {
  WEFT_CHECK(settle_rows(spec, text, read, own_columns));
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
  WEFT_TRY(const Named name, named(spec, read, machine, number, inferred, collective));
  accuracy::Table table{.name = spec.table,
                        .machine = machine.name,
                        .gpus_per_thread = static_cast<int>(spec.together > 0          ? spec.together
                                                            : read.gpus_per_thread > 0 ? read.gpus_per_thread
                                                                                       : 1)};
  WEFT_TRY(table.collective, schedule::parse_collective(name.collective));
  WEFT_TRY(const Rank ranks, ranks_on(machine, number > 0 ? number : -1));
  for (PerfTable::Row& row : read.rows)  // a table of bandwidths on the bus alone
    if (row.microseconds <= 0 && row.in_place <= 0 && row.busbw > 0)
      row.microseconds =
          static_cast<double>(row.bytes) * schedule::bus_factor(table.collective, ranks) / row.busbw * 1e-3;
  WEFT_TRY(const Both both, judge_both(machine, table, read, ranks));
  if (spec.json != "-") {
    print(spec, read, name, both, machine, on, table, ranks);
    if (!own_columns.empty()) fmt::print("Judged: {}.\n", own_columns);
    print_notes(read);
    fmt::print("\n");
    print(both.out);
    if (both.in.slow > 0) {
      fmt::print("\nin place:\n");
      print(both.in);
    }
    print_causes(both.causes);
  }
  return CheckAnswer{.status = both.slow() || !both.wrong.empty() ? kBadAnswer : 0,
                     .json = json_of(read, name, both, machine)};
}

}  // namespace weft::cli
