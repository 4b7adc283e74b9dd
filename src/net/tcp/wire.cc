#include "net/tcp/wire.h"

#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/tcp/crc32c.h"

namespace weft::net::tcp {
namespace {

constexpr std::size_t kZeroCopyFrom = 64 << 10;  // below, pinning pages costs more than copying
constexpr int kProbes = 8;                       // zero copy that the kernel turns into copies so often is given up

constexpr std::uint32_t kNear = 200;    // microseconds to and fro
constexpr int kNearBuffer = 128 << 10;  // measured: bench/results, tcp

}  // namespace

void Wire::attach(bootstrap::UniqueFd fd, std::chrono::milliseconds timeout) {
  fd_ = std::move(fd);
  const auto set = [&](int level, int option, int value) {
    return setsockopt(fd_.get(), level, option, &value, sizeof value) == 0;
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  bootstrap::end_when_cut(fd_.get(), timeout);
  // Where acknowledgements come back at once, a deep queue gains nothing, and what waits in it falls out of the cache.
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_min_rtt < kNear) {
    set(SOL_SOCKET, SO_SNDBUF, kNearBuffer);
    choose_congestion_control();
  }
  const auto here = bootstrap::local_address(fd_.get());
  if (zero_copy_ == ZeroCopy::kAuto && here.loopback()) zero_copy_ = ZeroCopy::kOff;  // the kernel copies anyway
  if (zero_copy_ != ZeroCopy::kOff && !set(SOL_SOCKET, SO_ZEROCOPY, 1)) zero_copy_ = ZeroCopy::kOff;
  flush();
}

// BBR sends small bursts by a timer; between near peers that costs more than the queues that it avoids (bench/results,
// tcp). Reno is in every kernel, and no process needs a privilege for it.
void Wire::choose_congestion_control() {
  char name[16] = {};
  socklen_t length = sizeof name - 1;
  constexpr std::string_view kReno = "reno";
  if (getsockopt(fd_.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && std::string_view(name) == "bbr")
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

void Wire::end(const std::string& reason) {
  if (ended_) return;
  ended_ = true;
  end_reason_ = reason;
  queue_.clear();
  unconfirmed_.clear();
}

ssize_t Wire::write_some(const iovec* parts, int count, int flags) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count);
  for (;;) {
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return 0;
    // What the peer sent before may still be there to be read: receive() finds the end.
    if (errno != EPIPE && errno != ECONNRESET) end(std::strerror(errno));
    queue_.clear();
    unconfirmed_.clear();
    return -1;
  }
}

void Wire::send(const Frame& frame, const std::byte* payload, Block block, bool more_follows) {
  if (ended_) return;
  Outgoing out{.header = {.sequence = ++frames_sent_, .frame = frame}, .payload = payload, .block = std::move(block)};
  if (frame.length > 0) out.header.payload_crc = crc32c(0, payload, frame.length);
  seal(out.header);
  const bool zero = zero_copy_ != ZeroCopy::kOff && frame.length >= kZeroCopyFrom;
  if (!attached() || !queue_.empty() || more_follows || zero) {
    queue_.push_back(std::move(out));
    if (!more_follows) flush();
    return;
  }
  const iovec parts[2] = {{&out.header, sizeof(Header)}, {const_cast<std::byte*>(payload), frame.length}};
  const ssize_t n = write_some(parts, frame.length > 0 ? 2 : 1, 0);
  if (n < 0 || static_cast<std::size_t>(n) == out.bytes()) return;
  out.sent = static_cast<std::size_t>(n);
  queue_.push_back(std::move(out));
}

bool Wire::flush() {
  if (!unconfirmed_.empty()) confirm();
  if (!attached()) return queue_.empty();
  while (!queue_.empty()) {
    Outgoing& front = queue_.front();
    if (zero_copy_ != ZeroCopy::kOff && front.header.frame.length >= kZeroCopyFrom) {
      if (!flush_zero_copy(front)) return queue_.empty() && unconfirmed_.empty();
      continue;
    }
    constexpr int kMost = 16;
    iovec parts[kMost];
    int count = 0;
    for (const Outgoing& o : queue_) {
      if (count + 2 > kMost) break;
      if (o.header.frame.length >= kZeroCopyFrom && zero_copy_ != ZeroCopy::kOff) break;
      const std::size_t skip = o.sent;
      if (skip < sizeof(Header))
        parts[count++] = {const_cast<char*>(reinterpret_cast<const char*>(&o.header)) + skip, sizeof(Header) - skip};
      const std::size_t done = skip < sizeof(Header) ? 0 : skip - sizeof(Header);
      if (done < o.header.frame.length)
        parts[count++] = {const_cast<std::byte*>(o.payload) + done, o.header.frame.length - done};
    }
    ssize_t n = write_some(parts, count, 0);
    if (n <= 0) return queue_.empty() && unconfirmed_.empty();
    while (n > 0) {
      Outgoing& o = queue_.front();
      const std::size_t part = std::min(static_cast<std::size_t>(n), o.bytes() - o.sent);
      o.sent += part;
      n -= static_cast<ssize_t>(part);
      if (o.sent == o.bytes()) queue_.pop_front();
    }
  }
  return unconfirmed_.empty();
}

// One step of a large frame: its header by copy, its bytes from where they lie. False: the socket takes no more.
bool Wire::flush_zero_copy(Outgoing& front) {
  if (front.sent < sizeof(Header)) {
    const iovec part{reinterpret_cast<char*>(&front.header) + front.sent, sizeof(Header) - front.sent};
    const ssize_t n = write_some(&part, 1, MSG_MORE);
    if (n <= 0) return false;
    front.sent += static_cast<std::size_t>(n);
    return true;
  }
  const std::size_t done = front.sent - sizeof(Header);
  const iovec part{const_cast<std::byte*>(front.payload) + done, front.header.frame.length - done};
  const ssize_t n = write_some(&part, 1, MSG_ZEROCOPY);
  if (n <= 0) return false;
  front.last_id = next_id_++;
  front.zero_copied = true;
  front.sent += static_cast<std::size_t>(n);
  if (front.sent == front.bytes()) {
    unconfirmed_.push_back(std::move(front));
    queue_.pop_front();
  }
  return true;
}

// Takes the kernel's word that it has done reading; it comes in order on a TCP socket.
void Wire::confirm() {
  for (;;) {
    char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(fd_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      sock_extended_err error;
      std::memcpy(&error, CMSG_DATA(c), sizeof error);
      if (error.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
      confirmed_ = error.ee_data + 1;
      copied_ = (error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0 ? copied_ + 1 : 0;
      if (zero_copy_ == ZeroCopy::kAuto && copied_ >= kProbes) zero_copy_ = ZeroCopy::kOff;
    }
  }
  while (!unconfirmed_.empty() && static_cast<std::int32_t>(confirmed_ - unconfirmed_.front().last_id) > 0)
    unconfirmed_.pop_front();
}

bool Wire::touches(const std::byte* begin, const std::byte* end) const {
  const auto overlaps = [&](const Outgoing& o) {
    return !o.block && o.payload != nullptr && o.payload < end && begin < o.payload + o.header.frame.length;
  };
  return std::any_of(queue_.begin(), queue_.end(), overlaps) ||
         std::any_of(unconfirmed_.begin(), unconfirmed_.end(), overlaps);
}

// Into `first`, what more there is into staging. Requires: staging is used up, or `first` is staging's free end.
ssize_t Wire::read_some(std::byte* first, std::size_t first_bytes) {
  iovec parts[2] = {{first, first_bytes}, {staging_.data(), kStaging}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = in_payload_ ? 2 : 1;
  for (;;) {
    const ssize_t n = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n > 0) return n;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    closed_ = n == 0;
    end(n == 0 ? "its connection was closed" : fmt::format("its connection broke: {}", std::strerror(errno)));
    return -1;
  }
}

bool Wire::receive(Receiver& receiver) {
  if (!attached() || ended_) return false;
  bool moved = false, pauses = false;
  for (;;) {
    while (next_frame(receiver, pauses)) {
      moved = true;
      if (pauses || ended_) return true;
    }
    if (ended_) return true;
    ssize_t n;
    if (in_payload_) {
      n = read_some(into_, left_);
      if (n > 0) {
        const std::size_t own = std::min(static_cast<std::size_t>(n), left_);
        crc_ = crc32c(crc_, into_, own);
        into_ += own;
        left_ -= own;
        begin_ = 0;
        end_ = static_cast<std::size_t>(n) - own;
      }
    } else {
      if (begin_ > 0) {
        std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      }
      n = read_some(staging_.data() + end_, kStaging - end_);
      if (n > 0) end_ += static_cast<std::size_t>(n);
    }
    if (n == 0) return moved;
    moved = true;
  }
}

// Works on what has been read: completes a frame's bytes, or begins the next. False: it needs more bytes.
bool Wire::next_frame(Receiver& receiver, bool& pauses) {
  if (!in_payload_) {
    if (end_ - begin_ < sizeof(Header)) return false;
    std::memcpy(&header_, staging_.data() + begin_, sizeof(Header));
    if (const std::string fault = fault_of(header_, frames_received_ + 1); !fault.empty()) {
      receiver.damaged(peer_, fault);
      end(fault);
      return true;
    }
    ++frames_received_;
    begin_ += sizeof(Header);
    if (header_.frame.kind != FrameKind::kData) {
      pauses = receiver.arrived(peer_, header_.frame, nullptr);
      return true;
    }
    placed_ = into_ = receiver.place(peer_, header_.frame);
    if (into_ == nullptr) {
      end("its messages are out of turn");
      return true;
    }
    left_ = header_.frame.length;
    crc_ = 0;
    in_payload_ = true;
  }
  if (const std::size_t staged = std::min(left_, end_ - begin_); staged > 0) {
    std::memcpy(into_, staging_.data() + begin_, staged);
    crc_ = crc32c(crc_, into_, staged);
    into_ += staged;
    left_ -= staged;
    begin_ += staged;
  }
  if (left_ > 0) return false;
  in_payload_ = false;
  if (crc_ != header_.payload_crc) {
    const Frame& f = header_.frame;
    const std::string what = fmt::format("message {} of strand {}, bytes {} to {}: checksum {:08x} instead of {:08x}",
                                         f.number, f.strand, f.offset, f.offset + f.length, crc_, header_.payload_crc);
    receiver.damaged(peer_, what);
    end(what);
    return true;
  }
  pauses = receiver.arrived(peer_, header_.frame, placed_);
  return true;
}

}  // namespace weft::net::tcp
