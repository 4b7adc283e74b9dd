#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "schedule/collective.h"

namespace weft::cli {

// Inputs whose sums are exact in every type, so that a result is right or wrong: small whole numbers that depend on the
// rank and the element's place in the message.
inline int contribution(Rank rank, Bytes element) { return static_cast<int>((element * 7 + rank * 3 + element / 1021) % 11); }

// Where a rank's buffer begins in the message, in elements.
inline Bytes first_element(Collective collective, bool input, Rank rank, Rank ranks, Bytes elements) {
  const bool part = input ? collective == Collective::kAllGather : collective == Collective::kReduceScatter;
  return part ? elements / ranks * rank : 0;
}

// Elements that a rank's input or output holds.
inline Bytes buffer_elements(Collective collective, bool input, Rank ranks, Bytes elements) {
  const bool part = input ? collective == Collective::kAllGather : collective == Collective::kReduceScatter;
  return part ? elements / ranks : elements;
}

template <class T>
void fill_input(std::span<T> in, Collective collective, Rank rank, Rank ranks, Bytes elements) {
  const Bytes first = first_element(collective, true, rank, ranks, elements);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(contribution(rank, first + static_cast<Bytes>(i)));
}

// How many elements of a rank's output are not what the collective's postcondition says.
template <class T>
std::int64_t wrong_elements(std::span<const T> out, Collective collective, Rank rank, Rank ranks, Bytes elements, Rank root) {
  const Bytes first = first_element(collective, false, rank, ranks, elements);
  const Bytes part = elements / ranks;
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Bytes at = first + static_cast<Bytes>(i);
    int expected = 0;
    if (schedule::reduces(collective)) {
      for (Rank r = 0; r < ranks; ++r) expected += contribution(r, at);
    } else {
      expected = contribution(collective == Collective::kAllGather ? static_cast<Rank>(at / part) : root, at);
    }
    wrong += out[i] != static_cast<T>(expected);
  }
  return wrong;
}

// Calls work with a value of the element type.
template <class Work>
auto with_type(DataType type, Work&& work) {
  switch (type) {
    case DataType::kFloat64: return work(double{});
    case DataType::kInt32: return work(std::int32_t{});
    case DataType::kInt64: return work(std::int64_t{});
    case DataType::kFloat32: break;
  }
  return work(float{});
}

}  // namespace weft::cli
