#include <sys/mman.h>

#include "api/chooser.h"
#include "api/pe_join.h"
#include "net/bootstrap/job.h"
#include "net/shm/program_data.h"
#include "onesided/rma/over_ucx.h"

namespace weft::api {
namespace {

using net::link::Address;

// This rank's own memory in a region that nobody else maps.
pgas::Region own_region(std::byte* own, Bytes bytes, Rank rank, Rank ranks) {
  pgas::Region region{.own = own, .bytes = bytes, .mapped = {}};
  region.mapped.assign(static_cast<std::size_t>(ranks), nullptr);
  region.mapped[static_cast<std::size_t>(rank)] = own;
  return region;
}

// Exchanges the addresses at which the ranks' servers listen.
Result<std::vector<Address>> exchange(Communicator& comm, const Address& own) {
  std::vector<Address> all(static_cast<std::size_t>(comm.ranks()));
  static_assert(std::is_trivially_copyable_v<Address>);
  WEFT_CHECK(comm.run({.collective = Collective::kAllGather,
                       .in = &own,
                       .out = all.data(),
                       .count = sizeof own,
                       .type = DataType::kUint8}));
  return all;
}

// An interface by its subnet, that this address alone is in.
std::string interface_of(Address address) {
  address.port = 0;
  std::string text = address.text();
  text.resize(text.rfind(':'));
  if (address.family == 6) return text.substr(1, text.size() - 2) + "/128";
  return text + "/32";
}

Result<Symmetric> own_memory(Communicator& comm, Bytes bytes, bool share_data) {
  const Bytes mapped = bytes + Pe::kMostAlignment;
  WEFT_TRY(std::byte* const memory, map_memory(mapped));
  Symmetric own{.heap = own_region(heap_up(memory), bytes, comm.rank(), comm.ranks()),
                .keeps = {memory, [mapped](void* m) { munmap(m, static_cast<std::size_t>(mapped)); }}};
  if (!share_data) return own;
  const std::span<std::byte> data = net::shm::program_data();
  WEFT_TRY(const bool same, same_everywhere(comm, static_cast<Bytes>(data.size())));
  if (same && !data.empty())
    own.others.push_back(own_region(data.data(), static_cast<Bytes>(data.size()), comm.rank(), comm.ranks()));
  return own;
}

// The same memory by UCX. `has_ended`: whether a peer's process has ended.
Result<std::unique_ptr<net::ucx::RemoteMemory>> reached_by_ucx(Communicator& comm, const Symmetric& memory,
                                                               std::function<bool(Rank)> has_ended) {
  using net::ucx::RemoteMemory;
  const auto bytes_of = [](const pgas::Region& r) { return std::span(r.own, static_cast<std::size_t>(r.bytes)); };
  std::vector<std::span<std::byte>> own{bytes_of(memory.heap)};
  for (const pgas::Region& region : memory.others) own.push_back(bytes_of(region));
  WEFT_TRY(auto remote, RemoteMemory::open(own, std::move(has_ended)));
  std::vector<std::byte> cards(RemoteMemory::kCardBytes * static_cast<std::size_t>(comm.ranks()));
  WEFT_CHECK(comm.run({.collective = Collective::kAllGather,
                       .in = remote->card().data(),
                       .out = cards.data(),
                       .count = RemoteMemory::kCardBytes,
                       .type = DataType::kUint8}));
  WEFT_CHECK(remote->connect(cards));
  return remote;
}

}  // namespace

Result<std::unique_ptr<Pe>> pe_over_network(Joined joined, const env::Settings& settings, bool share_data) {
  const Rank rank = joined.comm.rank(), ranks = joined.comm.ranks();
  net::mixed::World* const mixed = joined.mixed;
  const auto limits = mixed != nullptr ? patient_limits(joined, settings, mixed->wait_policy)
                                       : patient_limits(joined, settings, joined.messages->wait_policy);
  const Bytes bytes = page_up(settings.symmetric_bytes);
  WEFT_TRY(Symmetric memory,
           mixed != nullptr ? shared_memory({*mixed->near, mixed->endpoint.members()}, joined.comm, bytes, share_data)
                            : own_memory(joined.comm, bytes, share_data));

  // Derived from what only the job knows, so that a key of its own protects these connections.
  constexpr std::array<std::uint8_t, 8> kPurpose = {'o', 'n', 'e', 's', 'i', 'd', 'e', 'd'};
  const net::bootstrap::Meeting& meeting = (mixed != nullptr ? *mixed->far : *joined.messages).endpoint.meeting();
  const net::link::Key key = net::link::mac(meeting.key, {kPurpose});
  const Address here = meeting.ranks[static_cast<std::size_t>(rank)].data;
  WEFT_TRY(const net::link::Ports ports, net::bootstrap::ports_of(settings));
  const std::chrono::milliseconds timeout(settings.timeout_ms);
  WEFT_TRY(auto server, net::rma::Server::open(here, key, meeting.sealing(), ranks, ports, timeout));
  WEFT_TRY(const auto servers, exchange(joined.comm, server->address()));
  const auto known = std::make_shared<std::weak_ptr<net::rma::Agent>>();
  const auto has_ended = [known](Rank r) {
    const auto opened = known->lock();
    return opened != nullptr && opened->has_left(r);
  };
  std::unique_ptr<net::ucx::RemoteMemory> by_ucx;
  if (across(joined.transport) == "ucx") {
    WEFT_TRY(by_ucx, reached_by_ucx(joined.comm, memory, has_ended));
  }
  const net::link::Sealing sealing = meeting.sealing();
  const auto agent = [&](const pgas::Space& space) -> Result<std::shared_ptr<pgas::Agent>> {
    server->serve(space);
    WEFT_TRY(auto opened, net::rma::Agent::open(space, std::move(server), servers, key, sealing, timeout));
    *known = opened;
    if (by_ucx) return std::make_shared<net::rma::UcxAgent>(space, std::move(by_ucx), std::move(opened));
    return opened;
  };
  return Pe::open(
      Pe::Parts{.comm = joined.comm,
                .commons = {.base = nullptr, .reach = {}, .allocate = {}, .release = {}, .has_ended = has_ended},
                .chooser = chooser_of(joined.machine, settings),
                .limits = limits,
                .heap = std::move(memory.heap),
                .others = std::move(memory.others),
                .end =
                    [known](Rank r, int status) {
                      if (const auto opened = known->lock()) opened->end(r, status);
                    },
                .agent = agent,
                .interface = interface_of(here),
                .trace = settings.pgas_trace,
                .keeps = std::move(memory.keeps)});
}

}  // namespace weft::api
