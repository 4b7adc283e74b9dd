// The loops of all folds, over a format of lanes-inl.h and an operation of arithmetic.h. Included by the fold_*.cc
// files once per instruction set, by Highway's foreach_target.
#if defined(WEFT_EXEC_KERNELS_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_EXEC_KERNELS_FOLD_INL_H_
#undef WEFT_EXEC_KERNELS_FOLD_INL_H_
#else
#define WEFT_EXEC_KERNELS_FOLD_INL_H_
#endif

#include "exec/kernels/families.h"  // must come before highway.h

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "exec/kernels/arithmetic.h"
#include "exec/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::exec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One element at a time: for what is too small for vectors, and where there are none.
template <class T, class Op, bool kScaled>
HWY_NOINLINE void fold_elements(std::byte* const* destinations, int destination_count, const std::byte* const* sources,
                                int source_count, Bytes bytes, const Scalar* scales) {
  using C = Computed<T>;
  const auto element = [&](int s, std::size_t at) {
    T t;
    std::memcpy(&t, sources[s] + at, sizeof(T));
    const C value = static_cast<C>(t);
    if constexpr (kScaled)
      return Multiply::of(value, scalar_for<T>(scales[s]));
    else
      return value;
  };
  for (std::size_t at = 0; at < static_cast<std::size_t>(bytes); at += sizeof(T)) {
    C value = element(0, at);
    for (int s = 1; s < source_count; ++s) value = Op::of(value, element(s, at));
    const T result = static_cast<T>(value);
    for (int k = 0; k < destination_count; ++k) std::memcpy(destinations[k] + at, &result, sizeof(T));
  }
}

#if HWY_TARGET != HWY_SCALAR

template <class F>
using PointersTo = typename F::Element* const*;
template <class F>
using PointersFrom = const typename F::Element* const*;

// One vector's worth of elements at `at`. kSources > 0: that many sources, unrolled by the compiler; 0: `source_count`.
template <class F, class Op, bool kScaled, int kSources>
HWY_INLINE typename F::Pack value_at(PointersFrom<F> from, int source_count, std::size_t at, const Scalar* scales) {
  using Number = typename F::Number;
  const auto source = [=](int s) HWY_ATTR {
    const typename F::Pack p = F::load(from[s] + at);
    if constexpr (kScaled) {
      typename F::Pack scale;
      fill(scale, hn::Set(hn::ScalableTag<Number>(), scalar_for<Number>(scales[s])));
      return combine<Number, Multiply>(p, scale);
    } else {
      return p;
    }
  };
  const int n = kSources > 0 ? kSources : source_count;
  typename F::Pack value = source(0);
  for (int s = 1; s < n; ++s) value = combine<Number, Op>(value, source(s));
  return value;
}

template <class F, class Op, bool kScaled, int kSources, bool kStream>
HWY_NOINLINE void fold_range(PointersTo<F> to, int destination_count, PointersFrom<F> from, int source_count,
                             std::size_t end, const Scalar* scales) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<typename F::Element>());
  std::size_t i = 0;
  if constexpr (F::kUnroll == 2)
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto a = value_at<F, Op, kScaled, kSources>(from, source_count, i, scales);
      const auto b = value_at<F, Op, kScaled, kSources>(from, source_count, i + lanes, scales);
      for (int k = 0; k < destination_count; ++k) {
        F::template store<kStream>(a, to[k] + i);
        F::template store<kStream>(b, to[k] + i + lanes);
      }
    }
  for (; i + lanes <= end; i += lanes) {
    if constexpr (requires { typename F::Usual; }) {
      Words usual;
      if (F::Usual::template combine_at<Op, kScaled, kSources>(from, source_count, i, scales, usual)) {
        for (int k = 0; k < destination_count; ++k) put_words<kStream>(usual, to[k] + i);
        continue;
      }
    }
    const auto a = value_at<F, Op, kScaled, kSources>(from, source_count, i, scales);
    for (int k = 0; k < destination_count; ++k) F::template store<kStream>(a, to[k] + i);
  }
}

// The vector that sticks out at the end is done by the same instructions, in a copy: the same bits wherever an element
// stands.
template <class F, class Op, bool kScaled>
HWY_NOINLINE void fold_rest(PointersTo<F> to, int destination_count, PointersFrom<F> from, int source_count,
                            std::size_t begin, std::size_t end, const Scalar* scales) {
  using T = typename F::Element;
  const std::size_t bytes = (end - begin) * sizeof(T);
  alignas(64) T first[64 / sizeof(T)] = {}, next[64 / sizeof(T)] = {};
  const T *first_source[] = {first}, *next_source[] = {next};
  std::memcpy(first, from[0] + begin, bytes);
  auto value = value_at<F, Op, kScaled, 1>(first_source, 1, 0, scales);
  for (int s = 1; s < source_count; ++s) {
    std::memcpy(next, from[s] + begin, bytes);
    const auto part = value_at<F, Op, kScaled, 1>(next_source, 1, 0, scales + (kScaled ? s : 0));
    value = combine<typename F::Number, Op>(value, part);
  }
  F::template store<false>(value, first);
  for (int k = 0; k < destination_count; ++k) std::memcpy(to[k] + begin, first, bytes);
}

// Sums are unrolled for the usual numbers of sources, the rest for two: code is not free either.
template <class F, class Op, bool kScaled, bool kStream>
HWY_INLINE void fold_vectors(PointersTo<F> to, int destination_count, PointersFrom<F> from, int source_count,
                             std::size_t end, const Scalar* scales) {
  constexpr bool kOften = std::is_same_v<Op, Add> && !kScaled;
  if (source_count == 2)
    fold_range<F, Op, kScaled, 2, kStream>(to, destination_count, from, source_count, end, scales);
  else if (kScaled && source_count == 1)
    fold_range<F, Op, kScaled, kScaled ? 1 : 0, kStream>(to, destination_count, from, source_count, end, scales);
  else if (kOften && source_count == 3)
    fold_range<F, Op, kScaled, kOften ? 3 : 0, kStream>(to, destination_count, from, source_count, end, scales);
  else if (kOften && source_count == 4)
    fold_range<F, Op, kScaled, kOften ? 4 : 0, kStream>(to, destination_count, from, source_count, end, scales);
  else
    fold_range<F, Op, kScaled, 0, kStream>(to, destination_count, from, source_count, end, scales);
}

template <class F, class Op, bool kScaled, bool kStreams>
HWY_NOINLINE void fold_all(std::byte* const* raw_to, int destination_count, const std::byte* const* raw_from,
                           int source_count, Bytes bytes, const Scalar* scales) {
  using T = typename F::Element;
  const std::size_t count = static_cast<std::size_t>(bytes) / sizeof(T);
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const std::size_t whole = count / lanes * lanes;
  const auto to = reinterpret_cast<PointersTo<F>>(raw_to);
  const auto from = reinterpret_cast<PointersFrom<F>>(raw_from);
  if (kStreams && may_stream(raw_to, destination_count, raw_from, source_count, bytes, lanes * sizeof(T))) {
    fold_vectors<F, Op, kScaled, kStreams>(to, destination_count, from, source_count, whole, scales);
    hwy::FlushStream();  // streamed stores are ordered only by a fence; signals rely on plain release order
  } else {
    fold_vectors<F, Op, kScaled, false>(to, destination_count, from, source_count, whole, scales);
  }
  if (whole < count) fold_rest<F, Op, kScaled>(to, destination_count, from, source_count, whole, count, scales);
}

template <class T, class Op>
struct FormatOf {
  using type = Native<T>;
};
template <class Op>
struct FormatOf<Bfloat16, Op> {
  using type = Bfloat16Lanes;
};
template <class Op>
struct FormatOf<Float16, Op> {
  using type = Float16Lanes;
};
template <class Op>
struct FormatOf<Float8E4M3, Op> {
  using type = Float8Lanes<Float8E4M3, impl::E4M3>;
};
template <class Op>
struct FormatOf<Float8E5M2, Op> {
  using type = Float8Lanes<Float8E5M2, impl::E5M2>;
};
template <class Op>
concept Orders = std::is_same_v<Op, Minimum> || std::is_same_v<Op, Maximum>;
template <Orders Op>
struct FormatOf<Bfloat16, Op> {
  using type = OrderedLanes<Bfloat16, std::int16_t, 0x7f80, Op>;
};
template <Orders Op>
struct FormatOf<Float16, Op> {
  using type = OrderedLanes<Float16, std::int16_t, 0x7c00, Op>;
};
template <Orders Op>
struct FormatOf<Float8E4M3, Op> {
  using type = OrderedLanes<Float8E4M3, std::int8_t, 0x7e, Op>;
};
template <Orders Op>
struct FormatOf<Float8E5M2, Op> {
  using type = OrderedLanes<Float8E5M2, std::int8_t, 0x7c, Op>;
};

#endif  // HWY_TARGET

template <class T, class Op, bool kScaled, bool kStreams>
HWY_INLINE void fold_some(std::byte* const* to, int destination_count, const std::byte* const* from, int source_count,
                          Bytes bytes, const Scalar* scales) {
#if HWY_TARGET != HWY_SCALAR
  // So few elements are done before the rest of a vector would be copied together.
  constexpr Bytes kFew = is_narrow<T> ? 4 * sizeof(T) : sizeof(T) >= 4 ? 64 : 16 * sizeof(T);
  if (bytes > kFew)
    return fold_all<typename FormatOf<T, Op>::type, Op, kScaled, kStreams>(to, destination_count, from, source_count,
                                                                           bytes, scales);
#endif
  fold_elements<T, Op, kScaled>(to, destination_count, from, source_count, bytes, scales);
}

// The whole of fabric::Fold. One source that is not scaled is a copy, whatever the type; a destination that is the
// source needs none. Only sums are scaled.
template <class T, class Op, bool kStreams>
void fold(std::byte* const* to, int destination_count, const std::byte* const* from, int source_count, Bytes bytes,
          const Scalar* scales) {
  if constexpr (std::is_same_v<Op, Add>) {
    if (scales != nullptr)
      return fold_some<T, Op, true, kStreams>(to, destination_count, from, source_count, bytes, scales);
  }
  if (source_count == 1) return copy(to, destination_count, from[0], bytes, kStreams);
  fold_some<T, Op, false, kStreams>(to, destination_count, from, source_count, bytes, nullptr);
}

// T: the elements' type; A: one of the same size whose sums and products have the same bits, so that signed and
// unsigned integers share their code.
template <class T, class A, bool kStreams>
fabric::Fold fold_with(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:  // the caller scales the sources, or divides afterwards
    case ReduceOp::kPremulSum:
      return fold<A, Add, kStreams>;
    case ReduceOp::kProd:
      return fold<A, Multiply, kStreams>;
    case ReduceOp::kMin:
      return fold<T, Minimum, kStreams>;
    case ReduceOp::kMax:
      return fold<T, Maximum, kStreams>;
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
      break;
  }
  return nullptr;
}

template <class T, class A>
fabric::Fold fold_with(ReduceOp op, Stores stores) {
  return stores == Stores::kStreamed ? fold_with<T, A, true>(op) : fold_with<T, A, false>(op);
}

}  // namespace weft::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
