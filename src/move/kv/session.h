#pragma once

#include <map>
#include <optional>

#include "move/kv/state.h"
#include "move/kv/wire.h"
#include "net/link/channel.h"
#include "net/link/framed.h"
#include "net/link/loop.h"

namespace weft::kv {

// What the sessions of a server have in common. All of it outlives them.
struct Serving {
  std::shared_ptr<detail::StoreState> store;
  std::chrono::milliseconds most_lease{0};
};

// The serving side of a connection to one client, which is known once it has said hello. What the client holds ends by
// its deadline, and with the session. Never blocks. Thread: one at a time.
class Session final : public net::link::Connection {
 public:
  // Both sides have greeted each other.
  Session(UniqueFd fd, const Serving& serving) : channel_(net::link::over_socket(std::move(fd))), serving_(serving) {}
  ~Session() override;

  bool open() const override { return channel_ != nullptr; }
  bool known() const override { return known_; }
  bool watch(std::vector<pollfd>& list) override;
  // The next deadline.
  Clock::time_point due() const override { return next_deadline_; }
  // Ends what is past its deadline, then reads and answers what the socket has: a lease is over when its deadline has
  // passed.
  void advance() override;

 private:
  struct Held {
    Clock::time_point deadline;
    bool writes = false;
  };
  void expire(Clock::time_point now);
  bool receive();
  void answer();
  void hello();
  void hold();
  void close(std::uint64_t id);
  void give_back(std::uint64_t id, const Held& held);
  void reply(Answer answer, std::span<const transfer::Page> pages = {}, std::string_view text = {});
  Clock::time_point deadline() const;
  void send_answers();

  std::unique_ptr<net::link::Channel> channel_;  // null: the connection has ended
  const Serving& serving_;
  Clock::time_point next_deadline_ = Clock::time_point::max();
  bool known_ = false;
  std::map<std::uint64_t, Held> held_;
  net::link::Framed<Question> frame_;
  Question question_;  // the frame's
  std::vector<BlockKey> keys_;
  net::link::Outbox out_;
};

}  // namespace weft::kv
