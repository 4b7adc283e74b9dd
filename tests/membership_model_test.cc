// The consensus of membership as a model: every state that a few ranks can reach, breadth-first, with ranks that end at
// any moment, call late, and messages that are delayed or lost (a message that was sent may be taken at any later time,
// or never). Acceptors and quorums are the text that net/bootstrap/member.cc executes; the names are those there.
//
// Checked in every state: Agreement: two decisions are equal. Validity: the members of a decision have all called.
// LeftOut: a rank that is not a member never goes on: what it knows as decided does not name it, so it gets kLeftOut.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "net/bootstrap/consensus.h"

namespace weft {
namespace {

using net::bootstrap::Acceptor;
using net::bootstrap::Ballot;
using net::bootstrap::is_quorum;
using net::bootstrap::Proposal;

constexpr int kMostRanks = 4, kMostBallots = 4;
using Members = std::uint8_t;  // a bit for every rank

enum class Rule { kQuorum, kArbiter, kMajorityOfTheLiving };

struct Model {
  int ranks;
  std::vector<Ballot> ballots;  // that are tried, in order
  int deaths;                   // at most
  Rule rule;
};

// Octets only: equal states have equal bytes. Ballots by their index + 1; 0: none.
struct State {
  std::uint8_t alive = 0, called = 0, deaths = 0;
  std::array<std::uint8_t, kMostRanks> promised{}, accepted{};
  std::array<Members, kMostRanks> value{}, decided{};  // decided: as that rank knows it; 0: not
  struct OfBallot {
    std::uint8_t prepared = 0;                      // PREPARE has been sent
    std::array<std::uint8_t, kMostRanks> answer{};  // PROMISE has been sent: 1 + the ballot accepted before
    std::array<Members, kMostRanks> answer_value{};
    Members proposed = 0;  // ACCEPT has been sent, with this value
    Members accepted = 0;  // ACCEPTED has been sent by
    Members outcome = 0;   // DECIDED has been sent, with this value
  };
  std::array<OfBallot, kMostBallots> ballot{};
  Members arbiter = 0;  // its register

  bool operator==(const State& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
static_assert(std::has_unique_object_representations_v<State>);

struct Hash {
  std::size_t operator()(const State& s) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&s), sizeof s});
  }
};

bool has(Members m, int rank) { return (m >> rank & 1) != 0; }
Members just(int rank) { return static_cast<Members>(1u << rank); }

std::vector<Rank> list(Members m) {
  std::vector<Rank> ranks;
  for (int r = 0; r < kMostRanks; ++r)
    if (has(m, r)) ranks.push_back(r);
  return ranks;
}

struct Found {
  std::size_t states = 0;
  std::string violation;  // empty: none
};

class Search {
 public:
  explicit Search(Model model) : model_(std::move(model)) {}

  Found run(std::size_t most) {
    State start;
    start.alive = static_cast<Members>((1u << model_.ranks) - 1);
    visit(start);
    while (!open_.empty() && found_.violation.empty() && seen_.size() < most) {
      const State s = *open_.front();
      open_.pop_front();
      expand(s);
    }
    if (seen_.size() >= most) found_.violation = "more states than expected";
    found_.states = seen_.size();
    return found_;
  }

 private:
  void visit(const State& s) {
    const auto [at, fresh] = seen_.insert(s);
    if (!fresh) return;
    open_.push_back(&*at);
    check(s);
  }

  void check(const State& s) {
    Members one = 0;
    for (int r = 0; r < model_.ranks; ++r) {
      const Members m = s.decided[static_cast<std::size_t>(r)];
      if (m == 0) continue;
      if (one != 0 && m != one) found_.violation = "Agreement: two groups";
      one = m;
      if ((m & ~s.called) != 0) found_.violation = "Validity: a member has not called";
    }
  }

  std::uint8_t index_of(Ballot b) const {
    for (std::size_t i = 0; i < model_.ballots.size(); ++i)
      if (model_.ballots[i] == b) return static_cast<std::uint8_t>(i + 1);
    return 0;
  }
  Ballot ballot(std::uint8_t index) const { return index == 0 ? Ballot{} : model_.ballots[index - 1u]; }

  Acceptor<Members> acceptor(const State& s, int r) const {
    const auto i = static_cast<std::size_t>(r);
    return {.called = has(s.called, r),
            .promised = ballot(s.promised[i]),
            .accepted = ballot(s.accepted[i]),
            .value = s.value[i],
            .decided = s.decided[i] != 0};
  }
  void store(State& s, int r, const Acceptor<Members>& a) const {
    const auto i = static_cast<std::size_t>(r);
    s.promised[i] = index_of(a.promised);
    s.accepted[i] = index_of(a.accepted);
    s.value[i] = a.value;
    if (a.decided) s.decided[i] = a.value;
  }

  bool enough(const State& s, Members present) const {
    if (model_.rule == Rule::kMajorityOfTheLiving) return 2 * std::popcount(present) > std::popcount(s.alive);
    return is_quorum(list(present), model_.ranks);
  }

  void decide(const State& s, std::size_t b, Members outcome, int r) {
    State next = s;
    next.ballot[b].outcome = outcome;
    Acceptor<Members> a = acceptor(next, r);
    a.decide(outcome);
    store(next, r, a);
    visit(next);
  }

  void expand(const State& s) {
    for (int r = 0; r < model_.ranks; ++r) {
      if (!has(s.alive, r)) continue;
      if (!has(s.called, r)) {  // shrink(), at any time; a rank that knows the outcome does not take part any more
        State next = s;
        next.called |= just(r);
        visit(next);
      }
      if (s.deaths < model_.deaths) {
        State next = s;
        next.alive &= static_cast<Members>(~just(r));
        ++next.deaths;
        visit(next);
      }
    }
    for (std::size_t b = 0; b < model_.ballots.size(); ++b) of_ballot(s, b);
  }

  void of_ballot(const State& s, std::size_t b) {
    const Ballot mine = model_.ballots[b];
    const int c = mine.coordinator;
    const State::OfBallot& sent = s.ballot[b];
    const bool coordinates = has(s.alive, c) && has(s.called, c) && s.decided[static_cast<std::size_t>(c)] == 0;
    if (coordinates && sent.prepared == 0) {
      State next = s;
      next.ballot[b].prepared = 1;
      visit(next);
    }
    for (int r = 0; r < model_.ranks; ++r) {
      if (!has(s.alive, r)) continue;
      const auto i = static_cast<std::size_t>(r);
      if (sent.prepared != 0 && sent.answer[i] == 0 && s.decided[i] == 0) {
        State next = s;
        Acceptor<Members> a = acceptor(next, r);
        if (a.promise(mine)) {
          store(next, r, a);
          next.ballot[b].answer[i] = static_cast<std::uint8_t>(1 + index_of(a.accepted));
          next.ballot[b].answer_value[i] = a.accepted.attempt > 0 ? a.value : Members{0};
          visit(next);
        }
      }
      if (model_.rule != Rule::kArbiter && sent.proposed != 0 && !has(sent.accepted, r) && s.decided[i] == 0) {
        State next = s;
        Acceptor<Members> a = acceptor(next, r);
        if (a.accept(mine, sent.proposed)) {
          store(next, r, a);
          next.ballot[b].accepted |= just(r);
          visit(next);
        }
      }
      if (sent.outcome != 0 && s.decided[i] == 0) {
        State next = s;
        Acceptor<Members> a = acceptor(next, r);
        a.decide(sent.outcome);
        store(next, r, a);
        visit(next);
      }
    }
    if (!coordinates) return;
    if (sent.proposed == 0) propose(s, b);
    if (model_.rule != Rule::kArbiter && sent.proposed != 0 && sent.outcome == 0 && enough(s, sent.accepted))
      decide(s, b, sent.proposed, c);
  }

  // With the promises of any part of those who have promised, itself among them: others are late, or lost.
  void propose(const State& s, std::size_t b) {
    const State::OfBallot& sent = s.ballot[b];
    const int c = model_.ballots[b].coordinator;
    Members promised = 0;
    for (int r = 0; r < model_.ranks; ++r)
      if (sent.answer[static_cast<std::size_t>(r)] != 0) promised |= just(r);
    for (unsigned part = 1; part <= promised; ++part) {
      const auto present = static_cast<Members>(part);
      if ((present & ~promised) != 0 || !has(present, c)) continue;
      if (model_.rule == Rule::kArbiter) {  // the register takes the first claim, and answers with what it holds
        State next = s;
        if (next.arbiter == 0) next.arbiter = present;
        next.ballot[b].proposed = next.arbiter;
        decide(next, b, next.arbiter, c);
        continue;
      }
      if (!enough(s, present)) continue;
      Proposal<Members> proposal;
      for (const Rank r : list(present)) {
        const auto i = static_cast<std::size_t>(r);
        proposal.add(ballot(static_cast<std::uint8_t>(sent.answer[i] - 1)), sent.answer_value[i]);
      }
      State next = s;
      next.ballot[b].proposed = proposal.bound() ? proposal.value : present;
      visit(next);
    }
  }

  Model model_;
  std::unordered_set<State, Hash> seen_;
  std::deque<const State*> open_;
  Found found_;
};

Found explore(const char* name, const Model& model, std::size_t most = 6'000'000) {
  const Found found = Search(model).run(most);
  std::printf("%s: %d ranks, %zu ballots, %d deaths: %zu states%s%s\n", name, model.ranks, model.ballots.size(),
              model.deaths, found.states, found.violation.empty() ? "" : ", ", found.violation.c_str());
  return found;
}

const std::vector<Ballot> kOneEach3 = {{1, 0}, {1, 1}, {1, 2}};

TEST(MembershipModel, ThreeRanksNeverDecideOnTwoGroups) {
  const Found found = explore("quorum", {3, {{1, 0}, {1, 1}}, 2, Rule::kQuorum});
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.states, 1000u);
}

TEST(MembershipModel, ThreeCoordinatorsNeverDecideOnTwoGroups) {
  EXPECT_EQ(explore("quorum", {3, kOneEach3, 1, Rule::kQuorum}).violation, "");
}

TEST(MembershipModel, ASecondAttemptOfACoordinatorKeepsWhatMayHaveBeenDecided) {
  EXPECT_EQ(explore("quorum", {3, {{1, 0}, {1, 1}, {2, 0}}, 0, Rule::kQuorum}).violation, "");
}

// Half with rank 0: two coordinators on either side of four ranks.
TEST(MembershipModel, TwoHalvesOfFourRanksNeverBothGoOn) {
  EXPECT_EQ(explore("quorum", {4, {{1, 0}, {1, 3}}, 0, Rule::kQuorum}).violation, "");
}

TEST(MembershipModel, AnArbiterLetsAnyRemainderGoOnButOnlyOne) {
  for (const int ranks : {2, 3}) {
    std::vector<Ballot> ballots;
    for (Rank r = 0; r < ranks; ++r) ballots.push_back({1, r});
    EXPECT_EQ(explore("arbiter", {ranks, ballots, 1, Rule::kArbiter}).violation, "");
  }
}

// The rule that was here before, so that the search is known to find what it looks for.
TEST(MembershipModel, AMajorityOfTheLivingMakesTwoGroups) {
  const Found found = explore("majority of the living", {3, {{1, 0}, {1, 1}}, 2, Rule::kMajorityOfTheLiving});
  EXPECT_EQ(found.violation, "Agreement: two groups");
}

}  // namespace
}  // namespace weft
