#include "net/bootstrap/member.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>

#include "base/counted.h"
#include "base/membership_text.h"
#include "net/bootstrap/decision.h"
#include "net/bootstrap/search.h"

namespace weft::net::bootstrap {
namespace {

using std::chrono::milliseconds;
using Value = Search::Value;

constexpr milliseconds kAnswerTime{500};  // for one request
constexpr milliseconds kSilentTime{30};
constexpr std::size_t kKeptInstances = 64;

void put(const Member::Broken& broken, Message& message) {
  message.body.assign(broken.words.begin(), broken.words.end());
  MessageHead& into = message.head;
  into.culprit = broken.culprit, into.cause = broken.cause, into.finder = broken.finder;
  into.clash[0] = broken.clash.call, into.clash[1] = broken.clash.culprits, into.clash[2] = broken.clash.finders;
}
Member::Broken broken_in(const Message& message) {
  const MessageHead& head = message.head;
  const bool has_words = head.status == MessageStatus::kAlive || head.status == MessageStatus::kLeft;
  return {head.culprit,
          head.cause,
          head.finder,
          {head.clash[0], head.clash[1], head.clash[2]},
          has_words ? std::string(message.body.begin(), message.body.end()) : std::string()};
}

Digest tag_of(const Key& key) {
  constexpr std::uint8_t kFor = 'm';
  return mac(key, {{&kFor, 1}});
}

}  // namespace

struct Member::Shared {
  explicit Shared(MemberIdentity i)
      : identity(std::move(i)), tag(tag_of(identity.key)), gone(identity.addresses.size()) {}

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
  // By rank: it has ended or left, for good. Kept, as another process may get the port at which it answered: what
  // connects there then waits in vain.
  std::vector<bool> gone;
  std::vector<std::uint32_t> withdrawn;  // groups
  std::optional<Broken> broken;
  std::atomic<bool> is_broken = false;  // also without the mutex

  // Of the latest calls, each by its number: that, << 32 | its fingerprint. Stored by the endpoint's thread.
  static constexpr std::size_t kKeptCalls = 64;
  std::array<std::atomic<std::uint64_t>, kKeptCalls> calls{};

  void note_broken(const Broken& by) {
    if (broken) return;
    broken = by;
    is_broken.store(true, std::memory_order_release);
  }
  Message reply(const Message& request);
  Octets promise_of(const Instance& instance, MessageHead& head) const;
  void note_gone(Rank r) {
    const std::lock_guard guard(mutex);
    gone[static_cast<std::size_t>(r)] = true;
  }
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

// The payload, the ranks that have gone, and the value that is accepted.
Octets Member::Shared::promise_of(const Instance& instance, MessageHead& head) const {
  const Acceptor<Value>& acceptor = instance.acceptor;
  Octets body = instance.payload;
  head.accepted = acceptor.accepted;
  head.payload_length = static_cast<std::uint32_t>(body.size());
  for (Rank r = 0; r < identity.ranks(); ++r) {
    if (!gone[static_cast<std::size_t>(r)]) continue;
    ++head.gone;
    const auto* const at = reinterpret_cast<const std::uint8_t*>(&r);
    body.insert(body.end(), at, at + sizeof r);
  }
  if (acceptor.accepted.attempt > 0) body.insert(body.end(), acceptor.value->begin(), acceptor.value->end());
  return body;
}

// What a rank answers, whether or not it is inside a call: who has decided answers everything with the decision.
Message Member::Shared::reply(const Message& request) {
  const std::lock_guard guard(mutex);
  const MessageHead& asked = request.head;
  Message out;
  out.head.kind = asked.kind;
  out.head.from = identity.rank;
  out.head.to = asked.from;
  out.head.instance = asked.instance;
  if (asked.kind == MessageKind::kBroken) note_broken(broken_in(request));
  if (broken) put(*broken, out);
  if (asked.kind == MessageKind::kCall) {
    const std::uint64_t call = calls[asked.clash[0] % kKeptCalls].load(std::memory_order_relaxed);
    const bool kept = asked.clash[0] > 0 && call >> 32 == asked.clash[0];
    out.body.clear();
    out.head.clash[0] = kept ? asked.clash[0] : 0, out.head.clash[1] = static_cast<std::uint32_t>(call);
    return out;
  }
  if (asked.kind == MessageKind::kJoins) {
    const bool withdrew = std::find(withdrawn.begin(), withdrawn.end(), asked.clash[0]) != withdrawn.end();
    out.head.clash[0] = asked.clash[0], out.head.clash[1] = withdrew ? 1 : 0;
    out.head.status = left ? MessageStatus::kLeft : MessageStatus::kAlive;
    return out;
  }
  const auto found = instances.find(asked.instance);
  const bool known = found != instances.end();
  if (asked.kind == MessageKind::kDecided && !(known && found->second.acceptor.decided)) {
    instances[asked.instance].acceptor.decide(std::make_shared<const Octets>(request.body));
    forget_old();
    out.body.clear();
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
  out.body.clear();
  out.head.status = found->second.coordinates ? MessageStatus::kCoordinates : MessageStatus::kCalled;
  if (asked.kind == MessageKind::kPrepare) {
    out.head.status = acceptor.promise(asked.ballot) ? MessageStatus::kPromised : MessageStatus::kRefused;
    if (out.head.status == MessageStatus::kPromised) out.body = promise_of(found->second, out.head);
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

std::vector<Rank> Member::gone() const {
  std::vector<Rank> ranks;
  const std::lock_guard guard(shared_->mutex);
  for (std::size_t r = 0; r < shared_->gone.size(); ++r)
    if (shared_->gone[r]) ranks.push_back(static_cast<Rank>(r));
  return ranks;
}

bool Member::is_broken() const { return shared_->is_broken.load(std::memory_order_acquire); }

void Member::tell_broken(const Broken& broken, const std::vector<Rank>& to, const std::vector<Rank>& silent) {
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->note_broken(broken);
  }
  const MemberIdentity& self = shared_->identity;
  Message message{{.kind = MessageKind::kBroken, .from = self.rank, .tag = shared_->tag}, {}};
  put(broken, message);
  const auto notify = [&](const std::vector<Rank>& all, milliseconds limit) {
    std::vector<Address> at;
    for (const Rank r : all) at.push_back(self.addresses[static_cast<std::size_t>(r)]);
    exchange(self.key, message, at, all, limit);
  };
  notify(to, kAnswerTime);
  notify(silent, kSilentTime);
}

void Member::note_call(std::uint64_t number, std::uint32_t chain) {
  shared_->calls[number % Shared::kKeptCalls].store(number << 32 | chain, std::memory_order_relaxed);
}

std::vector<std::uint32_t> Member::chains_at(std::uint32_t call, const std::vector<Rank>& ranks,
                                             milliseconds limit) const {
  const MemberIdentity& self = shared_->identity;
  Message message{{.kind = MessageKind::kCall, .from = self.rank, .tag = shared_->tag}, {}};
  message.head.clash[0] = call;
  std::vector<Address> at;
  for (const Rank r : ranks) at.push_back(self.addresses[static_cast<std::size_t>(r)]);
  std::vector<std::uint32_t> chains;
  for (const Answer& a : exchange(self.key, message, at, ranks, limit))
    if (a.outcome == Answer::Outcome::kAnswered && a.reply.head.clash[0] == call)
      chains.push_back(a.reply.head.clash[1]);
  return chains;
}

void Member::withdraw(std::uint32_t group) {
  const std::lock_guard guard(shared_->mutex);
  shared_->withdrawn.push_back(group);
}

Member::State Member::state_of(Rank rank, milliseconds limit, std::uint32_t group) const {
  const MemberIdentity& self = shared_->identity;
  const MessageKind kind = group == 0 ? MessageKind::kAsk : MessageKind::kJoins;
  Message question{{.kind = kind, .from = self.rank, .tag = shared_->tag}, {}};
  question.head.clash[0] = group;
  const auto answers =
      exchange(self.key, question, {&self.addresses[static_cast<std::size_t>(rank)], 1}, {&rank, 1}, limit);
  State state;
  if (answers[0].outcome == Answer::Outcome::kRefused) {
    state.fate = Fate::kEnded;
    shared_->note_gone(rank);
  }
  if (answers[0].outcome != Answer::Outcome::kAnswered) return state;
  const MessageHead& head = answers[0].reply.head;
  state.fate = head.status == MessageStatus::kLeft ? Fate::kLeft : Fate::kAlive;
  if (head.culprit >= 0) state.broken = broken_in(answers[0].reply);
  if (group == 0) return state;
  state.withdrew = head.clash[0] == group && head.clash[1] == 1;
  if (state.broken) state.broken->clash = {};
  return state;
}

Result<Member::Decision> Member::decide(std::uint32_t instance, const Octets& payload, milliseconds timeout,
                                        const std::function<bool(Rank)>& has_ended, const std::function<bool()>& stops,
                                        const std::function<bool(Rank)>& left_out) {
  Shared& shared = *shared_;
  const MemberIdentity& self = shared.identity;
  std::vector<bool> gone;
  {
    const std::lock_guard guard(shared.mutex);
    Shared::Instance& mine = shared.instances[instance];
    if (!mine.acceptor.called) mine.payload = payload;
    mine.acceptor.called = true;
    gone = shared.gone;
  }
  const std::function<bool(Rank)> ended = [&](Rank r) {
    return (left_out && left_out(r)) || (has_ended && has_ended(r));
  };
  Search search(self, shared.tag, instance, timeout, ended, std::move(gone));
  search.own = [&](const Message& request) { return shared.reply(request); };
  search.outcome = [&] { return shared.outcome(instance); };
  search.note_gone = [&](Rank r) {
    if (!left_out || !left_out(r)) shared.note_gone(r);
  };
  search.note_outcome = [&](const Value& value) { shared.note_outcome(instance, value); };
  search.say_coordinates = [&](bool on) {
    const std::lock_guard guard(shared.mutex);
    shared.instances[instance].coordinates = on;
  };
  search.stops = stops;
  const Value value = search.run();
  search.say_coordinates(false);
  if (!value && search.stopped()) return failure(Code::kAborted, Blame::kOperation, "rank {}: interrupted", self.rank);
  if (!value && search.cannot_ask())
    return failure_of(self.rank, Code::kNoResources, Blame::kProcess,
                      "rank {}: no file descriptor is left to ask the other ranks with; raise the limit (ulimit -n) or "
                      "drop communicators, and call again",
                      self.rank);
  if (!value) {
    const auto here = search.present();
    if (self.arbiter.family != 0)
      return failure(Code::kNoQuorum, Blame::kOperation, "rank {}: the arbiter at {} does not answer; call again",
                     self.rank, self.arbiter.text());
    auto error =
        failure(Code::kNoQuorum, Blame::kOperation,
                "rank {}: only {} of {} ranks are here ({} {}), and more than half of all are needed, or half with "
                "rank 0; nothing is lost, call again",
                self.rank, here.size(), self.ranks(), plural(here.size(), "rank"), fmt::join(here, ", "));
    for (Rank r = 0; r < self.ranks(); ++r)
      if (std::ranges::find(here, r) == here.end()) error.value().ranks.push_back(r);
    return error;
  }
  auto decision = decode(*value);
  if (!decision || !of_these_ranks(*decision, self.ranks()))
    return failure(Code::kInternal, Blame::kCommunicator, "rank {}: a decision is damaged", self.rank);
  for (const Rank r : decision->ended)
    if (r != self.rank) shared.note_gone(r);
  std::vector<Rank> members;
  for (const Part& part : decision->parts) members.push_back(part.rank);
  if (std::find(members.begin(), members.end(), self.rank) == members.end())
    return failure(Code::kLeftOut, Blame::kCommunicator, "{}", left_out_text(self.rank, members));
  return std::move(*decision);
}

}  // namespace weft::net::bootstrap
