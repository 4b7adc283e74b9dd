#include "tests/fuzz/peers.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "net/bootstrap/handshake.h"
#include "net/bootstrap/secret.h"
#include "net/bootstrap/unique_id.h"
#include "net/tcp/crc32c.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/parsers.h"
#include "transfer/metadata.h"
#include "transfer/server.h"

namespace weft::fuzz {
namespace {

namespace bootstrap = net::bootstrap;
using bootstrap::Handshake;
using bootstrap::UniqueFd;

constexpr bootstrap::Key kKey{1, 2, 3};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace

void check_greeting(std::string_view text) {
  for (const auto role : {Handshake::Role::kAcceptor, Handshake::Role::kOpener}) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
    const UniqueFd own(ends[0]);
    UniqueFd stranger(ends[1]);
    Handshake handshake(role, kKey, {.purpose = bootstrap::kMeeting});
    handshake.advance(own.get());
    const std::size_t bytes = std::min<std::size_t>(text.size(), 4 * sizeof(bootstrap::Greeting));
    require(send(stranger.get(), text.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes), "bytes");
    handshake.advance(own.get());
    stranger.reset();
    handshake.advance(own.get());
    require(!handshake.proved() && handshake.state() == Handshake::State::kFailed, "nobody is let in without the key");
    require(!handshake.problem().empty() || handshake.refused().has_value(), "a refusal says something");
  }
}

void check_invitation(std::string_view text) {
  const std::string t(text);
  if (const auto id = bootstrap::UniqueId::parse("f", t)) {
    const auto again = bootstrap::UniqueId::parse("again", id->text());
    require(again && again->text() == id->text(), "an id reads what an id wrote");
  }
  // Names would be looked up; numbers are not.
  if (t.find_first_not_of("0123456789abcdef.:[]") == std::string::npos) (void)bootstrap::parse_address("f", t);
  if (const auto key = bootstrap::parse_key("f", t); !key)
    require(key.error().message.find(t) == std::string::npos || t.size() < 32, "an error does not repeat a key");
}

void check_metadata(std::string_view text) {
  // The text, signed as a peer with the key would sign it, behind a right beginning.
  std::string bytes = "weftxfr\1";
  bytes += text;
  const auto mac = bootstrap::mac(kKey, {{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}});
  bytes.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  if (const auto read = transfer::decode(bytes, kKey)) {
    require(transfer::encode(*read, kKey) == bytes, "metadata reads what it wrote");
    for (const auto& r : read->regions)
      require(
          r.bytes > 0 &&
              r.first_page + (r.page_bytes > 0 ? static_cast<std::uint64_t>(r.bytes / r.page_bytes) : 1) <= read->pages,
          "regions lie in the segment");
  }
  (void)transfer::decode(text, kKey);
}

namespace {

// An agent's server with two regions of pages. Strangers to the second must leave it alone.
class Served {
 public:
  static Served& get() {
    static Served* const served = new Served;  // its thread outlives main()
    return *served;
  }
  const bootstrap::Address& address() const { return address_; }
  const transfer::Nonce& nonce() const { return segment_.header().nonce; }

  void untouched() {
    (void)server_->take_notifications();
    for (int i = 0; i < kPages; ++i) {
      const transfer::PageWord& page = segment_.page(static_cast<std::uint64_t>(kPages + i));
      require(page.sealed.load() == 1 && page.checksum.load() == 7, "a region's pages are its own");
    }
    require(std::all_of(other_.begin(), other_.end(), [](std::byte b) { return b == std::byte{0}; }),
            "a region's memory is its own");
  }

  static constexpr int kPages = 4, kPageBytes = 64;

 private:
  Served() {
    auto memory = transfer::make_shared_memory(transfer::Segment::bytes_for(2 * kPages), false).value();
    segment_ = transfer::Segment(std::move(memory.mapping));
    segment_.header().pages = 2 * kPages;
    segment_.header().nonce = {9, 9, 9};
    for (std::uint32_t id : {1U, 2U}) {
      auto region = std::make_shared<transfer::Region>();
      region->id = id;
      region->data = (id == 1 ? own_ : other_).data();
      region->bytes = kPages * kPageBytes;
      region->page_bytes = kPageBytes;
      region->pages = kPages;
      region->first_page = (id - 1) * kPages;
      regions_.add(std::move(region));
    }
    for (std::uint64_t i = 0; i < kPages; ++i) {
      segment_.page(kPages + i).sealed.store(1);
      segment_.page(kPages + i).checksum.store(7);
    }
    server_ = transfer::Server::open(bootstrap::loopback(), kKey, regions_, segment_).value();
    address_ = server_->address();
  }

  std::vector<std::byte> own_ = std::vector<std::byte>(kPages * kPageBytes), other_ = own_;
  transfer::Segment segment_;
  transfer::Regions regions_;
  std::unique_ptr<transfer::Server> server_;
  bootstrap::Address address_;
};

void await(int fd, short events) {
  pollfd watched{fd, events, 0};
  poll(&watched, 1, 5000);
}

UniqueFd greeted(const bootstrap::Address& at) {
  UniqueFd fd = bootstrap::start_connect(at).value();
  await(fd.get(), POLLOUT);
  Handshake handshake(Handshake::Role::kOpener, kKey, {.purpose = transfer::kPurpose});
  while (handshake.advance(fd.get()) == Handshake::State::kRunning) await(fd.get(), POLLIN);
  require(handshake.state() == Handshake::State::kDone, "a greeting");
  return fd;
}

// Of a peer that knows the key and has learnt where the limits are.
std::int64_t near_a_limit(std::uint8_t which, std::int8_t by) {
  constexpr std::int64_t kLimits[] = {0,
                                      Served::kPageBytes,
                                      Served::kPages * Served::kPageBytes,
                                      transfer::kMostPiece,
                                      std::int64_t{1} << 32,
                                      INT64_MAX,
                                      INT64_MIN,
                                      32};
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(kLimits[which % 8]) + static_cast<std::uint64_t>(by));
}

}  // namespace

void check_questions(std::string_view text) {
  Served& served = Served::get();
  const UniqueFd fd = greeted(served.address());
  std::string out;
  const auto ask = [&](transfer::Question q, const std::string& data) {
    out.append(reinterpret_cast<const char*>(&q), sizeof q);
    out += data;
  };
  std::string hello(reinterpret_cast<const char*>(served.nonce().data()), sizeof(transfer::Nonce));
  hello += "fuzz";
  ask({.ask = transfer::Ask::kHello, .bytes = static_cast<std::int64_t>(hello.size())}, hello);
  struct Words {
    std::uint8_t ask, region, offset, bytes, generation, verify, data;
    std::int8_t more_offset, more_bytes;
  };
  for (int n = 0; text.size() >= sizeof(Words) && n < 64; text.remove_prefix(sizeof(Words)), ++n) {
    Words w;
    std::memcpy(&w, text.data(), sizeof w);
    transfer::Question q{.ask = static_cast<transfer::Ask>(w.ask % 5),
                         .region = w.region % 4U == 2U ? 1U : w.region % 4U,
                         .offset = near_a_limit(w.offset, w.more_offset),
                         .bytes = near_a_limit(w.bytes, w.more_bytes),
                         .generation = w.generation % 2U,
                         .verify = w.verify % 2U};
    const auto follows = static_cast<std::size_t>(std::clamp<std::int64_t>(q.bytes, 0, 512));
    const std::string data(w.data % 4 == 0 || q.ask == transfer::Ask::kRead ? 0 : follows, '\1');
    q.checksum = w.data % 8 == 1 ? 0 : net::tcp::crc32c(0, data.data(), data.size());
    ask(q, data);
  }
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t n = send(fd.get(), out.data() + at, out.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) at += static_cast<std::size_t>(n);
    if (n < 0 && errno != EAGAIN) break;
    if (n < 0) await(fd.get(), POLLOUT | POLLIN);
    char answers[4096];
    while (recv(fd.get(), answers, sizeof answers, MSG_DONTWAIT) > 0) {
    }
  }
  shutdown(fd.get(), SHUT_WR);
  char answers[4096];
  for (;;) {
    const ssize_t n = recv(fd.get(), answers, sizeof answers, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) break;
    if (n < 0) await(fd.get(), POLLIN);
  }
  served.untouched();
}

const std::vector<Parser>& peer_parsers() {
  static const std::vector<Parser> all = {
      {"frames", check_frames},     {"greeting", check_greeting},   {"invitation", check_invitation},
      {"metadata", check_metadata}, {"questions", check_questions},
  };
  return all;
}

}  // namespace weft::fuzz
