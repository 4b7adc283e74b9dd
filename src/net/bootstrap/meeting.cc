#include "net/bootstrap/meeting.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "net/bootstrap/handshake.h"

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kGreetingTime{5000};  // for a stranger to prove himself
constexpr std::size_t kStrangers = 64;       // at a time; more push out the oldest

// What the host sends when all are there, before the records; or why it gives up.
struct TableHead {
  std::int32_t ranks = 0;  // 0: gives up
  std::uint32_t reserved = 0;
  Nonce nonce{};
  char problem[88] = {};
};
static_assert(sizeof(TableHead) == 128);

struct SignedRecord {
  Record record;
  Digest mac;
};

std::span<const std::uint8_t> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

// A rank, or who claims to be one, as the host sees him.
struct Guest {
  UniqueFd fd;
  Handshake handshake;
  Clock::time_point since;
  SignedRecord in{};
  std::size_t got = 0;
  bool registered = false, served = false;
  std::vector<std::uint8_t> out;
  std::size_t sent = 0;
};

std::string missing_of(const std::vector<const Record*>& records) {
  std::string missing;
  int count = 0;
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (records[r] != nullptr) continue;
    if (++count > 8) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
  }
  return count > 8 ? fmt::format("{} and {} more", missing, count - 8) : missing;
}

// One run of a host.
class Reception {
 public:
  Reception(int listener, const Key& key, Rank ranks)
      : listener_(listener), key_(key), records_(static_cast<std::size_t>(ranks)) {}

  Status run(Milliseconds timeout, const std::atomic<bool>& stopped) {
    const auto deadline = Clock::now() + timeout;
    while (!stopped) {
      const auto now = Clock::now();
      if (now >= deadline) {
        const std::string missing = missing_of(records_);
        send_all(0, fmt::format("waited {} ms for rank {} to start", timeout.count(), missing));
        flush_for(Milliseconds(500));
        if (missing.empty())
          return failure(Code::kTimeout, Blame::kCommunicator, "not all ranks took the list of ranks within {} ms",
                         timeout.count());
        return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} to start", timeout.count(),
                       missing);
      }
      WEFT_CHECK(wait(std::min<Milliseconds>(Milliseconds(100), std::chrono::ceil<Milliseconds>(deadline - now))));
      WEFT_CHECK(welcome());
      for (Guest& g : guests_) listen_to(g);
      if (!complete_ && present_ == static_cast<Rank>(records_.size())) {
        complete_ = true;
        send_all(static_cast<std::int32_t>(records_.size()), "");
      }
      for (Guest& g : guests_) flush(g);
      dismiss();
      if (complete_ && served_ == static_cast<Rank>(records_.size())) return {};
    }
    return failure(Code::kAborted, Blame::kCommunicator, "stopped");
  }

 private:
  Status wait(Milliseconds limit) {
    watched_.clear();
    watched_.push_back({listener_, POLLIN, 0});
    for (const Guest& g : guests_)
      watched_.push_back({g.fd.get(), static_cast<short>(g.sent < g.out.size() ? POLLOUT : POLLIN), 0});
    if (poll(watched_.data(), watched_.size(), static_cast<int>(limit.count())) < 0 && errno != EINTR)
      return socket_failure("poll", "of the meeting", errno);
    return {};
  }

  Status welcome() {
    for (;;) {
      WEFT_TRY(UniqueFd fd, accept_from(listener_));
      if (!fd.open()) return {};
      const auto strangers =
          std::count_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g.registered; });
      if (static_cast<std::size_t>(strangers) >= kStrangers + records_.size()) {
        const auto oldest = std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g.registered; });
        guests_.erase(oldest);
      }
      guests_.push_back(
          Guest{.fd = std::move(fd), .handshake = Handshake(Handshake::Role::kAcceptor, key_), .since = Clock::now()});
    }
  }

  void listen_to(Guest& g) {
    if (g.registered || !g.fd.open()) {
      char end;  // a registered rank says nothing more: what can come is its end
      if (g.fd.open() && !g.served && recv(g.fd.get(), &end, 1, MSG_DONTWAIT | MSG_PEEK) == 0) leave(g);
      return;
    }
    if (g.handshake.state() == Handshake::State::kRunning) {
      g.handshake.advance(g.fd.get());
      if (g.handshake.proved() && !g.handshake.refused()) {
        judge(g.handshake);
        g.handshake.advance(g.fd.get());
      }
    }
    if (g.handshake.state() == Handshake::State::kFailed) return g.fd.reset();
    if (g.handshake.state() == Handshake::State::kDone) receive(g);
    if (g.fd.open() && !g.registered && Clock::now() - g.since > kGreetingTime) g.fd.reset();
  }

  void judge(Handshake& handshake) const {
    const Claim& c = handshake.claim();
    if (c.purpose != kMeeting || c.detail != records_.size()) return handshake.refuse(kRefusedRanks);
    if (c.from < 0 || static_cast<std::size_t>(c.from) >= records_.size()) return handshake.refuse(kRefusedRanks);
    if (records_[static_cast<std::size_t>(c.from)] != nullptr) return handshake.refuse(kRefusedDuplicate);
    handshake.accept();
  }

  void receive(Guest& g) {
    while (g.got < sizeof g.in) {
      const ssize_t n = recv(g.fd.get(), reinterpret_cast<char*>(&g.in) + g.got, sizeof g.in - g.got, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) return g.fd.reset();
      g.got += static_cast<std::size_t>(n);
    }
    const Rank rank = g.handshake.claim().from;
    auto& place = records_[static_cast<std::size_t>(rank)];
    g.in.record.host[sizeof g.in.record.host - 1] = 0;
    if (!equal(g.in.mac, mac(g.handshake.session_key(), {bytes_of(g.in.record)})) || g.in.record.rank != rank ||
        place != nullptr)
      return g.fd.reset();
    g.registered = true;
    kept_.push_back(std::make_unique<Record>(g.in.record));
    place = kept_.back().get();
    ++present_;
  }

  // A rank that ended before all were there may be started again.
  void leave(Guest& g) {
    auto& place = records_[static_cast<std::size_t>(g.handshake.claim().from)];
    if (!complete_) {
      place = nullptr;
      --present_;
    } else {
      ++served_;  // whoever misses it will find out
    }
    g.served = true;
    g.fd.reset();
  }

  void send_all(std::int32_t ranks, const std::string& problem) {
    TableHead head{.ranks = ranks};
    fill_random(head.nonce);
    std::strncpy(head.problem, problem.c_str(), sizeof head.problem - 1);
    std::vector<std::uint8_t> table(bytes_of(head).begin(), bytes_of(head).end());
    if (ranks > 0)
      for (const Record* r : records_) table.insert(table.end(), bytes_of(*r).begin(), bytes_of(*r).end());
    for (Guest& g : guests_) {
      if (!g.registered || g.served) continue;
      g.out = table;
      const Digest own = mac(g.handshake.session_key(), {table});
      g.out.insert(g.out.end(), own.begin(), own.end());
      g.sent = 0;
    }
  }

  void flush(Guest& g) {
    while (g.fd.open() && g.sent < g.out.size()) {
      const ssize_t n = send(g.fd.get(), g.out.data() + g.sent, g.out.size() - g.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) return leave(g);
      g.sent += static_cast<std::size_t>(n);
      if (g.sent < g.out.size()) continue;
      g.served = true;
      ++served_;
      shutdown(g.fd.get(), SHUT_WR);
    }
  }

  void flush_for(Milliseconds time) {
    const auto deadline = Clock::now() + time;
    const auto unfinished = [](const Guest& g) { return g.fd.open() && g.sent < g.out.size(); };
    while (Clock::now() < deadline && std::any_of(guests_.begin(), guests_.end(), unfinished)) {
      for (Guest& g : guests_) flush(g);
      std::this_thread::sleep_for(Milliseconds(1));
    }
  }

  void dismiss() {
    std::erase_if(guests_, [](const Guest& g) { return !g.fd.open(); });
  }

  int listener_;
  Key key_;
  std::vector<const Record*> records_;
  std::vector<std::unique_ptr<Record>> kept_;
  std::vector<Guest> guests_;
  std::vector<pollfd> watched_;
  Rank present_ = 0, served_ = 0;
  bool complete_ = false;
};

// Which machine's memory a process sees: the boot of the kernel, and the /dev/shm that it has.
Digest identity_of(const std::string& node) {
  if (!node.empty()) return sha256("node " + node);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat memory {};
  stat("/dev/shm", &memory);
  return sha256(fmt::format("{} {} {}", boot, memory.st_dev, memory.st_ino));
}

Result<bool> writable(int fd, Clock::time_point deadline, short events) {
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{fd, events, 0};
    const int n = poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return socket_failure("poll", "while meeting", errno);
  }
}

auto nobody_there(const Invitation& v, const Address& at, const std::string& last) {
  return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for the host of the job at {}{}{}",
                 v.timeout.count(), at.text(), last.empty() ? "" : ": ", last);
}

// Connected and greeted; nothing: try again, for nobody listens there yet.
Result<UniqueFd> greet(const Invitation& v, const Address& at, Handshake& handshake, Clock::time_point deadline,
                       std::string& last) {
  auto started = start_connect(at);
  if (!started) {
    if (started.error().code == Code::kNoResources) return started;
    last = started.error().message;
    return UniqueFd();
  }
  UniqueFd fd = std::move(*started);
  WEFT_TRY(const bool connected, writable(fd.get(), deadline, POLLOUT));
  if (!connected) return nobody_there(v, at, "no answer");
  if (const int error = connect_error(fd.get()); error != 0) {
    last = std::strerror(error);
    return UniqueFd();
  }
  while (handshake.advance(fd.get()) == Handshake::State::kRunning) {
    WEFT_TRY(const bool answered, writable(fd.get(), deadline, POLLIN));
    if (!answered) return nobody_there(v, at, "it accepts connections but does not answer");
  }
  if (handshake.state() == Handshake::State::kDone) return fd;
  // The host's last words may have been lost in a crowd, or somebody else listens there who does not speak weft.
  if (!handshake.refused() && handshake.problem().find("key") == std::string::npos &&
      handshake.problem().find("speak") == std::string::npos) {
    last = handshake.problem();
    return UniqueFd();
  }
  if (handshake.refused() == kRefusedDuplicate)
    return bad_input("two processes claim rank {} of the job at {}", v.rank, at.text());
  if (handshake.refused() == kRefusedRanks)
    return bad_input("rank {} disagrees with the host at {} on the number of ranks, {}", v.rank, at.text(), v.ranks);
  return bad_input("cannot join the job at {}: {}", at.text(), handshake.problem());
}

Status receive_all(int fd, std::uint8_t* into, std::size_t bytes, Clock::time_point deadline, const Invitation& v) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = recv(fd, into + got, bytes - got, MSG_DONTWAIT);
    if (n > 0) {
      got += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      WEFT_TRY(const bool more, writable(fd, deadline, POLLIN));
      if (!more)
        return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for all {} ranks to start",
                       v.timeout.count(), v.ranks);
      continue;
    }
    return failure(Code::kPeerDied, Blame::kCommunicator, "the host of the job has ended before all ranks had met");
  }
  return {};
}

Result<Meeting> take_part(const Invitation& v, const UniqueFd& fd, const Handshake& handshake, UniqueFd listener,
                          const Record& own, Clock::time_point deadline) {
  const Key session = handshake.session_key();
  const SignedRecord out{own, mac(session, {bytes_of(own)})};
  if (send(fd.get(), &out, sizeof out, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof out))
    return socket_failure("send", "to the host of the job", errno);
  std::vector<std::uint8_t> table(sizeof(TableHead));
  WEFT_CHECK(receive_all(fd.get(), table.data(), table.size(), deadline, v));
  TableHead head;
  std::memcpy(&head, table.data(), sizeof head);
  const std::size_t records = head.ranks == v.ranks ? static_cast<std::size_t>(v.ranks) : 0;  // 0: it gives up
  table.resize(sizeof head + records * sizeof(Record));
  WEFT_CHECK(receive_all(fd.get(), table.data() + sizeof head, table.size() - sizeof head, deadline, v));
  Digest theirs;
  WEFT_CHECK(receive_all(fd.get(), theirs.data(), theirs.size(), deadline, v));
  if (!equal(theirs, mac(session, {table}))) return bad_input("the list of ranks was changed on its way from the host");
  head.problem[sizeof head.problem - 1] = 0;
  if (records == 0) return failure(Code::kTimeout, Blame::kCommunicator, "{}", head.problem);
  Meeting meeting;
  meeting.ranks.resize(records);
  std::memcpy(meeting.ranks.data(), table.data() + sizeof head, records * sizeof(Record));
  const std::uint8_t for_data = 'd', for_name = 'n';
  meeting.key = mac(v.id.key, {{&for_data, 1}, head.nonce});
  meeting.name = hexadecimal(mac(v.id.key, {{&for_name, 1}, head.nonce})).substr(0, 32);
  meeting.listener = std::move(listener);
  return meeting;
}

}  // namespace

std::string Record::text() const { return fmt::format("process {} on {}, {}", pid, host, data.text()); }

bool Meeting::one_machine() const {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Record& r) { return r.node == ranks.front().node; });
}

Status reserve_descriptors(std::size_t wanted, const std::string& what) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return {};
  const rlimit more{std::min<rlim_t>(limit.rlim_max, wanted), limit.rlim_max};
  if (limit.rlim_max >= wanted && setrlimit(RLIMIT_NOFILE, &more) == 0) return {};
  return failure(Code::kNoResources, Blame::kProcess, "{} needs {} file descriptors, {} are allowed; raise ulimit -n",
                 what, wanted, limit.rlim_max);
}

Result<Host> Host::open(const Address& address, const Key& key, Rank ranks) {
  WEFT_CHECK(reserve_descriptors(static_cast<std::size_t>(ranks) + kStrangers,
                                 fmt::format("the host of a job of {} ranks", ranks)));
  Host host;
  WEFT_TRY(host.listener_, listen_on(address));
  host.id_.key = key;
  host.id_.addresses[0] = local_address(host.listener_.get());
  host.ranks_ = ranks;
  return host;
}

Result<Host> Host::open(const Address& address, Rank ranks) {
  Key key;
  fill_random(key);
  return open(address, key, ranks);
}

Status Host::serve(Milliseconds timeout) { return Reception(listener_.get(), id_.key, ranks_).run(timeout, *stopped_); }

Result<Meeting> meet(const Invitation& v) {
  if (v.ranks < 1 || v.rank < 0 || v.rank >= v.ranks) return bad_input("rank {} of {} ranks", v.rank, v.ranks);
  const auto deadline = Clock::now() + v.timeout;
  const auto reached = v.reach.count() > 0 ? std::min(deadline, Clock::now() + v.reach) : deadline;
  const Claim claim{.purpose = kMeeting, .from = v.rank, .to = -1, .detail = static_cast<std::uint32_t>(v.ranks)};
  std::string last;
  for (Milliseconds pause(2);; pause = std::min(pause * 2, Milliseconds(100))) {
    for (const Address& at : v.id.addresses) {
      if (at.family == 0) continue;
      Handshake handshake(Handshake::Role::kOpener, v.id.key, claim);
      WEFT_TRY(UniqueFd fd, greet(v, at, handshake, reached, last));
      if (!fd.open()) continue;
      Record own{.rank = v.rank, .ranks = v.ranks, .pid = getpid()};
      gethostname(own.host, sizeof own.host - 1);
      own.node = identity_of(v.node);
      Address here = local_address(fd.get());
      here.port = 0;
      if (!v.interface.empty()) {
        WEFT_TRY(here, choose_interface(v.interface));
      }
      WEFT_TRY(UniqueFd listener, listen_on(here));
      own.data = local_address(listener.get());
      // A little longer: the host names those who are missing.
      return take_part(v, fd, handshake, std::move(listener), own, deadline + Milliseconds(1000));
    }
    if (Clock::now() + pause >= reached) return nobody_there(v, v.id.addresses[0], last);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace weft::net::bootstrap
