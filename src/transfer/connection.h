#pragma once

#include <chrono>
#include <functional>

#include "net/bootstrap/handshake.h"
#include "transfer/outbox.h"
#include "transfer/regions.h"
#include "transfer/wire.h"

namespace weft::transfer {

// What the connections of a server have in common. All of it outlives them.
struct Served {
  const net::bootstrap::Key& key;
  const Regions& regions;
  const Segment& segment;
  std::function<bool(const std::string& peer, std::string bytes)> deliver;  // false: the inbox is full
};

// The serving side of a connection to one peer: a stranger until it has proved that it has the key and has said which
// agent it means. Never blocks. Thread: one at a time.
class Connection {
 public:
  // `greeted`: the peer has proved its key by other means.
  Connection(net::bootstrap::UniqueFd fd, const Served& served, bool greeted = false);
  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  bool stranger() const { return peer_.empty(); }
  bool greets() const { return handshake_.has_value(); }
  std::chrono::steady_clock::time_point since() const { return since_; }
  short events() const;
  bool blocked() const { return blocked_; }  // on the inbox: to be tried again
  void advance();

 private:
  bool carries_data() const { return question_.ask != Ask::kRead; }
  void greet();
  bool receive();
  bool begin_question();
  bool answer();
  void hello();
  void move(const Region& region);
  void reply(const Answer& answer) { out_.put(answer); }
  Answer read(const Region& region, PageWord& page, std::byte* into) const;
  Answer write(const Region& region, PageWord& page) const;
  void send_answers();

  net::bootstrap::UniqueFd fd_;
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
