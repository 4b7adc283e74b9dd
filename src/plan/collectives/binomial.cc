#include "plan/collectives/binomial.h"

#include <vector>

namespace weft::collectives {

using namespace schedule;

namespace {

// The binomial tree over the ranks counted from the root: the parent of v is v without its lowest set bit, its subtree
// the ranks v … v + that bit - 1.
//   0 ─┬─ 1      8 ranks: the root sends to 4, then 2, then 1; 4 to 6 and 5; …
//      ├─ 2 ── 3
//      └─ 4 ─┬─ 5
//            └─ 6 ── 7
struct Place {
  explicit Place(const RankContext& s) : ranks(s.ranks), root(s.root), v((s.rank - s.root + s.ranks) % s.ranks) {
    span = v == 0 ? 1 : v & -v;
    while (v == 0 && span < ranks) span *= 2;
    for (int bit = span / 2; bit > 0; bit /= 2)
      if (v + bit < ranks) children.push_back(v + bit);  // the largest subtree first
  }
  Rank rank_of(int relative) const { return (relative + root) % ranks; }
  Rank parent() const { return rank_of(v - (v & -v)); }
  int end(int relative) const {  // of its subtree
    return relative == 0 ? ranks : std::min(ranks, relative + (relative & -relative));
  }

  int ranks, root, v, span = 1;
  std::vector<int> children;  // counted from the root
};

// Critical path: ceil(log2 n) hops. Bytes sent by the root: ceil(log2 n) messages.
Generator<Step> broadcast_steps(RankContext context) {
  const Place place(context);
  Operands targets{out(0)};
  for (const int child : place.children) targets.push_back(to(place.rank_of(child)));
  co_yield move(0, {place.v == 0 ? in(0) : from(place.parent())}, targets);
}

// Critical path: ceil(log2 n) hops. Bytes received by the root: ceil(log2 n) messages.
Generator<Step> reduce_steps(RankContext context) {
  const Place place(context);
  Operands sources{in(0)};
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    sources.push_back(from(place.rank_of(*child)));  // the smallest subtree is ready first
  co_yield move(0, sources, {place.v == 0 ? out(0) : to(place.parent())});
}

// Every rank collects the parts of its subtree and passes them on in one message.
// Messages: one per rank; critical path ceil(log2 n) hops. Bytes received by the root: (n-1)/n of the message.
Generator<Step> gather_steps(RankContext context) {
  const Place place(context);
  const bool root = place.v == 0;
  if (root) co_yield move(context.rank, {in(context.rank)}, {out(context.rank)});
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    for (int v = *child; v < place.end(*child); ++v) {
      const int c = place.rank_of(v);
      co_yield move(c, {from(place.rank_of(*child)).continued(v + 1 < place.end(*child))},
                    {root ? out(c) : scratch(v - place.v)});
    }
  if (root) co_return;
  for (int v = place.v; v < place.end(place.v); ++v) {
    const int c = place.rank_of(v);
    co_yield move(c, {v == place.v ? in(c) : scratch(v - place.v)},
                  {to(place.parent()).continued(v + 1 < place.end(place.v))});
  }
}

// Every rank gets the parts of its subtree in one message, keeps its own and passes on the rest.
// Messages: one per rank; critical path ceil(log2 n) hops. Bytes sent by the root: (n-1)/n of the message.
Generator<Step> scatter_steps(RankContext context) {
  const Place place(context);
  const bool root = place.v == 0;
  const auto held = [&](int v) { return root ? in(place.rank_of(v)) : scratch(v - place.v); };
  if (!root)
    for (int v = place.v; v < place.end(place.v); ++v)
      co_yield move(place.rank_of(v), {from(place.parent()).continued(v + 1 < place.end(place.v))},
                    {v == place.v ? out(place.rank_of(v)) : held(v)});
  for (const int child : place.children)
    for (int v = child; v < place.end(child); ++v)
      co_yield move(place.rank_of(v), {held(v)}, {to(place.rank_of(child)).continued(v + 1 < place.end(child))});
  if (root) co_yield move(context.rank, {in(context.rank)}, {out(context.rank)});
}

int whole(const RankContext&) { return 1; }
int per_rank(const RankContext& s) { return s.ranks; }

Algorithm binomial(Collective collective, Generator<Step> (*steps)(RankContext)) {
  const bool parts = collective == Collective::kGather || collective == Collective::kScatter;
  return {.name = "binomial",
          .collective = collective,
          .when = parts ? "small parts on many ranks: logarithmic latency"
                        : "small messages on many ranks: logarithmic latency",
          .source = "the binomial tree of MPICH; Thakur, Rabenseifner and Gropp 2005",
          .chunks = parts ? per_rank : whole,
          .scratch = parts ? per_rank : nullptr,
          .parts = parts ? per_rank : nullptr,
          .steps = steps};
}

}  // namespace

Algorithm binomial_broadcast() { return binomial(Collective::kBroadcast, broadcast_steps); }
Algorithm binomial_reduce() { return binomial(Collective::kReduce, reduce_steps); }
Algorithm binomial_gather() { return binomial(Collective::kGather, gather_steps); }
Algorithm binomial_scatter() { return binomial(Collective::kScatter, scatter_steps); }

}  // namespace weft::collectives
