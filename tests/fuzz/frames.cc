#include "tests/fuzz/frames.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "net/messages/stream.h"
#include "net/tcp/crc32c.h"
#include "net/tcp/wire.h"

namespace weft::fuzz {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

class Peer final : public net::messages::Receiver {
 public:
  std::byte* place(Rank, net::messages::ContextId, const net::messages::Frame& f) override {
    return streams_[f.strand].place(f, blocks_);
  }
  bool arrived(Rank, net::messages::ContextId, const net::messages::Frame& f, const std::byte* at) override {
    using Kind = net::messages::FrameKind;
    net::messages::Stream& s = streams_[f.strand];
    s.peer_took(f.taken);
    if (f.kind == Kind::kSignal) s.signal_came(f.number, f.tag);
    if (f.kind != Kind::kData || !s.arrived(f, at)) return false;
    take(s, f);
    return true;
  }
  void damaged(Rank, const std::string&) override {}
  void ended(Rank, const std::string&) override {}

 private:
  static constexpr std::byte kSent{0x5a};

  void take(net::messages::Stream& s, const net::messages::Frame& f) {
    using Found = net::messages::Stream::Found;
    const Bytes total = s.head().total;
    const net::messages::Range all{0, std::max<Bytes>(total, 0)};
    if (total >= 0 && s.find(all, true, f.tag) == Found::kHere) {
      const std::byte* const at = s.settle(all, target_.data());
      for (Bytes i = 0; i < all.end; ++i) require(at[i] == kSent, "every byte of a message was sent");
      s.release();
      std::fill_n(target_.begin(), all.end, std::byte{0});
    }
    // Half of the strands say where the next message is wanted.
    if (f.strand % 2 == 0) s.want({0, static_cast<Bytes>(target_.size())}, f.tag, target_.data());
  }

  net::messages::Blocks blocks_{net::messages::kSlotBytes};
  std::vector<std::byte> target_ = std::vector<std::byte>(static_cast<std::size_t>(net::messages::kSlotBytes));
  std::vector<net::messages::Stream> streams_{net::messages::kStreams};
};

}  // namespace

void check_frames(std::string_view text) {
  namespace tcp = net::tcp;
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
  const UniqueFd sender(ends[1]);
  tcp::Wire wire(0, nullptr);
  wire.attach(UniqueFd(ends[0]), std::chrono::seconds(1));
  Peer peer;
  static const std::string payload(static_cast<std::size_t>(net::messages::kSlotBytes), 0x5a);
  struct Words {
    std::uint8_t kind, flags, strand, number;
    std::uint32_t length, offset, total;
  };
  std::uint32_t sequence = 0;
  for (; text.size() >= sizeof(Words) && !wire.ended() && sequence < 200; text.remove_prefix(sizeof(Words))) {
    Words w;
    std::memcpy(&w, text.data(), sizeof w);
    // Most frames are small: inputs with large ones take a hundred times as long.
    const std::uint32_t length = (w.flags & 32) != 0 ? w.length : w.length % 4096;
    tcp::Header header{.flags = static_cast<std::uint16_t>(w.flags >> 6),
                       .sequence = ++sequence,
                       .frame = {.kind = static_cast<net::messages::FrameKind>(w.kind),
                                 .flags = static_cast<std::uint8_t>(w.flags & 3),
                                 .strand = w.strand,
                                 .length = length,
                                 .number = w.number,
                                 .tag = static_cast<std::uint64_t>(w.flags >> 4 & 1),
                                 .offset = w.offset,
                                 .total = w.total}};
    const std::size_t bytes = std::min<std::size_t>(header.frame.length, payload.size());
    header.payload_crc = tcp::crc32c(0, payload.data(), bytes);
    tcp::seal(header);
    std::string out(reinterpret_cast<const char*>(&header), sizeof header);
    out.append(payload, 0, bytes);
    for (std::size_t at = 0; at < out.size() && !wire.ended();) {
      const ssize_t n = send(sender.get(), out.data() + at, out.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) at += static_cast<std::size_t>(n);
      while (wire.receive(peer)) {
      }
    }
  }
}

}  // namespace weft::fuzz
