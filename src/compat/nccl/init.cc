// How communicators begin.

#include <cstdio>
#include <cstring>
#include <mutex>

#include "api/connect.h"
#include "api/open.h"
#include "base/text.h"
#include "compat/nccl/config.h"
#include "compat/nccl/kernels.h"
#include "net/link/key.h"

namespace weft::compat::nccl {
namespace {

constexpr char kPrefix[] = "weft-nccl-";
using Machine = std::shared_ptr<const cost::MachineView>;

// A communicator, and what it chooses by.
struct Made {
  Communicator comm;
  Machine machine;
};

// Ranks of libnccl.so.2 share memory: what weft understands about other transports has no effect here.
void ignore_transports(env::Settings& settings) {
  for (const char* name : {"NCCL_SHM_DISABLE", "NCCL_SOCKET_IFNAME"})
    if (std::erase_if(settings.nccl_understood, [&](const std::string& line) { return line.starts_with(name); }) > 0)
      settings.nccl_ignored.push_back(
          fmt::format("{} has no effect: ranks of libnccl.so.2 are on one machine and share memory", name));
}

// A program that sets NCCL_* names means this library: rank 0 says once which of them have no effect, unless its log
// says so.
void report_ignored(const env::Settings& settings) {
  static std::once_flag reported;
  if (settings.log.level != LogLevel::kNone) return;
  std::call_once(reported, [&] {
    for (const std::string& line : settings.nccl_ignored) fmt::print(stderr, "weft: {}\n", shown(line));
  });
}

// Ranks of one machine meet under the id's text. Errors: see api::join.
Result<Made> join(const std::string& name, Rank rank, Rank ranks) {
  WEFT_TRY(env::Settings settings, env::read());
  ignore_transports(settings);
  if (rank == 0) report_ignored(settings);
  WEFT_TRY(const calibrate::Rates rates, api::rates_of(settings, rank != 0));
  WEFT_TRY(auto joined,
           api::join(settings, {.rank = rank, .ranks = ranks, .launcher = "nccl", .local_name = name}, "shm", rates));
  return Made{std::move(joined.comm), std::move(joined.machine)};
}

// Empty: not an id of weft's.
std::string name_of(const ncclUniqueId& id) {
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  return name.rfind(kPrefix, 0) == 0 ? name : std::string();
}

std::string new_name() {
  std::array<std::uint8_t, 16> number;
  net::link::fill_random(number);
  return kPrefix + net::link::hexadecimal(number);
}

ncclUniqueId id_of(const std::string& name) {
  ncclUniqueId id{};
  name.copy(id.internal, sizeof id.internal - 1);
  return id;
}

// Pinned memory for operations through host memory, which need a message's size twice; larger ones allocate.
constexpr Bytes kPinned = Bytes{16} << 20;

// As a communicator of the C interface; all its ranks call it. Null if this rank is in none.
Result<ncclComm*> wrap(Made made, net::cuda::Device& device, int device_number) {
  if (!made.comm) return nullptr;
  WEFT_TRY(auto kernels, kernels_of(made.comm, device_number));
  if (kernels == nullptr && !device.host_reaches()) WEFT_CHECK(device.reserve_pinned(kPinned));
  return new ncclComm(std::move(made.comm), std::move(kernels), device, device_number, std::move(made.machine));
}

// What `make` makes. Runs on a thread of its own: it waits for peers.
template <class Make>
std::future<Status> make_on_thread(ncclComm_t* where, int device_number, net::cuda::Device& device, Make make) {
  return std::async(std::launch::async, [=, &device]() -> Status {
    WEFT_CHECK(device.use(device_number));  // or asking for anything would make a context on GPU 0
    WEFT_TRY(Made made, make());
    WEFT_TRY(*where, wrap(std::move(made), device, device_number));
    return {};
  });
}

ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclCommInitRank: no place for the communicator");
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse_in_group(ncclInvalidArgument, "ncclCommInitRank: rank {} of {}", rank, ranks);
  if (config != nullptr && !is_initialized(config))
    return refuse_in_group(ncclInvalidArgument, "ncclCommInitRankConfig: the configuration is not initialized");
  const std::string name = name_of(id);
  if (name.empty()) return refuse_in_group(ncclInvalidArgument, "ncclCommInitRank: not an id of weft's");
  const auto used = device();
  if (!used) return in_group(result_of(used));
  const auto number = (*used)->current();
  if (!number) return in_group(result_of(number));
  *comm = nullptr;
  return submit(make_on_thread(comm, *number, **used, [=] { return join(name, rank, ranks); }));
}

// Work that is issued behind what the communicator has to do, and made into a new one. `make`: a communicator, or Made.
template <class Make>
std::future<Status> make_from(ncclComm& comm, ncclComm_t* made, Make make) {
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  *made = nullptr;
  comm.issue([&comm, made, make, promise] {
    promise->set_value([&]() -> Status {
      WEFT_CHECK(comm.device.use(comm.device_number));
      WEFT_TRY(Communicator result, make(comm.comm));
      WEFT_TRY(*made, wrap({std::move(result), comm.machine}, comm.device, comm.device_number));
      return {};
    }());
  });
  return future;
}

// What the ranks that are there send each other before they meet the new ones.
struct Growth {
  ncclUniqueId id;  // of one of them; the others' is empty
  std::int64_t ranks;
};

// The name under which all meet. Errors (bad input): no rank has the id, or several have; they disagree on the number.
Result<std::string> agree_on_growth(Communicator& comm, const Growth& own) {
  std::vector<Growth> all(static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(comm.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(&own), sizeof own),
                             std::span(reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof own)));
  std::string name;
  int root = -1;
  for (Rank r = 0; r < comm.ranks(); ++r) {
    const Growth& g = all[static_cast<std::size_t>(r)];
    if (g.ranks != own.ranks)
      return failure(Code::kMismatch, Blame::kInput, "ncclCommGrow: rank {} wants {} ranks, rank {} {}", comm.rank(),
                     own.ranks, r, g.ranks);
    if (name_of(g.id).empty()) continue;
    if (root >= 0)
      return failure(Code::kMismatch, Blame::kInput, "ncclCommGrow: ranks {} and {} both have an id: one is the root",
                     root, r);
    root = r;
    name = name_of(g.id);
  }
  if (root < 0)
    return failure(Code::kMismatch, Blame::kInput,
                   "ncclCommGrow: no rank has the id of ncclCommGetUniqueId: one is the root");
  return name;
}

ncclResult_t grow(ncclComm& comm, int ranks, const ncclUniqueId* id, ncclComm_t* made) {
  if (ranks <= comm.ranks)
    return refuse_in_group(ncclInvalidArgument, "ncclCommGrow: {} ranks are not more than {}", ranks, comm.ranks);
  if (id != nullptr && !comm.take_id(name_of(*id)))
    return refuse_in_group(
        ncclInvalidUsage, "ncclCommGrow: the id is not this communicator's of ncclCommGetUniqueId, or was used before");
  const Growth own{id != nullptr ? *id : ncclUniqueId{}, ranks};
  return submit(make_from(comm, made, [own, ranks](Communicator& parent) -> Result<Communicator> {
    WEFT_TRY(const std::string name, agree_on_growth(parent, own));
    WEFT_TRY(Made grown, join(name, parent.rank(), ranks));
    return std::move(grown.comm);
  }));
}

}  // namespace
}  // namespace weft::compat::nccl

using namespace weft::compat::nccl;

WEFT_NCCL_DEFINE(ncclResult_t, GetUniqueId, (ncclUniqueId * id)) {
  if (id == nullptr) return refuse(ncclInvalidArgument, "ncclGetUniqueId: null");
  *id = id_of(new_name());
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommInitRankConfig,
                 (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)) {
  return init(comm, ranks, id, rank, config);
}

WEFT_NCCL_DEFINE(ncclResult_t, CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank)) {
  return init(comm, ranks, id, rank, nullptr);
}

WEFT_NCCL_DEFINE(ncclResult_t, CommInitRankScalable,
                 (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config)) {
  if (ids < 1 || id == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclCommInitRankScalable: no id");
  return init(comm, ranks, id[0], rank, config);
}

WEFT_NCCL_DEFINE(ncclResult_t, CommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  if (comms == nullptr || count < 1) return refuse(ncclInvalidArgument, "ncclCommInitAll: {} communicators", count);
  const auto used = device();
  if (!used) return result_of(used);
  const auto there = (*used)->count();
  if (!there) return result_of(there);
  for (int i = 0; i < count; ++i)
    if (const int number = devices != nullptr ? devices[i] : i; number < 0 || number >= *there)
      return refuse(ncclInvalidArgument, "ncclCommInitAll: device {} of {}; a list may name one several times", number,
                    *there);
  const std::string name = new_name();
  std::vector<std::future<weft::Status>> made;
  for (int i = 0; i < count; ++i)
    made.push_back(
        make_on_thread(comms + i, devices != nullptr ? devices[i] : i, **used, [=] { return join(name, i, count); }));
  weft::Status status;
  for (auto& m : made)
    if (weft::Status one = m.get(); status && !one) status = std::move(one);
  return result_of(status);
}

WEFT_NCCL_DEFINE(ncclResult_t, CommSplit,
                 (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config)) {
  if (comm == nullptr || made == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclCommSplit: null");
  if (color < NCCL_SPLIT_NOCOLOR) return refuse_in_group(ncclInvalidArgument, "ncclCommSplit: color {}", color);
  if (config != nullptr && !is_initialized(config))
    return refuse_in_group(ncclInvalidArgument, "ncclCommSplit: the configuration is not initialized");
  return submit(make_from(*comm, made, [=](weft::Communicator& parent) { return parent.split(color, key); }));
}

WEFT_NCCL_DEFINE(ncclResult_t, CommShrink,
                 (ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t*, int flags)) {
  if (comm == nullptr || made == nullptr || count < 0 || (count > 0 && excluded == nullptr))
    return refuse_in_group(ncclInvalidArgument, "ncclCommShrink: null");
  for (int i = 0; i < count; ++i)
    if (excluded[i] < 0 || excluded[i] >= comm->ranks || excluded[i] == comm->rank)
      return refuse_in_group(ncclInvalidArgument, "ncclCommShrink: rank {} leaves out rank {} of {}", comm->rank,
                             excluded[i], comm->ranks);
  if (flags == NCCL_SHRINK_ABORT) comm->abort();
  const int left = comm->ranks - count;
  const std::vector<weft::Rank> without(excluded, excluded + count);
  return submit(make_from(*comm, made, [left, without](weft::Communicator& parent) -> weft::Result<weft::Communicator> {
    WEFT_TRY(weft::Communicator smaller, parent.shrink(without));
    if (smaller.ranks() != left)
      return weft::failure(weft::Code::kMismatch, weft::Blame::kCommunicator,
                           "ncclCommShrink: {} ranks came, not the {} that are not left out", smaller.ranks(), left);
    return smaller;
  }));
}

WEFT_NCCL_DEFINE(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id)) {
  if (comm == nullptr || id == nullptr) return refuse(ncclInvalidArgument, "ncclCommGetUniqueId: null");
  const std::string name = new_name();
  if (!comm->give_id(name))
    return refuse(ncclInvalidUsage, "ncclCommGetUniqueId: the one before has not been used by ncclCommGrow yet");
  *id = id_of(name);
  return ncclSuccess;
}

WEFT_NCCL_DEFINE(ncclResult_t, CommGrow,
                 (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                  ncclConfig_t* config)) {
  if (made == nullptr || (comm == nullptr && id == nullptr))
    return refuse_in_group(ncclInvalidArgument, "ncclCommGrow: null");
  if (config != nullptr && !is_initialized(config))
    return refuse_in_group(ncclInvalidArgument, "ncclCommGrow: the configuration is not initialized");
  if (comm == nullptr) return init(made, ranks, *id, rank, config);
  if (rank != -1)
    return refuse_in_group(ncclInvalidArgument, "ncclCommGrow: rank {}: ranks of the communicator keep theirs: -1",
                           rank);
  if (comm->suspended) return refuse_in_group(ncclInvalidUsage, "ncclCommGrow: the communicator is suspended");
  return grow(*comm, ranks, id, made);
}
