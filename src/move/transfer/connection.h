#pragma once

#include <chrono>
#include <functional>

#include "move/transfer/channel.h"
#include "move/transfer/regions.h"
#include "move/transfer/wire.h"
#include "net/bootstrap/handshake.h"

namespace weft::transfer {

// What the connections of a server have in common. All of it outlives them.
struct Served {
  const net::bootstrap::Key& key;
  const Regions& regions;
  const Segment& segment;
  std::function<bool(const std::string& peer, std::string bytes)> deliver;  // false: the inbox is full
  std::shared_ptr<net::ucx::Context> ucx = nullptr;                         // null: peers are served by TCP only
};

// The serving side of a connection to one peer: a stranger until it has proved that it has the key and has said which
// agent it means. Never blocks. Thread: one at a time.
class Connection {
 public:
  // `greeted`: the peer has proved its key by other means.
  Connection(net::bootstrap::UniqueFd fd, const Served& served, bool greeted = false);
  bool open() const { return channel_ != nullptr; }
  bool stranger() const { return peer_.empty(); }
  bool greets() const { return handshake_.has_value(); }
  std::chrono::steady_clock::time_point since() const { return since_; }
  // Adds what poll() is to wait for. False: advance() has something to do already. Requires: open.
  bool watch(std::vector<pollfd>& list) const;
  bool blocked() const { return blocked_; }  // on the inbox: to be tried again
  void advance();

 private:
  bool carries_data() const { return question_.ask != Ask::kRead; }
  std::size_t backlog() const { return out_.waiting() + channel_->unsent(); }
  void close() { channel_.reset(); }
  void greet();
  bool receive();
  bool begin_question();
  bool answer();
  void hello();
  void join_ucx();
  // The answer to it: the address, or as text why there is none.
  void answer_join(Verdict verdict, bool near, std::span<const std::byte> bytes);
  void move(const Region& region);
  void reply(const Answer& answer) { out_.put(answer); }
  bool asker_is_there() const;
  Answer read(const Region& region, PageWord& page, std::byte* into) const;
  Answer write(const Region& region, PageWord& page) const;
  void send_answers();

  std::unique_ptr<Channel> channel_;            // null: the connection has ended
  std::unique_ptr<net::ucx::ByteStream> next_;  // joined, and used once the answers before it are sent
  bool by_ucx_ = false;
  const Served& served_;
  std::optional<net::bootstrap::Handshake> handshake_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::string peer_;
  Question question_;
  bool have_question_ = false, blocked_ = false;
  std::size_t got_ = 0;
  std::vector<std::byte> data_;
  Outbox out_;
};

}  // namespace weft::transfer
