#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "exec/reference.h"
#include "plan/schedule/exchange/place.h"
#include "plan/schedule/lower/lower.h"
#include "weft/communicator.h"

namespace weft::cli {

// Inputs: small whole numbers that depend on the rank and the element's place in the message. There are kKinds places
// that differ.
inline constexpr int kKinds = 11;
inline int kind_of(Bytes element) { return static_cast<int>((element * 7 + element / 1021) % kKinds); }
inline int contribution(Rank rank, Bytes element) { return (kind_of(element) + rank * 3) % kKinds; }

// What a rank's contribution is multiplied by where the operation asks for a scalar.
inline Scalar scalar_of(Rank rank) { return Scalar::of(1 + rank % 2); }

// A number for every element of the message, by which contributions differ.
inline Bytes place_of(int block, Bytes element) { return Bytes{block} * 1021 + element; }

template <class T>
void fill_input(std::span<T> in, const schedule::Layout& layout, Rank rank) {
  const schedule::Run held = held_blocks(layout.shape(), schedule::Buffer::kIn, rank);
  const schedule::ChunkId each = schedule::routed(layout.shape().collective) ? chunks_per_block(layout.shape()) : 1;
  for (int b = 0; b < held.count; ++b) {
    const int block = held.at(b);
    T* to = in.data() + layout.offset(schedule::Buffer::kIn, block * each) / layout.element_bytes();
    const Bytes count = layout.block_bytes(block) / layout.element_bytes();
    for (Bytes i = 0; i < count; ++i) to[i] = static_cast<T>(contribution(rank, place_of(block, i)));
  }
}

// What an element of each kind must be after the reduction of these ranks' contributions.
template <class T>
std::vector<exec::Expected> expected_by_kind(std::span<const Rank> ranks, ReduceOp op) {
  std::vector<exec::Expected> expected;
  for (int kind = 0; kind < kKinds; ++kind) {
    std::vector<T> all;
    std::vector<Scalar> scalars;
    for (const Rank r : ranks) {
      all.push_back(static_cast<T>((kind + r * 3) % kKinds));
      if (op == ReduceOp::kPremulSum) scalars.push_back(scalar_of(r));
    }
    expected.push_back(exec::reference(data_type_of<T>(), op, std::as_bytes(std::span(all)), scalars));
  }
  return expected;
}

// The same of a dispatch or combine, token by token; rows of tokens that do not come are not looked at.
template <class T>
std::int64_t wrong_elements_of_tokens(std::span<const T> out, const schedule::Layout& layout, Rank rank, ReduceOp op) {
  const schedule::Shape& shape = layout.shape();
  const schedule::ChunkId each = chunks_per_block(shape);
  std::int64_t wrong = 0;
  for (schedule::ChunkId token = 0; token < shape.chunks; ++token) {
    if (!holds(shape, schedule::Buffer::kOut, token, rank)) continue;
    const T* got = out.data() + layout.offset(schedule::Buffer::kOut, token) / layout.element_bytes();
    const Bytes count = layout.chunk_bytes(token) / layout.element_bytes();
    const auto owner = static_cast<Rank>(token / each);
    const bool reduces = schedule::reduces(shape.collective);
    const auto expected =
        reduces ? expected_by_kind<T>(contributors_to(shape, token), op) : std::vector<exec::Expected>{};
    for (Bytes i = 0; i < count; ++i) {
      const Bytes place = place_of(owner, token % each * count + i);
      wrong += reduces
                   ? !exec::acceptable(data_type_of<T>(), got + i, expected[static_cast<std::size_t>(kind_of(place))])
                   : !(got[i] == static_cast<T>(contribution(owner, place)));
    }
  }
  return wrong;
}

// How many elements of a rank's output are not what the collective's postcondition says.
template <class T>
std::int64_t wrong_elements(std::span<const T> out, const schedule::Layout& layout, Rank rank, ReduceOp op) {
  const schedule::Shape& shape = layout.shape();
  if (schedule::routed(shape.collective)) return wrong_elements_of_tokens(out, layout, rank, op);
  const bool reduces = schedule::reduces(shape.collective);
  std::vector<Rank> ranks(static_cast<std::size_t>(shape.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto expected = reduces ? expected_by_kind<T>(ranks, op) : std::vector<exec::Expected>{};
  const schedule::Run held = held_blocks(shape, schedule::Buffer::kOut, rank);
  std::int64_t wrong = 0;
  for (int b = 0; b < held.count; ++b) {
    const int block = held.at(b);
    const T* got = out.data() + layout.offset(schedule::Buffer::kOut, block) / layout.element_bytes();
    const Bytes count = layout.block_bytes(block) / layout.element_bytes();
    const Rank from = contributors(shape, block).first;
    for (Bytes i = 0; i < count; ++i) {
      const Bytes place = place_of(block, i);
      if (reduces)
        wrong += !exec::acceptable(data_type_of<T>(), got + i, expected[static_cast<std::size_t>(kind_of(place))]);
      else
        wrong += !(got[i] == static_cast<T>(contribution(from, place)));
    }
  }
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
