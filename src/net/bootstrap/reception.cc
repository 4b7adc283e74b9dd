#include "net/bootstrap/reception.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "net/bootstrap/table.h"
#include "net/link/bytes.h"
#include "net/link/handshake.h"

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kGreetingTime{5000};  // for a stranger to prove himself

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

// The ranks that have not come.
std::vector<Rank> missing_of(const std::vector<const Record*>& records) {
  std::vector<Rank> missing;
  for (std::size_t r = 0; r < records.size(); ++r)
    if (records[r] == nullptr) missing.push_back(static_cast<Rank>(r));
  return missing;
}

std::string text_of(std::span<const Rank> missing) {
  constexpr std::size_t kMost = 8;
  const auto named = missing.first(std::min(kMost, missing.size()));
  const std::string text = fmt::format("{}", fmt::join(named, ", "));
  return missing.size() > kMost ? fmt::format("{} and {} more", text, missing.size() - kMost) : text;
}

// One run of a host.
class Run {
 public:
  Run(int listener, const Key& key, Rank ranks)
      : listener_(listener), key_(key), records_(static_cast<std::size_t>(ranks)) {}

  Status run(Milliseconds timeout, const std::atomic<bool>& stopped) {
    const auto deadline = Clock::now() + timeout;
    while (!stopped) {
      const auto now = Clock::now();
      if (now >= deadline) return give_up(timeout);
      const auto left = std::max(std::chrono::ceil<Milliseconds>(deadline - now), Milliseconds(0));
      WEFT_CHECK(wait(std::min(Milliseconds(100), left)));
      WEFT_CHECK(welcome());
      for (Guest& g : guests_) listen_to(g);
      if (!complete_ && present_ == static_cast<Rank>(records_.size())) {
        complete_ = true;
        send_all(present_, "");
      }
      for (Guest& g : guests_) flush(g);
      dismiss();
      if (complete_ && served_ == present_) return {};
    }
    return failure(Code::kAborted, Blame::kCommunicator, "stopped");
  }

 private:
  Status give_up(Milliseconds timeout) {
    const std::vector<Rank> missing = missing_of(records_);
    const std::string problem = fmt::format("waited {} ms for rank {} to start", timeout.count(), text_of(missing));
    send_all(0, problem, missing);
    flush_for(Milliseconds(500));
    if (missing.empty() || complete_)
      return failure(Code::kTimeout, Blame::kCommunicator, "not all ranks took the list of ranks within {} ms",
                     timeout.count());
    auto error = failure(Code::kTimeout, Blame::kCommunicator, "{}", problem);
    error.value().ranks = missing;
    return error;
  }

  Status wait(Milliseconds limit) {
    watched_.clear();
    watched_.push_back({listener_, POLLIN, 0});
    for (const Guest& g : guests_)
      watched_.push_back({g.fd.get(), static_cast<short>(g.sent < g.out.size() ? POLLOUT : POLLIN), 0});
    if (poll(watched_.data(), watched_.size(), static_cast<int>(limit.count())) < 0 && errno != EINTR)
      return socket_failure("poll", "of the meeting", errno);
    return {};
  }

  // A stranger makes place for the next: one that has said nothing, else the oldest. A guest that has proved the key
  // stays: it would take its connection's end for the job's. Each call accepts at most kStrangers, so that a flood does
  // not keep the host from listening.
  Status welcome() {
    const auto proved = [](const Guest& g) {
      return g.registered || g.handshake.proved() || g.handshake.state() == Handshake::State::kDone;
    };
    for (std::size_t accepted = 0; accepted < kStrangers; ++accepted) {
      WEFT_TRY(UniqueFd fd, accept_from(listener_));
      if (!fd.open()) return {};
      const auto strangers = std::count_if(guests_.begin(), guests_.end(), [&](const Guest& g) { return !proved(g); });
      if (static_cast<std::size_t>(strangers) >= kStrangers + records_.size()) {
        auto leaves = std::find_if(guests_.begin(), guests_.end(),
                                   [&](const Guest& g) { return !proved(g) && g.handshake.silent(); });
        if (leaves == guests_.end())
          leaves = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& g) { return !proved(g); });
        guests_.erase(leaves);
      }
      guests_.push_back(
          Guest{.fd = std::move(fd), .handshake = Handshake(Handshake::Role::kAcceptor, key_), .since = Clock::now()});
    }
    return {};
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
      const Moved moved = receive_now(g.fd.get(), reinterpret_cast<char*>(&g.in) + g.got, sizeof g.in - g.got);
      if (moved.over) g.fd.reset();
      if (moved.bytes == 0) return;
      g.got += moved.bytes;
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
      ++served_;  // a rank that misses it will find out
    }
    g.served = true;
    g.fd.reset();
  }

  void send_all(std::int32_t ranks, const std::string& problem, std::span<const Rank> missing = {}) {
    TableHead head{.ranks = ranks};
    std::copy_n(missing.begin(), std::min(missing.size(), head.missing.size()), head.missing.begin());
    fill_random(head.nonce);
    std::strncpy(head.problem, problem.c_str(), sizeof head.problem - 1);
    std::vector<std::uint8_t> table(bytes_of(head).begin(), bytes_of(head).end());
    if (ranks > 0)
      for (const Record* r : records_)
        if (r != nullptr) table.insert(table.end(), bytes_of(*r).begin(), bytes_of(*r).end());
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
      const Moved moved = send_now(g.fd.get(), g.out.data() + g.sent, g.out.size() - g.sent);
      if (moved.over) return leave(g);
      if (moved.bytes == 0) return;
      g.sent += moved.bytes;
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

}  // namespace

Status receive_ranks(int listener, const Key& key, Rank ranks, Milliseconds timeout, const std::atomic<bool>& stopped) {
  return Run(listener, key, ranks).run(timeout, stopped);
}

}  // namespace weft::net::bootstrap
