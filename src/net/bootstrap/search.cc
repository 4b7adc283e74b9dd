#include "net/bootstrap/search.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "net/bootstrap/arbiter.h"
#include "net/bootstrap/decision.h"

namespace weft::net::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRankAnswers{500};  // a rank that does not answer is asked again
constexpr milliseconds kLateAnswers{100};  // after the timeout
constexpr milliseconds kFirstPause{1}, kLongestPause{20};

}  // namespace

Search::Search(const MemberIdentity& self, const Digest& tag, std::uint32_t instance, milliseconds timeout,
               const std::function<bool(Rank)>& has_ended, std::vector<bool> gone)
    : self_(self),
      tag_(tag),
      instance_(instance),
      timeout_(timeout),
      has_ended_(has_ended),
      begin_(Clock::now()),
      gone_(std::move(gone)),
      promised_(self.addresses.size()) {}

Search::Value Search::run() {
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (Value found = outcome()) return found;
    const bool late = Clock::now() - begin_ > 2 * timeout_;
    if (leader_ < 0 && !coordinating_) find_leader();
    if (leader_ >= 0)
      follow();
    else
      coordinate();
    if (Value found = outcome()) return found;
    stopped_ = stops && stops();
    if (late || hopeless_ || stopped_ || (cannot_ask_ && waited_enough())) return nullptr;
    std::this_thread::sleep_for(pause);
  }
}

std::vector<Rank> Search::present() const {
  std::vector<Rank> here;
  for (Rank r = 0; r < self_.ranks(); ++r)
    if (r == self_.rank || promised_[index(r)]) here.push_back(r);
  return here;
}

Message Search::request(MessageKind kind, Octets body) const {
  return {{.kind = kind, .from = self_.rank, .instance = instance_, .ballot = ballot_, .tag = tag_}, std::move(body)};
}

std::vector<Answer> Search::ask(const std::vector<Rank>& to, const Message& message) {
  return ask(to, message, answer_time());
}

std::vector<Answer> Search::ask(const std::vector<Rank>& to, const Message& message, milliseconds limit) {
  std::vector<Address> at;
  for (const Rank r : to) at.push_back(self_.addresses[index(r)]);
  auto answers = exchange(self_.key, message, at, to, limit);
  if (!to.empty())
    cannot_ask_ = std::all_of(answers.begin(), answers.end(),
                              [](const Answer& a) { return a.outcome == Answer::Outcome::kUnasked; });
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Answer& a = answers[i];
    if (a.outcome == Answer::Outcome::kRefused || (has_ended_ && has_ended_(to[i]))) has_gone(to[i]);
    if (a.outcome != Answer::Outcome::kAnswered) continue;
    const MessageStatus status = a.reply.head.status;
    if (status == MessageStatus::kLeft) has_gone(to[i]);
    if (status == MessageStatus::kDecided && !a.reply.body.empty())
      note_outcome(std::make_shared<const Octets>(a.reply.body));
    if (status == MessageStatus::kRefused) outbid(a.reply.head.ballot);
  }
  return answers;
}

// A rank that is stopped answers nothing: towards the end nobody waits for it beyond the timeout.
milliseconds Search::answer_time() const {
  const auto left = std::chrono::ceil<milliseconds>(begin_ + timeout_ - Clock::now());
  return std::clamp(left, std::min(kLateAnswers, timeout_), kRankAnswers);
}

void Search::outbid(Ballot by) {
  highest_ = std::max(highest_, by);
  if (by.coordinator == self_.rank || by.coordinator < 0 || by.coordinator >= self_.ranks()) return;
  coordinate_from_now(false);
  leader_ = by.coordinator;
  heard_ = Clock::now();
}

void Search::coordinate_from_now(bool on) {
  coordinating_ = on;
  say_coordinates(on);
  if (on) next_ballot();
}

bool Search::takes_part(const Answer& a) {
  return a.outcome == Answer::Outcome::kAnswered &&
         (a.reply.head.status == MessageStatus::kCalled || a.reply.head.status == MessageStatus::kCoordinates);
}

void Search::find_leader() {
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

void Search::follow() {
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

void Search::next_ballot() {
  ballot_ = {highest_.attempt + 1, self_.rank};
  highest_ = ballot_;
  std::fill(promised_.begin(), promised_.end(), false);
  bound_ = {};
}

void Search::coordinate() {
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
  const auto answers = ask(others, accept, std::min(kRankAnswers, timeout_));  // all of them have just promised
  for (std::size_t i = 0; i < others.size(); ++i)
    if (answers[i].outcome == Answer::Outcome::kAnswered && answers[i].reply.head.status == MessageStatus::kAccepted)
      accepted.push_back(others[i]);
  if (outcome() || !coordinating_) return;
  if (!is_quorum(accepted, self_.ranks())) return next_ballot();
  spread(value);
}

bool Search::prepare() {
  const Message prepare = request(MessageKind::kPrepare);
  if (const Message mine = own(prepare); mine.head.status == MessageStatus::kRefused) {
    outbid(mine.head.ballot);
    return false;
  } else {
    payloads_[self_.rank] = take_promise(mine);
  }
  std::vector<Rank> to;
  for (Rank r = 0; r < self_.ranks(); ++r) {
    if (has_ended_ && r != self_.rank && has_ended_(r)) has_gone(r);
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

void Search::has_gone(Rank r) {
  if (!gone_[index(r)]) note_gone(r);
  gone_[index(r)] = true;
}

Octets Search::take_promise(const Message& promise) {
  std::span<const std::uint8_t> left(promise.body);
  const auto take = [&left](std::size_t bytes) {
    const auto taken = left.first(std::min(bytes, left.size()));
    left = left.subspan(taken.size());
    return taken;
  };
  const auto payload = take(promise.head.payload_length);
  const auto gone = take(std::size_t{promise.head.gone} * sizeof(Rank));
  for (std::size_t at = 0; at + sizeof(Rank) <= gone.size(); at += sizeof(Rank)) {
    Rank r = -1;
    std::memcpy(&r, gone.data() + at, sizeof r);
    if (r >= 0 && r < self_.ranks() && r != self_.rank && !promised_[index(r)]) has_gone(r);
  }
  if (promise.head.accepted.attempt > 0)
    bound_.add(promise.head.accepted, std::make_shared<const Octets>(left.begin(), left.end()));
  return {payload.begin(), payload.end()};
}

bool Search::complete() const {
  for (Rank r = 0; r < self_.ranks(); ++r)
    if (r != self_.rank && !gone_[index(r)] && !promised_[index(r)]) return false;
  return true;
}

Member::Decision Search::proposal() const {
  Member::Decision d;
  fill_random(d.nonce);
  for (const Rank r : present()) d.parts.push_back({r, payloads_.at(r)});
  for (Rank r = 0; r < self_.ranks(); ++r)
    if (gone_[index(r)]) d.ended.push_back(r);
  return d;
}

void Search::ask_arbiter() {
  const std::uint8_t kFor = 'a';
  const Digest name =
      mac(self_.key, {{&kFor, 1}, {reinterpret_cast<const std::uint8_t*>(&instance_), sizeof instance_}});
  if (auto held = claim(self_.arbiter, name, encode(proposal()), std::min(kRankAnswers, timeout_)))
    spread(std::make_shared<const Octets>(std::move(*held)));
}

void Search::spread(const Value& value) {
  note_outcome(value);
  std::vector<Rank> others;
  for (Rank r = 0; r < self_.ranks(); ++r)
    if (r != self_.rank && !gone_[index(r)]) others.push_back(r);
  ask(others, request(MessageKind::kDecided, *value));
}

}  // namespace weft::net::bootstrap
