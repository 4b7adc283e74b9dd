// What a wire with a journal does beyond others: what it sends stays until the peer has confirmed it, so that a lost
// connection loses no frame.

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include "net/tcp/wire.h"

namespace weft::net::tcp {
namespace {

// Timeouts of the kernel, one behind the other, without an acknowledgement: 0.2, 0.4 and 0.8 s at the least.
constexpr int kSilentTimeouts = 3;

bool info_of(int fd, tcp_info& info) {
  socklen_t length = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
}

}  // namespace

void Wire::report(const Loss& loss) {
  const Frame frame{.number = loss.received, .tag = std::uint64_t{loss.before} << 32 | loss.lane};
  send({.header = {.flags = kBare | kLost, .frame = frame}, .payload = nullptr, .block = Block()}, false);
}

std::optional<Header> Wire::unfinished() const {
  if (!in_payload_) return std::nullopt;
  return header_;
}

void Wire::freeze() {
  if (attached()) reset("it is lost");
  ended_ = frozen_ = true;
}

void Wire::hand_over(std::uint32_t received, Wire& to) {
  std::deque<Outgoing> queue;
  queue.swap(queue_);
  drop_queue();
  frozen_ = false;
  for (Outgoing& out : queue) {
    const bool says_loss = (out.header.flags & kLost) != 0;
    const bool numbered = out.header.sequence != 0;
    if (numbered && static_cast<std::int32_t>(received - out.header.sequence) >= 0) continue;
    if ((out.header.flags & kBare) != 0 && !says_loss) continue;
    const bool encrypted = out.plain != nullptr;
    to.send({.header = {.flags = out.header.flags,
                        .frame = out.header.frame,
                        .context = out.header.context,
                        .payload_crc = out.header.payload_crc},
             .payload = encrypted ? out.plain : out.payload,
             .block = std::move(encrypted ? out.plain_block : out.block),
             .own = out.own},
            false);
  }
  sealer_.reset();
  opener_.reset();
  frames_sent_ = frames_received_ = confirmed_ = since_confirmed_ = 0;
  owes_confirmation_ = in_payload_ = ended_ = closed_ = watched_for_output = false;
  end_reason_.clear();
  left_ = begin_ = end_ = 0;
  close();
}

Bytes Wire::backlog() const {
  int unacknowledged = 0;
  if (attached()) ioctl(fd(), SIOCOUTQ, &unacknowledged);
  Bytes bytes = unacknowledged;
  for (std::size_t i = gone_; i < queue_.size(); ++i) bytes += static_cast<Bytes>(queue_[i].bytes() - queue_[i].sent);
  return bytes;
}

bool Wire::silent() const {
  tcp_info info{};
  return attached() && info_of(fd(), info) && info.tcpi_unacked > 0 && info.tcpi_retransmits >= kSilentTimeouts;
}

}  // namespace weft::net::tcp
