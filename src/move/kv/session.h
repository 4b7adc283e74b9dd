#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "move/kv/state.h"
#include "move/kv/wire.h"
#include "move/transfer/outbox.h"
#include "net/bootstrap/handshake.h"
#include "net/bootstrap/socket.h"

namespace weft::kv {

// What the sessions of a server have in common. All of it outlives them.
struct Serving {
  std::shared_ptr<detail::StoreState> store;
  net::bootstrap::Key key{};
  std::chrono::milliseconds most_lease{0};
};

// The serving side of a connection to one client, which is a stranger until it has proved the key and said hello. What
// the client holds ends by its deadline, and with the session. Never blocks. Thread: one at a time.
class Session {
 public:
  using Clock = std::chrono::steady_clock;
  // `greeted`: the client has proved its key by other means.
  Session(net::bootstrap::UniqueFd fd, const Serving& serving, bool greeted = false);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  bool stranger() const { return !known_; }
  Clock::time_point since() const { return since_; }
  short events() const;
  // Reads and answers what the socket has.
  void advance();
  // Ends what is past its deadline, and a stranger that has said too little for too long.
  void expire(Clock::time_point now);
  // When expire() has something to do next.
  Clock::time_point next_deadline() const { return next_deadline_; }

 private:
  struct Held {
    Clock::time_point deadline;
    bool writes = false;
  };
  void greet();
  bool receive();
  void answer();
  void hello();
  void hold();
  void close(std::uint64_t id);
  void give_back(std::uint64_t id, const Held& held);
  void reply(Answer answer, std::span<const transfer::Page> pages = {}, std::string_view text = {});
  Clock::time_point deadline() const;
  void send_answers();

  net::bootstrap::UniqueFd fd_;
  const Serving& serving_;
  std::optional<net::bootstrap::Handshake> handshake_;
  Clock::time_point since_ = Clock::now(), next_deadline_ = Clock::time_point::max();
  bool known_ = false;
  std::map<std::uint64_t, Held> held_;
  Question question_;
  bool have_question_ = false;
  std::size_t got_ = 0;
  std::vector<BlockKey> keys_;
  transfer::Outbox out_;
};

}  // namespace weft::kv
