// The same flows over the same links through SimGrid and through weft's flows: when each ends, and how long either
// takes to find out. Nothing but max-min shares is compared: no protocol, no latency, no schedule.
#include "flows.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "machine/machine.h"
#include "machine/routes.h"
#include "model/sim/flow/event_queue.h"
#include "model/sim/flow/flows.h"

namespace {

using weft::Duration;
using weft::sim::MaxMin;

constexpr double kLeast = 1e6, kMost = 64e6;  // bytes of a flow

// `count` flows between GPUs of different nodes, of random sizes, starting at random within `window` seconds.
Job random_flows(const std::string& machine, int count, double window) {
  const auto topology = weft::topology::load_machine(machine).value();
  const weft::topology::Routes routes(topology);
  const auto gpus = topology.endpoints();
  Job job{.gpus = static_cast<int>(gpus.size())};
  for (const auto& link : topology.links())
    for (const double rate : {link.rate_ab.value(), link.rate_ba.value()}) job.capacities.push_back(rate);
  std::mt19937 random(1);
  std::map<std::pair<int, int>, std::size_t> known;
  const auto pick = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  while (static_cast<int>(job.flows.size()) < count) {
    const int from = static_cast<int>(pick(0, job.gpus)), to = static_cast<int>(pick(0, job.gpus));
    const auto a = gpus[static_cast<std::size_t>(from)], b = gpus[static_cast<std::size_t>(to)];
    if (topology.device(a).node == topology.device(b).node) continue;
    const auto [way, added] = known.try_emplace({from, to}, job.ways.size());
    if (added) {
      auto& uses = job.ways.emplace_back();
      for (const auto& hop : routes.path(a, b).hops) uses.push_back({2 * hop.link + (hop.forward ? 0 : 1), 1});
    }
    job.flows.push_back({from, to, window > 0 ? pick(0, window) : 0, std::floor(pick(kLeast, kMost)), way->second});
  }
  std::ranges::sort(job.flows, {}, &Flow::start);
  return job;
}

// weft's flows without a fabric around them.
class Weft : public weft::sim::Carrier::SimulationHost {
 public:
  explicit Weft(const Job& job) : job_(job), flows_(*this, rates_, nullptr) {
    for (const double capacity : job.capacities) rates_.add_resource(capacity);
    for (const auto& way : job.ways) ways_.push_back(rates_.add_way(way));
    answer_.ends.resize(job.flows.size());
  }

  Answer run() {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t f = 0; f < job_.flows.size(); ++f) {
      const auto number = static_cast<std::int32_t>(f);
      if (job_.flows[f].start > 0)
        events_.push(now_, Duration::seconds(job_.flows[f].start), {.kind = kStart, .subject = number});
      else
        begin(number);
    }
    for (flows_.settle(); !events_.empty(); flows_.settle()) {
      const auto [time, order, reminder] = events_.pop();
      if (reminder.kind != kStart && !flows_.due(reminder)) continue;
      now_ = time;
      if (reminder.kind == kStart)
        begin(reminder.subject);
      else
        flows_.handle(reminder);
    }
    answer_.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return answer_;
  }

  Duration time() const override { return now_; }
  void remind(Duration delay, const weft::sim::Carrier::Timer& reminder) override {
    events_.push(now_, delay, reminder);
  }
  void through(std::int32_t load) override { answer_.ends[static_cast<std::size_t>(load)] = now_.s(); }

 private:
  static constexpr std::uint8_t kStart = 255;

  void begin(std::int32_t number) {
    const Flow& flow = job_.flows[static_cast<std::size_t>(number)];
    const MaxMin::Way way = ways_[flow.way];
    const MaxMin::Path path = rates_.path(way);
    double cap = 1e18;
    for (const auto use : path) cap = std::min(cap, rates_.capacity(use.resource));
    flows_.start({.number = number, .way = way, .path = path, .bytes = flow.bytes, .cap = cap});
  }

  const Job& job_;
  MaxMin rates_;
  std::vector<MaxMin::Way> ways_;  // of the job's
  weft::sim::Flows flows_;
  weft::sim::EventQueue<weft::sim::Carrier::Timer> events_;
  Duration now_;
  Answer answer_;
};

// SimGrid's engine lives once per process.
Answer by_simgrid_in_a_child(const Job& job) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    Answer answer = by_simgrid(job);
    answer.ends.push_back(answer.wall);
    const char* data = reinterpret_cast<const char*>(answer.ends.data());
    for (std::size_t left = answer.ends.size() * sizeof(double); left > 0;) {
      const ssize_t written = write(ends[1], data, left);
      if (written <= 0) _exit(1);
      data += written;
      left -= static_cast<std::size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string bytes;
  char part[1 << 16];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) bytes.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  Answer answer;
  answer.ends.resize(bytes.size() / sizeof(double));
  std::memcpy(answer.ends.data(), bytes.data(), answer.ends.size() * sizeof(double));
  if (answer.ends.size() != job.flows.size() + 1) return {};
  answer.wall = answer.ends.back();
  answer.ends.pop_back();
  return answer;
}

void compare(const std::string& machine, int count, double window) {
  const Job job = random_flows(machine, count, window);
  const Answer weft = Weft(job).run(), simgrid = by_simgrid_in_a_child(job);
  if (simgrid.ends.empty()) {
    fmt::print("SimGrid gave no answer\n");
    return;
  }
  double most = 0, mean = 0;
  for (std::size_t f = 0; f < job.flows.size(); ++f) {
    const double differs = std::abs((weft.ends[f] - job.flows[f].start) / (simgrid.ends[f] - job.flows[f].start) - 1);
    most = std::max(most, differs);
    mean += differs / static_cast<double>(count);
  }
  fmt::print("{:>6} {:>8} {:>10.1f} {:>12.3f} {:>12.3f} {:>9.4f}% {:>9.4f}% {:>10.3f} {:>9.4f} {:>7.1f}\n", job.gpus,
             count, window * 1e3, *std::ranges::max_element(simgrid.ends) * 1e3,
             *std::ranges::max_element(weft.ends) * 1e3, 100 * most, 100 * mean, simgrid.wall, weft.wall,
             simgrid.wall / weft.wall);
  std::fflush(stdout);
}

}  // namespace

// Arguments: machine, then pairs of a number of flows and the ms within which they start.
int main(int argc, char** argv) {
  if (argc < 4 || argc % 2 != 0) {
    fmt::print(stderr, "usage: weft_simgrid_flows MACHINE FLOWS WINDOW_MS...\n");
    return 2;
  }
  fmt::print("{:>6} {:>8} {:>10} {:>12} {:>12} {:>10} {:>10} {:>10} {:>9} {:>7}\n", "GPUs", "flows", "window ms",
             "SimGrid ms", "weft ms", "most", "mean", "SimGrid s", "weft s", "ratio");
  std::fflush(stdout);  // before processes fork
  for (int i = 2; i + 1 < argc; i += 2) compare(argv[1], std::atoi(argv[i]), std::atof(argv[i + 1]) * 1e-3);
}
