#pragma once

#include <deque>
#include <string_view>

#include "move/transfer/segment.h"
#include "move/transfer/ucx_channel.h"
#include "move/transfer/wire.h"
#include "net/link/framed.h"
#include "net/link/key.h"
#include "net/ucx/ucx.h"

namespace weft::transfer {

// The asking side of a connection to one peer; never blocks after open(). Thread: one at a time.
class Line {
 public:
  // Called with the answer to a question, and whether its data arrived whole.
  using Done = std::function<void(const Answer& answer, bool whole)>;
  // Where the data of a read goes, asked when it arrives; null: it is thrown away.
  using Into = std::function<std::byte*()>;

  // `ucx`: goes on over UCX once both have greeted each other; null: stays with TCP. Errors: kPeerDied, kTimeout,
  // kNotFound (another agent answers there), a refused key, kUnsupported (not over UCX).
  static Result<std::unique_ptr<Line>> open(const net::link::Address& to, const net::link::Key& key, const Nonce& peer,
                                            const std::string& self, std::chrono::milliseconds timeout,
                                            std::shared_ptr<net::ucx::Context> ucx = nullptr);
  // Over a connection whose both ends have greeted each other.
  static std::unique_ptr<Line> over(UniqueFd fd) {
    return std::unique_ptr<Line>(new Line(net::link::over_socket(std::move(fd))));
  }
  // Whether there is room for another question.
  bool has_room() const { return under_way_ < kMostUnderWay; }
  // `data`: copied here, and for a write summed up in the question. Returns that checksum.
  std::uint32_t ask(Question question, std::span<const std::byte> data, Into into, Done done);
  // Asks to deliver a notification. False: its bytes are more than the peer has granted; nothing is sent.
  bool notify(std::string_view bytes, Done done = nullptr);
  // Whether every notification has left this process; whether the peer's server has every one.
  bool notifications_left() const { return put_ - unsent() >= notifications_end_; }
  bool notifications_arrived() const { return unconfirmed_ == 0; }
  // Adds what a caller that has nothing else to do may wait for. False: there is something to do at once.
  bool watch(std::vector<pollfd>& list) const {
    return channel_ != nullptr && channel_->watch(list, true, out_.waiting() > 0);
  }
  // Forgets what is under way, without answers: the requests that wait for them hold the peer, and it holds this line.
  // What has not arrived never does; the peer's server drops what it has not applied.
  void close();
  // It can carry nothing any more.
  bool over() const { return channel_ == nullptr || broken_; }
  // Sends and receives as far as it goes without waiting. Errors: the connection has broken; it stays so.
  Status advance();
  // Until `done`; false: it was not by then.
  Result<bool> advance_until(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& done);

 private:
  struct Waiting {
    std::int64_t bytes = 0;   // of the question and its data, as under_way_ counts
    std::int64_t wanted = 0;  // of data that the answer may have
    Into into;
    Done done;
    bool notifies = false;
  };
  static constexpr std::int64_t kMostUnderWay = 8 << 20;
  explicit Line(std::unique_ptr<net::link::Channel> channel) : channel_(std::move(channel)) {}
  Result<Verdict> answer_to(Question question, std::span<const std::byte> data, Into into,
                            std::chrono::steady_clock::time_point deadline, const std::string& peer);
  Status join_ucx(std::shared_ptr<net::ucx::Context> ucx, std::chrono::steady_clock::time_point deadline,
                  const std::string& peer);
  std::size_t unsent() const { return out_.waiting() + (over() ? 0 : channel_->unsent()); }
  Result<bool> receive();
  std::optional<std::span<std::byte>> place(const Answer& answer);
  std::byte* scratch(std::size_t bytes);
  void finish(bool whole);

  std::unique_ptr<net::link::Channel> channel_;  // null: closed
  net::link::Outbox out_;
  std::vector<std::byte> scratch_;  // of data that nobody wants any more
  net::link::Framed<Answer> frame_;
  std::deque<Waiting> waiting_;
  std::int64_t under_way_ = 0;
  std::uint32_t granted_ = 0, notified_ = 0;     // as Answer::granted
  std::size_t put_ = 0, notifications_end_ = 0;  // bytes for the channel, in all and up to the last notification
  std::int64_t unconfirmed_ = 0;                 // notifications
  bool broken_ = false;
};

}  // namespace weft::transfer
