#include "api/unique_id.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "api/session/arguments.h"
#include "base/forks.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/secret.h"
#include "net/link/interfaces.h"
#include "weft/communicator.h"

namespace weft::api {
namespace {

Result<net::bootstrap::UniqueId> known(const UniqueId& id) {
  return net::bootstrap::UniqueId::parse("unique id", id.text());
}

// The key of a meeting: the id's, and WEFT_KEY where it is set. A program may hand the id to its ranks by means that
// others read, such as torch's store, which asks nobody for a password. Errors: of secret_of().
Result<net::link::Key> key_of(const env::Settings& settings, const net::link::Key& of_id) {
  WEFT_TRY(const auto secret, net::bootstrap::secret_of(settings));
  if (secret.kind != net::bootstrap::Secret::Kind::kKey) return of_id;
  return net::link::mac(secret.key, {of_id});
}

// The latest meeting places of this process that are gone: nobody can meet there any more.
class ClosedPlaces {
 public:
  static ClosedPlaces& get() {
    static ClosedPlaces all;
    return all;
  }
  void add(const UniqueId& id) {
    const std::lock_guard guard(mutex_);
    if (ids_.size() < kKept) ids_.emplace_back();
    ids_[added_++ % kKept] = id;
  }
  bool has(const UniqueId& id) {
    const std::lock_guard guard(mutex_);
    return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
  }

 private:
  static constexpr std::size_t kKept = 256;
  std::mutex mutex_;
  std::vector<UniqueId> ids_;
  std::size_t added_ = 0;
};

Result<Communicator> connect(const env::Settings& settings, const UniqueId& id, Rank rank, Rank ranks) {
  WEFT_TRY(const calibrate::Rates rates, rates_of(settings, rank != 0));
  WEFT_TRY(auto opened, open_by_id(settings, rates, id, rank, ranks));
  return Communicator(std::move(opened.session));
}

}  // namespace

Result<env::Settings> settings_of(const ConnectOptions& options) {
  WEFT_TRY(env::Settings settings, env::read());
  if (!options.transport.empty()) settings.transport = options.transport;
  WEFT_CHECK(env::check_transport("transport", settings.transport));
  if (!options.interface.empty()) settings.interface = options.interface;
  if (!options.node.empty()) settings.node = options.node;
  settings.aggregates |= options.aggregation;
  WEFT_CHECK(session::check_timeout("connect", options.timeout));
  if (options.timeout.count() > 0) settings.timeout_ms = options.timeout.count();
  return settings;
}

Result<Opened> open_by_id(const env::Settings& settings, const calibrate::Rates& rates, const UniqueId& id, Rank rank,
                          Rank ranks, const std::function<Status()>& watch) {
  WEFT_CHECK(session::check_place("connect", rank, ranks));
  if (ClosedPlaces::get().has(id))
    return bad_input(
        "the MeetingPlace of this id has been dropped by this process: keep it until the ranks have met, and open "
        "another for others");
  WEFT_TRY(net::bootstrap::UniqueId place, known(id));
  WEFT_TRY(place.key, key_of(settings, place.key));
  WEFT_TRY(const auto arbiter, net::bootstrap::arbiter_of(settings));
  WEFT_TRY(const auto ports, net::bootstrap::ports_of(settings));
  WEFT_TRY(auto meeting, net::bootstrap::meet({.id = place,
                                               .rank = rank,
                                               .ranks = ranks,
                                               .interface = settings.interface,
                                               .node = settings.node,
                                               .timeout = std::chrono::milliseconds(settings.timeout_ms),
                                               .aggregates = settings.aggregates,
                                               .arbiter = arbiter,
                                               .protection = net::link::protection_of(settings.secure),
                                               .ports = ports,
                                               .transport = settings.transport,
                                               .watch = watch}));
  env::hide_secrets();
  return open_met(settings, rates, settings.transport, rank, std::move(meeting));
}

}  // namespace weft::api

namespace weft {

std::string UniqueId::text() const {
  return net::link::hexadecimal({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

Result<UniqueId> UniqueId::parse(const std::string& text) {
  WEFT_TRY(const auto id, net::bootstrap::UniqueId::parse("unique id", text));
  UniqueId own;
  std::memcpy(own.bytes.data(), &id, sizeof id);
  return own;
}

struct MeetingPlace::Service {
  // `key`: what stands in the id, which need not be all of the host's key.
  Service(net::bootstrap::Host opened, const net::link::Key& key, std::chrono::milliseconds timeout)
      : host(std::move(opened)) {
    net::bootstrap::UniqueId inner = host.id();
    inner.key = key;
    std::memcpy(id.bytes.data(), &inner, sizeof inner);
    // Ranks that do not come are named to those who have; nobody waits for the thread's own answer.
    thread = std::thread([this, timeout] { (void)host.serve(timeout); });
  }
  ~Service() {
    host.stop();
    thread.join();
    api::ClosedPlaces::get().add(id);
  }

  net::bootstrap::Host host;
  UniqueId id;
  std::thread thread;
  const Owner owner;
};

MeetingPlace::MeetingPlace(std::unique_ptr<Service> service) : service_(std::move(service)) {}
MeetingPlace::MeetingPlace(MeetingPlace&&) noexcept = default;
MeetingPlace& MeetingPlace::operator=(MeetingPlace&&) noexcept = default;
MeetingPlace::~MeetingPlace() {
  if (service_ && service_->owner.inherited()) leave(service_);
}

const UniqueId& MeetingPlace::id() const {
  static const UniqueId none;
  return service_ ? service_->id : none;
}

Result<MeetingPlace> MeetingPlace::open(Rank ranks, const ConnectOptions& options) {
  WEFT_CHECK(session::check_ranks("a meeting", ranks));
  WEFT_TRY(const env::Settings settings, api::settings_of(options));
  net::link::Address at = net::link::loopback();
  if (!settings.interface.empty()) {
    WEFT_TRY(at, net::link::choose_interface(settings.interface));
  }
  WEFT_TRY(const auto ports, net::bootstrap::ports_of(settings));
  net::link::Key key;
  net::link::fill_random(key);
  WEFT_TRY(const net::link::Key whole, api::key_of(settings, key));
  WEFT_TRY(auto host, net::bootstrap::Host::open(at, whole, ranks, ports));
  return MeetingPlace(std::make_unique<Service>(std::move(host), key, std::chrono::milliseconds(settings.timeout_ms)));
}

Result<Communicator> Communicator::connect(const UniqueId& id, Rank rank, Rank ranks, const ConnectOptions& options) {
  WEFT_TRY(const env::Settings settings, api::settings_of(options));
  return api::connect(settings, id, rank, ranks);
}

Pending<Communicator> Communicator::start_connect(const UniqueId& id, Rank rank, Rank ranks,
                                                  const ConnectOptions& options) {
  // The environment is read on the caller's thread, where it may be changed.
  auto settings = api::settings_of(options);
  return Pending<Communicator>(std::async(std::launch::async, [=, settings = std::move(settings)] {
    return settings ? api::connect(*settings, id, rank, ranks)
                    : Result<Communicator>(tl::make_unexpected(settings.error()));
  }));
}

}  // namespace weft
