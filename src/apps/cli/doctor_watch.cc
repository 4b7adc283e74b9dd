#include "apps/cli/doctor_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/cli/common.h"
#include "apps/cli/help.h"
#include "apps/cli/terminal.h"
#include "apps/doctor/watch.h"
#include "base/counted.h"
#include "base/text.h"
#include "exec/recorder/record_pool.h"

namespace weft::cli {
namespace {

using report::WatchReport;

std::string rate(double bytes_per_second) {
  return bytes_per_second < 1e8 ? fmt::format("{:.2f} MB/s", bytes_per_second * 1e-6)
                                : format_rate(BytesPerSecond(bytes_per_second));
}

void print_jobs(const WatchReport& r) {
  if (r.jobs.empty()) fmt::print("no job of this user runs here: counters of the machine alone\n");
  for (const auto& j : r.jobs) {
    fmt::print("job {}, communicator {}: {} of {} here, over {}\n", j.job, j.communicator, j.here,
               counted(j.ranks, "rank"), j.transport);
    fmt::print("  {:.1f} calls/s, messages of {}, {:.0f} % of the time within calls\n", j.calls, rate(j.message_bytes),
               100 * j.in_calls);
    if (j.leaves > 0) fmt::print("  must send at least {} to other hosts\n", rate(j.leaves));
  }
}

void print_nics(const WatchReport& r) {
  if (r.nics.empty()) return fmt::print("  no NIC is up\n");
  fmt::print("  {:<16} {:>11} {:>11} {:>11} {:>12} {:>9}\n", "NIC", "line rate", "sent", "received", "of all NICs",
             "expected");
  for (const auto& n : r.nics)
    fmt::print("  {:<16} {:>11} {:>11} {:>11} {:>11.1f}% {:>9}\n", n.name, n.line_rate > 0 ? rate(n.line_rate) : "-",
               rate(n.sent), rate(n.received), 100 * n.share,
               r.leaves > 0 ? rate(r.leaves * n.fair_share) : fmt::format("{:.1f}%", 100 * n.fair_share));
  if (r.loopback > 0) fmt::print("  {:<16} {:>11} {:>11}\n", "loopback", "-", rate(r.loopback));
}

void print_machine(const WatchReport& r) {
  fmt::print("  CPU {:.0f} % of {}, memory {:.0f} % used\n", 100 * r.cpu_busy, counted(r.cores, "core"),
             100 * r.memory_used);
  for (const auto& g : r.gpus) {
    fmt::print("  GPU {:<2} {:>3.0f} % busy, memory {:>3.0f} %, {:.0f} MHz, {:.0f} W", g.index, 100 * g.busy,
               100 * g.memory, g.clock_mhz, g.watts);
    if (g.nvlink_sent + g.nvlink_received > 0)
      fmt::print(", NVLink {} out, {} in", rate(g.nvlink_sent), rate(g.nvlink_received));
    fmt::print("\n");
  }
}

void print(const WatchReport& r) {
  const bool colours = colours_wanted();
  print_jobs(r);
  print_nics(r);
  print_machine(r);
  for (const auto& f : r.findings)
    fmt::print("  {}{}: {}{}: {}\n", colours ? "\x1b[33m" : "", f.what, f.part, colours ? "\x1b[0m" : "", f.text);
  if (r.findings.empty()) fmt::print("  nothing found in {:.1f} s\n", r.seconds);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Not silence: what is shown stands until the next look.
void pause(double seconds) {
  for (const double until = now() + seconds; now() < until;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(until - now(), 0.0, 0.5)));
    note_output();
  }
}

}  // namespace

Result<bool> watch(const WatchOptions& o) {
  if (!(o.interval >= 0.1 && o.interval <= 3600))
    return bad_input("--interval {}: seconds, from 0.1 to 3600", o.interval);
  if (o.count < 0) return bad_input("--count {}: a number of intervals is needed", o.count);
  WEFT_TRY(const std::string folder, recorder::own_folder());
  const doctor::Probes probes = doctor::real_probes();
  const auto look = [&] { return doctor::sample(probes, recorder::read_folder(folder, 1), now()); };
  bool found = false;
  std::string lines;
  doctor::Sample before = look();
  for (std::int64_t i = 0; o.count == 0 || i < o.count; ++i) {
    pause(o.interval);
    doctor::Sample after = look();
    const WatchReport report = doctor::compare(before, after);
    found = found || !report.findings.empty();
    before = std::move(after);
    if (o.json != "-") {
      if (i > 0) fmt::print("\n");
      print(report);
    }
    if (!o.json.empty()) {
      const std::string line = to_json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
      if (o.json == "-")
        print_as_it_is(line);
      else
        WEFT_CHECK(write_text(o.json, lines += line));
    }
    std::fflush(stdout);
  }
  return found;
}

}  // namespace weft::cli
