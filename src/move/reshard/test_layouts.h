#pragma once

#include "move/reshard/layout.h"

// Layouts and their parts, as this folder's tests write them down.
namespace weft::reshard {

inline Layout line(Rank ranks, std::string name = "a") {
  Layout layout{.name = std::move(name), .ranks = ranks};
  Mesh mesh{.name = "all", .axes = {{"tp", ranks}}};
  for (Rank r = 0; r < ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  return layout;
}

inline Layout with(Layout layout, Tensor tensor) {
  layout.tensors.push_back(std::move(tensor));
  return layout;
}

inline std::vector<std::pair<std::int64_t, std::int64_t>> rows(const DimensionPart& part) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (const Interval& i : part.intervals) all.emplace_back(i.global, i.length);
  return all;
}

using Rows = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace weft::reshard
