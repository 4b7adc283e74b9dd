#include "move/transfer/peer.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace weft::transfer {
namespace {

constexpr std::chrono::milliseconds kConnectTime{5000};

bool same_process(const Metadata& metadata, const MeetOptions& options) {
  return metadata.process == options.process && !options.as_strangers;
}

// Maps the segment and proves by its nonce that this process is the one that is meant.
Status attach(Peer& peer, const MeetOptions& options) {
  const Metadata& m = peer.metadata;
  peer.process = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_of(m.process), 0)));
  if (!peer.process.open())
    return failure(Code::kUnsupported, Blame::kOperation, "process {} is not here", pid_of(m.process));
  WEFT_TRY(auto mapping, map_of_process(pid_of(m.process), m.control, Segment::bytes_for(m.pages), false));
  Segment segment(std::move(mapping));
  const Header& header = segment.header();
  if (header.magic != kSegmentMagic || header.nonce != m.nonce || header.pages != m.pages)
    return failure(Code::kNotFound, Blame::kOperation, "another agent is there: it has restarted");
  for (std::uint32_t i = kOwnSlot + 1; i < kSlots; ++i) {
    std::uint64_t free = 0;
    if (!segment.slot(i).owner.compare_exchange_strong(free, options.process)) continue;
    peer.slot = i;
    peer.owned = std::move(segment);
    peer.control = &peer.owned;
    return {};
  }
  return failure(Code::kNoResources, Blame::kOperation, "{} peers are attached to it", kSlots - kOwnSlot - 1);
}

// Does the kernel let this process read the other's memory? Nothing: yes.
std::optional<std::string> refuses_copies(const Metadata& m) {
  Nonce found{};
  iovec local{found.data(), found.size()};
  iovec remote{reinterpret_cast<void*>(m.header + offsetof(Header, nonce)), found.size()};
  const ssize_t n = process_vm_readv(pid_of(m.process), &local, 1, &remote, 1, 0);
  if (n < 0) return std::string(std::strerror(errno));
  return found == m.nonce ? std::nullopt : std::optional<std::string>("other memory is there");
}

// Whether this machine has adapters that access remote memory.
bool has_rdma() {
  std::error_code none;
  const std::filesystem::directory_iterator adapters("/sys/class/infiniband", none);
  return !none && adapters != std::filesystem::directory_iterator();
}

// Of TCP and UCX at most one is left.
void choose_network(Peer& peer, const MeetOptions& options) {
  const bool listens = peer.metadata.address.family != 0;
  if (options.network == Network::kTcp)
    peer.no_ucx = "this agent uses TCP";
  else if (options.ucx == nullptr)
    peer.no_ucx = options.no_ucx;
  else if (!peer.metadata.ucx)
    peer.no_ucx = "the peer does not offer it";
  if (options.network == Network::kUcx)
    peer.no_tcp = "this agent uses UCX";
  else if (peer.no_ucx.empty())
    peer.no_tcp = "UCX is there, with adapters that access remote memory";
  if (!options.secure.empty())
    peer.no_tcp = peer.no_ucx = fmt::format("WEFT_SECURE={}, and agents send in the clear", options.secure);
  if (!listens) peer.no_tcp = peer.no_ucx = "it does not listen";
}

std::string no_network(const Peer& peer) {
  return peer.no_tcp == peer.no_ucx ? peer.no_tcp : fmt::format("tcp: {}, ucx: {}", peer.no_tcp, peer.no_ucx);
}

// Where the agents may take either network and UCX's adapters do not reach each other, TCP is left.
Status open_line(Peer& peer, const net::link::Address& address, const MeetOptions& options) {
  if (peer.line != nullptr) return {};
  const auto open = [&](std::shared_ptr<net::ucx::Context> ucx) {
    return Line::open(address, options.key, peer.metadata.nonce, options.self, kConnectTime, std::move(ucx));
  };
  auto line = open(peer.no_ucx.empty() ? options.ucx : nullptr);
  if (!line && line.error().code == Code::kUnsupported && options.network == Network::kAny) {
    peer.no_ucx = line.error().message;
    peer.no_tcp.clear();
    line = open(nullptr);
  }
  if (!line) return failure(line.error().code, Blame::kOperation, "{}: {}", peer.name, line.error().message);
  peer.line = std::move(*line);
  return {};
}

// `address`: in this process; 0: it is another's. Returns why not.
std::string open_gpu_memory(Target& t, const GpuRecord& record, std::uint64_t address, const MeetOptions& options) {
  auto copier = options.gpus();
  if (!copier) return copier.error().message;
  if (address != 0) {
    const auto gpu = (*copier)->number_of(record.gpu);
    if (!gpu) return gpu.error().message;
    t.base = reinterpret_cast<std::byte*>(address);
    t.gpu = *gpu;
  } else {
    auto opened = (*copier)->open_shared(record);
    if (!opened) return opened.error().message;
    t.gpu = opened->gpu;
    t.base = static_cast<std::byte*>(opened->memory.get()) + record.offset;
    t.gpu_memory = std::move(opened->memory);
  }
  t.copier = std::move(*copier);
  return {};
}

// Which paths are there. Maps the region if it can be.
void look_for_paths(Target& t, const Peer& peer, const RegionRecord& r, const MeetOptions& options,
                    const std::string& no_copies) {
  const auto why_not = [&](Path path) -> std::string& { return t.why_not[static_cast<std::size_t>(path)]; };
  why_not(Path::kFile) = "a peer's files are its own";
  why_not(Path::kObject) = "a peer's objects are its own";
  why_not(Path::kTcp) = peer.no_tcp;
  why_not(Path::kUcx) = peer.no_ucx;
  const bool same = same_process(peer.metadata, options);
  if (peer.control == nullptr) {
    why_not(Path::kDirect) = why_not(Path::kMapped) = why_not(Path::kKernel) = why_not(Path::kGpu) = peer.unmapped;
    return;
  }
  why_not(Path::kDirect) = same ? "" : "the peer is another process";
  why_not(Path::kMapped) = why_not(Path::kKernel) = same ? "the peer is in this process" : "";
  why_not(Path::kGpu) = "the memory is not a GPU's";
  if (r.gpu) {
    why_not(Path::kDirect) = why_not(Path::kMapped) = why_not(Path::kKernel) = "the memory is a GPU's";
    why_not(Path::kGpu) = open_gpu_memory(t, *r.gpu, same ? r.address : 0, options);
  }
  if (same || r.gpu) return;
  why_not(Path::kKernel) = no_copies;
  if (r.fd < 0) {
    why_not(Path::kMapped) = "not from the agent's allocator";
  } else if (auto mapping = map_of_process(pid_of(peer.metadata.process), r.fd, r.bytes, true)) {
    t.mapping = std::move(*mapping);
  } else {
    why_not(Path::kMapped) = mapping.error().message;
  }
}

// The cheapest of those that are there, for a request of this size; where costs are not known, in the order of `Path`.
std::optional<Path> cheapest(const Target& t, const Costs& costs) {
  constexpr Bytes kUsual = 1 << 20;
  std::optional<Path> best;
  for (std::size_t i = 0; i < t.why_not.size(); ++i) {
    const auto path = static_cast<Path>(i);
    if (!t.why_not[i].empty()) continue;
    const bool both = best && costs.of(path).known() && costs.of(*best).known();
    if (!best || (both && costs.of(path).us(1, kUsual) < costs.of(*best).us(1, kUsual))) best = path;
  }
  return best;
}

std::string reason(const Target& t, const Peer& peer) {
  const auto& why_not = t.why_not;
  const std::string& not_mapped = why_not[static_cast<std::size_t>(Path::kMapped)];
  const std::string& not_copied = why_not[static_cast<std::size_t>(Path::kKernel)];
  const std::string memory = not_mapped.empty() ? "it costs more" : not_mapped;
  switch (t.path) {
    case Path::kDirect:
      return "direct: the peer is in this process";
    case Path::kMapped:
      return "shared memory: the peer's allocator made it, and it is mapped here";
    case Path::kGpu:
      return fmt::format("gpu memory: {}",
                         t.gpu_memory == nullptr ? "the peer is in this process" : "the peer's process shares it");
    case Path::kKernel:
      return fmt::format("process_vm_readv: no shared memory ({})", memory);
    default:
      return fmt::format(
          "{} to {}: no shared memory ({}{})", name(t.path), peer.metadata.address.text(), memory,
          peer.control == nullptr ? "" : "; process_vm_readv: " + (not_copied.empty() ? "it costs more" : not_copied));
  }
}

Result<std::shared_ptr<const Target>> target_of(Peer& peer, const RegionRecord& r, const MeetOptions& options,
                                                const std::string& no_copies) {
  auto target = std::make_shared<Target>();
  target->region = r.region;
  target->bytes = r.bytes;
  target->page_bytes = r.page_bytes;
  target->address = r.address;
  target->generation = r.generation;
  if (peer.control != nullptr) target->pages = &peer.control->page(r.first_page);
  look_for_paths(*target, peer, r, options, no_copies);
  const auto path = cheapest(*target, options.costs);
  if (!path)
    return failure(Code::kUnsupported, Blame::kInput, "{}, region {}: no path: no shared memory ({}{}), and {}",
                   peer.name, r.region, target->why_not[static_cast<std::size_t>(Path::kMapped)],
                   peer.control == nullptr ? "" : "; process_vm_readv: " + no_copies, no_network(peer));
  target->path = *path;
  if (*path == Path::kDirect) target->base = reinterpret_cast<std::byte*>(r.address);
  if (*path == Path::kMapped) target->base = target->mapping.data();
  if (target->by_line()) {
    target->pages = nullptr;
    WEFT_CHECK(open_line(peer, peer.metadata.address, options));
    target->path = peer.no_ucx.empty() ? Path::kUcx : Path::kTcp;
    target->why_not[static_cast<std::size_t>(Path::kTcp)] = peer.no_tcp;
    target->why_not[static_cast<std::size_t>(Path::kUcx)] = peer.no_ucx;
  }
  target->why = reason(*target, peer);
  return target;
}

}  // namespace

Peer::~Peer() {
  if (!is_self && control != nullptr) control->slot(slot).left.store(1);
}

std::optional<Error> Peer::problem() const {
  if (gone) return gone;
  if (control != nullptr && control->header().closed.load(std::memory_order_acquire) != 0)
    return Error{Code::kPeerLeft, Blame::kOperation, name + " has been closed"};
  if (!process.open()) return std::nullopt;
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, 0) <= 0) return std::nullopt;
  return Error{Code::kPeerDied, Blame::kOperation,
               fmt::format("{} (process {}) has ended", name, pid_of(metadata.process))};
}

Status open_ucx(MeetOptions& options) {
  if (options.network == Network::kTcp) return {};
  if (options.network == Network::kAny && !has_rdma()) {
    options.no_ucx = "no adapter of this machine accesses remote memory";
    return {};
  }
  auto context = net::ucx::open_stream_context();
  if (!context && options.network == Network::kUcx) return tl::make_unexpected(context.error());
  if (context)
    options.ucx = std::move(*context);
  else
    options.no_ucx = context.error().message;
  return {};
}

Result<std::shared_ptr<Peer>> meet(const Metadata& metadata, const MeetOptions& options) {
  auto peer = std::make_shared<Peer>();
  peer->name = fmt::format("peer '{}'", metadata.name);
  peer->metadata = metadata;
  peer->metadata.regions.clear();
  choose_network(*peer, options);
  Status attached =
      options.only_network
          ? Status(failure(Code::kUnsupported, Blame::kInput, "this agent reaches peers by the network only"))
          : attach(*peer, options);
  if (!attached) {
    peer->process.reset();
    if (!peer->no_tcp.empty() && !peer->no_ucx.empty())
      return failure(attached.error().code, Blame::kOperation, "{} cannot be reached: {}, and {}", peer->name,
                     attached.error().message, no_network(*peer));
    peer->unmapped = attached.error().message;
  }
  WEFT_CHECK(add_targets(*peer, metadata, options));
  if (peer->control == nullptr) WEFT_CHECK(open_line(*peer, metadata.address, options));
  return peer;
}

Status add_targets(Peer& peer, const Metadata& metadata, const MeetOptions& options) {
  std::string no_copies;
  if (peer.control != nullptr && !same_process(metadata, options)) no_copies = refuses_copies(metadata).value_or("");
  for (const RegionRecord& r : metadata.regions) {
    const auto known = peer.targets.find(r.region);
    if (known != peer.targets.end() && known->second->generation == r.generation) continue;
    WEFT_TRY(peer.targets[r.region], target_of(peer, r, options, no_copies));
  }
  if (metadata.partial) return {};
  std::erase_if(peer.targets, [&](const auto& known) {
    return std::none_of(metadata.regions.begin(), metadata.regions.end(),
                        [&](const RegionRecord& r) { return r.region == known.first; });
  });
  return {};
}

}  // namespace weft::transfer
