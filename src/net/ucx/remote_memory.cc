#include "net/ucx/remote_memory.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"
#include "net/link/socket.h"
#include "net/ucx/context.h"

namespace weft::net::ucx {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kExamineEvery{20};
constexpr int kLooks = 256;         // without an event, before a thread that waits sleeps
constexpr int kShortestSleep = 1;   // ms: of a thread that waits for an answer
constexpr int kLongestSleep = 100;  // ms: the thread then finds what it was not notified of

// A card: how many bytes follow each other: the worker's address, then per piece of memory where it begins and its key.
class Writer {
 public:
  template <class T>
  void value(const T& v) {
    bytes({reinterpret_cast<const std::byte*>(&v), sizeof v});
  }
  void bytes(std::span<const std::byte> b) { card.insert(card.end(), b.begin(), b.end()); }
  std::vector<std::byte> card;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> card) : rest_(card) {}
  template <class T>
  T value() {
    T v;
    std::memcpy(&v, bytes(sizeof v), sizeof v);
    return v;
  }
  const std::byte* bytes(std::size_t count) {
    WEFT_REQUIRE(count <= rest_.size(), "a UCX card ends early");
    const std::byte* const at = rest_.data();
    rest_ = rest_.subspan(count);
    return at;
  }

 private:
  std::span<const std::byte> rest_;
};

class Memory final : public RemoteMemory {
 public:
  Memory(std::shared_ptr<Context> context, WorkerHandle worker, std::function<bool(Rank)> has_left)
      : context_(std::move(context)), worker_(std::move(worker)), has_left_(std::move(has_left)) {}
  ~Memory() override;

  // Registers it, and writes the card.
  Status share(const std::vector<std::span<std::byte>>& own);
  void serve() {
    thread_ = std::jthread([this](const std::stop_token& stopped) { run(stopped); });
  }

  std::span<const std::byte> card() const override { return card_; }
  Status connect(std::span<const std::byte> cards) override;
  Status put(Rank peer, int piece, Bytes offset, std::span<const std::byte> from) override;
  Status get(Rank peer, int piece, Bytes offset, std::span<std::byte> to) override;
  Status flush(Rank peer) override;
  Status flush_all() override;
  Status fence() override;

 private:
  struct Piece {
    std::uint64_t begin = 0;
    ucp_rkey_h key = nullptr;
  };
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    std::vector<Piece> pieces;
  };

  const Library& ucp() const { return context_->library(); }
  Peer& peer(Rank r) WEFT_REQUIRES(mutex_) { return peers_[static_cast<std::size_t>(r)]; }
  Status check(const char* what, ucs_status_t status) const;
  // Until UCX has done what it was asked for; `peer` -1: nobody in particular.
  Status finish(const char* what, void* request, Rank peer) WEFT_REQUIRES(mutex_);
  // Progresses until nothing is to be done and the next event will be notified.
  void settle() WEFT_REQUIRES(mutex_);
  Status examine(Rank peer) const WEFT_REQUIRES(mutex_);
  void run(const std::stop_token& stopped);

  std::shared_ptr<Context> context_;
  Mutex mutex_;  // around every call of UCX
  WorkerHandle worker_ WEFT_GUARDED_BY(mutex_);
  std::function<bool(Rank)> has_left_ WEFT_GUARDED_BY(mutex_);
  std::vector<ucp_mem_h> shared_ WEFT_GUARDED_BY(mutex_);
  std::vector<Peer> peers_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::byte> card_;
  UniqueFd wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::jthread thread_;
};

Status Memory::check(const char* what, ucs_status_t status) const {
  if (status == UCS_OK) return {};
  return failure(Code::kSystem, Blame::kCommunicator, "transport ucx: {}: {}", what, context_->text(status));
}

Status Memory::share(const std::vector<std::span<std::byte>>& own) {
  const MutexLock guard(mutex_);
  Writer card;
  card.value(static_cast<std::uint32_t>(worker_.address().size()));
  card.bytes(worker_.address());
  for (const std::span<std::byte> memory : own) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory.data();
    params.length = memory.size();
    ucp_mem_h handle = nullptr;
    WEFT_CHECK(check("ucp_mem_map", ucp().mem_map(context_->get(), &params, &handle)));
    shared_.push_back(handle);
    void* key = nullptr;
    std::size_t length = 0;
    WEFT_CHECK(check("ucp_rkey_pack", ucp().rkey_pack(context_->get(), handle, &key, &length)));
    card.value(reinterpret_cast<std::uint64_t>(memory.data()));
    card.value(static_cast<std::uint32_t>(length));
    card.bytes({static_cast<const std::byte*>(key), length});
    ucp().rkey_buffer_release(key);
  }
  if (card.card.size() > kCardBytes)
    return failure(Code::kNoResources, Blame::kCommunicator, "transport ucx: addresses of {} bytes, {} are possible",
                   card.card.size(), kCardBytes);
  card_ = std::move(card.card);
  card_.resize(kCardBytes);
  return {};
}

Status Memory::connect(std::span<const std::byte> cards) {
  const MutexLock guard(mutex_);
  for (std::size_t at = 0; at < cards.size(); at += kCardBytes) {
    Reader card(cards.subspan(at, kCardBytes));
    Peer& p = peers_.emplace_back();
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(card.bytes(card.value<std::uint32_t>()));
    WEFT_CHECK(check("ucp_ep_create", ucp().ep_create(worker_.get(), &params, &p.endpoint)));
    for (std::size_t piece = 0; piece < shared_.size(); ++piece) {
      Piece& m = p.pieces.emplace_back();
      m.begin = card.value<std::uint64_t>();
      const std::byte* const key = card.bytes(card.value<std::uint32_t>());
      WEFT_CHECK(check("ucp_ep_rkey_unpack", ucp().ep_rkey_unpack(p.endpoint, key, &m.key)));
    }
  }
  return {};
}

Status Memory::examine(Rank peer) const {
  const auto ranks = static_cast<Rank>(peers_.size());
  for (Rank r = peer < 0 ? 0 : peer; r < (peer < 0 ? ranks : peer + 1); ++r)
    if (has_left_(r)) return failure(Code::kPeerDied, Blame::kCommunicator, "rank {} has ended", r);
  return {};
}

Status Memory::finish(const char* what, void* request, Rank peer) {
  if (request == nullptr) return {};
  if (UCS_PTR_IS_ERR(request)) return check(what, UCS_PTR_STATUS(request));
  auto examined = Clock::now();
  ucs_status_t status = UCS_INPROGRESS;
  for (int looks = 1; (status = ucp().request_check_status(request)) == UCS_INPROGRESS; ++looks) {
    if (ucp().worker_progress(worker_.get()) != 0) {
      looks = 0;
      continue;
    }
    if (looks < kLooks) continue;
    // The peer's thread may need this core. A thread that yields is behind all that spin; one that sleeps is woken
    // before them.
    if (ucp().worker_arm(worker_.get()) == UCS_OK) {
      pollfd watched{worker_.event_descriptor(), POLLIN, 0};
      poll(&watched, 1, kShortestSleep);
    }
    if (Clock::now() - examined < kExamineEvery) continue;
    examined = Clock::now();
    WEFT_CHECK(examine(peer));  // the request stays with UCX: this process is about to end
  }
  ucp().request_free(request);
  settle();
  return check(what, status);
}

// Progress by one thread takes events for which the other sleeps: without arming anew that thread would sleep on while
// a peer waits for its answer.
void Memory::settle() {
  do {
    while (ucp().worker_progress(worker_.get()) != 0) {
    }
  } while (ucp().worker_arm(worker_.get()) == UCS_ERR_BUSY);
}

Status Memory::put(Rank r, int piece, Bytes offset, std::span<const std::byte> from) {
  const MutexLock guard(mutex_);
  const Piece& to = peer(r).pieces[static_cast<std::size_t>(piece)];
  ucp_request_param_t param{};
  return finish("ucp_put",
                ucp().put_nbx(peer(r).endpoint, from.data(), from.size(), to.begin + static_cast<std::uint64_t>(offset),
                              to.key, &param),
                r);
}

Status Memory::get(Rank r, int piece, Bytes offset, std::span<std::byte> to) {
  const MutexLock guard(mutex_);
  const Piece& from = peer(r).pieces[static_cast<std::size_t>(piece)];
  ucp_request_param_t param{};
  return finish("ucp_get",
                ucp().get_nbx(peer(r).endpoint, to.data(), to.size(), from.begin + static_cast<std::uint64_t>(offset),
                              from.key, &param),
                r);
}

Status Memory::flush(Rank r) {
  const MutexLock guard(mutex_);
  ucp_request_param_t param{};
  return finish("ucp_ep_flush", ucp().ep_flush_nbx(peer(r).endpoint, &param), r);
}

Status Memory::flush_all() {
  const MutexLock guard(mutex_);
  ucp_request_param_t param{};
  return finish("ucp_worker_flush", ucp().worker_flush_nbx(worker_.get(), &param), -1);
}

Status Memory::fence() {
  const MutexLock guard(mutex_);
  return check("ucp_worker_fence", ucp().worker_fence(worker_.get()));
}

// Answers what peers' puts and gets ask for where no hardware does.
void Memory::run(const std::stop_token& stopped) {
  int events = -1;
  {
    const MutexLock guard(mutex_);
    events = worker_.event_descriptor();
  }
  while (!stopped.stop_requested()) {
    {
      const MutexLock guard(mutex_);
      settle();
    }
    pollfd watched[2] = {{events, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(watched, 2, kLongestSleep);
  }
}

Memory::~Memory() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) {  // it wakes by itself a little later
  }
  if (thread_.joinable()) thread_.join();
  for (Peer& p : peers_) {
    for (const Piece& m : p.pieces)
      if (m.key != nullptr) ucp().rkey_destroy(m.key);
  }
  for (const ucp_mem_h handle : shared_) ucp().mem_unmap(context_->get(), handle);
}

}  // namespace

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::open(const std::vector<std::span<std::byte>>& own,
                                                         std::function<bool(Rank)> has_left) {
  WEFT_TRY(auto context, Context::open(UCP_FEATURE_RMA));
  WEFT_TRY(WorkerHandle worker, WorkerHandle::open(context));
  auto memory = std::make_unique<Memory>(std::move(context), std::move(worker), std::move(has_left));
  WEFT_CHECK(memory->share(own));
  memory->serve();
  return memory;
}

}  // namespace weft::net::ucx
