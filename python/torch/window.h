#pragma once

#include "collectives.h"
#include "mapped_memory.h"

// One-sided access to tensors of other ranks: torch 2.14's windows.
#ifdef C10D_BACKEND_HAS_WINDOW

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <random>

namespace weft::torch_adapter {

// A board counts the signals that each peer has given to this rank. It lies in registered memory, where peers write it.
//   Signaller: count += 1; if sleepers != 0, bell += 1 and wake.
//   Waiter:    looks at count; sleepers += 1; looks again; sleeps while bell is what it was; sleepers -= 1.
// Both sides' accesses are sequentially consistent: either the signaller sees the sleeper, or the sleeper sees the
// count. The count is stored after the data of put(), and loaded before the waiter reads them.
struct SignalBoard {
  std::uint64_t key;  // random: peers check that they have mapped the memory that was meant
  std::atomic<std::uint32_t> bell, sleepers;
  struct alignas(64) Count {
    std::atomic<std::uint64_t> given;
  };
  Count* counts() { return reinterpret_cast<Count*>(reinterpret_cast<std::byte*>(this) + sizeof(Count)); }
  static std::size_t bytes(int ranks) { return sizeof(Count) * (1 + static_cast<std::size_t>(ranks)); }
};
static_assert(sizeof(SignalBoard) <= sizeof(SignalBoard::Count) && std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

// A card describes a rank's tensor and board to its peers; all ranks exchange cards when they register tensors.
struct WindowCard {
  static constexpr int kMostAxes = 32;
  SharedPlace tensor, board;
  std::uint64_t key = 0;
  std::int64_t sizes[kMostAxes] = {};
  std::int32_t axes = 0;
  c10::ScalarType type = c10::ScalarType::Undefined;
  bool failed = false;  // this rank has nothing to register; all ranks then refuse
};
static_assert(std::is_trivially_copyable_v<WindowCard>);

// True: memory that this group registers can be mapped by its other ranks, for they are on one machine and over shm.
inline bool shares_memory(const Core& group) {
  if (group.getSize() == 1) return true;
  const auto probe = group.registered(64);
  return probe && shared_place(probe->data(), 64);
}

// Moves a tensor's storage into registered memory, as torch's share_memory_() moves it into memory of its own: all
// tensors on this storage see it. Errors: RuntimeError: memory that has another owner, such as NumPy's; none is left.
inline void move_into_registered_memory(const Core& group, const Tensor& t) {
  c10::StorageImpl* const storage = t.storage().unsafeGetStorageImpl();
  TORCH_CHECK(storage->resizable(),
              "weft: window: the tensor's memory belongs to NumPy or another owner and cannot be ",
              "moved; use weftcomm_torch.empty()");
  const auto memory = group.registered(std::max<std::size_t>(storage->nbytes(), 1));
  TORCH_CHECK(memory, "weft: window: no registered memory is left for ", storage->nbytes(), " bytes (WEFT_HEAP)");
  if (storage->nbytes() > 0) std::memcpy(memory->data(), storage->data(), storage->nbytes());
  auto* const owner = new std::shared_ptr<Memory>(memory);
  storage->set_data_ptr_noswap(
      {memory->data(), owner, [](void* p) { delete static_cast<std::shared_ptr<Memory>*>(p); }, at::kCPU});
  storage->set_resizable(false);
}

// A wait for a signal needs no thread of its own: wait() blocks its caller, and isCompleted() looks at the board.
class SignalWait final : public c10d::Work {
 public:
  using Look = std::function<bool()>;
  using Wait = std::function<void(milliseconds)>;
  SignalWait(int rank, milliseconds timeout, Look look, Wait wait)
      : Work(rank, OpType::UNKNOWN, "weft:wait_signal"),
        timeout_(timeout),
        look_(std::move(look)),
        wait_(std::move(wait)) {}

  bool isCompleted() override { return look_(); }
  bool wait(milliseconds timeout) override {
    wait_(timeout == kNoTimeout ? timeout_ : timeout);
    finish();
    return true;
  }

 private:
  const milliseconds timeout_;
  const Look look_;
  const Wait wait_;
};

// A window holds a tensor of each rank, which the others write by put() and map for loads and stores. The memory is
// shared: put() copies in its caller, and the target takes no part in it.
// tensor_deregister() comes before the window is dropped: peers may still write until then.
// Thread: one at a time, but for signal(), put() and waits for different peers. Errors: RuntimeError: wrong arguments,
// a window that is not registered or whose group has changed; DistBackendError: a peer has died, the time is up.
class Window final : public c10d::Window {
 public:
  explicit Window(c10::intrusive_ptr<Collectives> group)
      : group_(std::move(group)), lane_(group_->lane()), waited_(static_cast<std::size_t>(group_->getSize())) {}

  // Collective. The tensor is contiguous and on the CPU; its storage moves into registered memory unless it is there
  // (move_into_registered_memory). Tensors may differ in size and type between ranks. owning: the window keeps the
  // storage alive; otherwise the caller does, until tensor_deregister().
  void tensor_register(const Tensor& tensor, bool owning) override {
    check_group();
    TORCH_CHECK(peers_.empty(), "weft: window: double registration; tensor_deregister() comes first");
    const WithoutPythonsLock waits;
    WindowCard card;
    std::string problem;
    try {
      card = prepare(tensor);
    } catch (const c10::Error& e) {
      problem = e.what_without_backtrace();
      card.failed = true;
    }
    std::vector<Peer> peers = exchange(card, problem);
    if (owning) owned_ = tensor;
    options_ = tensor.options().requires_grad(false);
    peers_ = std::move(peers);
  }
  // Collective: returns when all ranks have called it; what they have put is there. Maps of the tensors stay valid, but
  // the memory is its owner's again.
  void tensor_deregister() override {
    check_registered();
    const WithoutPythonsLock waits;
    group_->barrier({.asyncOp = false});
    drop();
  }

  // Copies the tensor's elements into the target's, from element `offset` of it on, then gives a signal there, as
  // NCCL's ncclPutSignal does: a rank that has waited for it sees the elements. Done when it returns, also if asyncOp.
  c10::intrusive_ptr<c10d::Work> put(const Tensor& tensor, std::int64_t to, std::int64_t offset, bool,
                                     const c10d::PutOptions&) override {
    Peer& peer = registered_peer(to);
    TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
                "weft: window: put takes a dense CPU tensor");
    TORCH_CHECK(tensor.scalar_type() == peer.type, "weft: window: the type ", tensor.scalar_type(),
                " of put does not match ", peer.type, " of rank ", to, "'s tensor");
    TORCH_CHECK(offset >= 0, "weft: window: the offset ", offset, " of put must be nonnegative");
    TORCH_CHECK(offset <= peer.elements && tensor.numel() <= peer.elements - offset, "weft: window: put of ",
                tensor.numel(), " elements at ", offset, " exceeds the window size of rank ", to, ", ", peer.elements,
                " elements");
    const Tensor from = tensor.contiguous();
    if (from.numel() > 0)
      std::memmove(peer.data + static_cast<std::size_t>(offset) * from.element_size(), from.data_ptr(), from.nbytes());
    give_signal(peer);
    return ended_work();
  }
  // The target's tensor, for loads and stores. Ranks read what a peer has stored only after a signal or a barrier.
  Tensor map_remote_tensor(std::int64_t rank) override {
    const Peer& peer = registered_peer(rank);
    return at::from_blob(
        peer.data, peer.sizes, [lane = lane_, owner = owned_](void*) {}, options_.dtype(peer.type));
  }
  c10::intrusive_ptr<c10d::Work> signal(std::int64_t to, bool, const c10d::SignalOptions&) override {
    give_signal(registered_peer(to));
    return ended_work();
  }
  // Waits for one signal of this peer, which no earlier call has waited for. After a timeout the next call waits for
  // the same one. asyncOp: the Work's wait() waits.
  c10::intrusive_ptr<c10d::Work> wait_signal(std::int64_t from, bool asyncOp,
                                             const c10d::WaitSignalOptions& o) override {
    registered_peer(from);
    const auto peer = static_cast<std::size_t>(from);
    const std::uint64_t wanted = ++waited_[peer];
    const milliseconds timeout = o.timeout == c10d::kUnsetTimeout ? group_->options()->timeout : o.timeout;
    auto self = c10::intrusive_ptr<Window>::unsafe_reclaim_from_nonowning(this);
    const auto board = board_;
    auto work = c10::make_intrusive<SignalWait>(
        group_->getRank(), timeout, [self, board, peer, wanted] { return self->has_come(*board, peer, wanted); },
        [self, board, peer, wanted](milliseconds limit) { self->await(*board, peer, wanted, limit); });
    if (asyncOp) return work;
    try {
      work->wait(timeout);
    } catch (...) {
      --waited_[peer];
      throw;
    }
    return work;
  }
  // All ranks load and store one memory: UNIFIED.
  c10d::WindowAttr get_attr(std::int64_t rank) override {
    registered_peer(rank);
    return {c10d::WindowAccessType::UNIFIED};
  }

 private:
  struct Board {
    std::shared_ptr<Memory> memory;
    SignalBoard& operator*() const { return *static_cast<SignalBoard*>(memory->data()); }
  };
  struct Peer {
    std::byte* data = nullptr;
    SignalBoard* board = nullptr;
    c10::ScalarType type = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes;
    std::int64_t elements = 0;
  };

  WindowCard prepare(const Tensor& t) {
    TORCH_CHECK(t.device().is_cpu() && t.layout() == at::kStrided,
                "weft: window: the tensor must be a dense CPU tensor");
    TORCH_CHECK(t.is_contiguous(), "weft: window: the tensor must be contiguous");
    TORCH_CHECK(t.dim() <= WindowCard::kMostAxes, "weft: window: a tensor has at most ", WindowCard::kMostAxes,
                " axes here");
    TORCH_CHECK(shares_memory(*group_), "weft: window: ranks of this group share no memory, as over TCP and UCX");
    WindowCard card;
    const bool alone = group_->getSize() == 1;
    if (!alone && !shared_place(t.data_ptr(), std::max<std::size_t>(t.nbytes(), 1)))
      move_into_registered_memory(*group_, t);
    const std::size_t bytes = SignalBoard::bytes(group_->getSize());
    board_ = std::make_shared<Board>(Board{group_->registered(bytes)});
    TORCH_CHECK(board_->memory, "weft: window: no registered memory is left for its signals (WEFT_HEAP)");
    std::memset(board_->memory->data(), 0, bytes);
    std::random_device random;
    card.key = (**board_).key = std::uint64_t{random()} << 32 | random();
    if (!alone) {
      card.tensor = shared_place(t.data_ptr(), std::max<std::size_t>(t.nbytes(), 1)).value();
      card.board = shared_place(board_->memory->data(), bytes).value();
    }
    card.type = t.scalar_type();
    card.axes = static_cast<std::int32_t>(t.dim());
    std::copy(t.sizes().begin(), t.sizes().end(), card.sizes);
    own_ = static_cast<std::byte*>(t.data_ptr());
    return card;
  }

  // Collective. All peers, or the same error on all ranks.
  std::vector<Peer> exchange(const WindowCard& mine, const std::string& problem) {
    const int ranks = group_->getSize();
    std::vector<WindowCard> cards = all_cards(mine);
    std::vector<Peer> peers;
    std::string missing = problem;
    for (int r = 0; r < ranks && missing.empty(); ++r) {
      if (cards[r].failed) continue;
      peers.push_back(reach(cards[r], r));
      if (peers.back().board == nullptr)
        missing = c10::str("weft: window: the memory of rank ", r, " cannot be mapped here");
    }
    WindowCard answer;
    answer.failed = !missing.empty();
    cards = all_cards(answer);
    for (int r = 0; r < ranks; ++r)
      if (cards[r].failed && missing.empty())
        missing = c10::str("weft: window: rank ", r, " could not register; see its error");
    TORCH_CHECK(missing.empty(), missing);
    return peers;
  }
  std::vector<WindowCard> all_cards(const WindowCard& mine) {
    std::vector<WindowCard> cards(static_cast<std::size_t>(group_->getSize()));
    const auto bytes = static_cast<std::int64_t>(sizeof(WindowCard));
    Tensor in = at::empty({bytes}, at::kByte), out = at::empty({bytes * group_->getSize()}, at::kByte);
    std::memcpy(in.data_ptr(), &mine, sizeof mine);
    group_->_allgather_base(out, in, {.asyncOp = false});
    std::memcpy(static_cast<void*>(cards.data()), out.data_ptr(), cards.size() * sizeof(WindowCard));
    return cards;
  }
  Peer reach(const WindowCard& card, int rank) const {
    Peer p{.type = card.type, .sizes = {card.sizes, card.sizes + card.axes}, .elements = 1};
    for (const auto n : p.sizes) p.elements *= n;
    if (rank == group_->getRank()) {
      p.data = own_, p.board = &**board_;
      return p;
    }
    const std::size_t bytes = static_cast<std::size_t>(p.elements) * c10::elementSize(p.type);
    p.data = address_of(card.tensor, std::max<std::size_t>(bytes, 1));
    auto* const board = reinterpret_cast<SignalBoard*>(address_of(card.board, SignalBoard::bytes(group_->getSize())));
    if (p.data != nullptr && board != nullptr && board->key == card.key) p.board = board;
    return p;
  }

  void check_group() const {
    TORCH_CHECK(lane_ && lane_ == group_->lane(), "weft: window: its group was reconfigured; make a new window");
  }
  void check_registered() const {
    check_group();
    TORCH_CHECK(!peers_.empty(), "weft: window: the window is not registered; tensor_register() comes first");
  }
  Peer& registered_peer(std::int64_t rank) {
    check_registered();
    TORCH_CHECK(rank >= 0 && rank < group_->getSize(), "weft: window: rank ", rank, " is not one of ",
                group_->getSize());
    return peers_[static_cast<std::size_t>(rank)];
  }
  void drop() {
    peers_.clear();
    board_.reset();
    owned_.reset();
    std::fill(waited_.begin(), waited_.end(), 0);
  }
  void give_signal(Peer& peer) const {
    SignalBoard& b = *peer.board;
    b.counts()[group_->getRank()].given.fetch_add(1);
    if (b.sleepers.load() == 0) return;
    b.bell.fetch_add(1);
    syscall(SYS_futex, &b.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  static bool has_come(const Board& board, std::size_t peer, std::uint64_t wanted) {
    return (*board).counts()[peer].given.load() >= wanted;
  }
  // Looks for what is wrong about every 20 ms, for a peer that has died gives no signal.
  void await(const Board& board, std::size_t peer, std::uint64_t wanted, milliseconds timeout) const {
    const WithoutPythonsLock waits;
    constexpr milliseconds kLook{20};
    for (int i = 0; i < 100; ++i) {
      if (has_come(board, peer, wanted)) return;
      sched_yield();
    }
    const auto until = std::chrono::steady_clock::now() + timeout;
    SignalBoard& b = *board;
    for (;;) {
      const std::uint32_t bell = b.bell.load();
      b.sleepers.fetch_add(1);
      if (!has_come(board, peer, wanted)) {
        const timespec limit{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLook).count()};
        syscall(SYS_futex, &b.bell, FUTEX_WAIT, bell, &limit, nullptr, 0);
      }
      b.sleepers.fetch_sub(1);
      if (has_come(board, peer, wanted)) return;
      check_group();
      check(group_->broken());
      TORCH_CHECK_WITH(DistBackendError, timeout.count() <= 0 || std::chrono::steady_clock::now() < until,
                       "weft: Timed out in wait_signal: rank ", peer, " has given no signal for ", timeout.count(),
                       " ms");
    }
  }

  const c10::intrusive_ptr<Collectives> group_;
  const std::shared_ptr<python::Lane> lane_;  // of the members whose window this is; keeps their memory mapped
  std::vector<Peer> peers_;                   // by rank; empty: nothing is registered
  std::shared_ptr<Board> board_;
  std::byte* own_ = nullptr;
  std::optional<Tensor> owned_;
  at::TensorOptions options_;
  std::vector<std::uint64_t> waited_;  // by rank: signals that calls have waited for
};

}  // namespace weft::torch_adapter

#endif
