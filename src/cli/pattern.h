#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/reference.h"
#include "schedule/collective.h"
#include "weft/communicator.h"

namespace weft::cli {

// Inputs: small whole numbers that depend on the rank and the element's place in the message. There are kKinds places
// that differ.
inline constexpr int kKinds = 11;
inline int kind_of(Bytes element) { return static_cast<int>((element * 7 + element / 1021) % kKinds); }
inline int contribution(Rank rank, Bytes element) { return (kind_of(element) + rank * 3) % kKinds; }

// What a rank's contribution is multiplied by where the operation asks for a scalar.
inline Scalar scalar_of(Rank rank) { return Scalar::of(1 + rank % 2); }

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
std::int64_t wrong_elements(std::span<const T> out, Collective collective, Rank rank, Rank ranks, Bytes elements,
                            Rank root, ReduceOp op) {
  const Bytes first = first_element(collective, false, rank, ranks, elements);
  const Bytes part = elements / ranks;
  std::int64_t wrong = 0;
  if (!schedule::reduces(collective)) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Bytes at = first + static_cast<Bytes>(i);
      const Rank from = collective == Collective::kAllGather ? static_cast<Rank>(at / part) : root;
      wrong += !(out[i] == static_cast<T>(contribution(from, at)));
    }
    return wrong;
  }
  std::vector<exec::Expected> expected;  // by kind
  for (int kind = 0; kind < kKinds; ++kind) {
    std::vector<T> all;
    std::vector<Scalar> scalars;
    for (Rank r = 0; r < ranks; ++r) {
      all.push_back(static_cast<T>((kind + r * 3) % kKinds));
      if (op == ReduceOp::kPremulSum) scalars.push_back(scalar_of(r));
    }
    expected.push_back(exec::reference(data_type_of<T>(), op, std::as_bytes(std::span(all)), scalars));
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    wrong += !exec::acceptable(data_type_of<T>(), &out[i],
                               expected[static_cast<std::size_t>(kind_of(first + static_cast<Bytes>(i)))]);
  return wrong;
}

// Calls work with a value of the element type.
template <class Work>
auto with_type(DataType type, Work&& work) {
  switch (type) {
    case DataType::kInt8:
      return work(std::int8_t{});
    case DataType::kInt16:
      return work(std::int16_t{});
    case DataType::kInt32:
      return work(std::int32_t{});
    case DataType::kInt64:
      return work(std::int64_t{});
    case DataType::kUint8:
      return work(std::uint8_t{});
    case DataType::kUint16:
      return work(std::uint16_t{});
    case DataType::kUint32:
      return work(std::uint32_t{});
    case DataType::kUint64:
      return work(std::uint64_t{});
    case DataType::kFloat16:
      return work(Float16{});
    case DataType::kBfloat16:
      return work(Bfloat16{});
    case DataType::kFloat64:
      return work(double{});
    case DataType::kFloat8E4M3:
      return work(Float8E4M3{});
    case DataType::kFloat8E5M2:
      return work(Float8E5M2{});
    case DataType::kFloat32:
      break;
  }
  return work(float{});
}

}  // namespace weft::cli
