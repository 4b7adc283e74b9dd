#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>

#include "work.h"

// Tensors as the contiguous memory that calls take, and back.
namespace weft::torch_adapter {

// On any thread, also into a tensor of inference mode, which a thread outside of that mode may not write.
inline void overwrite(const Tensor& to, const Tensor& from) {
  std::optional<c10::InferenceMode> mode;
  if (to.is_inference()) mode.emplace();
  const at::NoGradGuard no_gradients;
  Tensor(to).copy_(from);
}
inline std::function<void()> copy_back(const Tensor& to, const Tensor& from) {
  if (to.is_same(from) || (to.is_contiguous() && to.data_ptr() == from.data_ptr())) return {};
  return [to, from] { overwrite(to, from.view(to.sizes())); };
}
inline std::function<void()> cut(const Tensor& all, const Tensors& parts) {
  return [all, parts] {
    std::int64_t at = 0;
    for (const Tensor& part : parts) {
      if (part.numel() > 0) overwrite(part, all.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
  };
}
inline void check_one_per_rank(const Tensors& parts, int ranks) {
  TORCH_CHECK_VALUE(parts.size() == static_cast<std::size_t>(ranks), "weft: a list of ", parts.size(),
                    " tensors, but one for each of the group's ", ranks, " ranks is expected");
}
inline void check_parts(const Tensors& parts, const Tensor& like, int ranks) {
  check_one_per_rank(parts, ranks);
  for (const Tensor& t : parts) {
    check_dense(t);
    TORCH_CHECK_VALUE(t.numel() == like.numel() && t.scalar_type() == like.scalar_type(),
                      "weft: all tensors must have the same size and type");
  }
}
inline Tensor joined_flat(const Tensors& parts, const Tensor& like) {
  Tensors flat;
  for (const Tensor& t : parts) {
    TORCH_CHECK_VALUE(t.scalar_type() == like.scalar_type(), "weft: all tensors must have the same type");
    flat.push_back(t.contiguous().view({-1}));
  }
  return flat.size() == 1 ? flat[0] : at::cat(flat);
}
inline std::vector<std::size_t> elements_of(const std::vector<std::int64_t>& rows, const Tensor& t, std::size_t factor,
                                            int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::int64_t first = t.dim() == 0 ? 1 : t.size(0);
  std::vector<std::int64_t> split = rows;
  if (split.empty()) {
    TORCH_CHECK_VALUE(first % ranks == 0, "weft: axis 0 cannot be cut into ", n, " equal parts");
    split.assign(n, first / ranks);
  }
  TORCH_CHECK_VALUE(split.size() == n, "weft: ", split.size(), " split sizes for ", n, " ranks");
  TORCH_CHECK_VALUE(std::accumulate(split.begin(), split.end(), std::int64_t{0}) == first,
                    "weft: split sizes do not add up to axis 0");
  std::size_t row = factor;
  for (std::int64_t d = 1; d < t.dim(); ++d) row *= t.size(d);
  std::vector<std::size_t> counts;
  for (const auto s : split) counts.push_back(s * row);
  return counts;
}

// Several tasks as one, one after the other.
inline Task joined(std::vector<Task> tasks, OpType type, const char* title, bool async) {
  Task all{.type = type, .title = title, .async = async};
  for (const Task& t : tasks) {
    all.inputs.insert(all.inputs.end(), t.inputs.begin(), t.inputs.end());
    all.results.insert(all.results.end(), t.results.begin(), t.results.end());
    all.timeout = t.timeout;
  }
  all.call = [tasks = std::move(tasks)](Communicator& c) -> Status {
    std::vector<Request> together;  // of which small ones become one call
    for (const Task& t : tasks)
      if (const auto* one = t.call.target<CollectiveCall>(); one != nullptr && one->even())
        together.push_back(one->request);
    if (together.size() == tasks.size()) {
      if (auto s = c.run(std::span<const Request>(together)); !s) return s;
      for (const Task& t : tasks)
        if (t.after) t.after();
      return {};
    }
    for (const Task& t : tasks) {
      if (auto s = t.call(c); !s) return s;
      if (t.after) t.after();
    }
    return {};
  };
  return all;
}

}  // namespace weft::torch_adapter
