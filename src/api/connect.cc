#include "api/connect.h"

#include "api/log_lines.h"
#include "api/open.h"
#include "api/settings.h"
#include "api/this_machine.h"
#include "net/mixed/mixed.h"

namespace weft::api {
namespace {

Result<Joined> joined(Result<Opened> opened) {
  if (!opened) return tl::make_unexpected(opened.error());
  return Joined{.comm = Communicator(std::move(opened->session)),
                .transport = opened->transport,
                .machine = opened->machine,
                .shm = opened->shm,
                .messages = opened->messages,
                .mixed = opened->mixed};
}

// Jobs that were killed leave their records and names of segments; one rank of each new job looks.
void clean_up_after_others(Rank rank) {
  if (rank != 0) return;
  net::shm::sweep_names();
  if (const auto folder = recorder::own_folder()) recorder::sweep(*folder);
}

}  // namespace

protocol::Capabilities capabilities_of(const std::string& transport) {
  if (transport == "tcp") return net::tcp::capabilities();
  if (transport == "ucx") return net::ucx::capabilities();
  if (transport.starts_with("shm+")) return net::mixed::capabilities(transport);
  return net::memory::capabilities(transport);
}

Result<Joined> join(const env::Settings& settings, const net::bootstrap::Job& job, const std::string& transport,
                    const calibrate::Rates& rates) {
  WEFT_CHECK(check_settings(settings));
  clean_up_after_others(job.rank);
  WEFT_TRY(auto log, open_log(settings, job.rank));
  log_job(*log, job);
  if (!sends_only(transport) && !job.local_name.empty()) {
    env::hide_secrets();
    auto origin = std::make_shared<Origin>(Origin{settings, rates, job.local_name, transport});
    origin->log = std::move(log);
    return joined(open_shm(std::move(origin), {"world", job.rank, job.ranks, true}, job.local_name));
  }
  env::Settings own = settings;
  own.transport = transport;
  WEFT_TRY(auto meeting, net::bootstrap::meet(job, own));
  return joined(open_met(settings, rates, transport, job.rank, std::move(meeting), std::move(log)));
}

Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings, const calibrate::Rates& rates,
                                               std::shared_ptr<const cost::MachineView> machine) {
  constexpr Rank kMost = 1024;  // each keeps a place for every other: 2 GB and some seconds then
  if (ranks > kMost)
    return bad_input("threads: {} ranks: at most {} are threads of one process, more are processes", ranks, kMost);
  WEFT_CHECK(check_settings(settings));
  clean_up_after_others(0);
  WEFT_TRY(auto worlds, net::threads::open(ranks, limits_of(settings, ranks, *machine)));
  std::array<std::uint8_t, 16> number;
  net::link::fill_random(number);
  const std::string job = net::link::hexadecimal(number);
  std::vector<Communicator> all;
  for (Rank r = 0; r < ranks; ++r) {
    const auto origin = std::make_shared<Origin>(Origin{settings, rates, job, ""});
    WEFT_TRY(origin->log, open_log(settings, r));
    WEFT_TRY(auto session,
             open_thread(origin, {"world", r, ranks}, std::move(worlds[static_cast<std::size_t>(r)]), machine));
    all.emplace_back(std::move(session));
  }
  return all;
}

}  // namespace weft::api

namespace weft {

Result<Communicator> Communicator::from_environment() {
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(const auto job, net::bootstrap::job_of(settings));
  WEFT_TRY(const calibrate::Rates rates, api::rates_of(settings, job && job->rank != 0));
  if (!job) {  // one rank that needs no name
    WEFT_TRY(auto machine, api::this_machine(rates));
    WEFT_TRY(auto alone, api::open_threads(1, settings, rates, std::move(machine)));
    return std::move(alone.front());
  }
  WEFT_TRY(auto joined, api::join(settings, *job, settings.transport, rates));
  return std::move(joined.comm);
}

Result<std::vector<Communicator>> Communicator::threads(Rank ranks) {
  WEFT_CHECK(session::check_ranks("threads", ranks));
  WEFT_TRY(env::Settings settings, env::read());
  WEFT_TRY(const calibrate::Rates rates, api::rates_of(settings));
  WEFT_TRY(auto machine, api::this_machine(rates));
  return api::open_threads(ranks, settings, rates, std::move(machine));
}

}  // namespace weft
