#include "net/bootstrap/rpc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostBody = std::size_t{4} << 20;
constexpr std::size_t kAtOnce = 64;  // requests under way
constexpr milliseconds kRequestTime{3000}, kStrangerTime{50};

std::span<const std::uint8_t> octets(const MessageHead& head) {
  return {reinterpret_cast<const std::uint8_t*>(&head), sizeof head};
}

Octets packed(const Key& key, const Message& m) {
  MessageHead head = m.head;
  head.length = static_cast<std::uint32_t>(m.body.size());
  Octets out(octets(head).begin(), octets(head).end());
  out.insert(out.end(), m.body.begin(), m.body.end());
  const Digest own = mac(key, {out});
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

// Reads one message as it comes.
class Incoming {
 public:
  enum class State { kRunning, kComplete, kFailed };
  // Takes the head and no more until `body_too`.
  State advance(int fd, bool body_too = true) {
    for (;;) {
      const std::size_t wanted = bytes_.size() < sizeof(MessageHead) ? sizeof(MessageHead) : total();
      if (wanted > sizeof(MessageHead) + kMostBody + sizeof(Digest)) return State::kFailed;
      if (bytes_.size() == wanted) return State::kComplete;
      if (!body_too && has_head()) return State::kRunning;
      std::uint8_t chunk[16384];
      const ssize_t n = recv(fd, chunk, std::min(sizeof chunk, wanted - bytes_.size()), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::kRunning;
      if (n <= 0) return State::kFailed;
      bytes_.insert(bytes_.end(), chunk, chunk + n);
      if (bytes_.size() >= sizeof(MessageHead) && head().magic != MessageHead{}.magic) return State::kFailed;
    }
  }
  bool has_head() const { return bytes_.size() >= sizeof(MessageHead); }
  MessageHead head() const {
    MessageHead h;
    std::memcpy(&h, bytes_.data(), sizeof h);
    return h;
  }
  // Requires: complete. Nothing: another key.
  std::optional<Message> take(const Key& key) const {
    const std::size_t signed_bytes = bytes_.size() - sizeof(Digest);
    Digest theirs;
    std::memcpy(theirs.data(), bytes_.data() + signed_bytes, sizeof theirs);
    if (!equal(theirs, mac(key, {std::span(bytes_).first(signed_bytes)}))) return std::nullopt;
    return Message{head(),
                   {bytes_.begin() + sizeof(MessageHead), bytes_.begin() + static_cast<std::ptrdiff_t>(signed_bytes)}};
  }

 private:
  std::size_t total() const { return sizeof(MessageHead) + head().length + sizeof(Digest); }
  Octets bytes_;
};

// True: all has gone.
bool send_out(int fd, const Octets& out, std::size_t& sent, bool& failed) {
  while (sent < out.size()) {
    const ssize_t n = send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return false;
    if (n <= 0) return failed = true, false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

struct Asked {
  std::size_t index;
  UniqueFd fd;
  Octets out;
  Nonce nonce;
  std::size_t sent = 0;
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
  if (!send_out(a.fd.get(), a.out, a.sent, failed)) return !failed;
  const auto state = a.in.advance(a.fd.get());
  if (state == Incoming::State::kRunning) return true;
  if (state == Incoming::State::kFailed) return false;
  if (auto reply = a.in.take(key); reply && reply->head.nonce == a.nonce) {
    answer.outcome = Answer::Outcome::kAnswered;
    answer.reply = std::move(*reply);
  }
  return false;
}

}  // namespace

bool Reserve::spend() {
  if (!fd_.open()) return false;
  fd_.reset();
  return true;
}

void Reserve::refill() {
  if (!fd_.open()) fd_ = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

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
          {.index = i, .fd = std::move(*fd), .out = packed(key, own), .nonce = own.head.nonce, .in = {}});
    }
    watched.clear();
    for (const Asked& a : under_way)
      watched.push_back({a.fd.get(), static_cast<short>(a.sent < a.out.size() ? POLLOUT : POLLIN), 0});
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
    if (poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents != 0 && !advance(under_way[i], key, answers[under_way[i].index])) under_way[i].fd.reset();
    std::erase_if(under_way, [](const Asked& a) { return !a.fd.open(); });
    if (reserved.owns_lock() && under_way.empty()) reserve().refill();
  }
  under_way.clear();
  if (reserved.owns_lock()) reserve().refill();
  return answers;
}

struct Responder::Connection {
  UniqueFd fd;
  Clock::time_point since;
  Incoming in;
  Octets out;
  std::size_t sent = 0;
};

Responder::Responder(Handlers handlers)
    : handlers_(std::move(handlers)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  (void)reserve();  // while there are descriptors
}

void Responder::start() {
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Responder::~Responder() { stop(); }

void Responder::stop() {
  if (!thread_.joinable()) return;
  stopped_ = true;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  thread_.join();
}

Result<Address> Responder::listen_at(Address at, Ports ports) {
  at.port = 0;
  WEFT_TRY(UniqueFd fd, listen_on(at, ports));
  const Address own = local_address(fd.get());
  {
    const std::lock_guard guard(mutex_);
    fresh_.push_back(std::move(fd));
  }
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  return own;
}

void Responder::add_listeners(std::vector<UniqueFd>& into) {
  std::uint64_t count;
  (void)!read(wake_.get(), &count, sizeof count);
  const std::lock_guard guard(mutex_);
  for (UniqueFd& fd : fresh_) into.push_back(std::move(fd));
  fresh_.clear();
}

// False: it is done with.
bool Responder::advance(Connection& c) {
  if (c.out.empty()) {
    // A stranger does not know the tag, so the body of a stranger is never read.
    const auto begun = c.in.advance(c.fd.get(), false);
    if (begun == Incoming::State::kFailed) return false;
    if (!c.in.has_head()) return true;
    const auto key = handlers_.key_of(c.in.head());
    if (!key) return false;
    const auto state = c.in.advance(c.fd.get());
    if (state == Incoming::State::kFailed) return false;
    if (state == Incoming::State::kRunning) return true;
    const auto request = c.in.take(*key);
    if (!request) return false;
    Message reply = handlers_.reply(*request);
    reply.head.nonce = request->head.nonce;
    reply.head.tag = request->head.tag;
    c.out = packed(*key, reply);
  }
  bool failed = false;
  return !send_out(c.fd.get(), c.out, c.sent, failed) && !failed;
}

void Responder::run() {
  std::vector<UniqueFd> listeners;
  std::vector<Connection> connections;
  std::vector<pollfd> watched;
  while (!stopped_) {
    // At the limit nothing is accepted until somebody has been silent for long enough to make place.
    const auto now = Clock::now();
    if (connections.size() >= kMostConnections) {
      const auto oldest = std::min_element(connections.begin(), connections.end(),
                                           [](const auto& a, const auto& b) { return a.since < b.since; });
      if (now - oldest->since > kStrangerTime) connections.erase(oldest);
    }
    std::erase_if(connections, [&](const Connection& c) { return now - c.since > kRequestTime; });
    const bool full = connections.size() >= kMostConnections;
    watched.assign(1, {wake_.get(), POLLIN, 0});
    for (const UniqueFd& l : listeners) watched.push_back({l.get(), static_cast<short>(full ? 0 : POLLIN), 0});
    for (const Connection& c : connections)
      watched.push_back({c.fd.get(), static_cast<short>(c.out.empty() ? POLLIN : POLLOUT), 0});
    const int limit = full ? 10 : connections.empty() ? -1 : 500;
    if (poll(watched.data(), watched.size(), limit) < 0 && errno != EINTR) return;
    const std::size_t first = 1 + listeners.size();
    for (std::size_t i = 0; i < connections.size(); ++i)
      if (watched[first + i].revents != 0 && !advance(connections[i])) connections[i].fd.reset();
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      while (watched[1 + i].revents != 0 && connections.size() < kMostConnections) {
        auto fd = accept_from(listeners[i].get());
        if (!fd && reserve_.spend()) fd = accept_from(listeners[i].get());
        if (!fd) std::this_thread::sleep_for(milliseconds(10));  // no descriptor is left
        if (!fd || !fd->open()) break;
        connections.push_back({.fd = std::move(*fd), .since = Clock::now(), .in = {}, .out = {}});
        if (!advance(connections.back())) connections.back().fd.reset();
      }
    }
    std::erase_if(connections, [](const Connection& c) { return !c.fd.open(); });
    reserve_.refill();
    if (watched[0].revents != 0) add_listeners(listeners);
  }
}

}  // namespace weft::net::bootstrap
