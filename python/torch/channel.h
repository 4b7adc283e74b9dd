#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "elements.h"
#include "errors.h"
#include "weft/queue.h"

namespace weft::torch_adapter {

// Messages of one rank to one other: a communicator of two of their own, so that they need not keep to the order of
// collectives or of other pairs. A header of tag and bytes precedes every message; what a receive does not ask for is
// kept for a later one. Thread: all calls of a channel run one after the other on its lane.
class Channel {
 public:
  Channel(Communicator c, bool sends) : communicator_(std::move(c)), peer_(1 - communicator_.rank()), sends_(sends) {}

  bool sends() const { return sends_; }
  Status send(const Tensor& data, int tag) {
    std::int64_t header[2] = {tag, static_cast<std::int64_t>(data.nbytes())};
    if (auto s = transfer(Transfer::Direction::kSend, header, 16); !s) return s;
    return transfer(Transfer::Direction::kSend, data.data_ptr(), data.nbytes());
  }
  Status receive(const Tensor& data, int tag) {
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->tag == tag) {
        const Kept found = std::move(*at);
        kept_.erase(at);
        if (found.bytes.size() != data.nbytes()) return differs(found.bytes.size(), data);
        std::memcpy(data.data_ptr(), found.bytes.data(), found.bytes.size());
        return {};
      }
    for (;;) {
      std::int64_t header[2];
      if (auto s = take_header(header); !s) return s;
      const auto bytes = static_cast<std::size_t>(header[1]);
      if (header[0] == tag && bytes == data.nbytes())
        return transfer(Transfer::Direction::kReceive, data.data_ptr(), bytes);
      Kept kept{static_cast<int>(header[0]), std::vector<std::byte>(bytes)};
      if (auto s = transfer(Transfer::Direction::kReceive, kept.bytes.data(), bytes); !s) return s;
      if (header[0] == tag) return differs(bytes, data);
      kept_.push_back(std::move(kept));
    }
  }
  // Is a message with this tag here, or about to be? Does not wait.
  Result<bool> offers(int tag) {
    for (const Kept& k : kept_)
      if (k.tag == tag) return true;
    for (;;) {
      if (!announced_) {
        const Transfer t{Transfer::Direction::kReceive, peer_, next_, 16, DataType::kUint8};
        auto started = communicator_.start({&t, 1});
        if (!started) return tl::make_unexpected(started.error());
        announced_ = *started;
      }
      const auto here = announced_->test();
      if (!here || !*here) return here;
      if (next_[0] == tag) return true;
      Kept kept{static_cast<int>(next_[0]), std::vector<std::byte>(static_cast<std::size_t>(next_[1]))};
      announced_.reset();
      if (auto s = transfer(Transfer::Direction::kReceive, kept.bytes.data(), kept.bytes.size()); !s)
        return tl::make_unexpected(s.error());
      kept_.push_back(std::move(kept));
    }
  }
  Communicator& communicator() { return communicator_; }

 private:
  struct Kept {
    int tag;
    std::vector<std::byte> bytes;
  };
  static Status differs(std::size_t bytes, const Tensor& data) {
    return invalid(c10::str("weft: recv of ", data.nbytes(), " bytes, but the message has ", bytes));
  }
  Status take_header(std::int64_t (&header)[2]) {
    if (announced_) {
      if (auto s = announced_->wait(); !s) return s;
      announced_.reset();
      std::memcpy(header, next_, sizeof header);
      return {};
    }
    return transfer(Transfer::Direction::kReceive, header, 16);
  }
  Status transfer(Transfer::Direction direction, void* data, std::size_t bytes) {
    if (bytes == 0) return {};
    const Transfer t{direction, peer_, data, bytes, DataType::kUint8};
    return communicator_.exchange({&t, 1});
  }

  Communicator communicator_;
  Rank peer_;
  bool sends_;
  std::deque<Kept> kept_;
  std::int64_t next_[2] = {};            // the header that `announced_` receives
  std::optional<weft::Work> announced_;  // null: none is being received ahead
};

// A thread on which the messages of one channel move, in the order in which they were asked for.
class ChannelThread {
 public:
  using Open = std::function<Result<Communicator>()>;
  ChannelThread(Open open, bool sends) : open_(std::move(open)), sends_(sends), queue_(alone()) {}

  void start(std::function<void(Result<Channel*>)> job) {
    queue_.start([this, job = std::move(job)](Communicator&) -> Status {
      const std::lock_guard guard(mutex_);
      job(channel());
      return {};
    });
  }
  // The channel if nothing uses it now and it is open, or `open_too`; null otherwise.
  template <class Use>
  auto now(Use use) {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    return use(guard.owns_lock() ? channel() : Result<Channel*>(nullptr));
  }
  // Ends the thread; what it still sends after `grace` is given up.
  void close(std::chrono::milliseconds grace) {
    if (!queue_.start([](Communicator&) -> Status { return {}; }).wait_for(grace)) abort();
    queue_.close();
  }
  void abort() {
    if (opened_.load(std::memory_order_acquire)) channel_->communicator().abort();
  }

 private:
  static Communicator alone() { return std::move(Communicator::threads(1).value().front()); }
  Result<Channel*> channel() {
    if (!channel_) {
      auto made = open_();
      if (!made) return tl::make_unexpected(made.error());
      channel_.emplace(std::move(*made), sends_);
      opened_.store(true, std::memory_order_release);
    }
    return &*channel_;
  }

  std::mutex mutex_;  // of the channel
  Open open_;
  bool sends_;
  std::optional<Channel> channel_;
  std::atomic<bool> opened_{false};
  Queue queue_;  // last: its thread uses all the others
};

}  // namespace weft::torch_adapter
