// Damages every step of every algorithm in every way below and expects the verifier to reject the result. A mutant that
// it accepts must be harmless by one of the few rules below, each of which says what makes it so.

#include <gtest/gtest.h>

#include <map>

#include "plan/collectives/registry.h"
#include "plan/schedule/verify/verify.h"

namespace weft::schedule {
namespace {

using Kind = Finding::Kind;

struct Place {
  Rank rank;
  int lane;
  std::size_t step;
};

struct Mutant {
  Schedule schedule;
  std::string what;
};

bool is_move(const Step& step) { return step.kind == Step::Kind::kMove; }
bool is_message(const Operand& o) { return !o.memory(); }

Operands without(const Operands& operands, std::size_t position) {
  Operands rest;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (i != position) rest.push_back(operands[i]);
  return rest;
}

// A memory that a step touches.
struct Cell {
  Rank owner;
  Buffer buffer;
  ChunkId chunk;
  auto operator<=>(const Cell&) const = default;
};
Cell cell_of(const Operand& o, Rank self) {
  return {o.kind == Operand::Kind::kRemote ? o.peer : self, o.buffer, o.chunk};
}

bool is_cell(const Operand& o, Rank self, const Cell& cell) {
  if (o.kind == Operand::Kind::kMulticast)
    return o.group().contains(cell.owner) && o.buffer == cell.buffer && o.chunk == cell.chunk;
  return !is_message(o) && cell_of(o, self) == cell;
}

bool touches(const Step& step, Rank self, const Cell& cell, bool writes_only) {
  for (const Operand& o : step.destinations)
    if (is_cell(o, self, cell)) return true;
  for (const Operand& o : step.sources)
    if (!writes_only && is_cell(o, self, cell)) return true;
  return false;
}

// Does any step of `rank` touch a memory that `step` of `self` touches, and one of both write it? A rank touches its
// own input and output in any case: its caller does, before and after.
bool meets(const Schedule& s, const Step& step, Rank self, Rank rank) {
  for (const auto* side : {&step.sources, &step.destinations}) {
    for (const Operand& o : *side) {
      if (is_message(o)) continue;
      const Cell cell = cell_of(o, self);
      if (cell.owner == rank) return true;
      for (int lane = 0; lane < s.lanes; ++lane)
        for (const Step& other : s.strand(rank, lane))
          if (is_move(other) && touches(other, rank, cell, side == &step.sources)) return true;
    }
  }
  return false;
}

bool writes_what_the_other_touches(const Step& writer, const Step& other, Rank self) {
  for (const Operand& o : writer.destinations)
    if (!is_message(o) && touches(other, self, cell_of(o, self), false)) return true;
  return false;
}

bool shares_a_connection(const Step& a, const Step& b) {
  for (const auto side : {&Step::sources, &Step::destinations})
    for (const Operand& o : a.*side)
      for (const Operand& p : b.*side)
        if (is_message(o) && is_message(p) && o.peer == p.peer && o.lane == p.lane) return true;
  return false;
}

// Why two neighbouring steps may change places, given that no deadlock follows (the verifier has seen to that).
std::string why_they_commute(const Schedule& s, Rank self, const Step& first, const Step& second) {
  if (first == second) return "both steps are equal";
  if (is_move(first) && is_move(second)) {
    if (shares_a_connection(first, second) || writes_what_the_other_touches(first, second, self) ||
        writes_what_the_other_touches(second, first, self))
      return "";
    return "the moves use different connections and neither writes what the other touches";
  }
  if (!is_move(first) && !is_move(second)) {
    if (first.kind == second.kind)
      return first.peer != second.peer ? "signals, or waits, of different peers do not order each other" : "";
    return first.kind == Step::Kind::kSignal ? "a signal after a wait orders more than before it" : "";
  }
  const Step& sync = is_move(first) ? second : first;
  const Step& moving = is_move(first) ? first : second;
  if (is_move(first) == (sync.kind == Step::Kind::kWait)) return "waiting earlier, or signalling later, orders more";
  return meets(s, moving, self, sync.peer) ? "" : "the peer of the signal or wait never touches what the move touches";
}

// A move between memories that changes nothing when it is repeated.
bool idempotent(const Step& step, Rank self) {
  if (!is_move(step)) return false;
  for (const auto* side : {&step.sources, &step.destinations})
    for (const Operand& o : *side)
      if (is_message(o)) return false;
  if (step.sources.size() == 1) return true;  // a copy, also onto itself
  for (const Operand& o : step.sources)
    if (touches(step, self, cell_of(o, self), true)) return false;
  return true;
}

class Mutation : public testing::Test {
 protected:
  // Rejected, or harmless for the reason given; an empty reason means that nothing can excuse it.
  void judge(const Schedule& mutant, const std::string& what, std::string why_harmless = "") {
    ++mutants_;
    if (why_harmless.empty() && idle_) why_harmless = "in place, the step copies a memory to itself";
    const Proof proof = verify(mutant, {.in_place = in_place_});
    if (!proof.ok()) {
      ++found_[proof.counterexample->kind];
      const Finding& f = *proof.counterexample;
      EXPECT_TRUE(f.rank >= 0 && f.rank < mutant.shape.ranks) << f.text;
      EXPECT_FALSE(f.text.empty());
    } else if (why_harmless.empty()) {
      ADD_FAILURE() << label_ << ": not found: " << what;
    } else {
      ++harmless_[why_harmless];
    }
  }

  // Does the step do nothing, in place?
  static bool does_nothing(const Step& seen) {
    if (!is_move(seen) || seen.sources.size() != 1) return false;
    for (const Operand& o : seen.destinations)
      if (!(o == seen.sources[0])) return false;
    return true;
  }

  template <class Change>
  void change(const Place& at, const std::string& what, Change&& apply, const std::string& why_harmless = "") {
    Schedule mutant = original_;
    auto& strand = mutant.strand(at.rank, at.lane);
    const Step before = strand[at.step];
    apply(strand);
    judge(mutant, fmt::format("rank {} lane {} step {} ({}): {}", at.rank, at.lane, at.step, to_string(before), what),
          why_harmless);
  }

  void mutate_strand(const Place& at) {
    using Strand = std::vector<Step>;
    const std::size_t i = at.step;
    const Step& now = original_.strand(at.rank, at.lane)[i];
    const Step seen = as_seen(now, at.rank);
    idle_ = does_nothing(seen);
    change(
        at, "dropped", [&](Strand& s) { s.erase(s.begin() + static_cast<std::ptrdiff_t>(i)); },
        writes_only_own_input(seen) ? "in place, what is not reduced has its value already" : "");
    change(
        at, "done twice", [&](Strand& s) { s.insert(s.begin() + static_cast<std::ptrdiff_t>(i), Step(s[i])); },
        idempotent(seen, at.rank) ? "a move between memories that does not write what it reads is idempotent" : "");
    if (i + 1 < original_.strand(at.rank, at.lane).size()) {
      const Step& next = original_.strand(at.rank, at.lane)[i + 1];
      std::string why = why_they_commute(original_, at.rank, seen, as_seen(next, at.rank));
      if (why.empty() && (idle_ || does_nothing(as_seen(next, at.rank))))
        why = "one of the steps does nothing, in place";
      if (why.empty() && now.kind == Step::Kind::kWait && next.kind == Step::Kind::kSignal &&
          !has_news_for(next.peer, at))
        why = "a signal before which its strand moves nothing announces nothing of its own";
      change(
          at, "swapped with the next", [&](Strand& s) { std::swap(s[i], s[i + 1]); }, why);
    }
    if (is_move(now))
      mutate_move(at, now);
    else
      mutate_sync(at);
  }

  // Whether the strand has moved anything before this step that it has not signalled to this peer yet.
  bool has_news_for(Rank peer, const Place& at) const {
    const auto& strand = original_.strand(at.rank, at.lane);
    bool news = false;
    for (std::size_t i = 0; i < at.step; ++i) {
      news |= is_move(strand[i]);
      if (strand[i].kind == Step::Kind::kSignal && strand[i].peer == peer) news = false;
    }
    return news;
  }

  // In place, memory that is an input too (as_seen) holds its result from the beginning if nothing is reduced.
  bool writes_only_own_input(const Step& seen) const {
    if (!is_move(seen) || !in_place_ || reduces(original_.shape.collective)) return false;
    for (const Operand& o : seen.destinations)
      if (o.kind != Operand::Kind::kLocal || o.buffer != Buffer::kIn) return false;
    return true;
  }

  void mutate_sync(const Place& at) {
    const auto redirect = [&](Rank peer) {
      change(at, fmt::format("names rank {} instead", peer), [&](auto& s) { s[at.step].peer = peer; });
    };
    const Rank peer = original_.strand(at.rank, at.lane)[at.step].peer;
    redirect(another(peer, at.rank));
    redirect(original_.shape.ranks);
    redirect(-1);
    redirect(at.rank);
  }

  void mutate_move(const Place& at, const Step& now) {
    const int other = (now.chunk + 1) % original_.shape.chunks == now.chunk ? now.chunk + 1
                                                                            : (now.chunk + 1) % original_.shape.chunks;
    change(
        at, fmt::format("moves chunk {} instead", other),
        [&](auto& s) {
          s[at.step].chunk = other;
          for (Operands* side : {&s[at.step].sources, &s[at.step].destinations})
            for (Operand& o : *side)
              if (!is_message(o)) o.chunk = other;
        },
        writes_only_own_input(as_seen(now, at.rank)) ? "in place, what is not reduced has its value already" : "");
    change(at, "writes to the input", [&](auto& s) { s[at.step].destinations.push_back(in(now.chunk)); });
    for (std::size_t k = 0; k < now.sources.size(); ++k) {
      change(at, fmt::format("source {} dropped", k), [&](auto& s) { s[at.step].sources = without(now.sources, k); });
      change(at, fmt::format("source {} twice", k), [&](auto& s) { s[at.step].sources.push_back(now.sources[k]); });
    }
    const Step seen = as_seen(now, at.rank);
    for (std::size_t k = 0; k < now.destinations.size(); ++k)
      change(
          at, fmt::format("destination {} dropped", k),
          [&](auto& s) { s[at.step].destinations = without(now.destinations, k); },
          seen.sources.size() == 1 && seen.sources[0] == seen.destinations[k]
              ? "in place, the copy of a memory to itself"
              : "");
    for (const auto side : {&Step::sources, &Step::destinations}) {
      for (std::size_t k = 0; k < (now.*side).size(); ++k) {
        const Operand& o = (now.*side)[k];
        if (o.kind == Operand::Kind::kLocal) continue;
        for (const Rank peer : {another(o.peer, at.rank), original_.shape.ranks, -1, at.rank})
          if (peer != o.peer)
            change(at, fmt::format("operand {} names rank {} instead", k, peer),
                   [&](auto& s) { (s[at.step].*side)[k].peer = peer; });
      }
    }
  }

  // Some rank that is neither; or one that does not exist where there are only two.
  Rank another(Rank peer, Rank self) const {
    for (Rank r = 0; r < original_.shape.ranks; ++r)
      if (r != peer && r != self) return r;
    return original_.shape.ranks + 5;
  }

  // The step with the memories it really touches: in place, an output is the input's memory where both hold the chunk.
  Step as_seen(Step step, Rank self) const {
    const auto same_memory = [&](const Operand& o) {
      const Rank owner = o.kind == Operand::Kind::kRemote ? o.peer : self;
      return in_place_ && !is_message(o) && o.buffer == Buffer::kOut &&
             holds(original_.shape, Buffer::kIn, o.chunk, owner);
    };
    for (Operands* side : {&step.sources, &step.destinations})
      for (Operand& o : *side)
        if (same_memory(o)) o.buffer = Buffer::kIn;
    return step;
  }

  void mutate_all(const Algorithm& algorithm, RankContext context, bool in_place) {
    in_place_ = in_place;
    original_ = write_out(algorithm, context);
    label_ = fmt::format("{} {} on {} ranks{}{}", algorithm.name, name(algorithm.collective), context.ranks,
                         context.staged ? ", staged" : "", in_place ? ", in place" : "");
    ASSERT_TRUE(verify(original_, {.in_place = in_place}).ok()) << label_;
    for (Rank r = 0; r < original_.shape.ranks; ++r)
      for (int lane = 0; lane < original_.lanes; ++lane)
        for (std::size_t i = 0; i < original_.strand(r, lane).size(); ++i) mutate_strand({r, lane, i});
  }

  Schedule original_;
  std::string label_;
  bool in_place_ = false, idle_ = false;
  int mutants_ = 0;
  std::map<Kind, int> found_;
  std::map<std::string, int> harmless_;
};

TEST_F(Mutation, EveryDamageToEveryStepOfEveryAlgorithmIsFound) {
  for (const Algorithm& a : collectives::algorithms())
    for (const Rank n : {2, 3, 4, 5, 8})
      for (const bool staged : {false, true})
        for (const bool in_place : {false, true})
          if (a.needs.memory() || !staged)
            mutate_all(a, {.ranks = n, .root = n / 2, .ranks_per_node = n, .staged = staged}, in_place);
  for (const auto& [why, count] : harmless_) RecordProperty("harmless: " + why, count);
  // Every kind of damage but the impossible one (see verify_test.cc) comes up.
  for (int kind = 0; kind <= static_cast<int>(Kind::kDeadlock); ++kind) {
    if (Kind{kind} == Kind::kForeign) continue;
    EXPECT_GT(found_[Kind{kind}], 0) << name(Kind{kind});
  }
  // Several mutants per step of every algorithm: a loop that skips its work would stay below this.
  EXPECT_GT(mutants_, 10000);
}

}  // namespace
}  // namespace weft::schedule
