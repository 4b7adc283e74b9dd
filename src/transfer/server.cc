#include "transfer/server.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "net/tcp/crc32c.h"
#include "transfer/copy.h"

namespace weft::transfer {
namespace {

namespace bootstrap = net::bootstrap;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostInbox = 4096;        // notifications that nobody has taken; then their senders wait
constexpr std::size_t kMostWaiting = 32 << 20;  // bytes of answers of one connection; then it is not read
constexpr std::size_t kMostConnections = 256;
constexpr std::ptrdiff_t kMostStrangers = 64;         // more wait in the listener's queue
constexpr std::chrono::milliseconds kSilentTime{50};  // then a stranger may have to make place
constexpr std::chrono::seconds kGreeting{5};
constexpr std::chrono::milliseconds kLookEvery{10};

}  // namespace

// One peer: a stranger until it has proved that it has the key and has said whom it means.
class Server::Connection {
 public:
  Connection(bootstrap::UniqueFd fd, Server& server) : fd_(std::move(fd)), server_(server) {
    handshake_.emplace(bootstrap::Handshake::Role::kAcceptor, server.key_);
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  bool stranger() const { return peer_.empty(); }
  bool greets() const { return handshake_.has_value(); }
  Clock::time_point since() const { return since_; }
  short events() const {
    return static_cast<short>((waiting() < kMostWaiting && !blocked_ ? POLLIN : 0) | (waiting() > 0 ? POLLOUT : 0));
  }
  bool blocked() const { return blocked_; }

  void advance() {
    if (handshake_) greet();
    if (stranger() && Clock::now() - since_ > kGreeting) fd_.reset();
    if (!open() || handshake_) return;
    blocked_ = false;
    send_answers();
    while (open() && waiting() < kMostWaiting && !blocked_ && receive()) {
    }
    if (open()) send_answers();
  }

 private:
  std::size_t waiting() const { return out_.size() - sent_; }

  void greet() {
    using State = bootstrap::Handshake::State;
    State state = handshake_->advance(fd());
    if (handshake_->proved() && state == State::kRunning) {
      if (handshake_->claim().purpose == kPurpose)
        handshake_->accept();
      else
        handshake_->refuse(bootstrap::kRefusedRanks);
      state = handshake_->advance(fd());
    }
    if (state == State::kDone) handshake_.reset();
    if (state == State::kFailed) fd_.reset();
  }

  // False: nothing more now.
  bool receive() {
    const std::size_t wanted = have_question_ ? static_cast<std::size_t>(question_.bytes) : sizeof question_;
    std::byte* const into = have_question_ ? data_.data() : reinterpret_cast<std::byte*>(&question_);
    while (got_ < wanted) {
      const ssize_t n = recv(fd(), into + got_, wanted - got_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n <= 0) {
        fd_.reset();
        return false;
      }
      got_ += static_cast<std::size_t>(n);
    }
    if (!have_question_ && !begin_question()) return false;
    if (have_question_ && got_ == static_cast<std::size_t>(carries_data() ? question_.bytes : 0)) {
      if (!answer()) {
        blocked_ = true;
        return false;
      }
      have_question_ = false;
      got_ = 0;
    }
    return true;
  }

  bool carries_data() const { return question_.ask != Ask::kRead; }
  bool begin_question() {
    const bool known = question_.ask <= Ask::kNotify && (stranger() == (question_.ask == Ask::kHello));
    if (!known || question_.bytes < 0 || question_.bytes > kMostPiece) {
      fd_.reset();
      return false;
    }
    have_question_ = true;
    got_ = 0;
    data_.resize(static_cast<std::size_t>(question_.bytes));
    return true;
  }

  // False: the inbox is full; to be tried again.
  bool answer() {
    switch (question_.ask) {
      case Ask::kHello:
        hello();
        return true;
      case Ask::kNotify:
        if (!server_.deliver(peer_, std::string(reinterpret_cast<const char*>(data_.data()), data_.size())))
          return false;
        reply({});
        return true;
      case Ask::kRead:
      case Ask::kWrite:
        break;
    }
    const std::shared_ptr<Region> region = server_.regions_.find(question_.region);
    if (region == nullptr || region->data == nullptr) {
      reply({.verdict = Verdict::kNoRegion});
    } else if (question_.offset < 0 || question_.offset > region->bytes - question_.bytes) {
      reply({.verdict = Verdict::kPastEnd});
    } else {
      move(*region);
    }
    return true;
  }

  void hello() {
    Nonce meant{};
    if (data_.size() <= sizeof meant || data_.size() > sizeof meant + 64) return fd_.reset();
    std::memcpy(meant.data(), data_.data(), sizeof meant);
    if (meant != server_.segment_.header().nonce) return reply({.verdict = Verdict::kOtherAgent});
    peer_.assign(reinterpret_cast<const char*>(data_.data()) + sizeof meant, data_.size() - sizeof meant);
    reply({});
  }

  void move(const Region& region) {
    const auto page_number = region.fenced() ? static_cast<std::uint64_t>(question_.offset / region.page_bytes) : 0;
    const bool crosses = region.fenced() && question_.offset % region.page_bytes + question_.bytes > region.page_bytes;
    if (crosses || page_number >= region.pages) return reply({.verdict = Verdict::kPastEnd});  // no bytes at the end
    PageWord& page = server_.segment_.page(region.first_page + page_number);
    PinWord& word = server_.segment_.slot(kServerSlot).pin;
    const auto bytes = static_cast<std::size_t>(question_.bytes);
    const bool whole = question_.bytes == region.page_bytes;
    std::byte* const memory = region.data + question_.offset;
    Answer result;
    pin(word, region.id);
    if (!holds(page, question_.generation)) {
      result.verdict = Verdict::kStale;
    } else if (question_.ask == Ask::kRead) {
      data_.resize(bytes);
      result.checksum = copy_with_checksum(data_.data(), memory, bytes);
      result.bytes = question_.bytes;
      if (question_.verify != 0 && page.sealed.load() == 0)
        result.verdict = Verdict::kUnsealed;
      else if (question_.verify != 0 && page.checksum.load() != result.checksum)
        result.verdict = Verdict::kDamaged;
    } else if (net::tcp::crc32c(0, data_.data(), bytes) != question_.checksum) {
      result.verdict = Verdict::kDamaged;
    } else {
      page.sealed.store(0);
      std::memcpy(memory, data_.data(), bytes);
      if (question_.verify != 0 && whole) {
        page.checksum.store(question_.checksum);
        page.sealed.store(1);
      }
    }
    if (!holds(page, question_.generation)) result.verdict = Verdict::kStale;
    unpin(word);
    if (result.verdict != Verdict::kGood) result.bytes = 0;
    reply(result);
    if (result.bytes > 0) out_.insert(out_.end(), data_.begin(), data_.end());
  }

  void reply(const Answer& answer) {
    const auto* from = reinterpret_cast<const std::byte*>(&answer);
    out_.insert(out_.end(), from, from + sizeof answer);
  }
  void send_answers() {
    while (waiting() > 0) {
      const ssize_t n = send(fd(), out_.data() + sent_, waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return fd_.reset();
      sent_ += static_cast<std::size_t>(n);
    }
    out_.clear();
    sent_ = 0;
  }

  bootstrap::UniqueFd fd_;
  Server& server_;
  std::optional<bootstrap::Handshake> handshake_;
  Clock::time_point since_ = Clock::now();
  std::string peer_;
  Question question_;
  bool have_question_ = false, blocked_ = false;
  std::size_t got_ = 0;
  std::vector<std::byte> data_, out_;
  std::size_t sent_ = 0;
};

Result<std::unique_ptr<Server>> Server::open(const bootstrap::Address& at, const bootstrap::Key& key,
                                             const Regions& regions, const Segment& segment) {
  WEFT_TRY(auto listener, bootstrap::listen_on(at));
  return std::unique_ptr<Server>(new Server(std::move(listener), key, regions, segment));
}

Server::Server(bootstrap::UniqueFd listener, const bootstrap::Key& key, const Regions& regions, const Segment& segment)
    : listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      key_(key),
      regions_(regions),
      segment_(segment),
      thread_([this] { run(); }) {}

Server::~Server() {
  const std::uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

bool Server::deliver(const std::string& peer, std::string bytes) {
  const std::lock_guard guard(mutex_);
  if (inbox_.size() >= kMostInbox) return false;
  inbox_.push_back({peer, std::move(bytes)});
  return true;
}

std::vector<Notification> Server::take_notifications() {
  const std::lock_guard guard(mutex_);
  return std::exchange(inbox_, {});
}

void Server::run() {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> watched;
  Clock::time_point looked{};
  for (;;) {
    const auto greets = [](const auto& c) { return c->greets(); };
    if (std::count_if(connections.begin(), connections.end(), greets) >= kMostStrangers) {
      const auto oldest = std::find_if(connections.begin(), connections.end(), greets);  // they are in order
      if (Clock::now() - (*oldest)->since() > kSilentTime) connections.erase(oldest);
    }
    const bool crowded = std::count_if(connections.begin(), connections.end(), greets) >= kMostStrangers;
    const bool accepts = !crowded && connections.size() < kMostConnections;
    watched = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
               {.fd = listener_.get(), .events = static_cast<short>(accepts ? POLLIN : 0), .revents = 0}};
    bool blocked = false;
    for (const auto& c : connections) {
      watched.push_back({.fd = c->fd(), .events = c->events(), .revents = 0});
      blocked = blocked || c->blocked();
    }
    if (poll(watched.data(), watched.size(), blocked ? 1 : crowded ? 10 : 200) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    // Strangers who say nothing are looked at for their time only: each look is a system call that peers wait for.
    const auto now = Clock::now();
    const bool looks = now - looked > kLookEvery;
    if (looks) looked = now;
    for (std::size_t i = 0; i < connections.size(); ++i)
      if (watched[i + 2].revents != 0 || (looks && connections[i]->stranger()) || connections[i]->blocked())
        connections[i]->advance();
    std::erase_if(connections, [](const auto& c) { return !c->open(); });
    if (watched[1].revents == 0) continue;
    auto fd = bootstrap::accept_from(listener_.get());
    if (fd && fd->open()) connections.push_back(std::make_unique<Connection>(std::move(*fd), *this));
    if (!fd) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no descriptor is left
  }
}

}  // namespace weft::transfer
