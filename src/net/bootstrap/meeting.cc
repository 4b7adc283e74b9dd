#include "net/bootstrap/meeting.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/env.h"
#include "net/bootstrap/member.h"
#include "net/bootstrap/reception.h"
#include "net/bootstrap/table.h"
#include "net/link/dial.h"
#include "weft/interrupt.h"

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kWatchEvery{20};

// May this rank go on with the meeting?
Status goes_on(const Invitation& v) {
  if (Interruptible::asked())
    return failure_of(v.rank, Code::kAborted, Blame::kOperation, "rank {}: interrupted while the ranks met", v.rank);
  return v.watch ? v.watch() : Status();
}

// The waits of a meeting.
class Watch {
 public:
  explicit Watch(const Invitation& v) : asks_([this, &v] { return !(problem_ = goes_on(v)); }) {}
  Watch(const Watch&) = delete;
  WaitLimit until(Clock::time_point deadline) const {
    return {.deadline = deadline, .interrupted = &asks_, .ask_every = kWatchEvery};
  }
  // Why a wait was interrupted.
  const Error& problem() const { return problem_.error(); }

 private:
  Status problem_;
  const std::function<bool()> asks_;
};

auto nobody_there(const Invitation& v, const Address& at, const std::string& last) {
  return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for the host of the job at {}{}{}",
                 v.timeout.count(), at.text(), last.empty() ? "" : ": ", last);
}

// Connected and greeted; no descriptor: try again, for nobody listens there yet.
Result<Attempt> greet(const Invitation& v, const Address& at, const Claim& claim, Clock::time_point deadline,
                      std::string& last) {
  Attempt nobody{.handshake = Handshake(Handshake::Role::kOpener, v.id.key, claim)};
  Watch watch(v);
  auto tried = dial_once({.to = at, .key = v.id.key, .claim = claim}, watch.until(deadline));
  if (!tried) {
    if (tried.error().code == Code::kNoResources) return tried;
    last = tried.error().message;
    return nobody;
  }
  if (tried->outcome == Outcome::kDone) return tried;
  if (tried->outcome == Outcome::kInterrupted) return tl::make_unexpected(watch.problem());
  if (tried->outcome == Outcome::kLate)
    return nobody_there(v, at, tried->connected ? "it accepts connections but does not answer" : "no answer");
  if (!tried->connected) {
    last = tried->problem;
    return nobody;
  }
  const Handshake& handshake = tried->handshake;
  // The host's last words may have been lost in a crowd, or somebody else listens there who does not speak weft.
  if (!handshake.refused() && handshake.problem().find("key") == std::string::npos &&
      handshake.problem().find("speak") == std::string::npos) {
    last = handshake.problem();
    return nobody;
  }
  if (handshake.refused() == kRefusedDuplicate)
    return bad_input("two processes claim rank {} of the job at {}", v.rank, at.text());
  if (handshake.refused() == kRefusedRanks)
    return bad_input("rank {} disagrees with the host at {} on the number of ranks, {}", v.rank, at.text(), v.ranks);
  return bad_input("cannot join the job at {}: {}", at.text(), handshake.problem());
}

Status receive(int fd, std::span<std::uint8_t> into, Clock::time_point deadline, const Invitation& v) {
  Watch watch(v);
  switch (receive_all(fd, std::as_writable_bytes(into), watch.until(deadline))) {
    case Outcome::kDone:
      return {};
    case Outcome::kInterrupted:
      return tl::make_unexpected(watch.problem());
    case Outcome::kLate:
      return failure(Code::kTimeout, Blame::kCommunicator, "waited {} ms for all {} ranks to start", v.timeout.count(),
                     v.ranks);
    case Outcome::kOver:
      break;
  }
  return failure(Code::kPeerDied, Blame::kCommunicator, "the host of the job has ended before all ranks had met");
}

Result<Meeting> take_part(const Invitation& v, const UniqueFd& fd, const Handshake& handshake, UniqueFd listener,
                          UniqueFd aggregation, const Record& own, Clock::time_point deadline) {
  const Key session = handshake.session_key();
  const SignedRecord out{own, mac(session, {bytes_of(own)})};
  if (send(fd.get(), &out, sizeof out, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof out))
    return socket_failure("send", "to the host of the job", errno);
  std::vector<std::uint8_t> table(sizeof(TableHead));
  WEFT_CHECK(receive(fd.get(), table, deadline, v));
  TableHead head;
  std::memcpy(&head, table.data(), sizeof head);
  const std::size_t records = head.ranks == v.ranks ? static_cast<std::size_t>(head.ranks) : 0;  // 0: it gives up
  table.resize(sizeof head + records * sizeof(Record));
  WEFT_CHECK(receive(fd.get(), std::span(table).subspan(sizeof head), deadline, v));
  Digest theirs;
  WEFT_CHECK(receive(fd.get(), theirs, deadline, v));
  if (!equal(theirs, mac(session, {table}))) return bad_input("the list of ranks was changed on its way from the host");
  head.problem[sizeof head.problem - 1] = 0;
  if (records == 0) {
    auto error = failure(Code::kTimeout, Blame::kCommunicator, "{}", head.problem);
    for (const Rank r : head.missing)
      if (r >= 0 && r < v.ranks) error.value().ranks.push_back(r);
    return error;
  }
  Meeting meeting;
  meeting.ranks.resize(records);
  std::memcpy(meeting.ranks.data(), table.data() + sizeof head, records * sizeof(Record));
  for (const Record& r : meeting.ranks)
    if (const Protection first = meeting.ranks.front().protection; r.protection != first)
      return bad_input("the ranks disagree on WEFT_SECURE: rank 0 has {}, rank {} ({}) has {}", word(first), r.rank,
                       r.text(), word(r.protection));
  const std::uint8_t for_data = 'd', for_name = 'n';
  meeting.key = mac(v.id.key, {{&for_data, 1}, head.nonce});
  meeting.name = hexadecimal(mac(v.id.key, {{&for_name, 1}, head.nonce})).substr(0, 32);
  meeting.listener = std::move(listener);
  meeting.aggregation = std::move(aggregation);
  return meeting;
}

}  // namespace

// The boot of the kernel, the /dev/shm that a process has, and the processes that it can name. Containers that share
// /dev/shm but not the processes' numbers could not watch each other.
Digest machine_identity(const std::string& node) {
  if (!node.empty()) return sha256("node " + node);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat memory {
  }, processes{};
  stat("/dev/shm", &memory);
  stat("/proc/self/ns/pid", &processes);
  return sha256(fmt::format("{} {} {} {}", boot, memory.st_dev, memory.st_ino, processes.st_ino));
}

std::string Record::text() const { return fmt::format("process {} on {}, {}", pid, host, data.text()); }

std::vector<Address> Record::all_rails() const {
  std::vector<Address> all;
  for (const Address& rail : rails)
    if (rail.family != 0) {
      all.push_back(rail);
      all.back().port = data.port;
    }
  if (all.empty()) all.push_back(data);
  return all;
}

bool Record::has_rail(const Address& address) const {
  return rails[1].family == 0 ||
         std::any_of(std::begin(rails), std::end(rails), [&](const Address& rail) { return rail.same_host(address); });
}

std::size_t Meeting::most_rails() const {
  std::size_t most = 1;
  for (const Record& r : ranks) most = std::max(most, r.all_rails().size());
  return most;
}

bool Meeting::one_machine() const {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Record& r) { return r.node == ranks.front().node; });
}

Sealing Meeting::sealing() const {
  return {.protection = ranks.front().protection,
          .aes = std::all_of(ranks.begin(), ranks.end(), [](const Record& r) { return r.aes != 0; })};
}

std::shared_ptr<Member> join_members(const Meeting& meeting, Rank rank) {
  MemberIdentity identity{.key = meeting.key, .addresses = {}, .arbiter = meeting.ranks.front().arbiter, .rank = rank};
  for (const Record& r : meeting.ranks) {
    Address at = r.data;
    at.port = r.member_port;
    identity.addresses.push_back(r.member_port == 0 ? Address{} : at);
  }
  return Member::join(std::move(identity));
}

Status reserve_descriptors(std::size_t wanted, const std::string& what) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return {};
  const rlimit more{std::min<rlim_t>(limit.rlim_max, wanted), limit.rlim_max};
  if (limit.rlim_max >= wanted && setrlimit(RLIMIT_NOFILE, &more) == 0) return {};
  return failure(Code::kNoResources, Blame::kProcess, "{} needs {} file descriptors, {} are allowed; raise ulimit -n",
                 what, wanted, limit.rlim_max);
}

Result<Host> Host::open(const Address& address, const Key& key, Rank ranks, Ports ports) {
  WEFT_CHECK(reserve_descriptors(static_cast<std::size_t>(ranks) + kStrangers,
                                 fmt::format("the host of a job of {} ranks", ranks)));
  Host host;
  WEFT_TRY(host.listener_, listen_on(address, ports));
  host.id_.key = key;
  host.id_.addresses[0] = local_address(host.listener_.get());
  host.ranks_ = ranks;
  return host;
}

Result<Host> Host::open(const Address& address, Rank ranks, Ports ports) {
  Key key;
  fill_random(key);
  return open(address, key, ranks, ports);
}

Status Host::serve(Milliseconds timeout) { return receive_ranks(listener_.get(), id_.key, ranks_, timeout, *stopped_); }

Result<Meeting> meet(const Invitation& v) {
  if (v.ranks < 1 || v.rank < 0 || v.rank >= v.ranks) return bad_input("rank {} of {} ranks", v.rank, v.ranks);
  const auto deadline = Clock::now() + v.timeout;
  const auto reached = v.reach.count() > 0 ? std::min(deadline, Clock::now() + v.reach) : deadline;
  const Claim claim{.purpose = kMeeting, .from = v.rank, .to = -1, .detail = static_cast<std::uint32_t>(v.ranks)};
  std::string last;
  for (Milliseconds pause(2);; pause = std::min(pause * 2, Milliseconds(100))) {
    for (const Address& at : v.id.addresses) {
      if (at.family == 0) continue;
      WEFT_TRY(const Attempt greeted, greet(v, at, claim, reached, last));
      const UniqueFd& fd = greeted.fd;
      if (!fd.open()) continue;
      Record own{.rank = v.rank, .ranks = v.ranks, .pid = getpid()};
      gethostname(own.host, sizeof own.host - 1);
      own.node = machine_identity(v.node);
      Address here = local_address(fd.get());
      here.port = 0;
      if (!v.interface.empty()) {
        WEFT_TRY(const auto chosen, choose_interfaces(v.interface));
        here = chosen.front().address;
        for (std::size_t i = 0; i < chosen.size(); ++i) own.rails[i] = chosen[i].address;
      }
      own.data = here;
      WEFT_TRY(UniqueFd listener, listen_on_rails(own.all_rails(), v.ports));
      own.data.port = local_address(listener.get()).port;
      WEFT_TRY(own.member_port, member_port(here, v.ports));
      own.arbiter = v.arbiter;
      own.protection = v.protection;
      own.transport = env::number_of_transport(v.transport);
      own.aes = has_aes() ? 1 : 0;
      UniqueFd aggregation;
      if (v.aggregates && v.rank == 0) {
        WEFT_TRY(aggregation, listen_on(here, v.ports));
        own.aggregation_port = local_address(aggregation.get()).port;
      }
      // A little longer: the host names those who are missing.
      return take_part(v, fd, greeted.handshake, std::move(listener), std::move(aggregation), own,
                       deadline + Milliseconds(1000));
    }
    if (Clock::now() + pause >= reached) return nobody_there(v, v.id.addresses[0], last);
    WEFT_CHECK(goes_on(v));
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace weft::net::bootstrap
