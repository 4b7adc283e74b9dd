#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weft/low_precision.h"
#include "weft/pending.h"
#include "weft/result.h"
#include "weft/types.h"
#include "weft/unique_id.h"

namespace weft {

namespace session {
class AdoptedPages;
class Session;
struct Pending;
struct TaggedOperation;
}  // namespace session

// Longer timeouts are refused, as are negative ones: 0 stands for no limit.
inline constexpr std::chrono::milliseconds kMostTimeout = std::chrono::hours(24 * 365 * 100);

// One collective call. `count` is elements: of the whole message for all_reduce, broadcast and reduce, of one rank's
// part for the others (all_gather, gather: in count, out count * ranks; reduce_scatter, scatter: in count * ranks, out
// count; all_to_all: both count * ranks; send_recv: both count). Parts lie in the order of their ranks. Only the root
// has an input (broadcast, scatter) or an output (reduce, gather); the others may pass null. In place: in == out where
// both have the same size; otherwise the smaller is this rank's part of the larger. Buffers that overlap otherwise are
// refused. Fields that a collective does not use are ignored. Owns: nothing; the memory must stay
// valid, and `in` unchanged, until the operation has finished.
struct Request {
  Collective collective = Collective::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  // Uneven collectives take these instead of `count`: elements of every rank's part, the same on all ranks;
  // all_to_all_v: of the parts that this rank sends, and of those that it receives; what it sends itself must be what
  // it receives from itself. Read before the call returns.
  std::span<const std::size_t> counts = {}, receive_counts = {};
  // dispatch and combine, whose `count` is that of one rank's tokens, as many on every rank: the numbers of the experts
  // that every token of every rank is for, `per_token` each, rank by rank; negative: none. Expert e lies on rank
  // e / (expert_count / ranks). All ranks pass the same table (an all_gather of each one's). A token is count / tokens
  // elements. dispatch: in has this rank's tokens, out room for all ranks' (count * ranks), of which those come that
  // have an expert here; the others keep their bytes. combine: in has, at the places where they came, what this rank's
  // experts made of them (weighted, and summed where several are here); out gets the sums, of tokens without experts
  // nothing. Read before the call returns.
  std::span<const std::int32_t> experts = {};
  int per_token = 0, expert_count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // of collectives that reduce; the others ignore it
  // What this rank's contribution is multiplied by: needed for kPremulSum, refused otherwise. May differ between ranks.
  std::optional<Scalar> scalar = {};
  Rank root = 0;
  // The same bits for the same inputs and ranks, whatever the size, algorithm, protocol, transport or run: sums are
  // taken in rank order. Algorithms that cannot do that are not chosen; forcing one of them is an error.
  bool reproducible = false;
  // Forces a choice; empty or 0: weft chooses. All ranks must force the same.
  std::string algorithm = {};
  std::string protocol = {};
  int channels = 0;
  // How long this call waits for a peer before it fails: at most kMostTimeout; 0: as long as it lives; empty: as
  // set_timeout() says. Not part of what ranks must agree on.
  std::optional<std::chrono::milliseconds> timeout = {};
};

// A message to or from another rank. Messages between two ranks are taken in the order in which they were sent.
struct Transfer {
  enum class Direction : std::uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  Rank peer = 0;
  void* data = nullptr;  // a sender's is only read
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
};

// A receive takes messages of any rank, or with any tag. Tags are 0 or more.
inline constexpr Rank kAnySource = -1;
inline constexpr std::int32_t kAnyTag = -1;

// What a receive has taken.
struct Received {
  std::size_t count = 0;  // elements: at most those of the buffer
  Rank source = -1;
  std::int32_t tag = 0;
};

// A started send or receive with a tag. Thread: the communicator's. May be dropped; the operation still completes, as
// long as the communicator is used, and its buffer belongs to it until then.
class Message {
 public:
  // True once it has finished; moves it on meanwhile. Errors: as Communicator::receive; kTimeout only where a timeout
  // was given for this operation.
  [[nodiscard]] Result<bool> test();
  // Of a send: nothing of what it returns means anything. Errors: as Communicator::receive.
  [[nodiscard]] Result<Received> wait();

 private:
  friend class Communicator;
  std::shared_ptr<session::Session> session_;
  std::shared_ptr<session::TaggedOperation> operation_;
};

// A started operation. Thread: the communicator's. May be dropped; the operation
// still completes, as long as the communicator is used or another of its works waited for.
class Work {
 public:
  // True once the operation has finished; moves it on meanwhile. Errors: as Communicator::run.
  [[nodiscard]] Result<bool> test();
  [[nodiscard]] Status wait();
  // Waits for as long as `limit`, and up to 20 ms longer; a negative one is as 0. True: the operation has finished.
  // False: it has not, and goes on as before the call. Errors: as wait(); its own timeout may end the operation
  // meanwhile.
  [[nodiscard]] Result<bool> wait_for(std::chrono::nanoseconds limit);

 private:
  friend class Communicator;
  std::shared_ptr<session::Session> session_;
  std::shared_ptr<session::Pending> pending_;
};

// Memory that all ranks of the communicator can load and store: collectives on it need no intermediate copy.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  friend class Communicator;
  std::shared_ptr<session::Session> session_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Memory of the caller's that peers reach as that of allocate(); see Communicator::register_memory. Its end gives the
// memory back as private memory with what it holds then, at once, or at the end of the last operation that uses it.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&& other) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;
  ~RegisteredMemory();

  // Its pages are those of the job's shared memory. False: peers need none or could not use them.
  bool shared() const { return pages_ != nullptr; }

 private:
  friend class Communicator;
  std::shared_ptr<session::Session> session_;
  std::shared_ptr<const session::AdoptedPages> pages_;
};

// The element type that stands for a C++ type; the small floats are in weft/low_precision.h.
template <class T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return DataType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::kFloat64;
  else if constexpr (std::is_same_v<T, Float16>)
    return DataType::kFloat16;
  else if constexpr (std::is_same_v<T, Bfloat16>)
    return DataType::kBfloat16;
  else if constexpr (std::is_same_v<T, Float8E4M3>)
    return DataType::kFloat8E4M3;
  else if constexpr (std::is_same_v<T, Float8E5M2>)
    return DataType::kFloat8E5M2;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8, "no element type of weft");
    constexpr int kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<DataType>(static_cast<int>(std::is_signed_v<T> ? DataType::kInt8 : DataType::kUint8) + kSize);
  }
}

// What the ranks of a communicator have agreed on: the same on all of them.
struct Agreement {
  std::uint64_t bits = 0;   // the AND of what every rank that was counted in brought; of no other rank
  std::vector<Rank> ended;  // every rank that was not counted: it has ended, left, or came later than the others waited
  std::vector<Rank> late;   // those of `ended` that are not known to have ended or left: they may live
};

// A group of ranks that call the same collectives in the same order.
// Thread: one at a time per communicator; different communicators are independent.
// Memory: a rank may pass memory from allocate() or any other, whatever the other ranks pass. Repeated calls are
// fastest where all ranks pass memory from allocate(), or none does (decision 0195).
// Errors of calls that start operations or wait for them: kNoResources: the process has no memory left. The
// communicator is broken then, and the other ranks get kAborted with this rank.
class Communicator {
 public:
  // Joins the job that the environment describes: WEFT_RANK, WEFT_SIZE and WEFT_ID, as set by `weft run`. Returns when
  // all ranks have joined. Without these variables: a communicator of one rank. Errors: see net::shm::attach; bad input
  // for a variable that does not parse.
  [[nodiscard]] static Result<Communicator> from_environment();
  // All ranks of a communicator inside this process, one per thread that the caller starts: up to 1,024. Errors:
  // kInvalidArgument.
  [[nodiscard]] static Result<std::vector<Communicator>> threads(Rank ranks);
  // Joins the `ranks` that meet by this id, as one of them; returns when all have come. Errors: kTimeout naming the
  // missing ranks; kInvalidArgument: another id, another number of ranks, a rank that is taken.
  [[nodiscard]] static Result<Communicator> connect(const UniqueId& id, Rank rank, Rank ranks,
                                                    const ConnectOptions& options = {});
  // The same on a thread of its own, without waiting.
  static Pending<Communicator> start_connect(const UniqueId& id, Rank rank, Rank ranks,
                                             const ConnectOptions& options = {});

  explicit Communicator(std::shared_ptr<session::Session> session) : session_(std::move(session)) {}
  // Is this one at all? False: see split, and of a communicator that was moved from. All calls of such a one fail with
  // kInvalidArgument; its rank is -1 of 0.
  explicit operator bool() const { return session_ != nullptr; }

  Rank rank() const;
  Rank ranks() const;

  // Errors: kInvalidArgument (blames the input; nothing was done); kPeerDied, kPeerLeft, kTimeout, kAborted, kMismatch:
  // blame the communicator, which only returns this error from then on. Every message names the operation and the rank
  // at fault.
  [[nodiscard]] Status run(const Request& request);
  // Queues the operation behind those already started. It moves on while the caller is inside any call of this
  // communicator, its works included: in this one, too, for as long as peers let it go on. Errors: kInvalidArgument.
  [[nodiscard]] Result<Work> start(const Request& request);
  // Several, in this order. Small ones that follow each other become one call: all_reduce, all_gather, reduce_scatter
  // and broadcast of up to 64 KiB per rank, alike in all but buffers and count, whose memory does not overlap. All
  // ranks must pass the same requests at once. One Work each. Errors: as start; then what came before is started.
  [[nodiscard]] Result<std::vector<Work>> start(std::span<const Request> requests);
  // The same, and waits for all. Errors: as run; the first.
  [[nodiscard]] Status run(std::span<const Request> requests);

  // Sends and receives, all at the same time, in whatever order they are given: they cannot block each other. Both ends
  // must agree on count and type; what a rank sends itself it must receive in the same call. Errors: as run; kMismatch
  // if they do not agree.
  // `timeout`: as Request::timeout.
  [[nodiscard]] Status exchange(std::span<const Transfer> transfers,
                                std::optional<std::chrono::milliseconds> timeout = {});
  [[nodiscard]] Result<Work> start(std::span<const Transfer> transfers,
                                   std::optional<std::chrono::milliseconds> timeout = {});
  // A send may return before its message has been received.
  template <class T>
  [[nodiscard]] Status send(std::span<const T> data, Rank peer) {
    const Transfer t{Transfer::Direction::kSend, peer, const_cast<T*>(data.data()), data.size(), data_type_of<T>()};
    return exchange({&t, 1});
  }
  template <class T>
  [[nodiscard]] Status receive(std::span<T> data, Rank peer) {
    const Transfer t{Transfer::Direction::kReceive, peer, data.data(), data.size(), data_type_of<T>()};
    return exchange({&t, 1});
  }

  // --- messages with tags, as MPI has them ---

  // Messages with tags never meet those without, and are independent of the order of collectives. Between two ranks,
  // those that match one receive are taken in the order in which they were sent. A receive's buffer may be larger than
  // the message; kAnySource serves the senders in turn. A send returns when `data` may be changed: short messages
  // (up to 16 KiB) may then not have been received yet, some 30 of them or 256 KiB to a receiver that makes no calls;
  // longer ones are on their way to a receive that has been called. `timeout`: as Request::timeout, from the start
  // until bytes are on their way; from then on as set_timeout() says. Errors: kInvalidArgument; kMismatch, on the
  // receiver, and on the sender of a long message: the buffer is too small or of another type; kTimeout: nothing
  // matched. All of these blame the operation only: the communicator works on. kTimeout while the bytes are on their
  // way, kPeerDied, kPeerLeft, kAborted: as run.
  [[nodiscard]] Status send(const void* data, std::size_t count, DataType type, Rank peer, std::int32_t tag,
                            std::optional<std::chrono::milliseconds> timeout = {});
  [[nodiscard]] Result<Received> receive(void* data, std::size_t count, DataType type, Rank source, std::int32_t tag,
                                         std::optional<std::chrono::milliseconds> timeout = {});
  // The same without waiting; the buffer belongs to the operation until it is done.
  [[nodiscard]] Result<Message> start_send(const void* data, std::size_t count, DataType type, Rank peer,
                                           std::int32_t tag, std::optional<std::chrono::milliseconds> timeout = {});
  [[nodiscard]] Result<Message> start_receive(void* data, std::size_t count, DataType type, Rank source,
                                              std::int32_t tag, std::optional<std::chrono::milliseconds> timeout = {});
  template <class T>
  [[nodiscard]] Status send(std::span<const T> data, Rank peer, std::int32_t tag) {
    return send(data.data(), data.size(), data_type_of<T>(), peer, tag);
  }
  template <class T>
  [[nodiscard]] Result<Received> receive(std::span<T> data, Rank source, std::int32_t tag) {
    return receive(data.data(), data.size(), data_type_of<T>(), source, tag);
  }

  // Registered memory. Errors: kNoResources.
  [[nodiscard]] Result<Memory> allocate(std::size_t bytes);
  // Memory of the caller's becomes registered where it is: its pages, which keep what they hold, become pages of the
  // job's shared memory, and count as those of allocate(). Nothing is done where peers reach it already, as those that
  // are threads do, where this rank is alone, and where some ranks are on other machines. While it is registered or
  // given back nobody may write it: neither other threads nor calls that have been started and read or write it. Until
  // the RegisteredMemory ends it may not be freed or remapped. A forked child shares it, and loses what it holds at
  // that end. Requires whole pages that hold nothing else: mmap, aligned_alloc of a multiple of pages, or an allocation
  // of malloc that is a mapping of its own, from its start: above 32 MiB, and often smaller ones (M_MMAP_THRESHOLD).
  // Errors: kInvalidArgument, with the address and the reason: null, no bytes, pages with other memory as far as that
  // is seen, memory that is not mapped, of a file, shared, read-only, this process's or thread's stack; a forked child.
  // kNoResources: as allocate.
  [[nodiscard]] Result<RegisteredMemory> register_memory(void* data, std::size_t bytes);

  template <class T>
  [[nodiscard]] Status all_reduce(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::kSum,
                                  std::optional<Scalar> scalar = {}) {
    if (in.size() != out.size()) return size_mismatch(in.size(), out.size());
    return run({.collective = Collective::kAllReduce,
                .in = in.data(),
                .out = out.data(),
                .count = in.size(),
                .type = data_type_of<T>(),
                .op = op,
                .scalar = scalar});
  }
  template <class T>
  [[nodiscard]] Status all_gather(std::span<const T> in, std::span<T> out) {
    if (in.size() * static_cast<std::size_t>(ranks()) != out.size()) return size_mismatch(in.size(), out.size());
    return run({.collective = Collective::kAllGather,
                .in = in.data(),
                .out = out.data(),
                .count = in.size(),
                .type = data_type_of<T>()});
  }
  template <class T>
  [[nodiscard]] Status reduce_scatter(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::kSum,
                                      std::optional<Scalar> scalar = {}) {
    if (in.size() != out.size() * static_cast<std::size_t>(ranks())) return size_mismatch(in.size(), out.size());
    return run({.collective = Collective::kReduceScatter,
                .in = in.data(),
                .out = out.data(),
                .count = out.size(),
                .type = data_type_of<T>(),
                .op = op,
                .scalar = scalar});
  }
  // The form in place: every rank's `data` becomes the root's.
  template <class T>
  [[nodiscard]] Status broadcast(std::span<T> data, Rank root) {
    return run({.collective = Collective::kBroadcast,
                .in = data.data(),
                .out = data.data(),
                .count = data.size(),
                .type = data_type_of<T>(),
                .root = root});
  }
  // Returns when all ranks have called it.
  [[nodiscard]] Status barrier();

  // What the last finished operation was done with, e.g. {"two_shot", "Direct", 1}.
  struct Choice {
    std::string algorithm, protocol;
    int channels = 0;
  };
  Choice last_choice() const;

  // --- new communicators from this one; all ranks call these together, like a collective ---

  // One communicator per color, 0 or more; ranks are ordered by key, then by their rank here. kNoColor: this rank joins
  // none, and gets an empty Communicator. Every new communicator has connections of its own, and may allocate as much
  // memory as this one; over shared memory it also reaches what was allocated here. Errors: as run.
  static constexpr int kNoColor = -1;
  [[nodiscard]] Result<Communicator> split(int color, int key = 0);
  // After a failure: of the ranks that still live and call this, in their order here. Does not use this communicator's
  // operations; drop it afterwards. Waits for ranks that are not known to have ended as long as any wait does; those
  // that come later are left out, for good. Never do two groups go on: one process's memory decides among ranks that
  // share it, or `weft run`; otherwise more than half of all ranks must come, or half with rank 0. Errors: kLeftOut:
  // the others went on without this rank; kNoQuorum: too few are here: nothing is lost, call again; kPeerLeft: this
  // communicator has been shrunk before.
  [[nodiscard]] Result<Communicator> shrink();
  // The same, but ranks of `without`, the same on all that call this, are not waited for although they live. Errors: as
  // shrink(); kInvalidArgument: a rank that there is not, or this one.
  [[nodiscard]] Result<Communicator> shrink(std::span<const Rank> without);
  // Agrees with all ranks that live and call this, each at its own same call, on the AND of their bits; works on broken
  // communicators, too. A collective that is ok on one rank may have failed on another: this is how all learn whether
  // all got it. Waits for every rank that is not known to have ended as long as shrink() does; a living rank that comes
  // later, or never (it is inside finalize()), is not counted: every counted rank finds it in `ended` and `late`, and
  // it gets kLeftOut. `ended` is empty exactly if `bits` are of all ranks. Leaves this communicator as it is, but for a
  // rank that has died: then it is broken, so that ranks that wait in calls of it come here. Errors: kNoQuorum as
  // shrink(); kLeftOut: the others have agreed without this rank.
  [[nodiscard]] Result<Agreement> agree(std::uint64_t bits);
  // A communicator of the ranks here, which keep their numbers, and new ones, which call connect(id, ranks() …, ranks).
  // `id`: of a MeetingPlace for `ranks` ranks; only rank 0's counts. This communicator stays. Errors: as run and
  // connect.
  [[nodiscard]] Result<Communicator> grow(const UniqueId& id, Rank ranks);

  // --- when something goes wrong ---

  // How long the calls from here on wait for a peer before they fail; 0: as long as it lives. Unless set: as
  // WEFT_TIMEOUT_MS or ConnectOptions say. Ranks may differ: the first whose time is up breaks the communicator. A rank
  // that has ended is noticed all the same. shrink() and agree() keep to the communicator's own. Errors:
  // kInvalidArgument: negative, more than kMostTimeout; nothing has changed.
  Status set_timeout(std::chrono::milliseconds timeout);
  // From here on a call that waits for a peer asks this function about every 20 ms, on the calling thread; true ends
  // the wait as abort() would, with kAborted on all ranks, and so does an exception. Empty: nothing is asked. Bindings
  // ask for signals here.
  void set_interrupt(std::function<bool()> interrupted);

  // What has broken this communicator, or would break the next operation: an abort, or the death of a peer as far as it
  // can be known without talking to it (over TCP: of peers that have been talked to). Thread: any; never waits, but for
  // a call of this communicator that another thread is inside.
  [[nodiscard]] Status status();
  // Ends what runs here, on all ranks: their calls fail with kAborted, which names this rank. `why`: what their errors
  // say that it did instead of "aborted", e.g. "raised RuntimeError: no data"; up to 180 bytes of it, without control
  // characters. Returns when the others have been notified. Thread: any, also while another is inside a call of this
  // communicator.
  void abort(std::string_view why = {});
  // Returns when all ranks have called it, like barrier(). If some do not within `timeout` (at most the communicator's
  // own, which 0 stands for): kTimeout, which names all of them, on every rank that has called; the communicator is
  // then broken, and who calls later reads the lowest of them.
  [[nodiscard]] Status monitored_barrier(std::chrono::milliseconds timeout);
  // Waits for all started operations and for all ranks to do the same; afterwards the communicator does nothing more.
  // It is a call of its own: ranks that finalize while others are in a barrier disagree with them. Errors: as run;
  // kMismatch also if a peer has sent what no call of this rank received.
  [[nodiscard]] Status finalize();

 private:
  static Status size_mismatch(std::size_t in, std::size_t out);
  std::shared_ptr<session::Session> session_;
};

}  // namespace weft
