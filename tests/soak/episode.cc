#include "tests/soak/episode.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "net/bootstrap/arbiter.h"
#include "net/ucx/ucx.h"
#include "tests/soak/call.h"
#include "tests/soak/rank.h"

namespace weft::soak {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 60s;  // none is needed: who is killed is noticed, and nobody is stopped for so long

const char* name(Episode::Over over) {
  constexpr const char* kNames[] = {"threads", "shm", "tcp", "shm+tcp", "ucx", "shm+ucx"};
  return kNames[static_cast<int>(over)];
}

ConnectOptions options_of(Episode::Over over) {
  const std::string transport = name(over);
  return {.transport = transport, .node = transport.starts_with("shm+") ? "machine" : "", .timeout = kTimeout};
}

constexpr std::string_view kJoined = "joined, ";  // a rank's first word: from now on it may be killed

// Counts a rank's reports, the last one at its end.
void count(Outcome& outcome, std::string said, const std::string& how_it_ended = "without a word") {
  if (said.starts_with(kJoined)) said.erase(0, kJoined.size());
  long long checked = 0;
  int shrunk = 0, grown = 0;
  if (std::sscanf(said.c_str(), "done %lld %d %d", &checked, &shrunk, &grown) == 3) {
    outcome.checked = std::max<std::int64_t>(outcome.checked, checked);
    outcome.shrunk = std::max(outcome.shrunk, shrunk);
    outcome.grown = std::max(outcome.grown, grown);
  } else if (said != "left" && outcome.wrong.empty()) {
    outcome.wrong = said.empty() ? "a rank ended: " + how_it_ended : std::move(said);
  }
}

Outcome run_threads(const Episode& e) {
  Outcome outcome;
  auto comms = Communicator::threads(e.ranks);
  if (!comms) return {.wrong = comms.error().message};
  std::vector<std::string> said(comms->size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < comms->size(); ++r)
    threads.emplace_back([&, r] { said[r] = RankContext(e, (*comms)[r], nullptr).report(); });
  for (std::thread& t : threads) t.join();
  for (const std::string& s : said) count(outcome, s);
  return outcome;
}

// Strikes ranks at random moments; returns those that it killed.
std::vector<Rank> strike(const Episode& e, tests::ConnectedJob& job) {
  Random random(e.seed ^ 0x5151);
  std::vector<Rank> killed;
  const auto any = [&] { return static_cast<Rank>(random.below(static_cast<std::uint64_t>(e.ranks))); };
  for (int kills = e.kills, stops = e.stops; kills + stops > 0;) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60000)));
    const Rank victim = any();
    if (std::find(killed.begin(), killed.end(), victim) != killed.end()) continue;
    if (stops > 0 && (kills == 0 || random.below(2) == 0)) {
      --stops;
      job[victim].send(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(30000)));
      job[victim].send(SIGCONT);
    } else {
      --kills;
      job[victim].send(SIGKILL);
      killed.push_back(victim);
    }
  }
  return killed;
}

Outcome run_processes(const Episode& e) {
  const ConnectOptions options = options_of(e.over);
  // More than half of the ranks may be killed at the same time: an arbiter lets the others go on, as `weft run` does.
  auto arbiter = net::bootstrap::Arbiter::open(net::link::loopback()).value();
  setenv("WEFT_ARBITER", arbiter->address().text().c_str(), 1);
  tests::ConnectedJob job(e.ranks, options, [&](Communicator& c, tests::Report& report, tests::NoticeBoard& board) {
    RankContext context(e, c, &board);
    // UCX before 1.14 ends a process whose answer to a peer's first words finds that peer dead (decision 0114).
    if (e.over >= Episode::Over::kUcx && e.kills > 0)
      if (const Status met = context.meet(); !met) return "wrong: ranks cannot meet: " + met.error().message;
    report.say(std::string(kJoined));
    return context.report();
  });
  std::vector<tests::Process> spares;  // those that nobody takes in are killed in the end
  for (int place = 1; place <= RankContext::kSpares; ++place)
    spares.emplace_back([&, place](tests::Report& report) {
      ConnectOptions own = options;
      if (!own.node.empty()) own.node += "-spare";
      report.say(RankContext::join(e, job.board(), place, own));
    });
  arbiter->serve();
  job.await_running();
  const std::vector<Rank> killed = strike(e, job);
  Outcome outcome;
  for (Rank r = 0; r < e.ranks; ++r) {
    const tests::Outcome ended = job[r].join();
    if (std::find(killed.begin(), killed.end(), r) == killed.end()) count(outcome, ended.said, ended.how());
  }
  for (int i = 0; i < outcome.grown; ++i) {
    const tests::Outcome ended = spares[static_cast<std::size_t>(i)].join();
    count(outcome, ended.said, ended.how());
  }
  return outcome;
}

}  // namespace

Episode Episode::draw(std::uint64_t seed, std::int64_t calls) {
  Random random(seed);
  Episode e{.over = static_cast<Over>(random.below(net::ucx::available() ? 6 : 4)), .calls = calls, .seed = seed};
  e.ranks = static_cast<Rank>(2 + random.below(4));
  if (e.over == Over::kThreads) return e;
  e.kills = static_cast<int>(random.below(static_cast<std::uint64_t>(std::min(e.ranks - 1, 3))));
  e.stops = static_cast<int>(random.below(4));
  return e;
}

std::string Episode::text() const {
  return fmt::format("seed {}: {} ranks over {}, {} calls, {} killed, {} stopped for a while", seed, ranks, name(over),
                     calls, kills, stops);
}

Outcome run(const Episode& episode) {
  return episode.over == Episode::Over::kThreads ? run_threads(episode) : run_processes(episode);
}

}  // namespace weft::soak
