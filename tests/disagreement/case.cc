#include "tests/disagreement/case.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/collectives/registry.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"

namespace weft::disagreement {
namespace {

constexpr DataType kTypes[] = {DataType::kInt32, DataType::kInt64, DataType::kUint8, DataType::kUint16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kAvg, ReduceOp::kAnd,  ReduceOp::kOr,  ReduceOp::kXor};
constexpr const char* kProtocols[] = {"Simple", "LL64", "LL128", "LL"};
constexpr std::uint64_t kMostElements = 9000;

template <class T, std::size_t n>
T pick(Random& random, const T (&from)[n]) {
  return from[random.below(n)];
}

std::size_t draw_count(Random& random) {
  std::uint64_t magnitude = 1;
  for (std::uint64_t bits = random.below(14); bits > 0; --bits) magnitude *= 2;
  return std::min(kMostElements, random.below(8) == 0 ? 0 : 1 + random.below(magnitude));
}

bool carries_messages(Over over) { return over >= Over::kTcp; }

void draw_way(Random& random, Over over, Call& call) {
  std::vector<const schedule::Algorithm*> able;
  for (const schedule::Algorithm* a : collectives::algorithms_for(call.collective)) {
    if (schedule::uneven(call.collective) && call.collective == Collective::kAllToAllV && !a->uneven) continue;
    if (a->needs.multicast || a->needs.aggregation) continue;
    if (carries_messages(over) && a->needs.memory()) continue;
    able.push_back(a);
  }
  const schedule::Algorithm& a = *able[random.below(able.size())];
  call.algorithm = std::string(a.name);
  call.protocol = !a.needs.messages ? "Direct" : carries_messages(over) ? "Simple" : pick(random, kProtocols);
  call.channels = 1 + static_cast<int>(random.below(2));
}

Call draw_call(Random& random, Over over, Rank ranks) {
  Call call;
  do call.collective = schedule::kCollectives[random.below(std::size(schedule::kCollectives))];
  while (schedule::routed(call.collective));  // tests/sessions/experts_test draws their tables
  call.type = pick(random, kTypes);
  if (schedule::reduces(call.collective)) call.op = pick(random, kOps);
  if (schedule::rooted(call.collective)) call.root = static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks)));
  if (call.collective == Collective::kBarrier) {
  } else if (call.collective == Collective::kAllToAllV) {
    call.counts.assign(static_cast<std::size_t>(ranks), draw_count(random));
    call.receive_counts = call.counts;
  } else if (schedule::uneven(call.collective)) {
    for (Rank r = 0; r < ranks; ++r) call.counts.push_back(draw_count(random) / 2);
    if (random.below(2) == 0) call.counts.back() = 0;
  } else {
    call.count = draw_count(random) / (schedule::message_parts(call.collective, ranks) > 1 ? 4 : 1);
  }
  draw_way(random, over, call);
  if (schedule::may_be_in_place(call.collective) && random.below(3) == 0) call.place = Call::Place::kInPlace;
  if (random.below(6) == 0) call.place = Call::Place::kRegistered;
  call.salt = random.next();
  return call;
}

// Changes a call in one way; empty: this call cannot be changed so.
std::string alter(Random& random, Over over, Rank self, Rank ranks, Call& call) {
  const std::uint64_t salt = call.salt;
  call.salt = random.next();
  const auto self_at = static_cast<std::size_t>(self);
  const bool even = !schedule::uneven(call.collective) && call.collective != Collective::kBarrier;
  switch (random.below(12)) {
    case 0:
    case 1:
      if (!even) break;
      call.count = random.below(2) == 0 ? call.count + 1 + random.below(20) : draw_count(random);
      return "count";
    case 2:
      if (!even) break;
      call.count = call.count == 0 ? 1 : 0;
      return "no elements";
    case 3:
      if (call.collective == Collective::kBarrier) break;
      call.type = pick(random, kTypes);
      return "type";
    case 4:
      if (!schedule::reduces(call.collective)) break;
      call.op = pick(random, kOps);
      return "operation";
    case 5:
      if (!schedule::rooted(call.collective)) break;
      call.root = static_cast<Rank>(
          (call.root + 1 + static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks - 1)))) % ranks);
      return "root";
    case 6:
      if (call.collective == Collective::kBarrier) break;
      draw_way(random, over, call);
      return "way";
    case 7: {
      const Call::Place place = call.place;
      call = draw_call(random, over, ranks);
      if (place == Call::Place::kRegistered) call.place = place;
      return "collective";
    }
    case 8:
      if (call.counts.empty()) break;
      if (call.collective == Collective::kAllToAllV && ranks > 1) {
        const std::size_t peer =
            (self_at + 1 + random.below(static_cast<std::uint64_t>(ranks - 1))) % static_cast<std::size_t>(ranks);
        auto& row = random.below(2) == 0 ? call.counts : call.receive_counts;
        row[peer] = random.below(3) == 0 ? 0 : draw_count(random);
        call.salt = salt;  // the other pairs agree
        return "counts of a pair";
      }
      call.counts[random.below(call.counts.size())] += 1 + random.below(10);
      return "counts";
    case 9:
      call.salt = salt;
      if (!schedule::reduces(call.collective)) call.op = pick(random, kOps);
      if (!schedule::rooted(call.collective)) call.root = static_cast<Rank>(random.below(7));
      if (!even) call.count = random.below(100);
      return "ignored fields";
    case 10:
      if (call.collective != Collective::kAllToAllV) break;
      call.counts[self_at] += 50;
      return "own counts";
    default:
      // Whether memory is registered would differ, too.
      if (!schedule::may_be_in_place(call.collective) || call.count < 10 || call.place == Call::Place::kRegistered)
        break;
      call.salt = salt;
      call.place = Call::Place::kOverlapping;
      return "overlap";
  }
  call.salt = salt;
  return "";
}

// The same in both, but for the salt?
bool same(const Call& a, const Call& b) {
  return a.collective == b.collective && a.type == b.type && a.op == b.op && a.root == b.root && a.count == b.count &&
         a.counts == b.counts && a.receive_counts == b.receive_counts && a.algorithm == b.algorithm &&
         a.protocol == b.protocol && a.channels == b.channels && a.place == b.place;
}

// The same call to weft, which ignores what a collective does not use, and where nothing is.
bool interchangeable(Call a, Call b) {
  const bool elements = a.count > 0 || !a.counts.empty() || b.count > 0 || !b.counts.empty();
  for (Call* c : {&a, &b}) {
    const bool barrier = c->collective == Collective::kBarrier;
    if (barrier) c->type = DataType::kInt32, c->count = 0;
    if (!schedule::reduces(c->collective)) c->op = ReduceOp::kSum;
    if (!schedule::rooted(c->collective)) c->root = 0;
    if (barrier || !elements || c->place == Call::Place::kInPlace) c->place = Call::Place::kApart;
  }
  return same(a, b);
}

void draw_letters(Random& random, Case& c) {
  constexpr std::size_t kCounts[] = {0, 1, 6, 7, 900, 4096, 4097, 60000};
  const auto letters = 1 + static_cast<std::int32_t>(random.below(40));
  const auto rank = [&] { return static_cast<Rank>(random.below(static_cast<std::uint64_t>(c.ranks))); };
  for (std::int32_t tag = 0; tag < letters; ++tag) {
    Letter l{.from = rank(), .to = rank(), .tag = tag, .count = pick(random, kCounts)};
    const auto kind = random.below(10);
    l.room = kind == 0 && l.count > 0 ? l.count - 1 : kind < 4 ? l.count + 1 + random.below(1000) : l.count;
    l.any = random.below(4) == 0;
    l.other_type = random.below(20) == 0;
    c.letters.push_back(l);
  }
}

void draw_transfers(Random& random, Case& c) {
  const auto from = static_cast<Rank>(random.below(static_cast<std::uint64_t>(c.ranks)));
  const Rank to = (from + 1 + static_cast<Rank>(random.below(static_cast<std::uint64_t>(c.ranks - 1)))) % c.ranks;
  Call send{.kind = Call::Kind::kSend, .root = to, .count = draw_count(random), .salt = random.next()};
  Call receive = send;
  receive.kind = Call::Kind::kReceive, receive.root = from;
  if (random.below(3) != 0) {
    receive.count = random.below(2) == 0 ? draw_count(random) : receive.count + 1;
    c.agrees = receive.count == send.count;
    if (!c.agrees) c.change = "count of a transfer", receive.salt = random.next();
  }
  c.calls[static_cast<std::size_t>(from)].push_back(send);
  c.calls[static_cast<std::size_t>(to)].push_back(receive);
}

}  // namespace

std::string Letter::text() const {
  return fmt::format("{} of {} from {} to {}{}{}", tag, count, from, to,
                     room != count ? fmt::format(", room for {}", room) : "",
                     any          ? ", any"
                     : other_type ? ", another type"
                                  : "");
}

std::string Call::text() const {
  if (kind != Kind::kCollective)
    return fmt::format("{} {} with rank {}", kind == Kind::kSend ? "send" : "receive", count, root);
  std::string text = fmt::format("{} of {} {} {}, root {}, {} {} x {}", schedule::name(collective), count,
                                 schedule::name(type), schedule::name(op), root, algorithm, protocol, channels);
  if (!counts.empty()) text += fmt::format(", counts {}", fmt::join(counts, ","));
  if (!receive_counts.empty()) text += fmt::format(" received {}", fmt::join(receive_counts, ","));
  constexpr const char* kPlaces[] = {"", ", in place", ", overlapping", ", registered"};
  return text + kPlaces[static_cast<int>(place)];
}

std::string Fate::text() const {
  constexpr const char* kNamesOf[] = {"lives", "is killed", "exits", "leaves", "aborts", "is stopped"};
  return fmt::format("{} in call {}{}", kNamesOf[static_cast<int>(kind)], call,
                     after_us > 0 ? fmt::format(" + {} us", after_us) : "");
}

int Case::steps(std::size_t rank) const {
  return before + static_cast<int>(calls[rank].size()) + (letters.empty() ? 0 : 2) + after;
}

bool Case::all_live() const {
  return std::ranges::all_of(
      fates, [](const Fate& f) { return f.kind == Fate::Kind::kLives || f.kind == Fate::Kind::kStopped; });
}

Case Case::draw_with_deaths(std::uint64_t seed, Over over) {
  Case c = draw(seed, over);
  Random random(seed * 11 + static_cast<std::uint64_t>(over));
  // Half of the cases have nothing but deaths.
  if (random.below(2) == 0) {
    for (std::uint64_t other = seed; !c.agrees || c.change == "overlap";) c = draw(other += 1000003, over);
    c.seed = seed;
  }
  const auto n = static_cast<std::size_t>(c.ranks);
  c.recovers = random.below(2) == 0, c.arbiter = random.below(2) == 0, c.splits = random.below(5) == 0;
  for (std::uint64_t fated = 1 + random.below(random.below(3) == 0 ? n - 1 : 1); fated > 0; --fated) {
    const std::size_t r = random.below(n);
    constexpr Fate::Kind kKinds[] = {Fate::Kind::kKilled, Fate::Kind::kKilled, Fate::Kind::kExits,
                                     Fate::Kind::kLeaves, Fate::Kind::kAborts, Fate::Kind::kStopped};
    Fate& fate = c.fates[r];
    fate = {.kind = pick(random, kKinds),
            .call = static_cast<int>(random.below(static_cast<std::uint64_t>(c.steps(r)) + 1))};
    if (fate.kind != Fate::Kind::kKilled) continue;
    if (c.recovers && random.below(4) == 0) fate.call = c.steps(r) + 1;
    fate.after_us = random.below(3) == 0 ? 0 : static_cast<std::int64_t>(random.below(4000));
  }
  return c;
}

Case Case::draw(std::uint64_t seed, Over over) {
  Random random(seed * 5 + static_cast<std::uint64_t>(over));
  Case c{.seed = seed, .over = over, .ranks = 2 + static_cast<Rank>(random.below(random.below(4) == 0 ? 7 : 3))};
  constexpr int kBefore[] = {0, 3, 60}, kAfter[] = {0, 1, 5};
  c.protocol = carries_messages(over) ? "Simple" : pick(random, kProtocols);
  c.before = pick(random, kBefore), c.after = pick(random, kAfter);
  const auto n = static_cast<std::size_t>(c.ranks);
  c.calls.resize(n), c.late_ms.resize(n), c.fates.resize(n);
  if (random.below(8) == 0) c.late_ms[random.below(n)] = static_cast<int>(random.below(60));
  if (Random letters(seed * 7 + static_cast<std::uint64_t>(over)); letters.below(4) == 0) draw_letters(letters, c);
  if (random.below(8) == 0) {
    draw_transfers(random, c);
    return c;
  }
  Call call = draw_call(random, over, c.ranks);
  for (auto& calls : c.calls) calls = {call};
  if (random.below(5) == 0) {
    const Call second = draw_call(random, over, c.ranks);
    for (auto& calls : c.calls) calls.push_back(second);
  }
  if (random.below(6) == 0) return c;
  const std::size_t changed = random.below(n);
  auto& mine = c.calls[changed];
  const Call before = mine[0];
  if (random.below(10) == 0) {
    mine.erase(mine.begin());
    c.change = "left out";
  } else if (mine.size() > 1 && random.below(2) == 0) {
    if (!interchangeable(mine[0], mine[1])) std::swap(mine[0], mine[1]), c.change = "swapped";
  } else {
    for (int attempt = 0; attempt < 8 && c.change.empty(); ++attempt)
      c.change = alter(random, over, static_cast<Rank>(changed), c.ranks, mine[0]);
    if (c.change != "ignored fields" && interchangeable(before, mine[0])) c.change.clear();
    if (c.change.empty()) mine[0] = before;
  }
  // Of ranks that have either no input or no output, none overlaps.
  c.agrees = c.change.empty() || c.change == "ignored fields" || c.change == "overlap";
  if (c.change == "left out" || c.change == "swapped" || c.change == "own counts" || c.agrees) return c;
  // Sometimes half of the ranks call one thing and half another.
  if (random.below(3) == 0 && c.change != "counts of a pair")
    for (std::size_t r = 0; r < n; ++r)
      if (random.below(2) == 0) c.calls[r][0] = mine[0];
  const auto& first = c.calls[0][0];
  const auto means_the_same = [&](const auto& calls) {
    // Barriers have nothing to differ in but how they are made.
    const bool barriers = first.collective == Collective::kBarrier && calls[0].collective == Collective::kBarrier &&
                          calls[0].algorithm == first.algorithm && calls[0].protocol == first.protocol &&
                          calls[0].channels == first.channels;
    return calls[0].salt == first.salt || barriers;
  };
  c.agrees = c.change != "counts of a pair" && std::ranges::all_of(c.calls, means_the_same);
  return c;
}

std::string Case::text() const {
  std::string text = fmt::format("seed {} over {}, {} ranks, {} calls by {} before, {} after; {}", seed,
                                 kNames[static_cast<int>(over)], ranks, before, protocol, after,
                                 change.empty() ? "nothing differs" : change + " differs");
  if (splits) text += ", on a communicator that was split off";
  if (recovers) text += arbiter ? ", then recovers by an arbiter" : ", then recovers";
  for (std::size_t r = 0; r < calls.size(); ++r) {
    text += fmt::format("\n  rank {} ({} ms late):", r, late_ms[r]);
    if (fates[r].kind != Fate::Kind::kLives) text += fmt::format(" {};", fates[r].text());
    for (const Call& call : calls[r]) text += " [" + call.text() + "]";
  }
  for (const Letter& l : letters) text += "\n  message " + l.text();
  return text;
}

}  // namespace weft::disagreement
