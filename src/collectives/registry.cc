#include "collectives/registry.h"

#include <string>

#include "collectives/direct.h"
#include "collectives/double_binary_tree.h"
#include "collectives/ring.h"

namespace weft::collectives {

const std::vector<schedule::Algorithm>& algorithms() {
  static const std::vector<schedule::Algorithm> kAll = {
      ring_all_reduce(), double_binary_tree_all_reduce(), one_shot_all_reduce(), two_shot_all_reduce(),
      ring_all_gather(), ring_reduce_scatter(),           ring_broadcast(),
  };
  return kAll;
}

std::vector<const schedule::Algorithm*> algorithms_for(schedule::Collective collective) {
  std::vector<const schedule::Algorithm*> found;
  for (const auto& a : algorithms())
    if (a.collective == schedule::even_form(collective)) found.push_back(&a);
  return found;
}

Result<const schedule::Algorithm*> find_algorithm(schedule::Collective collective, std::string_view name) {
  std::string known;
  for (const auto* a : algorithms_for(collective)) {
    if (a->name == name) return a;
    known += std::string(known.empty() ? "" : ", ") + std::string(a->name);
  }
  return bad_input("algorithm '{}' cannot do {}; there are {}", name, schedule::name(collective), known);
}

}  // namespace weft::collectives
