#pragma once

#include "move/transfer/inbox.h"
#include "move/transfer/regions.h"
#include "move/transfer/ucx_channel.h"
#include "move/transfer/wire.h"
#include "net/link/framed.h"
#include "net/link/loop.h"

namespace weft::transfer {

// What the connections of a server have in common. All of it outlives them.
struct Served {
  const Regions& regions;
  const Segment& segment;
  Inbox& inbox;
  std::shared_ptr<net::ucx::Context> ucx = nullptr;  // null: peers are served by TCP only
};

// The serving side of a connection to one peer, which is known once it has said which agent it means. Never blocks.
// Thread: one at a time.
class Connection final : public net::link::Connection {
 public:
  // Both sides have greeted each other.
  Connection(UniqueFd fd, const Served& served) : channel_(net::link::over_socket(std::move(fd))), served_(served) {}
  bool open() const override { return channel_ != nullptr; }
  bool known() const override { return !peer_.empty(); }
  bool watch(std::vector<pollfd>& list) override;
  // Whether the owner has taken notifications is looked at again.
  Clock::time_point due() const override { return needs_grant() ? look_again_ : Clock::time_point::max(); }
  void advance() override;

 private:
  std::size_t backlog() const { return out_.waiting() + channel_->unsent(); }
  void close() { channel_.reset(); }
  bool receive();
  std::optional<std::span<std::byte>> place(const Question& question);
  void answer();
  void hello();
  void take_notification();
  bool needs_grant() const;
  void grant_more();
  std::uint32_t grant();
  void join_ucx();
  // The answer to it: the address, or as text why there is none.
  void answer_join(Verdict verdict, bool near, std::span<const std::byte> bytes);
  void move(const Region& region);
  void reply(Answer answer) {
    answer.granted = grant();
    out_.put(answer);
  }
  bool asker_is_there() const;
  Answer read(const Region& region, PageWord& page, std::byte* into) const;
  Answer write(const Region& region, PageWord& page) const;
  void send_answers();

  std::unique_ptr<net::link::Channel> channel_;  // null: the connection has ended
  std::unique_ptr<net::ucx::ByteStream> next_;   // joined, and used once the answers before it are sent
  bool by_ucx_ = false;
  const Served& served_;
  std::string peer_;
  net::link::Framed<Question> frame_;
  Question question_;  // the frame's
  const std::shared_ptr<Inbox::Taken> taken_ = std::make_shared<Inbox::Taken>(0);
  std::uint32_t window_ = 0, granted_ = 0, notified_ = 0;  // granted_, notified_: bytes since the connection began
  Clock::time_point look_again_{};
  std::vector<std::byte> data_;
  net::link::Outbox out_;
};

}  // namespace weft::transfer
