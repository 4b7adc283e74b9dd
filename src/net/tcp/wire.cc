#include "net/tcp/wire.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/tcp/crc32c.h"

namespace weft::net::tcp {
namespace {

constexpr std::size_t kSpliceFrom =
    48 << 10;  // below, waiting for the peer costs more than a copy (bench/results, tcp)

constexpr std::uint32_t kConfirmEvery = 16;  // with a journal: frames that stay at the sender at the most

constexpr std::uint32_t kNear = 200;    // microseconds to and fro
constexpr int kNearBuffer = 512 << 10;  // measured: bench/results, tcp

}  // namespace

void Wire::seal_by(const link::Sealing& sealing, const link::Handshake& greeting) {
  using Side = link::Sealer::Side;
  const bool opened = greeting.role() == link::Handshake::Role::kOpener;
  sealer_.emplace(sealing, greeting.session_key(), opened ? Side::kOpener : Side::kAcceptor, true);
  opener_.emplace(sealing, greeting.session_key(), opened ? Side::kAcceptor : Side::kOpener, false);
  for (Outgoing& out : queue_) {
    number(out.header);
    seal(out);
  }
}

void Wire::attach(UniqueFd fd, std::chrono::milliseconds timeout) {
  fd_ = std::move(fd);
  const auto set = [&](int level, int option, int value) {
    return setsockopt(fd_.get(), level, option, &value, sizeof value) == 0;
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  link::end_when_cut(fd_.get(), timeout);
  // Where acknowledgements come back at once, a deep queue gains nothing, and what waits in it falls out of the cache.
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_min_rtt < kNear)
    set(SOL_SOCKET, SO_SNDBUF, kNearBuffer);
  flush();
}

void Wire::end(const std::string& reason) {
  if (ended_) return;
  ended_ = true;
  end_reason_ = reason;
  if (journal_ == nullptr) drop_queue();
}

void Wire::reset(const std::string& reason) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  end(reason);
  close();
}

ssize_t Wire::write_some(const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count);
  for (;;) {
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return 0;
    return write_failed();
  }
}

// What the peer sent before may still be there to be read: receive() finds the end.
ssize_t Wire::write_failed() {
  if (errno != EPIPE && errno != ECONNRESET) end(std::strerror(errno));
  if (journal_ == nullptr) drop_queue();
  return -1;
}

void Wire::drop_queue() {
  queue_.clear();
  frozen_ = false;
  gone_ = 0;
  if (pipe_) splicer_->give_back(std::move(pipe_));
}

void Wire::number(Header& header) {
  header.sequence = ++frames_sent_;
  header.received = frames_received_ - (in_payload_ ? 1 : 0);
  owes_confirmation_ = false;
  since_confirmed_ = 0;
  tcp::seal(header);
}

void Wire::send(const Frame& frame, const std::byte* payload, Block block, bool more_follows, Contexts contexts) {
  Outgoing out{.header = {.frame = frame, .context = contexts.peers},
               .payload = payload,
               .block = std::move(block),
               .own = contexts.own};
  carried_ += frame.length;
  if (journal_ != nullptr && frame.length > 0 && !out.block) {
    if (frame.length >= kSpliceFrom && !shared_) {
      out.header.flags = kHeld;
    } else {  // a copy costs less than waiting until the peer has it
      out.block = journal_->take();
      std::memcpy(out.block.data(), payload, frame.length);
      out.payload = out.block.data();
    }
  }
  if (splicer_ != nullptr && !shared_ && frame.length >= kSpliceFrom) out.header.flags = kHeld;
  if (frame.length > 0 && sealed_ == nullptr) out.header.payload_crc = crc32c(0, payload, frame.length);
  send(std::move(out), more_follows);
}

void Wire::confirm() {
  if (owes_confirmation_) send({.header = {.flags = kBare}, .payload = nullptr, .block = Block()}, false);
}

void Wire::send(Outgoing out, bool more_follows) {
  if (ended_ && journal_ == nullptr) return;
  if (sealed_ == nullptr || sealer_) number(out.header);  // else when the connection has a key
  if (sealer_) seal(out);
  if (!attached() || wants_output() || more_follows || out.held() || journal_ != nullptr) {
    queue_.push_back(std::move(out));
    if (!more_follows) flush();
    return;
  }
  iovec parts[kMostParts];
  const ssize_t n = write_some(parts, out.rest(parts));
  if (n < 0 || static_cast<std::size_t>(n) == out.bytes()) return;
  out.sent = static_cast<std::size_t>(n);
  queue_.push_back(std::move(out));
}

void Wire::seal(Outgoing& out) {
  out.seals = std::make_unique<Seals>();
  std::byte* const head = out.seals->head.data();
  std::memcpy(head, &out.header, sizeof(Header));
  sealer_->seal(head, sizeof(Header), head, head + sizeof(Header));
  const std::size_t bytes = out.header.frame.length;
  if (bytes == 0) return;
  Block encrypted = sealer_->encrypts() ? sealed_->take() : Block();
  sealer_->seal(out.payload, bytes, encrypted.data(), out.seals->tail.data());
  if (!encrypted) return;
  if (journal_ != nullptr) {
    out.plain = out.payload;
    out.plain_block = std::move(out.block);
  }
  out.payload = encrypted.data();
  out.block = std::move(encrypted);
}

// What is not sent yet, in up to kMostParts pieces; how many.
int Wire::Outgoing::rest(iovec* parts) {
  int count = 0;
  std::size_t done = sent;
  const auto add = [&](const void* at, std::size_t bytes) {
    if (done < bytes) parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(at)) + done, bytes - done};
    done -= std::min(done, bytes);
  };
  add(seals ? static_cast<const void*>(seals->head.data()) : &header, head_bytes());
  add(payload, header.frame.length);
  if (tail_bytes() > 0) add(seals->tail.data(), tail_bytes());
  return count;
}

bool Wire::flush() {
  while (attached() && wants_output()) {
    const bool moved = splicer_ != nullptr && queue_[gone_].held() ? flush_held() : flush_copied();
    if (!moved) break;
  }
  return idle();
}

// The next frame, without a copy. False: the socket takes no more.
bool Wire::flush_held() {
  if (!pipe_) pipe_ = splicer_->take();
  if (!pipe_) return flush_copied();
  iovec parts[kMostParts];
  if (pipe_->empty() && !pipe_->fill(parts, queue_[gone_].rest(parts))) {
    splicer_->give_back(std::move(pipe_));
    splicer_ = nullptr;  // from now on, and what is left of this frame, by copies
    return true;
  }
  const ssize_t n = pipe_->drain(fd_.get());
  if (n < 0) (void)write_failed();
  if (n <= 0) return false;
  advance(static_cast<std::size_t>(n));
  if (pipe_->empty()) splicer_->give_back(std::move(pipe_));
  return true;
}

bool Wire::flush_copied() {
  constexpr int kMost = 16;
  iovec parts[kMost];
  int count = 0;
  for (std::size_t i = gone_; i < queue_.size() && count + kMostParts <= kMost; ++i) {
    if (i > gone_ && splicer_ != nullptr && queue_[i].held()) break;
    count += queue_[i].rest(parts + count);
  }
  const ssize_t n = write_some(parts, count);
  if (n > 0) advance(static_cast<std::size_t>(n));
  return n > 0;
}

void Wire::advance(std::size_t bytes) {
  while (bytes > 0) {
    Outgoing& next = queue_[gone_];
    const std::size_t part = std::min(bytes, next.bytes() - next.sent);
    next.sent += part;
    bytes -= part;
    if (next.all_sent()) ++gone_;
  }
  retire();
}

// Forgets what has been sent and is not read any more.
void Wire::retire() {
  const auto is_read = [&](const Outgoing& o) {
    return (o.held() || journal_ != nullptr) && static_cast<std::int32_t>(confirmed_ - o.header.sequence) < 0;
  };
  while (gone_ > 0 && !is_read(queue_.front())) {
    queue_.pop_front();
    --gone_;
  }
}

bool Wire::touches(ContextId own, const std::byte* begin, const std::byte* end) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Outgoing& o) {
    const std::byte* const at = o.plain != nullptr ? o.plain : o.payload;
    return o.own == own && o.reads_caller() && at < end && begin < at + o.header.frame.length;
  });
}

bool Wire::touches_callers(ContextId own) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Outgoing& o) { return o.own == own && o.reads_caller(); });
}

bool Wire::touches_callers() const {
  return std::any_of(queue_.begin(), queue_.end(), [](const Outgoing& o) { return o.reads_caller(); });
}

bool Wire::copy_callers(ContextId own, messages::Blocks& blocks) {
  bool all = true;
  for (Outgoing& o : queue_) {
    if (o.own != own || !o.reads_caller()) continue;
    if (o.held() && journal_ == nullptr) {
      all = false;
      continue;
    }
    const std::byte*& at = o.plain != nullptr ? o.plain : o.payload;
    Block& copy = o.plain != nullptr ? o.plain_block : o.block;
    copy = blocks.take();
    std::memcpy(copy.data(), at, o.header.frame.length);
    at = copy.data();
  }
  return all;
}

bool Wire::carries(ContextId own) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Outgoing& o) {
    const bool waits = journal_ == nullptr || (!o.all_sent() && !frozen_) || o.reads_caller();
    return waits && (o.own == own || (o.header.flags & kBare) != 0);
  });
}

void Wire::divert(ContextId own, std::byte* sink) {
  if (in_payload_ && header_.context == own) into_ = placed_ = sink;
}

// Into `first`, what more there is into staging. Requires: staging is used up, or `first` is staging's free end.
ssize_t Wire::read_some(std::byte* first, std::size_t first_bytes) {
  iovec parts[2] = {{first, first_bytes}, {staging_.data(), kStaging}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = left_ > 0 ? 2 : 1;
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
  bool moved = false, pauses = false, emptied = false;
  for (;;) {
    while (next_frame(receiver, pauses)) {
      moved = true;
      if (pauses || ended_) return true;
    }
    if (ended_) return true;
    if (emptied) return moved;
    ssize_t n, most;
    if (left_ > 0) {
      most = static_cast<ssize_t>(left_ + kStaging);
      n = read_some(into_, left_);
      if (n > 0) {
        const std::size_t own = std::min(static_cast<std::size_t>(n), left_);
        check(into_, own);
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
      most = static_cast<ssize_t>(kStaging - end_);
      n = read_some(staging_.data() + end_, kStaging - end_);
      if (n > 0) end_ += static_cast<std::size_t>(n);
    }
    if (n == 0) return moved;
    moved = true;
    emptied = n < most;  // what comes from now on is the next look's
  }
}

bool Wire::open_header() {
  opener_->begin();
  opener_->next(&header_, sizeof(Header));
  return opener_->end(staging_.data() + begin_ + sizeof(Header));
}

void Wire::check(std::byte* at, std::size_t bytes) {
  if (opener_)
    opener_->next(at, bytes);
  else
    crc_ = crc32c(crc_, at, bytes);
}

std::string Wire::fault_in_payload() {
  const Frame& f = header_.frame;
  const bool sound = opener_ ? f.length == 0 || opener_->end(staging_.data() + begin_) : crc_ == header_.payload_crc;
  if (sound) return "";
  return fmt::format("message {} of strand {}, bytes {} to {}: {}", f.number, f.strand, f.offset, f.offset + f.length,
                     opener_ ? "the tag does not fit: they were changed on their way"
                             : fmt::format("checksum {:08x} instead of {:08x}", crc_, header_.payload_crc));
}

// Works on what has been read: completes a frame's bytes, or begins the next. False: it needs more bytes.
bool Wire::next_frame(Receiver& receiver, bool& pauses) {
  const auto damaged = [&](const std::string& what) {
    receiver.damaged(peer_, what);
    end(what);
    return true;
  };
  if (!in_payload_) {
    if (end_ - begin_ < head_bytes()) return false;
    std::memcpy(&header_, staging_.data() + begin_, sizeof(Header));
    if (opener_ && !open_header())
      return damaged(
          fmt::format("frame {}: the tag does not fit: it was changed, repeated or left out on its way, or is of "
                      "another connection",
                      frames_received_ + 1));
    if (const std::string fault = fault_of(header_, frames_received_ + 1); !fault.empty()) return damaged(fault);
    ++frames_received_;
    begin_ += head_bytes();
    confirmed_ = header_.received;
    retire();
    if ((header_.flags & kLost) != 0)
      reports_.push_back({static_cast<std::uint16_t>(header_.frame.tag),
                          static_cast<std::uint32_t>(header_.frame.tag >> 32),
                          static_cast<std::uint32_t>(header_.frame.number)});
    if ((header_.flags & kBare) != 0) return true;
    if (journal_ != nullptr && ++since_confirmed_ >= kConfirmEvery) owes_confirmation_ = true;
    if (header_.frame.kind != FrameKind::kData) {
      pauses = receiver.arrived(peer_, header_.context, header_.frame, nullptr);
      return true;
    }
    placed_ = into_ = receiver.place(peer_, header_.context, header_.frame);
    if (into_ == nullptr) {
      end("its messages are out of turn");
      return true;
    }
    left_ = header_.frame.length;
    crc_ = 0;
    in_payload_ = true;
    if (opener_ && left_ > 0) opener_->begin();
  }
  if (const std::size_t staged = std::min(left_, end_ - begin_); staged > 0) {
    std::memcpy(into_, staging_.data() + begin_, staged);
    check(into_, staged);
    into_ += staged;
    left_ -= staged;
    begin_ += staged;
  }
  const std::size_t tag = opener_ && header_.frame.length > 0 ? kTag : 0;
  if (left_ > 0 || end_ - begin_ < tag) return false;
  in_payload_ = false;
  if ((header_.flags & kHeld) != 0 && receiver.broken(header_.context)) {
    end("its call has failed");
    return true;
  }
  if (const std::string fault = fault_in_payload(); !fault.empty()) return damaged(fault);
  begin_ += tag;
  if ((header_.flags & kHeld) != 0) owes_confirmation_ = true;
  pauses = receiver.arrived(peer_, header_.context, header_.frame, placed_);
  return true;
}

}  // namespace weft::net::tcp
