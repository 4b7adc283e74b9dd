// How long ranks need until all survivors of a death know whom to blame, and until those have agreed, shrunk their
// communicator and summed; and how long small messages take, with tags and without.
//   weft_recovery_times [shm|tcp|ucx|mixed]…   all by default; "mixed": every two ranks are a machine
//   weft_recovery_times many [shm|…]           64 ranks, 50 deaths in another call each
//   weft_recovery_times choice                 as a rank of a launcher's job: what three sizes are done with
// Exit: 0, or 1 with what went wrong.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;  // the same in all processes

ConnectOptions options(const std::string& over) {
  if (over == "mixed") return {.node = "machine"};
  return {.transport = over};
}

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Ranks sum until one is killed, in another call each time; the survivors agree, shrink and sum again.
int deaths(const std::string& over, Rank ranks = 4, int times = 10) {
  std::vector<double> named, shrunk, all_of_it;
  for (int i = 0; i < times; ++i) {
    const Rank victim = ranks == 4 ? i % 4 : i * 7 % ranks;
    const int before = ranks == 4 ? 200 : i * 13 % 50;
    tests::ConnectedJob job(
        ranks, options(over),
        [victim, before](Communicator& c, tests::Report& report, tests::NoticeBoard& board) -> std::string {
          std::vector<float> data(1000, 1);
          const Request sum{.in = data.data(), .out = data.data(), .count = data.size()};
          if (!c.run(sum)) return "no sum";
          report.say("r");
          if (c.rank() == victim) {
            UniqueId now;
            for (int sums = 0; sums < before; ++sums)
              if (!c.run(sum)) return "no sum";
            const auto since = Clock::now().time_since_epoch().count();
            std::memcpy(now.bytes.data(), &since, sizeof since);
            board.post(1, now);
            kill(getpid(), SIGKILL);
          }
          Status s;
          while (s) s = c.run(sum);
          const auto knows = Clock::now();
          const auto id = board.await(1);
          Clock::rep since = 0;
          std::memcpy(&since, id.bytes.data(), sizeof since);
          const Clock::time_point died{Clock::duration(since)};
          if (s.error().code != Code::kPeerDied || s.error().ranks != std::vector<Rank>{victim})
            return " " + s.error().message;
          const auto begin = Clock::now();
          if (const auto agreed = c.agree(1); !agreed) return " " + agreed.error().message;
          auto rest = c.shrink();
          if (!rest) return " " + rest.error().message;
          if (const auto again = rest->run(sum); !again) return " " + again.error().message;
          return fmt::format("{} {}", ms(knows - died), ms(Clock::now() - begin));
        });
    const auto said = job.join({victim});
    for (Rank r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      double a = 0, b = 0;
      if (std::sscanf(said[static_cast<std::size_t>(r)].c_str() + 1, "%lf %lf", &a, &b) != 2) {
        fmt::print("{}: rank {} without rank {}: {}\n", over, r, victim, said[static_cast<std::size_t>(r)]);
        return 1;
      }
      named.push_back(a), shrunk.push_back(b), all_of_it.push_back(a + b);
    }
  }
  for (auto* all : {&named, &shrunk, &all_of_it}) std::sort(all->begin(), all->end());
  const auto middle = named.size() / 2;
  fmt::print(
      "{:<6} {} ranks, {} deaths: named after {:.1f} ms (median), {:.1f} (worst); agreed, shrunk and summed after "
      "{:.1f}, "
      "{:.1f}; both {:.1f}, {:.1f}\n",
      over, ranks, times, named[middle], named.back(), shrunk[middle], shrunk.back(), all_of_it[middle],
      all_of_it.back());
  return 0;
}

// Half a round trip between two ranks: the best of a hundred batches.
std::string ping_pong(Communicator& c, bool tagged, std::size_t bytes) {
  const int kBatch = bytes > 8 ? 20 : 200;
  constexpr int kBatches = 100;
  std::vector<std::uint8_t> data(bytes);
  const Rank other = 1 - c.rank();
  double best = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto begin = Clock::now();
    for (int i = 0; i < kBatch; ++i)
      for (const bool sends : {c.rank() == 0, c.rank() != 0}) {
        const std::span<const std::uint8_t> out(data);
        Status s;
        if (tagged && !sends) {
          const auto got = c.receive(std::span(data), other, 1);
          if (!got) s = tl::make_unexpected(got.error());
        } else if (tagged) {
          s = c.send(out, other, 1);
        } else {
          s = sends ? c.send(out, other) : c.receive(std::span(data), other);
        }
        if (!s) return s.error().message;
      }
    best = std::min(best, ms(Clock::now() - begin) * 1e6 / (2 * kBatch));
  }
  return c.rank() == 0 ? fmt::format("{:.0f} ns", best) : "";
}

int latencies(const std::string& over) {
  if (over == "mixed") return 0;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1024}, std::size_t{65536}}) {
    std::string line = fmt::format("{:<6} {:>6} B", over, bytes);
    for (const bool tagged : {false, true})
      line +=
          fmt::format("  {} {}", tagged ? "with a tag" : "without",
                      tests::ConnectedJob(2, options(over), [=](Communicator& c, tests::Report&, tests::NoticeBoard&) {
                        return ping_pong(c, tagged, bytes);
                      }).join()[0]);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  return 0;
}

int choice() {
  auto c = Communicator::from_environment();
  if (!c) return fmt::print("{}\n", c.error().message), 1;
  for (const std::size_t count : {std::size_t{256}, std::size_t{16} << 10, std::size_t{1} << 20}) {
    std::vector<float> data(count, 1);
    if (const Status s = c->run({.in = data.data(), .out = data.data(), .count = count}); !s)
      return fmt::print("{}\n", s.error().message), 1;
    const auto chosen = c->last_choice();
    if (c->rank() == 0)
      fmt::print("all_reduce of {} bytes: {} {} x {}\n", 4 * count, chosen.algorithm, chosen.protocol, chosen.channels);
  }
  return c->finalize() ? 0 : 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  std::vector<std::string> over(argv + 1, argv + argc);
  if (over == std::vector<std::string>{"choice"}) return weft::choice();
  const bool many = !over.empty() && over.front() == "many";
  if (many) over.erase(over.begin());
  if (over.empty()) over = {"shm", "tcp", "ucx", "mixed"};
  for (const std::string& one : over) {
    if (one == "ucx" && !weft::net::ucx::available()) continue;
    if (many) {
      constexpr weft::Rank kRanks = 64;
      if (weft::deaths(one, kRanks, 50) != 0) return 1;
      continue;
    }
    if (weft::deaths(one) != 0 || weft::latencies(one) != 0) return 1;
  }
  return 0;
}
