#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/disagreement/life.h"

namespace weft::disagreement {
namespace {

using Kind = Fate::Kind;

bool holds(const std::vector<Rank>& ranks, Rank r) { return std::ranges::find(ranks, r) != ranks.end(); }

// Judges the answers of one case.
class Judge {
 public:
  Judge(const Case& c, const std::vector<Life>& lives) : case_(c), lives_(lives) {
    for (std::size_t r = 0; r < lives.size(); ++r) {
      if (lives[r].gone) dead_.insert(static_cast<Rank>(r));
      if (lives[r].left) left_.insert(static_cast<Rank>(r));
      if (case_.fates[r].kind == Kind::kAborts) aborted_.insert(static_cast<Rank>(r));
      // Without a recovery, a rank that has failed ends at once: others may notice that before what made it fail.
      if (!case_.recovers && !lives[r].ended) failed_.insert(static_cast<Rank>(r));
    }
  }

  std::string calls(Verdict& v) {
    bool noticed = false, refused = false;
    // First, as a rank that has found something wrong ends, and the others then get errors.
    for (const Life& life : lives_)
      if (!life.wrong.empty()) return life.wrong;
    for (std::size_t r = 0; r < lives_.size(); ++r) {
      const Life& life = lives_[r];
      refused |= life.refused;
      if (life.gone || life.left || life.ended) continue;
      noticed = true;
      const Error& e = life.ended.error();
      v.mismatched |= e.code == Code::kMismatch;
      v.explained |= !e.field.empty();
      v.by_timeout |= e.code == Code::kTimeout;
      if (std::string no = error(r, e); !no.empty()) return no;
    }
    if (case_.change == "overlap" && noticed && !refused && case_.all_live())
      return "equal calls failed, and no rank's were refused";
    if (case_.recovers) return "";  // nobody called finalize()
    if (!case_.agrees && case_.all_live() && !noticed && !refused) return "no rank noticed";
    return unnoticed_end();
  }

  std::string recoveries() const {
    const Life* first = nullptr;
    for (std::size_t r = 0; r < lives_.size(); ++r) {
      const Life& life = lives_[r];
      if (life.members.empty()) continue;
      if (first == nullptr) first = &life;
      if (life.members != first->members)
        return fmt::format("one rank goes on with ranks {}, rank {} with ranks {}", fmt::join(first->members, ", "), r,
                           fmt::join(life.members, ", "));
      if (!holds(life.members, static_cast<Rank>(r))) return fmt::format("rank {} goes on without itself", r);
    }
    if (std::string no = agreement(); !no.empty()) return no;
    return dies_in_recovery() ? "" : who_recovered();
  }

 private:
  template <class Set>
  static bool all_in(const std::vector<std::int32_t>& ranks, const Set& set) {
    return !ranks.empty() && std::ranges::all_of(ranks, [&](Rank r) { return set.contains(r); });
  }

  // Empty, or why rank r must not get this error.
  std::string error(std::size_t r, const Error& e) const {
    const auto no = [&](std::string_view why) { return fmt::format("rank {}: {}: {}", r, why, e.message); };
    if (e.code == Code::kInternal || e.code == Code::kSystem) return no("not an error of its own");
    if (e.message.find(fmt::format("broken: rank {} ", r)) != std::string::npos) return no("reported of itself");
    // A rank that has made its calls on a communicator that was split off aborts it before the recovery, while others
    // may be in theirs.
    if (e.code == Code::kAborted && case_.splits && case_.recovers) return "";
    if (case_.agrees && case_.all_live() && case_.change != "overlap") return no("equal calls failed");
    std::set<Rank> ended = dead_;
    ended.insert(failed_.begin(), failed_.end());
    ended.insert(left_.begin(), left_.end());
    if (e.code == Code::kPeerDied && !all_in(e.ranks, ended)) return no("names a rank that lives");
    if (e.code == Code::kPeerLeft && !all_in(e.ranks, ended)) return no("names a rank that is here");
    // Where calls differ a rank may fail by itself, over what does not fit; the others then get kAborted with its name.
    if (e.code == Code::kAborted && case_.agrees && !case_.splits && !all_in(e.ranks, aborted_))
      return no("nobody aborted");
    if (e.code == Code::kMismatch && !case_.agrees)
      if (const std::string blamed = blames(e); !blamed.empty()) return no(blamed);
    if (e.code == Code::kTimeout && case_.agrees && case_.change != "overlap" && !case_.recovers)
      for (const Rank named : e.ranks)
        if (case_.fates[static_cast<std::size_t>(named)].kind == Kind::kLives && !failed_.contains(named))
          return no("names a rank that lives and has not failed");
    // A rank whose overlapping buffers were refused makes its next call while others wait in this one.
    if (e.code == Code::kMismatch && case_.agrees && case_.change != "overlap") return no("equal calls");
    // A message that one end takes for empty does not exist for the other: then only time shows that it is missing.
    const bool transfers = std::ranges::any_of(
        case_.calls, [](const auto& calls) { return !calls.empty() && calls[0].kind != Call::Kind::kCollective; });
    // And a rank that has nothing more to call before its recovery answers nobody.
    const bool may_be_empty = transfers || case_.change == "counts of a pair" || (case_.recovers && !case_.agrees);
    return e.code == Code::kTimeout && !may_be_empty ? no("noticed by a timeout only") : "";
  }

  // Did these two call the same?
  bool alike(std::size_t a, std::size_t b) const {
    return std::ranges::equal(case_.calls[a], case_.calls[b],
                              [](const Call& x, const Call& y) { return x.kind == y.kind && x.salt == y.salt; });
  }
  // Empty, or an innocent rank to which the error attributes the disagreement: one that called what more than half of
  // all ranks called. Two ranks that differ from each other may be named together.
  std::string blames(const Error& e) const {
    for (std::size_t r = 0; r < lives_.size(); ++r) {
      std::size_t with = 0;
      for (std::size_t other = 0; other < lives_.size(); ++other) with += alike(r, other) ? 1 : 0;
      if (2 * with <= lives_.size()) continue;
      const bool alone = e.ranks == std::vector<std::int32_t>{static_cast<Rank>(r)};
      if (alone || e.message.find(fmt::format("broken: rank {} called", r)) != std::string::npos)
        return fmt::format("blames rank {}, which called what {} of {} ranks called", r, with, lives_.size());
    }
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(e.ranks[i]); };
    const bool transfers = std::ranges::any_of(case_.calls, [](const auto& calls) {
      return std::ranges::any_of(calls, [](const Call& c) { return c.kind != Call::Kind::kCollective; });
    });
    // Equal counts of pairs have one salt, and ranks that made fewer calls differ from those that made more.
    if (e.ranks.size() != 2 || transfers || case_.change == "counts of a pair" || case_.change == "overlap") return "";
    return alike(at(0), at(1)) && !lives_[at(0)].refused && !lives_[at(1)].refused
               ? fmt::format("names ranks {} and {}, which called the same", e.ranks[0], e.ranks[1])
               : "";
  }

  // Empty, or that a rank finalized although another had surely not.
  std::string unnoticed_end() const {
    for (std::size_t gone = 0; gone < lives_.size(); ++gone) {
      const Fate& f = case_.fates[gone];
      const bool surely = f.kind == Kind::kExits || f.kind == Kind::kLeaves || f.kind == Kind::kAborts ||
                          (f.kind == Kind::kKilled && f.after_us == 0);
      if (!surely) continue;
      for (std::size_t r = 0; r < lives_.size(); ++r)
        if (!lives_[r].gone && !lives_[r].left && lives_[r].ended)
          return fmt::format("rank {} finalized although rank {} {}", r, gone, f.text());
    }
    return "";
  }

  std::string agreement() const {
    const Agreement* first = nullptr;
    for (std::size_t r = 0; r < lives_.size(); ++r) {
      if (!lives_[r].agreed) continue;
      const Agreement& a = *lives_[r].agreed;
      if (first == nullptr) first = &a;
      if (a.bits != first->bits || a.ended != first->ended)
        return fmt::format("ranks agree on {:x} and on {:x}", first->bits, a.bits);
      std::uint64_t counted = ~std::uint64_t{0};
      for (std::size_t p = 0; p < lives_.size(); ++p)
        if (!holds(a.ended, static_cast<Rank>(p))) counted &= ~(std::uint64_t{1} << p);
      if (a.bits != counted)
        return fmt::format("agreed on {:x} instead of {:x} without ranks {}", a.bits, counted,
                           fmt::join(a.ended, ", "));
    }
    return "";
  }

  bool dies_in_recovery() const {
    for (std::size_t r = 0; r < lives_.size(); ++r)
      if (case_.fates[r].kind == Kind::kKilled && case_.fates[r].call > case_.steps(r)) return true;
    return false;
  }

  // Of a recovery in which nobody died: all who live go on, or, where no quorum is left, nobody.
  std::string who_recovered() const {
    std::vector<Rank> living;
    for (std::size_t r = 0; r < lives_.size(); ++r)
      if (!lives_[r].gone && !lives_[r].left) living.push_back(static_cast<Rank>(r));
    if (living.empty()) return "";
    // Mixed: every two ranks say that they are on a machine of their own.
    const bool decided_by_memory =
        case_.over == Over::kThreads || case_.over == Over::kShm || (case_.over == Over::kMixed && lives_.size() <= 2);
    const auto half = 2 * living.size();
    const bool quorum =
        case_.arbiter || decided_by_memory || half > lives_.size() || (half == lives_.size() && living.front() == 0);
    for (const Rank r : living) {
      const Life& life = lives_[static_cast<std::size_t>(r)];
      const std::string said = life.recovered ? "ok" : life.recovered.error().message;
      if (quorum && life.members != living)
        return fmt::format("ranks {} live, but rank {} goes on with {{{}}}: {}", fmt::join(living, ", "), r,
                           fmt::join(life.members, ", "), said);
      if (!quorum && life.recovered) return fmt::format("rank {} goes on without a quorum", r);
      if (!quorum && life.recovered.error().code != Code::kNoQuorum)
        return fmt::format("rank {}: there is no quorum, but it says: {}", r, said);
    }
    return "";
  }

  const Case& case_;
  const std::vector<Life>& lives_;
  std::set<Rank> dead_, left_, aborted_, failed_;
};

}  // namespace

std::string judge(const Case& c, const std::vector<Life>& lives, Verdict& v) {
  for (const Life& life : lives)
    v.said.push_back(life.gone ? "(ended)"
                     : life.left
                         ? "(left)"
                         : fmt::format("{}{}", life.ended ? "" : life.ended.error().message,
                                       life.recovered ? "" : "; recovering: " + life.recovered.error().message));
  Judge judge(c, lives);
  if (std::string no = judge.calls(v); !no.empty()) return no;
  return c.recovers ? judge.recoveries() : "";
}

}  // namespace weft::disagreement
