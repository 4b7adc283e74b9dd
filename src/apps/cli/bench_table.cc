#include <fmt/format.h>

#include <algorithm>

#include "apps/cli/bench.h"
#include "apps/cli/measured.h"
#include "base/counted.h"
#include "base/text.h"
#include "model/predict/estimate_gap.h"

namespace weft::cli {

using report::BenchReport;
using report::BenchRow;

namespace {

constexpr int kWide = 150;
constexpr double kTold = 1e-3;  // times less sure than this are never without a word about it

std::string time_text(Duration d) {
  const double us = d.us();
  return us < 100 ? fmt::format("{:.2f}", us) : us < 1e6 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

// "; in all runs 65536 steps in 0.04 s: 1.6 M/s simulated, standing for 7.0e+08 steps of all ranks, 17500 M/s"
std::string speed_text(const BenchRow& r) {
  const double seconds = r.simulating.s();
  return fmt::format(
      "; in all runs {} in {:.2f} s: {:.2f} M/s simulated, standing for {:.2g} steps of all ranks, {:.2f} M/s",
      counted(r.steps_in_all_runs, "step"), seconds, static_cast<double>(r.steps_in_all_runs) / seconds * 1e-6,
      r.steps_represented, r.steps_represented / seconds * 1e-6);
}

// "950-1310"
std::string measured_text(const BenchRow& r) {
  if (!r.measured) return "not measured";
  return fmt::format("{}-{}", time_text(r.measured->low), time_text(r.measured->high));
}

// "busiest gpu3 -> nvswitch0, 93 % of the time at its full rate; folded 512:1; 4096 steps simulated; fast-forwarded"
std::string simulated_text(const BenchRow& r) {
  std::string text;
  if (!r.busiest_link.empty())
    text = fmt::format("busiest {}, {:.0f} % of the time at its full rate{}; ", r.busiest_link, 100 * r.busiest_share,
                       plans_own_limit(r.busiest_share, r.of_limit()));
  if (r.extrapolated_from > 0)
    text += fmt::format("extrapolated from {}{}, between {} and {} us; ", counted(r.extrapolated_from, "rank"),
                        r.approximate ? " by the cost model" : "", time_text(r.low), time_text(r.high));
  else if (r.uncertainty > 0)
    text +=
        fmt::format("a few of many equal rounds were run: between {} and {} us; ", time_text(r.low), time_text(r.high));
  if (r.folded > 1)
    text += fmt::format("symmetric: folded {}:1; ", r.folded);
  else if (r.extrapolated_from == 0)
    text += "full: every rank simulated; ";
  text += fmt::format("{} simulated", counted(r.steps, "step"));
  if (r.fast_forwarded) text += "; fast-forwarded";
  if (r.enlarged > 0) text += fmt::format("; {} B added for equal chunks", r.enlarged);
  if (r.simulating > Duration()) text += speed_text(r);
  return text;
}

// "packets 81920 sent, 0 lost, …; longest queue 1.2 MB for switch0 -> nic3"
std::string packets_text(const BenchRow::Packets& p) {
  std::string text =
      fmt::format("packets {} sent over links, {} retried, {} lost, {} discarded, {} timeouts, {} marked, {} pauses",
                  p.sent, p.retried, p.lost, p.discarded, p.timeouts, p.marked, p.pauses);
  if (p.reordered > 0) text += fmt::format(", {} out of order", p.reordered);
  if (!p.at.empty()) text += fmt::format("; longest queue {:.1f} KB for {}", p.longest_queue * 1e-3, p.at);
  return text;
}

// "where the time goes: 41 % link node0/nic2 -> switch2, 30 % hops, …", of the causes that matter.
std::string why_text(const BenchRow& r) {
  constexpr double kLeast = 0.01;
  std::string text;
  double left = 0;
  for (const BenchRow::Spent& s : r.why) {
    const double part = s.time / r.time;
    if (part < kLeast) {
      left += part;
      continue;
    }
    text += fmt::format("{}{} {:.1f} us ({:.0f} %)", text.empty() ? "" : ", ",
                        s.where.empty() ? s.cause : s.cause + " " + s.where, s.time.us(), 100 * part);
  }
  if (left > 0) text += fmt::format(", others {:.1f} us", left * r.time.us());
  return fmt::format("where the time goes, along {}: {}", counted(r.path_steps, "step"), text);
}

// Rows whose time, without faults and loads, is none that published measurements of such machines would have.
void print_outside(const BenchReport& report) {
  for (const std::string_view what : {"slower", "faster"}) {
    const auto n = std::ranges::count_if(report.rows, [&](const BenchRow& r) {
      return r.measured && published_are(r.time_without_trouble(), *r.measured) == what;
    });
    if (n > 0)
      fmt::print("# {}the times of {} of {} lie outside: published rows of such machines were {}\n",
                 report.rows.front().troubled() ? "without faults and loads " : "", n,
                 counted(report.rows.size(), "row"), what);
  }
}

// The tables that stand behind `measured`: a class of machines and sizes is named once, at the last of its rows.
void print_tables(const BenchReport& report) {
  if (report.world != "simulated") return;
  const auto none = [](const BenchRow& r) { return !r.measured; };
  if (std::ranges::all_of(report.rows, none)) fmt::print("# measured: nothing like it, as far as weft knows\n");
  if (std::ranges::any_of(report.rows, &BenchRow::troubled))
    fmt::print("# measured: no published table is of a machine with such faults, loads or other jobs\n");
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const auto& m = report.rows[i].measured;
    if (!m || (i + 1 < report.rows.size() && report.rows[i + 1].measured && report.rows[i + 1].measured->of == m->of))
      continue;
    fmt::print("# measured{}: {} would lie there if this one errs as they do, by {} of {}\n",
               report.rows[i].troubled() ? ", without them" : "", rows_inside(*m), counted(m->tables, "table"), m->of);
  }
}

}  // namespace

BenchTable::BenchTable(const BenchReport& report, int width, bool verbose)
    : report_(report),
      wide_(width >= kWide),
      verbose_(verbose),
      measured_(std::ranges::any_of(report.rows,
                                    [](const BenchRow& r) { return r.measured && !r.troubled() && r.errors < 0; })) {}

void BenchTable::header() const {
  fmt::print("# {} of {} {} on {}, {} ({}{}); {}\n", report_.collective, report_.type, report_.op,
             counted(report_.ranks, "rank"), report_.machine, report_.world,
             report_.transport.empty() ? "" : ", " + report_.transport, report_.rates);
  if (!report_.tokens.empty())
    fmt::print(
        "# {}; size and count are of one rank's tokens, in low-latency mode once per expert; busbw: what a rank sends "
        "to others\n",
        report_.tokens);
  for (const std::string& finding : report_.findings) fmt::print("# note: {}\n", finding);
  for (const std::string& fault : report_.faults) fmt::print("# fault {}\n", fault);
  for (const std::string& job : report_.beside) fmt::print("# beside {}\n", job);
  for (const std::string& load : report_.loads) fmt::print("# load {}\n", load);
  if (!report_.compute.empty()) fmt::print("# compute {}\n", report_.compute);
  if (wide_) {
    fmt::print("# {:>12} {:>12} {:>7} {:>5} {:>11} {:>8} {:>8} {:>15}   {:<9} {:<7} {:>3} {:>11} {:>6}  {}\n", "size",
               "count", "type", "op", "time", "algbw", "busbw", measured_ ? "measured" : "#wrong", "algo", "proto",
               "ch", "estimate", "%least", "limit");
    fmt::print("# {:>12} {:>12} {:>7} {:>5} {:>11} {:>8} {:>8} {:>15}   {:<9} {:<7} {:>3} {:>11} {:>6}\n", "(B)",
               "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", measured_ ? "(us)" : "", "", "", "", "(us)", "");
  } else if (measured_) {
    fmt::print("# {:>11} {:>11} {:>8} {:>15}  {:<9} {:<6} {:>3} {:>6}\n", "size (B)", "time (us)", "busbw",
               "measured (us)", "algo", "proto", "ch", "%least");
  } else {
    fmt::print("# {:>11} {:>11} {:>8} {:>6}  {:<9} {:<6} {:>3} {:>11} {:>6}\n", "size (B)", "time (us)", "busbw",
               "#wrong", "algo", "proto", "ch", "estimate", "%least");
  }
  std::fflush(stdout);
}

void BenchTable::row(const BenchRow& r) const {
  const std::string wrong = r.errors < 0 ? "N/A" : std::to_string(r.errors);
  const std::string judged = measured_ ? measured_text(r) : wrong;
  const int percent = static_cast<int>(100 * r.of_limit() + 0.5);
  if (wide_)
    fmt::print("  {:>12} {:>12} {:>7} {:>5} {:>11} {:>8.2f} {:>8.2f} {:>15}   {:<9} {:<7} {:>3} {:>11} {:>5}%  {}\n",
               r.bytes, r.count, report_.type, report_.op, time_text(r.time), r.algbw_gb(), r.busbw_gb(), judged,
               r.algorithm, r.protocol, r.channels, time_text(r.predicted), percent, r.limit_resource);
  else if (measured_)
    fmt::print("  {:>11} {:>11} {:>8.2f} {:>15}  {:<9} {:<6} {:>3} {:>5}%\n", r.bytes, time_text(r.time), r.busbw_gb(),
               judged, r.algorithm, r.protocol, r.channels, percent);
  else
    fmt::print("  {:>11} {:>11} {:>8.2f} {:>6}  {:<9} {:<6} {:>3} {:>11} {:>5}%\n", r.bytes, time_text(r.time),
               r.busbw_gb(), wrong, r.algorithm, r.protocol, r.channels, time_text(r.predicted), percent);
  const bool only_faults = report_.beside.empty() && report_.loads.empty();
  if (r.troubled())
    fmt::print("#   without {0} {1} us{2}: {3} it {4:.2f}x as long\n", only_faults ? "faults" : "them",
               time_text(r.healthy),
               r.measured ? fmt::format(" (measured: {} us, {})", measured_text(r), rows_inside(*r.measured)) : "",
               only_faults ? "the faults make" : "they make", r.time / r.healthy);
  constexpr double kFaster = 0.995;
  if (r.troubled() && only_faults && r.time / r.healthy < kFaster)
    fmt::print("#   faster than without: what is slower comes later, and the rest is served in another order\n");
  if (const auto& c = r.computing)
    fmt::print(
        "#   computing takes {} us alone, {} us beside it: {:.2f}x as long; both have ended after {} us: "
        "{:.0f} % of the shorter one is hidden\n",
        time_text(c->alone), time_text(c->beside), c->beside / c->alone, time_text(c->together), 100 * c->overlap);
  const bool unsure = r.uncertainty > kTold;
  if ((verbose_ || unsure) && report_.world == "simulated") fmt::print("#   {}\n", simulated_text(r));
  if (verbose_ && !r.why.empty()) fmt::print("#   {}\n", why_text(r));
  if (verbose_ && !r.estimate_off.empty()) fmt::print("#   {}\n", r.estimate_off);
  if (verbose_ && r.packets) fmt::print("#   {}\n", packets_text(*r.packets));
  std::fflush(stdout);
}

void BenchTable::footer(const BenchReport& report) const {
  double sum = 0;
  std::int64_t wrong = 0, unchecked = 0;
  for (const BenchRow& r : report.rows) {
    sum += r.busbw_gb();
    wrong += std::max<std::int64_t>(0, r.errors);
    unchecked += r.errors < 0;
  }
  const auto rows = static_cast<std::int64_t>(report.rows.size());
  const std::string checked = unchecked == rows ? "elements not checked"
                              : unchecked > 0
                                  ? fmt::format("{} wrong elements ({} not checked)", wrong, counted(unchecked, "row"))
                                  : fmt::format("{} wrong elements", wrong);
  fmt::print("# {}, average busbw {:.2f} GB/s\n", checked, rows == 0 ? 0 : sum / static_cast<double>(rows));
  print_outside(report);
  if (report.world == "simulated")
    fmt::print(
        "# %least: the least possible time, as a share of the time; busbw also counts what switches sum on the way\n");
  print_tables(report);
  const auto off = report.world != "simulated" ? 0 : std::ranges::count_if(report.rows, [](const BenchRow& r) {
    return predict::estimate_is_off(r.predicted, r.time);
  });
  if (off > 0 && !verbose_)
    fmt::print("# the cost model's estimate is more than {:.0f} % off in {} {}: --verbose says why\n",
               100 * predict::kExplainedGap, off, off == 1 ? "row" : "rows");
}

Result<int> finish_bench(const BenchSpec& spec, const BenchReport& report, const BenchTable& table) {
  if (spec.json != "-") table.footer(report);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  for (const BenchRow& r : report.rows)
    if (r.errors > 0) return kBadAnswer;
  return 0;
}

}  // namespace weft::cli
