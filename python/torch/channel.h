#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "elements.h"
#include "errors.h"
#include "weft/queue.h"

namespace weft::torch_adapter {

using std::chrono::milliseconds;

// Messages of one rank to one other: a communicator of two of their own, so that they need not keep to the order of
// collectives or of other pairs. A header of tag and bytes precedes every message; what a receive does not ask for is
// kept for a later one. Thread: one at a time. A message is moved by calls of send() or receive() with the same
// arguments, until one returns true or an error; no other message may be moved meanwhile.
class Channel {
 public:
  // How long a call waits for the peer; null: until the message has been moved.
  using Limit = std::optional<std::chrono::nanoseconds>;
  static constexpr Limit kAtOnce = std::chrono::nanoseconds(0);

  Channel(Communicator c, bool sends) : communicator_(std::move(c)), peer_(1 - communicator_.rank()), sends_(sends) {}

  bool sends() const { return sends_; }
  // True: the message is on its way, and `data` may be used. False: not yet.
  Result<bool> send(const Tensor& data, int tag, Limit limit, milliseconds timeout) {
    if (!moving_) {
      header_[0] = tag, header_[1] = static_cast<std::int64_t>(data.nbytes());
      if (auto s = start(Transfer::Direction::kSend, header_, sizeof header_, timeout); !s)
        return tl::make_unexpected(s.error());
      if (auto s = start(Transfer::Direction::kSend, data.data_ptr(), data.nbytes(), timeout); !s)
        return tl::make_unexpected(s.error());
    }
    return moved(limit);
  }
  // True: `data` holds the message. False: as send().
  Result<bool> receive(const Tensor& data, int tag, Limit limit, milliseconds timeout) {
    for (;;) {
      if (!moving_) {
        if (const auto at = kept_with(tag); at != kept_.end()) {
          const Kept found = std::move(*at);
          kept_.erase(at);
          if (found.bytes.size() != data.nbytes()) return tl::make_unexpected(differs(found.bytes.size(), data));
          std::memcpy(data.data_ptr(), found.bytes.data(), found.bytes.size());
          return true;
        }
        if (auto here = next_header(limit, timeout); !here || !*here) return here;
        const bool wanted = next_[0] == tag && static_cast<std::size_t>(next_[1]) == data.nbytes();
        if (auto s = wanted ? start(Transfer::Direction::kReceive, data.data_ptr(), data.nbytes(), timeout)
                            : start_keeping(timeout);
            !s)
          return tl::make_unexpected(s.error());
      }
      if (auto here = moved(limit); !here || !*here) return here;
      if (!incoming_) return true;
      Kept kept = *std::exchange(incoming_, std::nullopt);
      if (kept.tag == tag) return tl::make_unexpected(differs(kept.bytes.size(), data));
      kept_.push_back(std::move(kept));
    }
  }
  // Is a message with this tag here, or about to be? Does not wait, but for messages with other tags, which are kept.
  Result<bool> offers(int tag) {
    for (;;) {
      if (kept_with(tag) != kept_.end()) return true;
      if (auto here = next_header(kAtOnce, {}); !here || !*here || next_[0] == tag) {
        here_ = here && *here;
        return here;
      }
      if (auto s = start_keeping({}); !s) return tl::make_unexpected(s.error());
      if (auto here = moved(std::nullopt); !here) return here;
      kept_.push_back(*std::exchange(incoming_, std::nullopt));
    }
  }
  Communicator& communicator() { return communicator_; }

 private:
  struct Kept {
    int tag;
    std::vector<std::byte> bytes;
  };
  std::deque<Kept>::iterator kept_with(int tag) {
    return std::find_if(kept_.begin(), kept_.end(), [tag](const Kept& k) { return k.tag == tag; });
  }
  static Error differs(std::size_t bytes, const Tensor& data) {
    return {Code::kMismatch, Blame::kOperation,
            c10::str("the message has ", bytes, " bytes, and the tensor ", data.nbytes())};
  }
  // True: the header of the next message is in next_; the next call is for the message after it, unless here_ is set.
  Result<bool> next_header(Limit limit, std::optional<milliseconds> timeout) {
    if (std::exchange(here_, false)) return true;
    if (!announced_) {
      const Transfer t{Transfer::Direction::kReceive, peer_, next_, sizeof next_, DataType::kUint8};
      auto started = communicator_.start({&t, 1}, timeout);
      if (!started) return tl::make_unexpected(started.error());
      announced_ = std::move(*started);
    }
    auto here = ended(*announced_, limit);
    if (here && *here) announced_.reset();
    return here;
  }
  // The message whose header is in next_ goes into incoming_.
  Status start_keeping(std::optional<milliseconds> timeout) {
    incoming_.emplace(Kept{static_cast<int>(next_[0]), std::vector<std::byte>(static_cast<std::size_t>(next_[1]))});
    return start(Transfer::Direction::kReceive, incoming_->bytes.data(), incoming_->bytes.size(), timeout);
  }
  // Nothing is started where there are no bytes.
  Status start(Transfer::Direction direction, void* data, std::size_t bytes, std::optional<milliseconds> timeout) {
    if (bytes == 0) return {};
    const Transfer t{direction, peer_, data, bytes, DataType::kUint8};
    auto started = communicator_.start({&t, 1}, timeout);
    if (!started) return tl::make_unexpected(started.error());
    moving_ = std::move(*started);  // the works of one communicator end in the order in which they began
    return {};
  }
  Result<bool> moved(Limit limit) {
    if (!moving_) return true;
    auto here = ended(*moving_, limit);
    if (!here || *here) moving_.reset();
    return here;
  }
  static Result<bool> ended(weft::Work& work, Limit limit) {
    if (limit == kAtOnce) return work.test();
    if (limit) return work.wait_for(*limit);
    if (auto s = work.wait(); !s) return tl::make_unexpected(s.error());
    return true;
  }

  Communicator communicator_;
  Rank peer_;
  bool sends_;
  std::deque<Kept> kept_;
  std::int64_t header_[2] = {};          // of the message that is sent
  std::optional<weft::Work> moving_;     // of the message; null: it has not begun
  std::optional<Kept> incoming_;         // where a message goes that was not asked for; null: it was
  std::int64_t next_[2] = {};            // the header that `announced_` receives
  bool here_ = false;                    // next_ has arrived, and its message has not been asked for
  std::optional<weft::Work> announced_;  // null: none is being received ahead
};

// The messages of one channel, in the order in which they were asked for. A message moves on the thread that asks for
// it as far as that need not wait, then on the one that waits for it, and by a thread of its own where nobody does.
class Messages {
 public:
  using Open = std::function<Result<Communicator>(milliseconds timeout)>;
  struct Message {
    Tensor data;  // contiguous
    int tag;
    milliseconds timeout;
    std::function<void()> begin;               // before it moves, once
    std::function<void(const Status&)> end{};  // on the thread that moved it last, once
  };
  using Number = std::uint64_t;

  Messages(Open open, bool sends) : open_(std::move(open)), sends_(sends), queue_(alone()) {}
  ~Messages() {
    const std::lock_guard guard(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  Number start(Message message) {
    Lock guard(mutex_);
    if (closed_) {
      guard.unlock();
      message.begin();
      message.end(invalid("weft: the group has been closed: it takes no more messages"));
      return 0;
    }
    const auto now = Clock::now();
    const bool looks = thread_runs_ && now - asked_at_ < kStays - kLooksAgain;
    asked_at_ = now;
    const Number number = ++asked_for_;
    const bool small = message.data.nbytes() <= kSmall;
    waiting_.push_back({std::move(message), number, asked_at_});
    if (waiting_.size() == 1 && !moves_ && channel_) move(guard, number, Channel::kAtOnce);
    if (!waiting_.empty() && !(small && looks)) wake();
    return number;
  }
  // Moves messages on this thread, up to this one, for so long. False: another thread does.
  bool help(Number number, std::chrono::nanoseconds limit) {
    Lock guard(mutex_);
    if (waiting_.empty() || waiting_.front().number > number) return true;
    if (moves_) return false;
    if (!channel_) return wake(), false;  // others of this process may have to open theirs meanwhile
    move(guard, number, limit);
    return true;
  }
  // The thread moves what waits, without waiting for a waiter to come.
  void hurry() {
    const std::lock_guard guard(mutex_);
    if (!waiting_.empty()) wake();
  }
  // Calls use(the channel) if nothing uses it now and it is open, or can be opened in that time; use(null) otherwise.
  template <class Use>
  void now(milliseconds timeout, Use use) {
    Lock guard(mutex_);
    if (moves_ || !waiting_.empty()) return use(Result<Channel*>(nullptr));
    moves_ = true;
    guard.unlock();
    use(channel(timeout));
    guard.lock();
    moves_ = false;
    changed_.notify_all();
    if (!waiting_.empty()) wake();
  }
  // Ends the thread; what it still sends after `grace` is given up.
  void close(std::chrono::milliseconds grace) {
    {
      Lock guard(mutex_);
      closed_ = true;
      changed_.notify_all();
      if (!changed_.wait_for(guard, grace, [&] { return waiting_.empty() && !moves_; })) abort();
    }
    queue_.close();
  }
  void abort() {
    if (opened_.load(std::memory_order_acquire)) channel_->communicator().abort();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::size_t kSmall = 1 << 20;                 // bytes of a message that its waiter may move
  static constexpr std::chrono::microseconds kWaiterComes{500};  // so long the thread leaves a small message to it
  static constexpr std::chrono::milliseconds kLooksAgain{1}, kStays{20};
  struct Waiting {
    Message message;
    Number number;
    Clock::time_point since;
    bool urgent = false;  // the thread does not leave it to its waiter
    bool begun = false;
  };

  static Communicator alone() { return std::move(Communicator::threads(1).value().front()); }
  // Moves messages up to this one, and stops at one that takes longer than `limit`. The lock is held before and after,
  // not meanwhile. Requires: !moves_; there is a message.
  void move(Lock& guard, Number last, Channel::Limit limit) {
    moves_ = true;
    while (!waiting_.empty() && waiting_.front().number <= last) {
      Waiting& front = waiting_.front();  // others are added behind it meanwhile
      guard.unlock();
      if (!std::exchange(front.begun, true)) front.message.begin();
      const auto ended = moved(front.message, limit);
      const bool over = !ended || *ended;
      if (over) front.message.end(ended ? Status() : Status(tl::make_unexpected(ended.error())));
      if (over) front.message = {};  // what it keeps is dropped without the lock
      guard.lock();
      if (!over) break;
      waiting_.pop_front();
    }
    moves_ = false;
    if (closed_ || !waiting_.empty()) changed_.notify_all();
  }
  // Errors: also those that are thrown, so that what waits for a message always ends.
  Result<bool> moved(const Message& m, Channel::Limit limit) try {
    auto open = channel(m.timeout);
    if (!open) return tl::make_unexpected(open.error());
    return sends_ ? (*open)->send(m.data, m.tag, limit, m.timeout) : (*open)->receive(m.data, m.tag, limit, m.timeout);
  } catch (const std::exception& e) {
    return tl::make_unexpected(Error{Code::kInternal, Blame::kOperation, e.what()});
  }
  // Requires: moves_.
  Result<Channel*> channel(milliseconds timeout) {
    if (!channel_) {
      auto made = open_(timeout);
      if (!made) return tl::make_unexpected(made.error());
      channel_.emplace(std::move(*made), sends_);
      opened_.store(true, std::memory_order_release);
    }
    return &*channel_;
  }
  // Requires: the lock.
  void wake() {
    for (Waiting& w : waiting_) w.urgent = true;
    if (std::exchange(thread_runs_, true))
      changed_.notify_all();
    else
      queue_.start([this](Communicator&) -> Status { return run(), Status(); });
  }
  // The thread. It looks again every kLooksAgain while messages are asked for, so that small ones need not wake it.
  void run() {
    Lock guard(mutex_);
    for (;;) {
      const auto now = Clock::now();
      if (waiting_.empty() && (closed_ || now - asked_at_ > kStays)) break;
      if (!waiting_.empty() && !moves_ &&
          (closed_ || waiting_.front().urgent || now - waiting_.front().since > kWaiterComes))
        move(guard, waiting_.front().number, std::nullopt);
      else
        changed_.wait_for(guard, now - asked_at_ < kStays ? kLooksAgain : kStays);
    }
    thread_runs_ = false;
  }

  std::mutex mutex_;                 // of all but channel_ and open_, which are those of the thread that set moves_
  std::condition_variable changed_;  // the thread sleeps on it, and close()
  std::deque<Waiting> waiting_;      // the first may have begun
  Number asked_for_ = 0;
  Clock::time_point asked_at_{};  // the last one
  bool moves_ = false;            // a thread uses the channel
  bool thread_runs_ = false;      // run() does
  bool closed_ = false;
  Open open_;
  bool sends_;
  std::optional<Channel> channel_;
  std::atomic<bool> opened_{false};
  Queue queue_;  // last: its thread uses all the others
};

}  // namespace weft::torch_adapter
