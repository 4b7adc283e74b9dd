#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "exec/fabric/lane.h"
#include "exec/fabric/real.h"
#include "exec/fabric/votes.h"
#include "exec/kernels/fold.h"
#include "exec/observer.h"
#include "exec/own_signals.h"
#include "exec/recorder/format.h"
#include "plan/schedule/lower/lower.h"
#include "weft/interrupt.h"

namespace weft::exec {

// A rank's engine on some fabric: the one virtual call per collective. Programs run one at a time.
// Thread: one at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;
  virtual const fabric::Capabilities& capabilities() const = 0;
  // Can every peer load and store these bytes of this rank directly?
  virtual bool reaches(const void* memory, Bytes bytes) const = 0;

  // Memory that peers reach. Owns: the caller, until `deallocate`; aligned to a page.
  // Errors: kNoResources with the size and what to raise.
  virtual Result<void*> allocate(Bytes bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  // The ranks' votes on which calls touch their memory directly, by a hash of the call's shape. Empty: peers reach all
  // memory, or none.
  virtual std::span<fabric::Votes> votes() { return {}; }
  // Memory that peers reach, for copies of the caller's, which they do not. Errors: kNoResources.
  virtual Result<void*> allocate_beyond(Bytes bytes) { return allocate(bytes); }
  virtual void deallocate_beyond(void* memory, Bytes /*bytes*/) { deallocate(memory); }

  // Moves on as far as possible without waiting; true: finished. Requires: nothing is running. Owns: keeps the program
  // until it has finished.
  virtual bool start(const std::shared_ptr<const schedule::Program>& program, const fabric::Call& call) = 0;
  // Moves on as far as possible without waiting; true: finished (or nothing is running).
  virtual Result<bool> poll() = 0;
  virtual Status wait() = 0;
  // As wait(), but gives up a little after this time. True: finished (or nothing is running).
  virtual Result<bool> wait_until(std::chrono::steady_clock::time_point time) = 0;
  // Whom the running program waits for; empty: it can go on, or nothing is running.
  virtual std::vector<Rank> awaited() = 0;
  // What is wrong with the communicator by now, whether or not anything is running.
  virtual Status health() = 0;
  // Of a program that has finished and has loaded and stored peers' memory: were those still in their calls, which end
  // at once when the communicator breaks?
  virtual Status still_whole() = 0;
  // How long waits last from now on before they fail.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  virtual std::chrono::milliseconds timeout() const = 0;

  // Messages between ranks beside the programs.
  virtual fabric::Lane& lane() = 0;
  // A wait for something on the lane, between looks: `awaited` says for whom; empty: the caller can go on. Errors: as
  // wait(), the executor's own timeout included.
  virtual Status pause(const std::function<std::vector<Rank>()>& awaited) = 0;
  // Something has moved on the lane: the next pause is a wait of its own.
  virtual void moved() = 0;
  // Work that moves on while programs wait. Owns: the caller, as long as the executor lives.
  void beside(fabric::Background* background) { background_ = background; }

  // Asks the thread inside start, poll or wait to give up and to notify the peers. Thread: any.
  void abort() { aborted_.store(true, std::memory_order_release); }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  // Where this rank and a peer called different things, if a call has failed with kMismatch.
  virtual fabric::Disagreement disagreement() const = 0;
  // Asked about every 20 ms by a wait that finds nothing to do, on its own thread; true: the wait gives up, as after
  // abort(). Empty: the thread's Interruptible is.
  void interrupt_by(std::function<bool()> asked) { interrupt_ = std::move(asked); }
  // Whether a wait outside of the programs is to end, because this rank is interrupted now, which it reports to the
  // peers. A rank that has aborted before may agree with the others and go on with them. Thread: as of all others.
  bool stops() {
    if (!interrupted()) return false;
    abort();
    break_off(rank(), fabric::Cause::kAborted);
    return true;
  }
  // A peer that has sent a message which no call has received; -1: none is known.
  virtual Rank unread() = 0;
  // What peers are to read of this rank once it has aborted. Before abort(), once. Thread: any.
  virtual void say_why(const std::string& words) = 0;
  // Tells the peers that the communicator is broken, and by whom. Idempotent.
  virtual void break_off(Rank culprit, fabric::Cause cause) = 0;

  // Where to say from now on whom this rank waits for. Owns: the caller, as long as this lives. Null: nowhere.
  virtual void say_waits(recorder::Waiting* where) = 0;
  // The trace that gets events from now on. Owns: the caller, as long as this lives. Null: none.
  virtual void trace_to(recorder::Trace* trace) = 0;

 protected:
  // Has something moved beside the program, which itself cannot move?
  bool moved_beside() { return background_ != nullptr && background_->pending() && background_->progress(); }
  bool interrupted() {
    if (!interrupt_) [[likely]]
      return Interruptible::asked();
    const auto now = std::chrono::steady_clock::now();
    if (now < asks_at_) return false;
    asks_at_ = now + std::chrono::milliseconds(20);
    return interrupt_();
  }

 private:
  std::atomic<bool> aborted_{false};
  std::function<bool()> interrupt_;
  fabric::Background* background_ = nullptr;
  std::chrono::steady_clock::time_point asks_at_{};
};

// A fabric's lane: operations on a connection that no program uses, in a call of their own.
template <class Endpoint>
class EndpointLane final : public fabric::Lane {
 public:
  // `strand`: the connection's number.
  EndpointLane(Endpoint& endpoint, int strand) : endpoint_(endpoint), strand_(strand) {
    const auto& can = endpoint_.capabilities();
    call_ = {.protocol = protocol::Protocol::kSimple,
             .fold = fold_for(DataType::kUint8, ReduceOp::kSum),  // copies
             .lines_up_to = can.load_store ? can.slot_data(protocol::Protocol::kLL64) : 0,
             .everybody = false};
  }

  Bytes max_bytes() const override { return endpoint_.capabilities().slot_data(protocol::Protocol::kSimple); }
  bool receive(Rank peer, std::byte* to, Bytes bytes) override { return carry_out(message(peer), memory(), to, bytes); }
  bool send(Rank peer, const std::byte* from, Bytes bytes) override {
    return carry_out(memory(), message(peer), const_cast<std::byte*>(from), bytes);  // only read
  }
  bool reads(const std::byte* from, Bytes bytes) override { return endpoint_.reads(from, bytes); }
  bool has_met(Rank peer) override { return endpoint_.has_met(peer); }
  bool has_left(Rank peer) override { return endpoint_.has_left(peer); }

 private:
  using End = protocol::End;
  static constexpr std::uint32_t kTag = 0x6c616e65;  // a choice; other than an empty line's

  End message(Rank peer) const {
    return {.kind = End::Kind::kMessage, .strand = static_cast<std::int16_t>(strand_), .tag = kTag, .peer = peer};
  }
  static End memory() { return {.memory = protocol::Memory::kOut}; }
  bool carry_out(const End& from, const End& to, std::byte* memory, Bytes bytes) {
    operation_.bytes = bytes;
    operation_.sources = {from};
    operation_.destinations = {to};
    call_.out = memory;
    endpoint_.exchange_call(call_);
    const bool ready = endpoint_.ready(strand_, operation_);
    if (ready) endpoint_.post(strand_, operation_);
    endpoint_.exchange_call(call_);
    return ready;
  }

  Endpoint& endpoint_;
  int strand_;
  fabric::Call call_;
  protocol::Operation operation_;
};

struct ProgramCursor {
  const protocol::Operation* at = nullptr;
  const protocol::Operation* end = nullptr;
  const protocol::Operation* next() { return at == end ? nullptr : at++; }
};

// The executor over any real-time endpoint. Watcher: Observer, or what stands for it where the cost of watching is
// measured.
template <fabric::RealWorld World, class Watcher = Observer>
class WorldExecutor final : public Executor {
 public:
  explicit WorldExecutor(std::unique_ptr<World> world)
      : world_(std::move(world)), lane_(world_->endpoint, capabilities().max_strands) {}

  Rank rank() const override { return world_->endpoint.rank(); }
  Rank ranks() const override { return world_->ranks(); }
  const fabric::Capabilities& capabilities() const override { return world_->endpoint.capabilities(); }
  bool reaches(const void* memory, Bytes bytes) const override { return world_->endpoint.reaches(memory, bytes); }
  Result<void*> allocate(Bytes bytes) override { return world_->allocate(bytes); }
  void deallocate(void* memory) override { world_->deallocate(memory); }
  std::span<fabric::Votes> votes() override {
    if constexpr (fabric::GrowsMemory<World>) return world_->endpoint.segment().header().votes;
    return {};
  }
  Result<void*> allocate_beyond(Bytes bytes) override {
    if constexpr (fabric::GrowsMemory<World>) return world_->allocate_beyond(bytes);
    return allocate(bytes);
  }
  void deallocate_beyond(void* memory, Bytes bytes) override {
    if constexpr (fabric::GrowsMemory<World>)
      world_->deallocate_beyond(memory, bytes);
    else
      deallocate(memory);
  }

  std::vector<Rank> awaited() override { return waiting_for(); }
  void set_timeout(std::chrono::milliseconds timeout) override { world_->wait_policy.set_timeout(timeout); }
  std::chrono::milliseconds timeout() const override { return world_->wait_policy.timeout(); }
  fabric::Lane& lane() override { return lane_; }
  Status pause(const std::function<std::vector<Rank>()>& awaited) override {
    if (interrupted()) [[unlikely]]
      abort();
    WEFT_CHECK(check_intact());
    return world_->wait_policy.pause(awaited);
  }
  void moved() override { world_->wait_policy.reset(); }
  Status still_whole() override {
    if constexpr (fabric::LoadsPeers<World>) {
      std::atomic_thread_fence(std::memory_order_acquire);  // after all loads of peers' memory
      if (world_->wait_policy.broken()) [[unlikely]]
        return world_->wait_policy.health();
    }
    return {};
  }
  Status health() override { return world_->wait_policy.health(); }
  fabric::Disagreement disagreement() const override { return world_->endpoint.disagreement(); }
  Rank unread() override { return world_->endpoint.unread(); }
  void break_off(Rank culprit, fabric::Cause cause) override { world_->wait_policy.break_off(culprit, cause); }
  void say_why(const std::string& words) override { world_->wait_policy.say_why(words); }
  void say_waits(recorder::Waiting* where) override { waiting_ = where; }
  void trace_to(recorder::Trace* trace) override { observer_.trace_to(trace); }

  bool start(const std::shared_ptr<const schedule::Program>& program, const fabric::Call& call) override {
    if (program_ != program) load(program);
    for (std::size_t s = 0; s < strands_.size(); ++s) strands_[s] = loaded_[s];
    if (own_.sent() > 0) own_ = {};
    world_->endpoint.begin(call);
    world_->wait_policy.reset();  // time between operations is not time spent waiting
    return advance_all();
  }

  Result<bool> poll() override {
    const std::int64_t before = posted();
    if (advance_all()) {
      world_->wait_policy.reset();
      return true;
    }
    if (posted() != before) {
      world_->wait_policy.reset();
      return false;
    }
    WEFT_CHECK(check_intact());
    if (moved_beside()) return false;
    WEFT_CHECK(compared(world_->wait_policy.look(ask_)));
    return false;
  }

  Status wait() override {
    const auto finished = wait_unless([] { return false; });
    return finished ? Status() : tl::make_unexpected(finished.error());
  }
  Result<bool> wait_until(std::chrono::steady_clock::time_point time) override {
    unsigned looks = 0;  // the first ones take less time than the clock
    return wait_unless([&] { return (++looks % 64 == 0 || looks > 1024) && std::chrono::steady_clock::now() >= time; });
  }

 private:
  // False: not finished when `given_up` said so, which is asked where nothing has moved.
  template <class GivenUp>
  Result<bool> wait_unless(GivenUp given_up) {
    std::int64_t before = -1;
    if constexpr (requires { world_->wait_policy.begin(); }) world_->wait_policy.begin();
    while (!advance_all()) {
      if (const std::int64_t now = posted(); now != before) {
        before = now;
        world_->wait_policy.reset();
        continue;
      }
      if (given_up()) return false;
      observer_.stuck([this] { return first_blocker(); });
      if (interrupted()) [[unlikely]]
        abort();
      WEFT_CHECK(check_intact());
      if (moved_beside()) continue;
      WEFT_CHECK(compared(world_->wait_policy.pause(ask_)));
    }
    if (observer_.wants()) [[unlikely]]
      observer_.moved();
    world_->wait_policy.reset();
    return true;
  }

  using Strand = Interpreter<typename World::Endpoint, ProgramCursor>;

  void load(const std::shared_ptr<const schedule::Program>& program) {
    program_ = program;
    loaded_.clear();
    for (std::size_t s = 0; s < program_->size(); ++s) {
      const auto& operations = (*program_)[s];
      if (!operations.empty())
        loaded_.emplace_back(static_cast<int>(s),
                             ProgramCursor{operations.data(), operations.data() + operations.size()}, &own_);
    }
    strands_ = loaded_;
  }
  bool advance_all() {
    if (observer_.wants()) [[unlikely]]
      return advance_watched();
    NoTrace nobody;
    return advance_all(nobody);
  }
  // Apart, so that tracing costs a branch per call where it is not wanted.
  [[gnu::noinline, gnu::cold]] bool advance_watched() { return advance_all(observer_); }
  template <class Trace>
  bool advance_all(Trace& trace) {
    bool done = true;
    for (Strand& strand : strands_) done &= strand.advance(world_->endpoint, trace) == Progress::kDone;
    return done && world_->endpoint.unsettled() < 0;
  }
  std::int64_t posted() const {
    std::int64_t n = 0;
    for (const Strand& strand : strands_) n += strand.posted();
    return n;
  }
  Status check_intact() {
    if (!aborted() && world_->endpoint.mismatched() < 0) [[likely]]
      return {};
    return check_closely();
  }
  [[gnu::noinline, gnu::cold]] Status check_closely() {
    if (aborted()) {
      break_off(rank(), fabric::Cause::kAborted);
      return failure_of(rank(), Code::kAborted, Blame::kCommunicator, "this rank has aborted");
    }
    const Rank other = world_->endpoint.mismatched();
    if (other < 0 || world_->endpoint.awaits_reason(other)) return {};
    world_->wait_policy.break_off(other, fabric::Cause::kDiffers);
    return failure(Code::kMismatch, Blame::kCommunicator,
                   "rank {} and rank {} called different collectives, sizes or types", other, rank());
  }
  // Another rank has found a disagreement: with whom does this rank disagree?
  Status compared(Status found) {
    if (!found && found.error().code == Code::kMismatch) [[unlikely]]
      for (Rank r = 0; r < ranks() && world_->endpoint.mismatched() < 0; ++r)
        if (r != rank()) world_->endpoint.compare_calls(r);
    return found;
  }
  // Whom the strands wait for; empty if one of them can go on by now.
  std::vector<Rank> waiting_for() {
    std::vector<Rank> peers;
    if (const Rank peer = world_->endpoint.unsettled(); peer >= 0) peers.push_back(peer);
    for (const Strand& strand : strands_) {
      const Rank peer = blocker_of(strand);
      if (peer < 0) continue;
      world_->endpoint.compare_calls(peer);
      if (peers.empty() && waiting_ != nullptr) note_wait(peer, strand);
      peers.push_back(peer);
    }
    return peers;
  }
  Rank first_blocker() {
    for (const Strand& strand : strands_)
      if (const Rank peer = blocker_of(strand); peer >= 0) return peer;
    return world_->endpoint.unsettled();
  }
  // -1: nobody, or another strand of this rank.
  Rank blocker_of(const Strand& strand) {
    if (strand.done() || strand.current() == nullptr || strand.current()->own()) return -1;
    return world_->endpoint.blocker(strand.strand(), *strand.current());
  }
  void note_wait(Rank peer, const Strand& strand) {
    constexpr auto kPlain = std::memory_order_relaxed;
    const std::uint64_t now = recorder::ticks();
    const bool same = waiting_->peer.load(kPlain) == peer + 1 && waiting_->step.load(kPlain) == strand.posted() &&
                      waiting_->strand.load(kPlain) == strand.strand();
    if (!same) waiting_->since.store(now, kPlain);
    waiting_->strand.store(strand.strand(), kPlain);
    waiting_->step.store(strand.posted(), kPlain);
    waiting_->steps.store(static_cast<std::int64_t>((*program_)[static_cast<std::size_t>(strand.strand())].size()),
                          kPlain);
    waiting_->said.store(now, kPlain);
    waiting_->peer.store(peer + 1, std::memory_order_release);
  }

  std::unique_ptr<World> world_;
  EndpointLane<typename World::Endpoint> lane_;
  const std::function<std::vector<Rank>()> ask_ = [this] { return waiting_for(); };  // made once, not for every look
  std::shared_ptr<const schedule::Program> program_;
  std::vector<Strand> loaded_;  // as they begin
  std::vector<Strand> strands_;
  OwnSignals own_;
  recorder::Waiting* waiting_ = nullptr;
  Watcher observer_;
};

}  // namespace weft::exec
