// What every algorithm sends, against the formula that its source gives: messages of the busiest rank, and bytes in
// messages of the size that the bench counts.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "plan/collectives/algorithms_page.h"
#include "plan/collectives/registry.h"

namespace weft::collectives {
namespace {

using schedule::name;
using Collective = schedule::Collective;

// n ranks on `nodes` nodes of l.
struct Shape {
  int n, nodes, l;
  double log() const { return std::ceil(std::log2(n)); }
  double others() const { return n - 1; }
  double share() const { return others() / n; }  // of the others
};

enum class For { kAll, kPowersOfTwo, kOneNode, kPowersOnOneNode, kNodes };

struct Form {
  Collective collective;
  std::string_view algorithm;
  For shapes;
  double (*messages)(const Shape&), (*bytes)(const Shape&);
};

double one(const Shape&) { return 1; }
double two(const Shape&) { return 2; }
double log(const Shape& s) { return s.log(); }
double others(const Shape& s) { return s.others(); }
double twice_others(const Shape& s) { return 2 * s.others(); }
double share(const Shape& s) { return s.share(); }
double twice_share(const Shape& s) { return 2 * s.share(); }
double part(const Shape& s) { return 1.0 / s.n; }
double twice_part(const Shape& s) { return 2.0 / s.n; }
double along_both(const Shape& s) { return s.nodes - 1 + s.l - 1; }  // once across nodes, once inside
double twice_along_both(const Shape& s) { return 2 * along_both(s); }
// A line's inner rank sends what comes from either side to the other, and its own both ways.
double line(int n) { return n == 2 ? 1 : n + 1; }

const Form kForms[] = {
    {Collective::kAllReduce, "ring", For::kAll, twice_others, twice_share},
    {Collective::kAllReduce, "recursive_doubling", For::kPowersOfTwo, log, log},
    {Collective::kAllReduce, "halving_doubling", For::kPowersOfTwo, [](const Shape& s) { return 2 * s.log(); },
     twice_share},
    {Collective::kAllReduce, "all_pairs", For::kAll, twice_others, twice_share},
    {Collective::kAllReduce, "two_shot", For::kAll, twice_others, twice_share},
    {Collective::kAllReduce, "one_shot", For::kAll, others, others},
    {Collective::kAllReduce, "hierarchical", For::kNodes, twice_along_both, twice_share},
    {Collective::kAllReduce, "torus2d", For::kNodes, [](const Shape& s) { return 4 * along_both(s); }, twice_share},
    {Collective::kAllReduce, "mesh", For::kNodes,
     [](const Shape& s) { return along_both(s) + line(s.nodes) + line(s.l); },
     [](const Shape& s) { return s.share() + (line(s.nodes) + s.nodes * line(s.l)) / s.n; }},
    {Collective::kAllReduce, "collnet_chain", For::kNodes, two, two},
    {Collective::kAllReduce, "collnet_direct", For::kNodes, [](const Shape& s) { return 2.0 * (s.l - 1) + 1; },
     [](const Shape& s) { return (2.0 * (s.l - 1) + 1) / s.l; }},
    {Collective::kAllReduce, "nvls", For::kOneNode, two, twice_part},
    {Collective::kAllReduce, "nvls", For::kNodes, [](const Shape&) { return 3.0; },
     [](const Shape& s) { return 3.0 / s.l; }},
    //
    {Collective::kBroadcast, "ring", For::kAll, one, one},
    {Collective::kBroadcast, "binomial", For::kAll, log, log},
    {Collective::kBroadcast, "two_shot", For::kAll, [](const Shape& s) { return 1.0 * s.n; }, one},
    {Collective::kBroadcast, "nvls", For::kOneNode, one, one},
    {Collective::kBroadcast, "spread", For::kAll, others, others},
    {Collective::kBroadcast, "direct", For::kAll, one, one},
    //
    {Collective::kReduce, "ring", For::kAll, one, one},
    {Collective::kReduce, "binomial", For::kAll, one, one},
    {Collective::kReduce, "two_shot", For::kAll, [](const Shape& s) { return 1.0 * s.n; }, one},
    {Collective::kReduce, "nvls", For::kOneNode, one, one},
    {Collective::kReduce, "spread", For::kAll, one, one},
    {Collective::kReduce, "direct", For::kAll, others, others},
    //
    {Collective::kAllGather, "ring", For::kAll, others, share},
    {Collective::kAllGather, "line", For::kAll, [](const Shape& s) { return line(s.n); },
     [](const Shape& s) { return line(s.n) / s.n; }},
    {Collective::kAllGather, "recursive_doubling", For::kPowersOfTwo, log, share},
    {Collective::kAllGather, "bruck", For::kAll, log, share},
    {Collective::kAllGather, "pat", For::kPowersOnOneNode, log, share},
    {Collective::kAllGather, "hierarchical", For::kNodes, along_both, share},
    {Collective::kAllGather, "mesh", For::kNodes, [](const Shape& s) { return line(s.nodes) + line(s.l); },
     [](const Shape& s) { return (line(s.nodes) + s.nodes * line(s.l)) / s.n; }},
    {Collective::kAllGather, "nvls", For::kOneNode, one, part},
    {Collective::kAllGather, "spread", For::kAll, others, share},
    {Collective::kAllGather, "direct", For::kAll, others, share},
    //
    {Collective::kReduceScatter, "ring", For::kAll, others, share},
    {Collective::kReduceScatter, "line", For::kAll, others, share},
    {Collective::kReduceScatter, "recursive_halving", For::kPowersOfTwo, log, share},
    {Collective::kReduceScatter, "bruck", For::kAll, log, share},
    {Collective::kReduceScatter, "pat", For::kPowersOnOneNode, log, share},
    {Collective::kReduceScatter, "hierarchical", For::kNodes, along_both, share},
    {Collective::kReduceScatter, "mesh", For::kNodes, along_both, share},
    {Collective::kReduceScatter, "nvls", For::kOneNode, one, part},
    {Collective::kReduceScatter, "spread", For::kAll, others, share},
    {Collective::kReduceScatter, "direct", For::kAll, others, share},
    //
    {Collective::kAllToAll, "pairwise", For::kAll, others, share},
    {Collective::kAllToAll, "bruck", For::kPowersOfTwo, log, [](const Shape& s) { return s.log() / 2; }},
    {Collective::kAllToAll, "hierarchical", For::kNodes, along_both,
     [](const Shape& s) { return (s.nodes - 1.0) / s.nodes + (s.l - 1.0) / s.l; }},
    {Collective::kAllToAll, "spread", For::kAll, others, share},
    {Collective::kAllToAll, "grouped", For::kAll, others, share},
    {Collective::kAllToAll, "direct", For::kAll, others, share},
    //
    {Collective::kGather, "binomial", For::kPowersOfTwo, one, [](const Shape&) { return 0.5; }},
    {Collective::kGather, "spread", For::kAll, one, part},
    {Collective::kGather, "grouped", For::kAll, one, part},
    {Collective::kGather, "direct", For::kAll, others, share},
    {Collective::kScatter, "binomial", For::kPowersOfTwo, log, share},
    {Collective::kScatter, "spread", For::kAll, others, share},
    {Collective::kScatter, "grouped", For::kAll, others, share},
    {Collective::kScatter, "direct", For::kAll, one, part},
    {Collective::kSendReceive, "spread", For::kAll, one, one},
    {Collective::kSendReceive, "grouped", For::kAll, one, one},
    {Collective::kSendReceive, "direct", For::kAll, one, one},
};

bool counts(const Form& form, const Shape& s) {
  switch (form.shapes) {
    case For::kAll:
      return true;
    case For::kPowersOfTwo:
      return std::has_single_bit(static_cast<unsigned>(s.n));
    case For::kOneNode:
      return s.nodes == 1;
    case For::kPowersOnOneNode:
      return s.nodes == 1 && std::has_single_bit(static_cast<unsigned>(s.n));
    case For::kNodes:
      return s.nodes > 1 && s.l > 1;
  }
  return false;
}

TEST(ClosedForms, HoldForTheBusiestRank) {
  for (const Form& form : kForms) {
    const auto* a = find_algorithm(form.collective, form.algorithm).value();
    for (const auto& [n, l] :
         {std::pair{2, 2}, {3, 3}, {5, 5}, {8, 8}, {16, 16}, {17, 17}, {8, 4}, {12, 3}, {24, 8}, {32, 8}}) {
      const Shape shape{n, n / l, l};
      if (!counts(form, shape)) continue;
      const Work w = busiest(*a, {.ranks = n, .ranks_per_node = l});
      EXPECT_EQ(w.messages + w.remote, form.messages(shape))
          << name(form.collective) << " " << form.algorithm << " " << n << "/" << l;
      EXPECT_NEAR(w.sent + w.touched, form.bytes(shape), 1e-9)
          << name(form.collective) << " " << form.algorithm << " " << n << "/" << l;
    }
  }
}

// A chain in each node and two trees that each carry half: at most two children and a parent in either, both ways.
TEST(ClosedForms, TreesSendWhatTheirDegreeSays) {
  for (const std::string_view tree : {"tree", "coll_tree"}) {
    const auto* a = find_algorithm(Collective::kAllReduce, tree).value();
    for (const int nodes : {1, 2, 3, 8, 16}) {
      const Work w = busiest(*a, {.ranks = 8 * nodes, .ranks_per_node = 8});
      EXPECT_LE(w.messages, 6) << tree << " on " << nodes;
      EXPECT_LE(w.sent, 3) << tree << " on " << nodes;
      EXPECT_GE(w.sent, 2) << tree << " on " << nodes;
    }
  }
}

TEST(ClosedForms, BarriersSignalInLogarithmicAndInLinearTime) {
  for (const int n : {2, 3, 8, 17}) {
    const schedule::RankContext context{.ranks = n, .ranks_per_node = n};
    EXPECT_EQ(busiest(*find_algorithm(Collective::kBarrier, "dissemination").value(), context).steps,
              2 * std::ceil(std::log2(n)));
    EXPECT_EQ(busiest(*find_algorithm(Collective::kBarrier, "spread").value(), context).steps, 2 * (n - 1));
  }
}

TEST(ClosedForms, EveryAlgorithmHasOne) {
  std::set<std::pair<Collective, std::string_view>> known = {{Collective::kAllReduce, "tree"},
                                                             {Collective::kAllReduce, "coll_tree"},
                                                             {Collective::kAllReduce, "nvls_tree"}};  // see NvlsTree
  for (const Form& f : kForms) known.insert({f.collective, f.algorithm});
  for (const auto& a : algorithms())
    if (a.collective != Collective::kBarrier && !schedule::routed(a.collective)) {  // by routes: experts_test
      EXPECT_TRUE(known.contains({a.collective, a.name})) << name(a.collective) << " " << a.name;
    }
}

}  // namespace
}  // namespace weft::collectives
