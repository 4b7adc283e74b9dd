#include "net/bootstrap/rpc.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "net/link/bytes.h"
#include "net/link/framed.h"

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostBody = std::size_t{4} << 20;
constexpr std::size_t kAtOnce = 64;  // requests under way
constexpr milliseconds kRequestTime{3000};

std::span<const std::uint8_t> octets(const MessageHead& head) {
  return {reinterpret_cast<const std::uint8_t*>(&head), sizeof head};
}

Octets packed(const Key& key, const Message& m) {
  MessageHead head = m.head;
  head.length = static_cast<std::uint32_t>(m.body.size());
  const Digest own = mac(key, {octets(head), m.body});
  Octets out(sizeof head + m.body.size() + sizeof own);
  std::uint8_t* const end =
      std::copy(m.body.begin(), m.body.end(), std::copy_n(octets(head).data(), sizeof head, out.data()));
  std::copy(own.begin(), own.end(), end);
  return out;
}

// Reads one message as it comes, with its tag behind the body.
class Incoming {
 public:
  // `wants`: of the head; false: nothing more is read.
  template <class Wants>
  FrameState advance(int fd, const Wants& wants) {
    return frame_.advance([fd](std::byte* into, std::size_t bytes) { return receive_now(fd, into, bytes); },
                          [&](const MessageHead& head) -> std::optional<std::span<std::byte>> {
                            if (head.magic != MessageHead{}.magic || head.length > kMostBody || !wants(head))
                              return std::nullopt;
                            body_.resize(head.length + sizeof(Digest));
                            return std::as_writable_bytes(std::span(body_));
                          });
  }
  // Requires: it is whole. Nothing: another key.
  std::optional<Message> take(const Key& key) const {
    const auto body = std::span(body_).first(body_.size() - sizeof(Digest));
    Digest theirs;
    std::memcpy(theirs.data(), body_.data() + body.size(), sizeof theirs);
    if (!equal(theirs, mac(key, {octets(frame_.head()), body}))) return std::nullopt;
    return Message{frame_.head(), {body.begin(), body.end()}};
  }

 private:
  Framed<MessageHead> frame_;
  Octets body_;
};

// Bytes on their way out.
struct Outgoing {
  Octets bytes;
  std::size_t sent = 0;
  // True: all has gone.
  bool advance(int fd, bool& failed) {
    while (sent < bytes.size()) {
      const Moved moved = send_now(fd, bytes.data() + sent, bytes.size() - sent);
      failed = moved.over;
      if (moved.bytes == 0) return false;
      sent += moved.bytes;
    }
    return true;
  }
};

struct Asked {
  std::size_t index;
  UniqueFd fd;
  Outgoing out;
  Nonce nonce;
  Incoming in;
};

// For requests. Never deleted: threads may ask until the process ends.
Reserve& reserve() {
  static auto* const kept = new Reserve;
  return *kept;
}
std::mutex& reserve_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// False: nothing more comes of it.
bool advance(Asked& a, const Key& key, Answer& answer) {
  if (const int error = connect_error(a.fd.get()); error != 0) {
    if (error == ECONNREFUSED) answer.outcome = Answer::Outcome::kRefused;
    return false;
  }
  bool failed = false;
  if (!a.out.advance(a.fd.get(), failed)) return !failed;
  const auto state = a.in.advance(a.fd.get(), [](const MessageHead&) { return true; });
  if (state != FrameState::kWhole) return state == FrameState::kMore;
  if (auto reply = a.in.take(key); reply && reply->head.nonce == a.nonce) {
    answer.outcome = Answer::Outcome::kAnswered;
    answer.reply = std::move(*reply);
  }
  return false;
}

}  // namespace

std::vector<Answer> exchange(const Key& key, const Message& request, std::span<const Address> at,
                             std::span<const Rank> to, milliseconds limit) {
  std::vector<Answer> answers(at.size());
  std::vector<Asked> under_way;
  std::vector<pollfd> watched;
  const auto deadline = Clock::now() + limit;
  std::unique_lock reserved(reserve_mutex(), std::defer_lock);
  for (std::size_t next = 0; next < at.size() || !under_way.empty();) {
    while (next < at.size() && under_way.size() < kAtOnce) {
      const std::size_t i = next;
      if (at[i].family == 0) {
        ++next;
        continue;
      }
      auto fd = start_connect(at[i]);
      const bool lacks = !fd && fd.error().code == Code::kNoResources;
      if (lacks && !under_way.empty()) break;  // one of those makes place
      if (lacks && !reserved.owns_lock()) reserved.lock();
      if (lacks && reserve().spend()) fd = start_connect(at[i]);
      ++next;
      if (lacks && !fd) answers[i].outcome = Answer::Outcome::kUnasked;
      if (!fd) continue;
      Message own = request;
      own.head.to = to[i];
      fill_random(own.head.nonce);
      under_way.push_back(
          {.index = i, .fd = std::move(*fd), .out = {packed(key, own)}, .nonce = own.head.nonce, .in = {}});
    }
    watched.clear();
    for (const Asked& a : under_way)
      watched.push_back({a.fd.get(), static_cast<short>(a.out.sent < a.out.bytes.size() ? POLLOUT : POLLIN), 0});
    const auto left = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
    if (poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents != 0 && !advance(under_way[i], key, answers[under_way[i].index])) under_way[i].fd.reset();
    std::erase_if(under_way, [](const Asked& a) { return !a.fd.open(); });
    if (left.count() == 0) under_way.clear();
    if (reserved.owns_lock() && under_way.empty()) reserve().refill();
  }
  under_way.clear();
  if (reserved.owns_lock()) reserve().refill();
  return answers;
}

// Nobody is known before the one message has come.
class Responder::Connection final : public link::Connection {
 public:
  Connection(UniqueFd fd, const Handlers& handlers) : fd_(std::move(fd)), handlers_(handlers) {}
  bool open() const override { return fd_.open(); }
  bool known() const override { return false; }
  bool watch(std::vector<pollfd>& list) override {
    list.push_back({fd_.get(), static_cast<short>(out_.bytes.empty() ? POLLIN : POLLOUT), 0});
    return true;
  }
  void advance() override {
    if (!goes_on()) fd_.reset();
  }

 private:
  bool goes_on();

  UniqueFd fd_;
  const Handlers& handlers_;
  std::optional<Key> key_;
  Incoming in_;
  Outgoing out_;
};

bool Responder::Connection::goes_on() {
  if (out_.bytes.empty()) {
    // A stranger does not know the tag, so the body of a stranger is never read.
    const auto state = in_.advance(fd_.get(), [this](const MessageHead& head) {
      key_ = handlers_.key_of(head);
      return key_.has_value();
    });
    if (state != FrameState::kWhole) return state == FrameState::kMore;
    const auto request = in_.take(*key_);
    if (!request) return false;
    Message reply = handlers_.reply(*request);
    reply.head.nonce = request->head.nonce;
    reply.head.tag = request->head.tag;
    out_.bytes = packed(*key_, reply);
  }
  bool failed = false;
  return !out_.advance(fd_.get(), failed) && !failed;
}

Responder::Responder(Handlers handlers)
    : handlers_(std::move(handlers)),
      loop_({.serve = [this](UniqueFd fd, const Handshake*) -> std::unique_ptr<link::Connection> {
               return std::make_unique<Connection>(std::move(fd), handlers_);
             },
             .stranger_time = kRequestTime,
             .most_strangers = 128}) {
  (void)reserve();  // while there are descriptors
}

Result<Address> Responder::listen_at(Address at, Ports ports) {
  at.port = 0;
  WEFT_TRY(UniqueFd fd, listen_on(at, ports));
  const Address own = local_address(fd.get());
  loop_.listen(std::move(fd));
  return own;
}

}  // namespace weft::net::bootstrap
