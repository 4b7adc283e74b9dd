#include "net/bootstrap/member.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "net/bootstrap/arbiter.h"

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Value = std::shared_ptr<const Octets>;

constexpr milliseconds kAnswerTime{500};  // for one request; who does not answer is asked again
constexpr milliseconds kFirstPause{1}, kLongestPause{20};
constexpr std::size_t kKeptInstances = 64;

Digest tag_of(const Key& key) {
  constexpr std::uint8_t kFor = 'm';
  return mac(key, {{&kFor, 1}});
}

void append(Octets& out, const auto& value) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), at, at + sizeof value);
}

// A decision as octets: nonce, ranks that have ended, and every member with its payload.
Octets encode(const Member::Decision& d) {
  Octets out;
  append(out, d.nonce);
  append(out, static_cast<std::uint32_t>(d.ended.size()));
  for (const Rank r : d.ended) append(out, r);
  append(out, static_cast<std::uint32_t>(d.parts.size()));
  for (const auto& part : d.parts) {
    append(out, part.rank);
    append(out, static_cast<std::uint32_t>(part.payload.size()));
    out.insert(out.end(), part.payload.begin(), part.payload.end());
  }
  return out;
}

class Reader {
 public:
  explicit Reader(const Octets& from) : left_(from) {}
  template <class T>
  bool read(T& into) {
    if (left_.size() < sizeof into) return false;
    std::memcpy(&into, left_.data(), sizeof into);
    left_ = left_.subspan(sizeof into);
    return true;
  }
  bool read(Octets& into, std::size_t bytes) {
    if (left_.size() < bytes) return false;
    into.assign(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(bytes));
    left_ = left_.subspan(bytes);
    return true;
  }

 private:
  std::span<const std::uint8_t> left_;
};

std::optional<Member::Decision> decode(const Octets& from) {
  Member::Decision d;
  Reader in(from);
  std::uint32_t ended = 0, parts = 0;
  if (!in.read(d.nonce) || !in.read(ended)) return std::nullopt;
  for (std::uint32_t i = 0; i < ended; ++i)
    if (!in.read(d.ended.emplace_back())) return std::nullopt;
  if (!in.read(parts)) return std::nullopt;
  for (std::uint32_t i = 0; i < parts; ++i) {
    auto& part = d.parts.emplace_back();
    std::uint32_t bytes = 0;
    if (!in.read(part.rank) || !in.read(bytes) || !in.read(part.payload, bytes)) return std::nullopt;
  }
  return d;
}

// Callers use the ranks as indices: members are in ascending order, and all ranks are of the communicator.
bool of_these_ranks(const Member::Decision& d, Rank ranks) {
  Rank last = -1;
  for (const auto& part : d.parts) {
    if (part.rank <= last || part.rank >= ranks) return false;
    last = part.rank;
  }
  return std::all_of(d.ended.begin(), d.ended.end(), [&](Rank r) { return r >= 0 && r < ranks; });
}

}  // namespace

struct Member::Shared {
  explicit Shared(MemberIdentity i) : identity(std::move(i)), tag(tag_of(identity.key)) {}

  const MemberIdentity identity;
  const Digest tag;
  mutable std::mutex mutex;  // of what follows
  struct Instance {
    Acceptor<Value> acceptor;
    Octets payload;
    bool coordinates = false;  // its rank, now
  };
  std::map<std::uint32_t, Instance> instances;
  bool left = false;
  std::optional<Broken> broken;

  Message reply(const Message& request);
  void note_outcome(std::uint32_t instance, const Value& outcome) {
    const std::lock_guard guard(mutex);
    if (Instance& i = instances[instance]; !i.acceptor.decided) i.acceptor.decide(outcome);
    forget_old();
  }
  void forget_old() {
    while (instances.size() > kKeptInstances) instances.erase(std::next(instances.begin()));  // 0 is shrink's
  }
  Value outcome(std::uint32_t instance) const {
    const std::lock_guard guard(mutex);
    const auto found = instances.find(instance);
    return found != instances.end() && found->second.acceptor.decided ? found->second.acceptor.value : nullptr;
  }
};

// What a rank answers, whether or not it is inside a call: who has decided answers everything with the decision.
Message Member::Shared::reply(const Message& request) {
  const std::lock_guard guard(mutex);
  const MessageHead& asked = request.head;
  Message out;
  out.head.kind = asked.kind;
  out.head.from = identity.rank;
  out.head.to = asked.from;
  out.head.instance = asked.instance;
  if (asked.kind == MessageKind::kBroken && !broken) broken = Broken{asked.culprit, asked.cause, asked.from};
  if (broken) {
    out.head.culprit = broken->culprit;
    out.head.cause = broken->cause;
  }
  const auto found = instances.find(asked.instance);
  const bool known = found != instances.end();
  if (asked.kind == MessageKind::kDecided && !(known && found->second.acceptor.decided)) {
    instances[asked.instance].acceptor.decide(std::make_shared<const Octets>(request.body));
    forget_old();
    out.head.status = MessageStatus::kDecided;
    return out;
  }
  if (known && found->second.acceptor.decided) {
    out.head.status = MessageStatus::kDecided;
    out.body = *found->second.acceptor.value;
    return out;
  }
  if (left) {
    out.head.status = MessageStatus::kLeft;
    return out;
  }
  if (!known || !found->second.acceptor.called) return out;
  Acceptor<Value>& acceptor = found->second.acceptor;
  out.head.status = found->second.coordinates ? MessageStatus::kCoordinates : MessageStatus::kCalled;
  if (asked.kind == MessageKind::kPrepare) {
    out.head.status = acceptor.promise(asked.ballot) ? MessageStatus::kPromised : MessageStatus::kRefused;
    if (out.head.status == MessageStatus::kPromised) {
      out.head.accepted = acceptor.accepted;
      out.body = found->second.payload;
      out.head.payload_length = static_cast<std::uint32_t>(out.body.size());
      if (acceptor.accepted.attempt > 0)
        out.body.insert(out.body.end(), acceptor.value->begin(), acceptor.value->end());
    }
  } else if (asked.kind == MessageKind::kAccept) {
    const bool accepted = acceptor.accept(asked.ballot, std::make_shared<const Octets>(request.body));
    out.head.status = accepted ? MessageStatus::kAccepted : MessageStatus::kRefused;
  }
  out.head.ballot = acceptor.promised;
  return out;
}

// What answers for all communicators of this process. It lives until the process ends, so that a rank that has dropped
// its communicator still says what was decided; a forked child has one of its own.
class Service {
 public:
  static Service& get() {
    static std::mutex mutex;
    static Service* service = nullptr;
    const std::lock_guard guard(mutex);
    if (service == nullptr || service->owner_ != getpid()) service = new Service;  // never deleted
    return *service;
  }

  // Before what the thread uses (libcrypto) is cleaned up at exit.
  void stop_at_exit() {
    static std::atomic<Service*> latest{nullptr};
    if (latest.exchange(this) == nullptr)
      std::atexit([] {
        if (Service* s = latest; s->owner_ == getpid()) s->responder_.stop();
      });
  }

  Result<std::uint16_t> port_at(Address at, Ports ports) {
    at.port = 0;
    const std::lock_guard guard(ports_mutex_);
    for (const auto& [known, port] : ports_)
      if (known == at) return port;
    WEFT_TRY(const Address own, responder_.listen_at(at, ports));
    ports_.emplace_back(at, own.port);
    return own.port;
  }

  void add(const std::shared_ptr<Member::Shared>& member) {
    std::call_once(started_, [this] {
      stop_at_exit();
      responder_.start();
    });
    const std::lock_guard guard(mutex_);
    members_[{member->tag, member->identity.rank}] = member;
  }

 private:
  using Name = std::pair<Digest, Rank>;

  std::shared_ptr<Member::Shared> find(const MessageHead& head) {
    const std::lock_guard guard(mutex_);
    const auto found = members_.find(Name{head.tag, head.to});
    return found == members_.end() ? nullptr : found->second;
  }

  const pid_t owner_ = getpid();
  std::once_flag started_;  // with the first member: a listener alone needs no thread
  std::mutex mutex_, ports_mutex_;
  std::map<Name, std::shared_ptr<Member::Shared>> members_;
  std::vector<std::pair<Address, std::uint16_t>> ports_;
  Responder responder_{{.key_of =
                            [this](const MessageHead& head) {
                              const auto member = find(head);
                              return member ? std::optional<Key>(member->identity.key) : std::nullopt;
                            },
                        .reply = [this](const Message& request) { return find(request.head)->reply(request); }}};
};

Result<std::uint16_t> member_port(const Address& at, Ports ports) { return Service::get().port_at(at, ports); }

std::shared_ptr<Member> Member::join(MemberIdentity identity) {
  auto shared = std::make_shared<Shared>(std::move(identity));
  Service::get().add(shared);
  return std::shared_ptr<Member>(new Member(std::move(shared)));
}

Member::~Member() {
  const std::lock_guard guard(shared_->mutex);
  shared_->left = true;
}

std::optional<Member::Broken> Member::broken() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->broken;
}

void Member::tell_broken(const Broken& broken, const std::vector<Rank>& to) {
  {
    const std::lock_guard guard(shared_->mutex);
    if (!shared_->broken) shared_->broken = broken;
  }
  const MemberIdentity& self = shared_->identity;
  std::vector<Address> at;
  for (const Rank r : to) at.push_back(self.addresses[static_cast<std::size_t>(r)]);
  exchange(self.key,
           {{.kind = MessageKind::kBroken,
             .from = self.rank,
             .culprit = broken.culprit,
             .cause = broken.cause,
             .tag = shared_->tag},
            {}},
           at, to, kAnswerTime);
}

Member::State Member::state_of(Rank rank, milliseconds limit) const {
  const MemberIdentity& self = shared_->identity;
  const auto answers = exchange(self.key, {{.kind = MessageKind::kAsk, .from = self.rank, .tag = shared_->tag}, {}},
                                {&self.addresses[static_cast<std::size_t>(rank)], 1}, {&rank, 1}, limit);
  State state;
  if (answers[0].outcome == Answer::Outcome::kRefused) state.fate = Fate::kEnded;
  if (answers[0].outcome != Answer::Outcome::kAnswered) return state;
  const MessageHead& head = answers[0].reply.head;
  state.fate = head.status == MessageStatus::kLeft ? Fate::kLeft : Fate::kAlive;
  if (head.culprit >= 0) state.broken = Broken{head.culprit, head.cause, rank};
  return state;
}

namespace {

// One rank's search for a decision: follows a lower rank that coordinates, or coordinates itself.
class Search {
 public:
  Search(const MemberIdentity& self, const Digest& tag, std::uint32_t instance, milliseconds timeout,
         const std::function<bool(Rank)>& has_ended)
      : self_(self),
        tag_(tag),
        instance_(instance),
        timeout_(timeout),
        has_ended_(has_ended),
        begin_(Clock::now()),
        gone_(self.addresses.size()),
        promised_(self.addresses.size()) {}

  // What this rank's own acceptor does; `decided`: see outcome.
  std::function<Message(const Message&)> own;
  std::function<Value()> outcome;
  std::function<void(const Value&)> note_outcome;
  std::function<void(bool)> say_coordinates;

  // Null: no quorum.
  Value run() {
    for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      if (Value found = outcome()) return found;
      const bool late = Clock::now() - begin_ > 2 * timeout_;
      if (leader_ < 0 && !coordinating_) find_leader();
      if (leader_ >= 0)
        follow();
      else
        coordinate();
      if (Value found = outcome()) return found;
      if (late || hopeless_) return nullptr;
      std::this_thread::sleep_for(pause);
    }
  }

  std::vector<Rank> present() const {
    std::vector<Rank> here;
    for (Rank r = 0; r < self_.ranks(); ++r)
      if (r == self_.rank || promised_[index(r)]) here.push_back(r);
    return here;
  }

 private:
  static std::size_t index(Rank r) { return static_cast<std::size_t>(r); }
  bool waited_enough() const { return Clock::now() - begin_ >= timeout_; }

  Message request(MessageKind kind, Octets body = {}) const {
    return {{.kind = kind, .from = self_.rank, .instance = instance_, .ballot = ballot_, .tag = tag_}, std::move(body)};
  }
  std::vector<Answer> ask(const std::vector<Rank>& to, const Message& message) {
    std::vector<Address> at;
    for (const Rank r : to) at.push_back(self_.addresses[index(r)]);
    auto answers = exchange(self_.key, message, at, to, std::min(kAnswerTime, timeout_));
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Answer& a = answers[i];
      if (a.outcome == Answer::Outcome::kRefused || (has_ended_ && has_ended_(to[i]))) gone_[index(to[i])] = true;
      if (a.outcome != Answer::Outcome::kAnswered) continue;
      const MessageStatus status = a.reply.head.status;
      if (status == MessageStatus::kLeft) gone_[index(to[i])] = true;
      if (status == MessageStatus::kDecided && !a.reply.body.empty())
        note_outcome(std::make_shared<const Octets>(a.reply.body));
      if (status == MessageStatus::kRefused) outbid(a.reply.head.ballot);
    }
    return answers;
  }
  // Another coordinator has a higher ballot: it may finish, unless it falls silent.
  void outbid(Ballot by) {
    highest_ = std::max(highest_, by);
    if (by.coordinator == self_.rank || by.coordinator < 0 || by.coordinator >= self_.ranks()) return;
    coordinate_from_now(false);
    leader_ = by.coordinator;
    heard_ = Clock::now();
  }
  void coordinate_from_now(bool on) {
    coordinating_ = on;
    say_coordinates(on);
    if (on) next_ballot();
  }
  static bool takes_part(const Answer& a) {
    return a.outcome == Answer::Outcome::kAnswered &&
           (a.reply.head.status == MessageStatus::kCalled || a.reply.head.status == MessageStatus::kCoordinates);
  }

  // The lowest rank below that takes part and answers.
  void find_leader() {
    constexpr Rank kTogether = 8;
    for (Rank first = 0; first < self_.rank; first += kTogether) {
      std::vector<Rank> lower;
      for (Rank r = first; r < std::min(self_.rank, first + kTogether); ++r)
        if (!gone_[index(r)] && r != silent_) lower.push_back(r);
      const auto answers = ask(lower, request(MessageKind::kAsk));
      for (std::size_t i = 0; i < lower.size(); ++i) {
        if (!takes_part(answers[i])) continue;
        leader_ = lower[i];
        heard_ = Clock::now();
        return;
      }
    }
    coordinate_from_now(true);
  }

  // A leader is replaced when it has ended, has been silent for a quarter of the timeout, or takes far too long; a
  // higher rank also when it does not coordinate: its ballot is of an attempt that it has given up, and it may follow
  // this one.
  void follow() {
    const auto answers = ask({leader_}, request(MessageKind::kAsk));
    if (outcome()) return;
    const auto now = Clock::now();
    if (takes_part(answers[0])) heard_ = now;
    const bool silent = now - heard_ > timeout_ / 4, overdue = now - begin_ >= timeout_ * 3 / 2;
    const bool gave_up = leader_ > self_.rank && answers[0].outcome == Answer::Outcome::kAnswered &&
                         answers[0].reply.head.status != MessageStatus::kCoordinates;
    if (!gone_[index(leader_)] && !silent && !overdue && !gave_up) return;
    if (silent) silent_ = leader_;
    leader_ = -1;
    if (overdue || gave_up) coordinate_from_now(true);
  }

  void next_ballot() {
    ballot_ = {highest_.attempt + 1, self_.rank};
    highest_ = ballot_;
    std::fill(promised_.begin(), promised_.end(), false);
    bound_ = {};
  }

  void coordinate() {
    if (highest_ < ballot_) highest_ = ballot_;
    if (!prepare()) return;
    if (self_.arbiter.family != 0) return ask_arbiter();
    const std::vector<Rank> here = present();
    if (!is_quorum(here, self_.ranks())) {
      hopeless_ = complete();
      return;
    }
    const Value value = bound_.bound() ? bound_.value : std::make_shared<const Octets>(encode(proposal()));
    Message accept = request(MessageKind::kAccept, *value);
    if (const Message mine = own(accept); mine.head.status == MessageStatus::kRefused) return outbid(mine.head.ballot);
    std::vector<Rank> others = here, accepted = {self_.rank};
    std::erase(others, self_.rank);
    const auto answers = ask(others, accept);
    for (std::size_t i = 0; i < others.size(); ++i)
      if (answers[i].outcome == Answer::Outcome::kAnswered && answers[i].reply.head.status == MessageStatus::kAccepted)
        accepted.push_back(others[i]);
    if (outcome() || !coordinating_) return;
    if (!is_quorum(accepted, self_.ranks())) return next_ballot();
    spread(value);
  }

  // True: all that live have promised, or enough time has passed.
  bool prepare() {
    const Message prepare = request(MessageKind::kPrepare);
    if (const Message mine = own(prepare); mine.head.status == MessageStatus::kRefused) {
      outbid(mine.head.ballot);
      return false;
    } else {
      payloads_[self_.rank] = take_promise(mine);
    }
    std::vector<Rank> to;
    for (Rank r = 0; r < self_.ranks(); ++r) {
      if (has_ended_ && r != self_.rank && has_ended_(r)) gone_[index(r)] = true;
      if (r != self_.rank && !gone_[index(r)] && !promised_[index(r)]) to.push_back(r);
    }
    const auto answers = ask(to, prepare);
    if (outcome() || !coordinating_) return false;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (answers[i].outcome != Answer::Outcome::kAnswered || answers[i].reply.head.status != MessageStatus::kPromised)
        continue;
      promised_[index(to[i])] = true;
      payloads_[to[i]] = take_promise(answers[i].reply);
    }
    return complete() || waited_enough();
  }

  Octets take_promise(const Message& promise) {
    const auto middle = promise.body.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                   promise.head.payload_length, promise.body.size()));
    if (promise.head.accepted.attempt > 0)
      bound_.add(promise.head.accepted, std::make_shared<const Octets>(middle, promise.body.end()));
    return {promise.body.begin(), middle};
  }

  bool complete() const {
    for (Rank r = 0; r < self_.ranks(); ++r)
      if (r != self_.rank && !gone_[index(r)] && !promised_[index(r)]) return false;
    return true;
  }

  Member::Decision proposal() const {
    Member::Decision d;
    fill_random(d.nonce);
    for (const Rank r : present()) d.parts.push_back({r, payloads_.at(r)});
    for (Rank r = 0; r < self_.ranks(); ++r)
      if (gone_[index(r)]) d.ended.push_back(r);
    return d;
  }

  void ask_arbiter() {
    const std::uint8_t kFor = 'a';
    const Digest name =
        mac(self_.key, {{&kFor, 1}, {reinterpret_cast<const std::uint8_t*>(&instance_), sizeof instance_}});
    if (auto held = claim(self_.arbiter, name, encode(proposal()), std::min(kAnswerTime, timeout_)))
      spread(std::make_shared<const Octets>(std::move(*held)));
  }

  void spread(const Value& value) {
    note_outcome(value);
    std::vector<Rank> others;
    for (Rank r = 0; r < self_.ranks(); ++r)
      if (r != self_.rank && !gone_[index(r)]) others.push_back(r);
    ask(others, request(MessageKind::kDecided, *value));
  }

  const MemberIdentity& self_;
  const Digest& tag_;
  const std::uint32_t instance_;
  const milliseconds timeout_;
  const std::function<bool(Rank)>& has_ended_;
  const Clock::time_point begin_;
  std::vector<bool> gone_, promised_;
  std::map<Rank, Octets> payloads_;
  Ballot ballot_, highest_;
  Proposal<Value> bound_;
  Rank leader_ = -1, silent_ = -1;
  bool coordinating_ = false, hopeless_ = false;
  Clock::time_point heard_;
};

}  // namespace

Result<Member::Decision> Member::decide(std::uint32_t instance, const Octets& payload, milliseconds timeout,
                                        const std::function<bool(Rank)>& has_ended) {
  Shared& shared = *shared_;
  const MemberIdentity& self = shared.identity;
  {
    const std::lock_guard guard(shared.mutex);
    Shared::Instance& mine = shared.instances[instance];
    if (!mine.acceptor.called) mine.payload = payload;
    mine.acceptor.called = true;
  }
  Search search(self, shared.tag, instance, timeout, has_ended);
  search.own = [&](const Message& request) { return shared.reply(request); };
  search.outcome = [&] { return shared.outcome(instance); };
  search.note_outcome = [&](const Value& value) { shared.note_outcome(instance, value); };
  search.say_coordinates = [&](bool on) {
    const std::lock_guard guard(shared.mutex);
    shared.instances[instance].coordinates = on;
  };
  const Value value = search.run();
  search.say_coordinates(false);
  if (!value) {
    const auto here = search.present();
    if (self.arbiter.family != 0)
      return failure(Code::kNoQuorum, Blame::kOperation, "rank {}: the arbiter at {} does not answer; call again",
                     self.rank, self.arbiter.text());
    return failure(
        Code::kNoQuorum, Blame::kOperation,
        "rank {}: only {} of {} ranks are here (rank{} {}), and more than half of all are needed, or half with "
        "rank 0; nothing is lost, call again",
        self.rank, here.size(), self.ranks(), here.size() == 1 ? "" : "s", fmt::join(here, ", "));
  }
  auto decision = decode(*value);
  if (!decision || !of_these_ranks(*decision, self.ranks()))
    return failure(Code::kInternal, Blame::kCommunicator, "rank {}: a decision is damaged", self.rank);
  std::vector<Rank> members;
  for (const Part& part : decision->parts) members.push_back(part.rank);
  if (std::find(members.begin(), members.end(), self.rank) == members.end())
    return failure(Code::kLeftOut, Blame::kCommunicator,
                   "rank {} was left out, for good: it came later than the others waited; rank{} {} go{} on without it",
                   self.rank, members.size() == 1 ? "" : "s", fmt::join(members, ", "),
                   members.size() == 1 ? "es" : "");
  return std::move(*decision);
}

}  // namespace weft::net::bootstrap
