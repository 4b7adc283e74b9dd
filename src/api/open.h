#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/calibrate/cache.h"
#include "api/session/session.h"
#include "base/env.h"
#include "net/bootstrap/meeting.h"
#include "net/mixed/mixed.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "net/threads/threads.h"
#include "net/ucx/ucx.h"
#include "plan/cost/machine_view.h"

// One rank of a communicator, made of its parts: fabric, executor, chooser, record.
namespace weft::api {

// What the communicators of a rank have in common that stem from one.
struct Origin {
  env::Settings settings;
  calibrate::Rates rates;                       // the same on all ranks
  std::string job;                              // their common name in records
  std::string transport;                        // that is forced; empty: by where the ranks are
  std::shared_ptr<net::ucx::Context> ucx = {};  // where UCX joins machines
  std::shared_ptr<const Log> log = std::make_shared<const Log>();
  std::shared_ptr<recorder::RecordPool> records = std::make_shared<recorder::RecordPool>(settings.record_entries);
};

// A rank's place in a communicator.
struct Place {
  std::string group;  // the communicator's name in records
  Rank rank = 0, ranks = 1;
  bool meets = false;  // others may have started with other rates: all take rank 0's
};

// Transports are named after what joins the ranks of a machine and what joins machines: "shm+ucx", or "tcp" for both.
// "shm" is for one machine only; empty is "shm+tcp"; between processes.
inline std::string within(const std::string& transport) {
  return transport.empty() || transport.starts_with("shm") ? "shm" : transport;
}
inline std::string across(const std::string& transport) { return transport.ends_with("ucx") ? "ucx" : "tcp"; }
// Is this a transport without shared memory, even within a machine?
inline bool sends_only(const std::string& transport) { return transport == "tcp" || transport == "ucx"; }

struct Opened {
  std::shared_ptr<session::Session> session;
  std::string transport;
  std::shared_ptr<const cost::MachineView> machine;  // what it chooses by
  net::shm::World* shm = nullptr;                    // of transport shm; lives as long as the session
  net::messages::World* messages = nullptr;          // of transports tcp and ucx; likewise
  net::mixed::World* mixed = nullptr;                // of transports shm+tcp and shm+ucx; likewise
};

// The rates of WEFT_RATES; without it, those measured on this machine, now or before. A rank that `follows` takes rank
// 0's later and gets typical ones. Errors (bad input): an unreadable WEFT_RATES.
Result<calibrate::Rates> rates_of(const env::Settings& settings, bool follows = false);
// The folder in which measured rates are kept.
calibrate::Cache cache_of(const env::Settings& settings);
Result<std::shared_ptr<const cost::MachineView>> shared(Result<cost::MachineView> machine);
net::memory::WaitPolicy::Limits limits_of(const env::Settings& settings, Rank ranks, const cost::MachineView& machine);

// Over shared memory, with those who use the same name. Errors: see net::shm::attach, also for `lost`.
Result<Opened> open_shm(std::shared_ptr<const Origin> origin, const Place& place, const std::string& name,
                        net::shm::LostRank lost = {});
// The same, joined already.
Result<Opened> open_in_segment(std::shared_ptr<const Origin> origin, const Place& place,
                               std::unique_ptr<net::shm::World> world,
                               std::shared_ptr<const cost::MachineView> machine);
// Over TCP or UCX, whichever is to join machines, with those who have met. Errors: see net::ucx::open.
// `branch`: of a group that uses its parent's connections.
using Branch = std::optional<net::messages::Branch>;
Result<Opened> open_messages(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                             Branch branch = {});
// Over shared memory with the ranks of this machine, as above with the others. Errors: also see net::shm::attach for
// `lost`.
Result<Opened> open_mixed(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                          net::shm::LostRank lost = {}, Branch branch = {});
// Those of several machines who have met: mixed where a machine has more than one of them, unless `transport` is tcp or
// ucx.
Result<Opened> open_machines(std::shared_ptr<const Origin> origin, const Place& place, net::bootstrap::Meeting meeting,
                             net::shm::LostRank lost = {}, Branch branch = {});
// One of those who have met, by the transport that is forced or fits. `log`: null: it opens its own. Errors (bad
// input): shm across machines, no UCX; ranks of different transports; of Log::open.
Result<Opened> open_met(const env::Settings& settings, const calibrate::Rates& rates, const std::string& transport,
                        Rank rank, net::bootstrap::Meeting meeting, std::shared_ptr<const Log> log = nullptr);
// Opens a rank that is a thread of a room. Errors: of the trace's file.
Result<std::shared_ptr<session::Session>> open_thread(std::shared_ptr<const Origin> origin, const Place& place,
                                                      std::unique_ptr<net::threads::World> world,
                                                      std::shared_ptr<const cost::MachineView> machine);

}  // namespace weft::api
