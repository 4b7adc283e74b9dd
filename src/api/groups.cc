#include "api/groups.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "api/unique_id.h"
#include "base/membership_text.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/member.h"
#include "net/memory/survivors.h"

namespace weft::api {
namespace {

using net::bootstrap::Meeting;
using net::bootstrap::Record;
using net::link::Address;
using net::memory::Survivors;

template <class T>
Result<std::shared_ptr<session::Session>> session_of(Result<T> opened) {
  if (!opened) return tl::make_unexpected(opened.error());
  return std::move(opened->session);
}

Rank index_of(const std::vector<Rank>& members, Rank rank) {
  return static_cast<Rank>(std::find(members.begin(), members.end(), rank) - members.begin());
}

// Why rank `r` of a world's segment, in words `name`, will not come to a group of the survivors: it has ended, or has
// left the world.
std::optional<Error> gone(const net::shm::World& world, Rank r, Rank name) {
  if (!world.wait_policy.has_ended()(r)) return std::nullopt;
  const bool left =
      world.endpoint.segment().block(r).state.load(std::memory_order_acquire) == net::memory::RankState::kLeft;
  const auto cause = left ? fabric::Cause::kLeft : fabric::Cause::kDied;
  return failure_of(name, fabric::code(cause), Blame::kCommunicator, "rank {} {}", name, fabric::word(cause)).value();
}

// Why it will not come to another group: its process has ended, or the world is broken, so that it fails before.
// `r`: -1 if it is not in the segment.
std::optional<Error> lost(const net::shm::World& world, Rank r, Rank name) {
  if (r >= 0 && world.share->mapping().process_ended(world.members[static_cast<std::size_t>(r)]))
    return failure_of(name, Code::kPeerDied, Blame::kCommunicator, "rank {} {}", name,
                      fabric::word(fabric::Cause::kDied))
        .value();
  if (!world.wait_policy.broken()) return std::nullopt;
  return world.wait_policy.health().error();
}

bool lost_one(const Error& e) { return e.code == Code::kPeerDied || e.code == Code::kPeerLeft; }

constexpr const char* kSurvivors = "survivors";
constexpr std::uint32_t kShrink = 0;  // the first instance of a communicator's consensus

// One decision for ever: who has the new communicator cannot make another of the old one.
tl::unexpected<Error> gone_on(Rank self) {
  return failure(Code::kPeerLeft, Blame::kInput,
                 "rank {}: this communicator has been shrunk; its survivors go on in what shrink() returned then",
                 self);
}

// `members`: the ranks that were counted in; `gone`: those of the others that are known to have ended or left.
Agreement agreement_of(std::uint64_t bits, Rank ranks, const std::vector<Rank>& members,
                       const std::vector<Rank>& gone) {
  const auto has = [](const std::vector<Rank>& in, Rank r) { return std::find(in.begin(), in.end(), r) != in.end(); };
  Agreement agreement{.bits = bits};
  for (Rank r = 0; r < ranks; ++r) {
    if (has(members, r)) continue;
    agreement.ended.push_back(r);
    if (!has(gone, r)) agreement.late.push_back(r);
  }
  return agreement;
}

// The agreements of one rank in a segment. One that was interrupted is not over: the next call goes on with it.
class SegmentAgreements {
 public:
  Result<Agreement> next(const net::memory::Endpoint& endpoint, std::uint64_t bits,
                         const std::function<bool(Rank)>& has_ended, std::chrono::milliseconds timeout,
                         const std::function<bool()>& stops) {
    const auto& segment = endpoint.segment();
    const auto found = agree_on_bits(segment, endpoint.rank(), bits, interrupted_, has_ended, timeout, stops);
    interrupted_ = !found && found.error().code == Code::kAborted;
    if (!found) return tl::make_unexpected(found.error());
    return agreement_of(found->bits, segment.ranks(), found->members, found->ended);
  }

 private:
  bool interrupted_ = false;
};

class Common : public session::Groups {
 public:
  explicit Common(std::shared_ptr<const Origin> origin) : origin_(std::move(origin)) {}

  Result<std::shared_ptr<session::Session>> meet(const UniqueId& id, Rank rank, Rank ranks,
                                                 const std::function<Status()>& watch) override {
    return session_of(open_by_id(origin_->settings, origin_->rates, id, rank, ranks, watch));
  }

 protected:
  // At no port of `others`, unless no other is left: what connects to a rank that has died would wait there in vain.
  Result<UniqueFd> listen_on(const net::bootstrap::Record& own, std::span<const net::bootstrap::Record> others) const {
    WEFT_TRY(const auto ports, net::bootstrap::ports_of(origin_->settings));
    for (std::vector<UniqueFd> unfit;;) {
      auto listener = net::link::listen_on_rails(own.all_rails(), ports);
      if (!listener && !unfit.empty()) return std::move(unfit.front());
      if (!listener) return listener;
      const auto port = net::link::local_address(listener->get()).port;
      const auto listens = [&](const auto& r) { return r.data.port == port || r.member_port == port; };
      if (std::none_of(others.begin(), others.end(), listens)) return listener;
      unfit.push_back(std::move(*listener));
    }
  }

  std::shared_ptr<const Origin> origin_;
};

// Ranks that a shrunk group is made without count as ended.
std::function<bool(Rank)> ended_or_among(std::function<bool(Rank)> has_ended, std::span<const Rank> without) {
  return [=, has_ended = std::move(has_ended)](Rank r) {
    return std::ranges::find(without, r) != without.end() || has_ended(r);
  };
}

class ShmGroups final : public Common {
 public:
  ShmGroups(std::shared_ptr<const Origin> origin, net::shm::World& world,
            std::shared_ptr<const cost::MachineView> machine)
      : Common(std::move(origin)), world_(world), machine_(std::move(machine)) {}

  Result<Card> offer() override {
    const net::shm::Offer own = world_.offer();
    Card card{};
    static_assert(sizeof own <= sizeof card);
    std::memcpy(card.data(), &own, sizeof own);
    return card;
  }

  void withdraw() override { world_.withdraw(); }

  // Inside the segment where there is room, else in one of their own.
  Result<std::shared_ptr<session::Session>> join(const Membership& m) override {
    std::vector<net::shm::Offer> offers(m.cards.size());
    for (std::size_t i = 0; i < offers.size(); ++i) std::memcpy(&offers[i], m.cards[i].data(), sizeof offers[i]);
    const Place place{m.name, m.rank, static_cast<Rank>(m.cards.size())};
    auto world = world_.move(offers, place.rank, limits_of(origin_->settings, place.ranks, *machine_));
    if (world == nullptr)
      return session_of(open_shm(origin_, place, m.secret, [&](Rank r) {
        if (stops) (void)stops();  // breaks the world, if it is so
        const Rank own = index_of(world_.members, offers[static_cast<std::size_t>(r)].holder);
        return lost(world_, own, own);
      }));
    return session_of(open_in_segment(origin_, place, std::move(world), machine_));
  }

  // If one of them ends before all have met, all notice, and agree again.
  Result<std::shared_ptr<session::Session>> survivors(std::span<const Rank> without) override {
    const Rank self = world_.endpoint.rank();
    if (shrunk_) return gone_on(self);
    const auto has_ended = ended_or_among(world_.wait_policy.has_ended(), without);
    for (;;) {
      WEFT_TRY(const Survivors s, agree_on_survivors(world_.endpoint.segment(), self, has_ended, timeout_, stops));
      auto opened = open_shm(origin_, {kSurvivors, index_of(s.members, self), static_cast<Rank>(s.members.size())},
                             s.secret, [&](Rank r) {
                               const Rank own = s.members[static_cast<std::size_t>(r)];
                               return gone(world_, own, own);
                             });
      shrunk_ = opened.has_value();
      if (opened || !lost_one(opened.error())) return session_of(std::move(opened));
    }
  }

  Result<Agreement> agree(std::uint64_t bits) override {
    return agreements_.next(world_.endpoint, bits, world_.wait_policy.has_ended(), timeout_, stops);
  }

 private:
  net::shm::World& world_;
  std::shared_ptr<const cost::MachineView> machine_;
  const std::chrono::milliseconds timeout_ = world_.wait_policy.timeout();
  SegmentAgreements agreements_;
  bool shrunk_ = false;
};

class ThreadGroups final : public Common {
 public:
  ThreadGroups(std::shared_ptr<const Origin> origin, const net::threads::World& world,
               std::shared_ptr<const cost::MachineView> machine)
      : Common(std::move(origin)), world_(world), machine_(std::move(machine)) {}

  Result<Card> offer() override { return Card{}; }

  Result<std::shared_ptr<session::Session>> join(const Membership& m) override {
    return move({m.name, m.rank, static_cast<Rank>(m.cards.size())}, m.secret);
  }

  Result<std::shared_ptr<session::Session>> survivors(std::span<const Rank> without) override {
    const Rank self = world_.endpoint.rank();
    if (shrunk_) return gone_on(self);
    WEFT_TRY(const Survivors s,
             agree_on_survivors(world_.endpoint.segment(), self,
                                ended_or_among(world_.wait_policy.has_ended(), without), timeout_, stops));
    shrunk_ = true;
    return move({kSurvivors, index_of(s.members, self), static_cast<Rank>(s.members.size())}, s.secret);
  }

  Result<Agreement> agree(std::uint64_t bits) override {
    return agreements_.next(world_.endpoint, bits, world_.wait_policy.has_ended(), timeout_, stops);
  }

 private:
  Result<std::shared_ptr<session::Session>> move(const Place& place, const std::string& secret) {
    WEFT_TRY(auto world,
             world_.move(secret, place.rank, place.ranks, limits_of(origin_->settings, place.ranks, *machine_)));
    return open_thread(origin_, place, std::move(world), machine_);
  }

  const net::threads::World& world_;
  std::shared_ptr<const cost::MachineView> machine_;
  const std::chrono::milliseconds timeout_ = world_.wait_policy.timeout();
  SegmentAgreements agreements_;
  bool shrunk_ = false;
};

class MetGroups final : public Common {
 public:
  // `near`: those of the old communicator whose fate can be known without asking, if there are such.
  MetGroups(std::shared_ptr<const Origin> origin, net::messages::Endpoint& endpoint, std::chrono::milliseconds timeout,
            const net::mixed::World* near = nullptr)
      : Common(std::move(origin)), endpoint_(endpoint), timeout_(timeout), near_(near) {}

  // The group uses the connections of the old communicator: it is known there by a number.
  Result<Card> offer() override {
    offer_ = net::messages::Hub::offer(endpoint_.hub());
    Invitation own{before().ranks[static_cast<std::size_t>(endpoint_.rank())], offer_.number()};
    own.record.aggregation_port = 0;
    Card card{};
    static_assert(sizeof own <= sizeof card);
    std::memcpy(card.data(), &own, sizeof own);
    return card;
  }

  // Ranks that have this offer read that the group has gone, whether or not this rank is in a call.
  void withdraw() override {
    before().member->withdraw(offer_.number());
    offer_ = {};
  }

  Result<std::shared_ptr<session::Session>> join(const Membership& m) override {
    const auto ranks = static_cast<Rank>(m.cards.size());
    Meeting meeting;
    std::vector<Rank> members;
    net::messages::Branch branch{std::exchange(offer_, {}), {}};
    const net::messages::ContextId own = branch.offer.number();
    for (const Card& card : m.cards) {
      Invitation invited;
      std::memcpy(&invited, card.data(), sizeof invited);
      meeting.ranks.push_back(invited.record);
      members.push_back(invited.record.rank);
      branch.places.ranks.push_back(endpoint_.in_hub(invited.record.rank));
      branch.places.numbers.push_back(invited.context);
    }
    number(meeting, ranks);
    meeting.key =
        net::link::mac(before().key, {{reinterpret_cast<const std::uint8_t*>(m.secret.data()), m.secret.size()}});
    meeting.name = m.secret;
    meeting.log = origin_->log;
    meeting.parent = before().member;
    meeting.in_parent = members;
    const auto lost = [&](Rank r) {
      if (stops) (void)stops();  // breaks the communicator, if it is so
      return near_lost(members[static_cast<std::size_t>(r)]);
    };
    auto opened = open({m.name, m.rank, ranks}, std::move(meeting), lost, std::move(branch));
    if (!opened) before().member->withdraw(own);
    return opened;
  }

  // Everybody's record is in the decision: nobody has to meet. If one of the members ends before they have shared their
  // memory, those who notice shrink what was decided, by its own consensus.
  Result<std::shared_ptr<session::Session>> survivors(std::span<const Rank> without) override {
    const Rank self = endpoint_.rank();
    if (shrunk_) return gone_on(self);
    std::shared_ptr<net::bootstrap::Member> member = before().member;
    std::vector<Rank> names(before().ranks.size());  // of the ranks that decide, in the old communicator
    std::iota(names.begin(), names.end(), 0);
    net::link::Key key = before().key;
    for (;;) {
      Record own = before().ranks[static_cast<std::size_t>(self)];
      own.data.port = 0;
      own.aggregation_port = 0;
      if (!next_listener_.open()) {
        WEFT_TRY(next_listener_, listen_on(own, before().ranks));
      }
      own.data.port = net::link::local_address(next_listener_.get()).port;
      const auto bytes = std::as_bytes(std::span(&own, 1));
      std::vector<std::uint8_t> payload(bytes.size());
      std::memcpy(payload.data(), bytes.data(), bytes.size());
      const auto ended = [&](Rank r) { return has_ended(names[static_cast<std::size_t>(r)]); };
      const auto left_out = [&](Rank r) {
        return std::ranges::find(without, names[static_cast<std::size_t>(r)]) != without.end();
      };
      WEFT_TRY(const auto decision, member->decide(kShrink, payload, timeout_, ended, stops, left_out));
      Meeting meeting;
      std::vector<Rank> members;
      for (const auto& part : decision.parts) {
        if (part.payload.size() != sizeof(Record))
          return failure(Code::kInternal, Blame::kCommunicator, "rank {}'s record is damaged", part.rank);
        std::memcpy(&meeting.ranks.emplace_back(), part.payload.data(), sizeof(Record));
        members.push_back(names[static_cast<std::size_t>(part.rank)]);
      }
      const auto ranks = static_cast<Rank>(members.size());
      const std::uint8_t for_data = 'd', for_name = 'n';
      meeting.key = net::link::mac(key, {{&for_data, 1}, decision.nonce});
      meeting.log = origin_->log;
      meeting.name = net::link::hexadecimal(net::link::mac(key, {{&for_name, 1}, decision.nonce})).substr(0, 32);
      // The rule of the old communicator holds for the new one.
      meeting.ranks.front().arbiter = before().ranks.front().arbiter;
      number(meeting, ranks);
      const Place place{kSurvivors, index_of(members, self), ranks};
      meeting.listener = std::move(next_listener_);
      meeting.member = member = net::bootstrap::join_members(meeting, place.rank);
      names = members;
      key = meeting.key;
      auto opened =
          open(place, std::move(meeting), [&](Rank r) { return near_gone(members[static_cast<std::size_t>(r)]); });
      shrunk_ = opened.has_value();
      if (opened || !lost_one(opened.error())) return opened;
    }
  }

  // Whose process answers no more, although nobody here has a connection to it.
  std::optional<Rank> found_dead() const override {
    constexpr std::chrono::milliseconds kBriefly{100};
    const net::bootstrap::Member& member = *before().member;
    for (const Rank r : member.gone())
      if (member.state_of(r, kBriefly).fate == net::bootstrap::Member::Fate::kEnded) return r;
    return std::nullopt;
  }

  Result<Agreement> agree(std::uint64_t bits) override {
    std::vector<std::uint8_t> payload(sizeof bits);
    std::memcpy(payload.data(), &bits, sizeof bits);
    const auto ended = [this](Rank r) { return has_ended(r); };
    auto decision = before().member->decide(kShrink + 1 + agreements_, payload, timeout_, ended, stops);
    // A call that has decided nothing is repeated, with what it brought first.
    const Code code = decision ? Code::kInternal : decision.error().code;
    if (code != Code::kNoQuorum && code != Code::kAborted && code != Code::kNoResources) ++agreements_;
    if (code == Code::kLeftOut) return failure(code, Blame::kOperation, "{}", not_counted_text(endpoint_.rank()));
    if (!decision) return tl::make_unexpected(decision.error());
    std::uint64_t agreed = ~std::uint64_t{0};
    std::vector<Rank> members;
    for (const auto& part : decision->parts) {
      std::uint64_t theirs = 0;
      if (part.payload.size() == sizeof theirs) std::memcpy(&theirs, part.payload.data(), sizeof theirs);
      agreed &= theirs;
      members.push_back(part.rank);
    }
    return agreement_of(agreed, static_cast<Rank>(before().ranks.size()), members, decision->ended);
  }

 private:
  // What a rank's card says: who it is, and the group's number on its connections.
  struct Invitation {
    Record record;
    net::messages::ContextId context = 0;
  };
  const Meeting& before() const { return endpoint_.meeting(); }
  static void number(Meeting& meeting, Rank ranks) {
    for (Rank r = 0; r < ranks; ++r) {
      meeting.ranks[static_cast<std::size_t>(r)].rank = r;
      meeting.ranks[static_cast<std::size_t>(r)].ranks = ranks;
    }
  }
  // Whether a rank of the old communicator has ended or left that one, if it is on this machine, or never came to it.
  bool has_ended(Rank r) const {
    if (near_ != nullptr && near_->endpoint.is_near(r))
      return near_->near->wait_policy.has_ended()(near_->endpoint.local(r));
    return endpoint_.failures().stays_away(r);
  }
  // As lost() and gone(), of a rank of the old communicator; of one on another machine only what has broken it.
  std::optional<Error> near_lost(Rank r) const {
    return lost(*near_->near, near_->endpoint.is_near(r) ? near_->endpoint.local(r) : -1, r);
  }
  std::optional<Error> near_gone(Rank r) const {
    if (!near_->endpoint.is_near(r)) return std::nullopt;
    return gone(*near_->near, near_->endpoint.local(r), r);
  }
  // A group inside one machine needs no sockets. `lost`: of its ranks; asked only where some are near.
  Result<std::shared_ptr<session::Session>> open(const Place& place, Meeting meeting, net::shm::LostRank lost,
                                                 Branch branch = {}) {
    if (near_ == nullptr) lost = {};
    if (!sends_only(origin_->transport) && meeting.one_machine())
      return session_of(open_shm(origin_, place, meeting.name, std::move(lost)));
    return session_of(open_machines(origin_, place, std::move(meeting), std::move(lost), std::move(branch)));
  }

  net::messages::Endpoint& endpoint_;
  const std::chrono::milliseconds timeout_;
  const net::mixed::World* const near_;  // null: nobody is
  net::messages::Hub::Offer offer_;      // of a split
  UniqueFd next_listener_;               // of survivors
  bool shrunk_ = false;
  std::uint32_t agreements_ = 0;
};

}  // namespace

std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::shm::World& world,
                                           std::shared_ptr<const cost::MachineView> machine) {
  return std::make_unique<ShmGroups>(std::move(origin), world, std::move(machine));
}

std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::messages::World& world) {
  return std::make_unique<MetGroups>(std::move(origin), world.endpoint, world.wait_policy.timeout());
}

std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, net::mixed::World& world) {
  return std::make_unique<MetGroups>(std::move(origin), world.far->endpoint, world.wait_policy.timeout(), &world);
}

std::unique_ptr<session::Groups> groups_of(std::shared_ptr<const Origin> origin, const net::threads::World& world,
                                           std::shared_ptr<const cost::MachineView> machine) {
  return std::make_unique<ThreadGroups>(std::move(origin), world, std::move(machine));
}

}  // namespace weft::api
