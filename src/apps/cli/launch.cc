#include "apps/cli/launch.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "api/open.h"
#include "apps/launch/binding.h"
#include "apps/launch/labelled_pipes.h"
#include "apps/launch/ucx_names.h"
#include "base/env.h"
#include "exec/recorder/recorder.h"
#include "net/bootstrap/arbiter.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/meeting.h"
#include "net/link/interfaces.h"
#include "net/shm/shm.h"
#include "net/ucx/ucx.h"

namespace weft::cli {
namespace {

// Unguessable: from the system's random source.
std::string make_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

// Waits for all ranks, passing signals on; the job's exit code.
int wait_for(launch::RankProcesses& ranks, const launch::BlockedSignals& signals) {
  int result = 0;
  std::optional<std::chrono::steady_clock::time_point> until;  // the job is to end by then
  const auto in_grace = [&] { return until && std::chrono::steady_clock::now() < *until; };
  while (ranks.running() > 0 || (in_grace() && ranks.any_left())) {
    if (const int s = signals.next(); s == SIGINT || s == SIGTERM || s == SIGHUP) {
      result = 128 + s;
      ranks.signal_all(until ? SIGKILL : s);  // at the second signal nothing is waited for
      if (!until) until = std::chrono::steady_clock::now() + launch::kGrace;
    }
    if (until && !in_grace()) ranks.signal_all(SIGKILL);
    for (const auto& ended : ranks.reap()) {
      if (ended.signal() != 0 && result < 128)
        fmt::print(stderr, "weft: rank {} was ended by {}\n", ended.rank, launch::signal_text(ended.signal()));
      if (result == 0) result = ended.code();
    }
  }
  if (until && ranks.any_left()) ranks.signal_all(SIGKILL);
  return result;
}

}  // namespace

Result<int> launch(Rank ranks, const std::string& transport, const std::string& rates,
                   const std::function<int(const std::vector<Setting>&)>& body, Rank machines, bool labels) {
  const std::string id = make_id();
  std::optional<net::bootstrap::Host> host;          // where ranks meet that share no memory
  std::unique_ptr<net::bootstrap::Arbiter> arbiter;  // decides which ranks go on, among those
  std::optional<launch::UcxNames> names;
  if (api::across(transport) == "ucx") {
    WEFT_CHECK(net::ucx::available());
    names.emplace();
  }
  if (transport != "shm" || machines > 1) {
    WEFT_TRY(const env::Settings settings, env::read());
    net::link::Address at = net::link::loopback();
    if (!settings.interface.empty()) {
      WEFT_TRY(at, net::link::choose_interface(settings.interface));
    }
    WEFT_TRY(const net::link::Ports ports, net::bootstrap::ports_of(settings));
    WEFT_TRY(host, net::bootstrap::Host::open(at, ranks, ports));
    WEFT_TRY(arbiter, net::bootstrap::Arbiter::open(at, ports));
  }
  std::unique_ptr<launch::LabelledPipes> pipes;
  if (labels) {
    WEFT_TRY(pipes, launch::LabelledPipes::open(ranks));
  }
  WEFT_TRY(const auto bindings, launch::bind_as_asked(0, ranks));
  std::fflush(nullptr);
  const launch::BlockedSignals signals({SIGINT, SIGTERM, SIGHUP});
  launch::RankProcesses processes(isatty(STDIN_FILENO) == 0);
  for (Rank r = 0; r < ranks; ++r) {
    const Status started = processes.start(r, bindings[static_cast<std::size_t>(r)].cpus, [&] {
      signals.restore();
      if (pipes) pipes->take(r);
      std::vector<Setting> given = {{"WEFT_RANK", std::to_string(r)},
                                    {"WEFT_SIZE", std::to_string(ranks)},
                                    {"WEFT_ID", id},
                                    {"WEFT_RATES", rates}};
      if (host) {
        given.emplace_back("WEFT_JOIN", host->id().text());
        given.emplace_back("WEFT_ARBITER", arbiter->address().text());
        if (machines == 1 || transport != "shm") given.emplace_back("WEFT_TRANSPORT", transport);
        if (machines > 1) given.emplace_back("WEFT_NODE", fmt::format("{}-{}", id, r * machines / ranks));
        host->forget();
      }
      if (names) names->apply();
      return body(given);
    });
    if (!started) {
      processes.signal_all(SIGKILL);
      return tl::make_unexpected(started.error());
    }
  }
  if (arbiter) arbiter->serve();
  // Only now: a fork carries no threads. Ranks that did come report the missing ones.
  std::thread meeting([&] {
    if (host) (void)host->serve(launch::kMeetingTime);
  });
  if (pipes) pipes->start();
  const int result = wait_for(processes, signals);
  if (pipes) pipes->finish();
  if (host) host->stop();
  meeting.join();
  net::shm::remove_name(id);
  net::shm::sweep_names();
  if (const auto folder = recorder::own_folder()) recorder::sweep(*folder);  // of ranks that were killed
  return result;
}

}  // namespace weft::cli
