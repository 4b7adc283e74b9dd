#include "tests/tcp_job.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/communicators.h"

namespace weft::tests {

std::string text_of(const Error& error) {
  return fmt::format("code {}: {}", static_cast<int>(error.code), error.message);
}
std::string code_of(Code code) { return fmt::format("code {}:", static_cast<int>(code)); }

TcpJob::TcpJob(Rank ranks, std::chrono::milliseconds timeout, const RankContext& context, const Detour& detour,
               int sockets) {
  constexpr std::chrono::seconds kLong{60};
  auto host = net::bootstrap::Host::open(net::link::loopback(), ranks).value();
  for (Rank r = 0; r < ranks; ++r)
    processes_.emplace_back([&, r](Report& report) {
      const net::bootstrap::UniqueId id = host.id();
      host.forget();
      auto meeting = net::bootstrap::meet({.id = id, .rank = r, .ranks = ranks, .timeout = kLong});
      if (!meeting) return report.say(text_of(meeting.error()));
      if (detour) detour(r, *meeting);
      const int spins = ranks > static_cast<Rank>(std::thread::hardware_concurrency()) ? 1 : 200;
      const net::tcp::Options options{.sockets = sockets, .zero_copy = net::tcp::ZeroCopy::kAlways};
      auto world = net::tcp::open(std::move(*meeting), r, options, {.spins = spins, .timeout = timeout});
      Communicator comm(std::make_shared<session::Session>(
          std::make_unique<exec::WorldExecutor<net::messages::World>>(std::move(world)), ranks, forcing_chooser()));
      report.say(context(comm, report));
    });
  const Status met = host.serve(kLong);
  EXPECT_TRUE(met) << met.error().message;
}

std::vector<std::string> TcpJob::join() {
  std::vector<std::string> said;
  for (Process& p : processes_) {
    const Outcome outcome = p.join();
    EXPECT_TRUE(outcome.ended_well()) << outcome.how() << ": " << outcome.said;
    said.push_back(outcome.said);
  }
  return said;
}

}  // namespace weft::tests
