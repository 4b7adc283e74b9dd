#include "plan/collectives/registry.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/nearest_words.h"
#include "plan/collectives/barrier.h"
#include "plan/collectives/binomial.h"
#include "plan/collectives/bruck.h"
#include "plan/collectives/collnet.h"
#include "plan/collectives/direct.h"
#include "plan/collectives/double_binary_tree.h"
#include "plan/collectives/doubling.h"
#include "plan/collectives/experts.h"
#include "plan/collectives/grid.h"
#include "plan/collectives/grouped.h"
#include "plan/collectives/nvls.h"
#include "plan/collectives/pat.h"
#include "plan/collectives/ring.h"
#include "plan/collectives/spread.h"
#include "plan/schedule/exchange/written.h"

namespace weft::collectives {

const std::vector<schedule::Algorithm>& algorithms() {
  static const std::vector<schedule::Algorithm> kAll = [] {
    std::vector<schedule::Algorithm> all = {
        ring_all_reduce(), double_binary_tree_all_reduce(), nested_tree_all_reduce(), recursive_doubling_all_reduce(),
        halving_doubling_all_reduce(), all_pairs_all_reduce(), two_shot_all_reduce(), hierarchical_all_reduce(),
        torus_all_reduce(), mesh_all_reduce(), collnet_chain_all_reduce(), collnet_direct_all_reduce(),
        nvls_all_reduce(), nvls_tree_all_reduce(),
        //
        ring_broadcast(), binomial_broadcast(), two_shot_broadcast(), nvls_broadcast(),
        //
        ring_reduce(), binomial_reduce(), two_shot_reduce(), nvls_reduce(),
        //
        ring_all_gather(), line_all_gather(), recursive_doubling_all_gather(), bruck_all_gather(), pat_all_gather(),
        hierarchical_all_gather(), mesh_all_gather(), nvls_all_gather(),
        //
        ring_reduce_scatter(), line_reduce_scatter(), recursive_halving_reduce_scatter(), bruck_reduce_scatter(),
        pat_reduce_scatter(), hierarchical_reduce_scatter(), mesh_reduce_scatter(), nvls_reduce_scatter(),
        //
        pairwise_all_to_all(), bruck_all_to_all(), hierarchical_all_to_all(),
        //
        binomial_gather(), binomial_scatter(),
        //
        dissemination_barrier(), spread_barrier()};
    for (const auto& several : {spread(), grouped(), direct(), experts()})
      all.insert(all.end(), several.begin(), several.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.collective < b.collective; });
    return all;
  }();
  return kAll;
}

std::vector<const schedule::Algorithm*> algorithms_for(schedule::Collective collective) {
  std::vector<const schedule::Algorithm*> found;
  for (const auto& a : algorithms())
    if (a.collective == schedule::even_form(collective)) found.push_back(&a);
  return found;
}

// NCCL writes CollnetChain and NVLSTree for what is collnet_chain and nvls_tree here.
static bool same_name(std::string_view ours, std::string_view given) {
  std::size_t i = 0;
  for (const char c : given) {
    if (c == '_' || c == '-') continue;
    while (i < ours.size() && ours[i] == '_') ++i;
    if (i == ours.size() || std::tolower(static_cast<unsigned char>(c)) != ours[i++]) return false;
  }
  return i == ours.size() && !given.empty();
}

Result<const schedule::Algorithm*> find_algorithm(schedule::Collective collective, std::string_view name) {
  if (schedule::names_file(name)) {
    WEFT_TRY(const schedule::Algorithm* const written, schedule::written_algorithm(name));
    if (written->collective != schedule::even_form(collective))
      return bad_input("{}: a schedule of {}, not of {}", name, schedule::name(written->collective),
                       schedule::name(collective));
    return written;
  }
  std::vector<std::string> known;
  for (const auto* a : algorithms_for(collective)) {
    if (same_name(a->name, name)) return a;
    known.emplace_back(a->name);
  }
  return bad_input("algorithm '{}' cannot do {}; {}there are {}", name, schedule::name(collective),
                   did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace weft::collectives
