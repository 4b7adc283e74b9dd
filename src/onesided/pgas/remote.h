#pragma once

#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "onesided/pgas/space.h"
#include "weft/pgas_types.h"

// What a rank does to its peers' symmetric memory. Peers that are mapped: by load and store, and everything is complete
// on return: a put's source may be changed and, because stores of one core are seen in the order in which they were
// made (x86) or were followed by a release (elsewhere), fence() and quiet() have only the compiler and the store buffer
// to order. The other peers: by the Space's agent.
namespace weft::pgas {

// Calls f with the operation as a constant: a std::integral_constant.
template <class F>
decltype(auto) with_op(AtomicOp op, F&& f) {
  switch (op) {
    case AtomicOp::kFetch:
      return f(std::integral_constant<AtomicOp, AtomicOp::kFetch>());
    case AtomicOp::kSet:
      return f(std::integral_constant<AtomicOp, AtomicOp::kSet>());
    case AtomicOp::kSwap:
      return f(std::integral_constant<AtomicOp, AtomicOp::kSwap>());
    case AtomicOp::kCompareSwap:
      return f(std::integral_constant<AtomicOp, AtomicOp::kCompareSwap>());
    case AtomicOp::kAdd:
      return f(std::integral_constant<AtomicOp, AtomicOp::kAdd>());
    case AtomicOp::kAnd:
      return f(std::integral_constant<AtomicOp, AtomicOp::kAnd>());
    case AtomicOp::kOr:
      return f(std::integral_constant<AtomicOp, AtomicOp::kOr>());
    case AtomicOp::kXor:
      break;
  }
  return f(std::integral_constant<AtomicOp, AtomicOp::kXor>());
}

namespace detail {

inline void check_local(const Space& space, const char* call, const void* buffer) {
  if (buffer == nullptr) [[unlikely]]
    space.misuse(call, "the local buffer is null");
}

template <std::size_t bytes>
using Word = std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>;

// The bits of a value of 1 to 8 bytes, as a number.
inline std::uint64_t bits(const void* value, std::size_t bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, value, bytes);
  return word;
}

// One operation for the Space's recorder, from construction to destruction; nothing if there is none.
class Recording {
 public:
  Recording(const Space& space, Event::Kind kind, const void* at = nullptr, std::size_t bytes = 0, Rank peer = -1)
      : recorder_(space.recorder()) {
    if (recorder_ == nullptr) [[likely]]
      return;
    event_.emplace(Event{.kind = kind, .peer = peer, .bytes = static_cast<Bytes>(bytes)});
    if (space.symmetric(at, 0)) event_->place = space.place(at);
    event_->begin = Recorder::now();
  }
  ~Recording() {
    if (event_) [[unlikely]]
      recorder_->note(std::move(*event_));
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The word at the place holds this afterwards.
  void holds(std::uint64_t value) {
    if (!event_) [[likely]]
      return;
    event_->valued = true;
    event_->value = value;
  }
  void holds(const void* value, std::size_t bytes) {
    if (event_ && (bytes == 4 || bytes == 8)) [[unlikely]]
      holds(bits(value, bytes));
  }

 private:
  Recorder* recorder_;
  std::optional<Event> event_;
};

inline std::span<const std::byte> span_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}
inline std::span<std::byte> span_of(void* data, std::size_t bytes) { return {static_cast<std::byte*>(data), bytes}; }

inline void put(const Space& space, const char* call, void* to, const void* from, std::size_t bytes, Rank rank) {
  std::byte* const target = space.at(call, to, static_cast<Bytes>(bytes), rank);
  check_local(space, call, from);
  if (target != nullptr) [[likely]]
    std::memcpy(target, from, bytes);
  else
    space.agent()->put(rank, space.place(to), span_of(from, bytes));
}

}  // namespace detail

// Orders: what was put before is seen by a peer that sees what is put afterwards.
inline void fence(const Space& space) {
  const detail::Recording recording(space, Event::Kind::kFence);
  std::atomic_thread_fence(std::memory_order_release);
  if (space.agent() != nullptr) space.agent()->fence();
}
// Completes: what was put before is in the peers' memory.
inline void quiet(const Space& space) {
  const detail::Recording recording(space, Event::Kind::kQuiet);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (space.agent() != nullptr) space.agent()->quiet();
}

inline void put(const Space& space, const char* call, void* to, const void* from, std::size_t bytes, Rank rank) {
  if (bytes == 0) return space.expect_rank(call, rank);
  detail::Recording recording(space, Event::Kind::kPut, to, bytes, rank);
  detail::put(space, call, to, from, bytes, rank);
  recording.holds(from, bytes);
}

inline void get(const Space& space, const char* call, void* to, const void* from, std::size_t bytes, Rank rank) {
  if (bytes == 0) return space.expect_rank(call, rank);
  const std::byte* const source = space.at(call, from, static_cast<Bytes>(bytes), rank);
  detail::check_local(space, call, to);
  const detail::Recording recording(space, Event::Kind::kGet, from, bytes, rank);
  if (source != nullptr) [[likely]]
    std::memcpy(to, source, bytes);
  else
    space.agent()->get(rank, space.place(from), detail::span_of(to, bytes));
}

// One element; whole even if the peer is looking, where the processor stores such elements whole.
template <class T>
void put_one(const Space& space, const char* call, T* to, T value, Rank rank) {
  put(space, call, to, &value, sizeof(T), rank);
}
template <class T>
T get_one(const Space& space, const char* call, const T* from, Rank rank) {
  T value;
  get(space, call, &value, from, sizeof(T), rank);
  return value;
}

namespace detail {

// Bytes from the first element to behind the last; see bytes_of.
inline std::size_t extent(std::size_t count, std::ptrdiff_t stride, std::size_t element) {
  const std::size_t gaps = bytes_of(count - 1, static_cast<std::size_t>(stride));
  return bytes_of(gaps + 1, element);
}
// The caller's own array must lie in the address space, too.
inline void check_strides(const Space& space, const char* call, std::ptrdiff_t symmetric, std::ptrdiff_t local,
                          std::size_t count, std::size_t element) {
  if (symmetric < 1 || local < 1) [[unlikely]]
    space.misuse(call, "a stride is less than 1");
  if (extent(count, local, element) == bytes_of(std::numeric_limits<std::size_t>::max(), 1)) [[unlikely]]
    space.misuse(call, "the local array is larger than the address space");
}
template <std::size_t element>
void copy_elements(std::byte* to, const std::byte* from, std::size_t to_step, std::size_t from_step,
                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, to += to_step, from += from_step) std::memcpy(to, from, element);
}
// The usual sizes are single loads and stores.
inline void copy_strided(std::byte* to, const std::byte* from, std::ptrdiff_t to_stride, std::ptrdiff_t from_stride,
                         std::size_t count, std::size_t element) {
  const std::size_t to_step = static_cast<std::size_t>(to_stride) * element;
  const std::size_t from_step = static_cast<std::size_t>(from_stride) * element;
  switch (element) {
    case 4:
      return copy_elements<4>(to, from, to_step, from_step, count);
    case 8:
      return copy_elements<8>(to, from, to_step, from_step, count);
    default:
      for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, element);
  }
}

}  // namespace detail

// Every stride-th of `count` elements, strides in elements. Requires: strides of at least 1; else the process ends.
inline void put_strided(const Space& space, const char* call, void* to, const void* from, std::size_t element,
                        std::ptrdiff_t to_stride, std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  if (count == 0) return space.expect_rank(call, rank);
  detail::check_strides(space, call, to_stride, from_stride, count, element);
  const auto* source = static_cast<const std::byte*>(from);
  std::byte* const target = space.at(call, to, static_cast<Bytes>(detail::extent(count, to_stride, element)), rank);
  const detail::Recording recording(space, Event::Kind::kPut, to, count * element, rank);
  if (target != nullptr) [[likely]]
    return detail::copy_strided(target, source, to_stride, from_stride, count, element);
  Place place = space.place(to);
  for (std::size_t i = 0; i < count; ++i, source += static_cast<std::size_t>(from_stride) * element) {
    space.agent()->put(rank, place, {source, element});
    place.offset += static_cast<Bytes>(element) * to_stride;
  }
}
inline void get_strided(const Space& space, const char* call, void* to, const void* from, std::size_t element,
                        std::ptrdiff_t to_stride, std::ptrdiff_t from_stride, std::size_t count, Rank rank) {
  if (count == 0) return space.expect_rank(call, rank);
  detail::check_strides(space, call, from_stride, to_stride, count, element);
  const std::size_t extent = detail::extent(count, from_stride, element);
  const std::byte* source = space.at(call, from, static_cast<Bytes>(extent), rank);
  const detail::Recording recording(space, Event::Kind::kGet, from, count * element, rank);
  std::vector<std::byte> all;
  if (source == nullptr) [[unlikely]] {  // one answer with what lies between, rather than one for each element
    all.resize(extent);
    space.agent()->get(rank, space.place(from), all);
    source = all.data();
  }
  detail::copy_strided(static_cast<std::byte*>(to), source, to_stride, from_stride, count, element);
}

namespace detail {

// What the word holds after an operation that gave `old`.
template <AtomicOp op, class T>
T after(T old, T operand, T compare) {
  if constexpr (op == AtomicOp::kFetch) return old;
  if constexpr (op == AtomicOp::kSet || op == AtomicOp::kSwap) return operand;
  if constexpr (op == AtomicOp::kCompareSwap) return old == compare ? operand : old;
  if constexpr (op == AtomicOp::kAdd) return static_cast<T>(old + operand);
  if constexpr (op == AtomicOp::kAnd) return old & operand;
  if constexpr (op == AtomicOp::kOr) return old | operand;
  if constexpr (op == AtomicOp::kXor) return old ^ operand;
}

// The old value, except of kSet, which returns `operand`.
template <AtomicOp op, class T>
T apply(std::byte* target, T operand, T compare) {
  std::atomic_ref<T> cell(*reinterpret_cast<T*>(target));
  if constexpr (op == AtomicOp::kFetch) return cell.load(std::memory_order_acquire);
  if constexpr (op == AtomicOp::kSet) cell.store(operand, std::memory_order_release);
  if constexpr (op == AtomicOp::kSwap) return cell.exchange(operand);
  if constexpr (op == AtomicOp::kCompareSwap) cell.compare_exchange_strong(compare, operand);
  if constexpr (op == AtomicOp::kAdd) return cell.fetch_add(operand);
  if constexpr (op == AtomicOp::kAnd || op == AtomicOp::kOr || op == AtomicOp::kXor) {
    // Written out: GCC 12 loses the operand of a 64-bit fetch_or, fetch_and or fetch_xor where the result is to go into
    // the operand's register (seen in onesided/rma/connection.cc, tested by tests/shmem.Tcp.EveryTypedFunctionWorks).
    T old = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(old, after<op>(old, operand, compare))) {
    }
    return old;
  }
  return op == AtomicOp::kCompareSwap ? compare : operand;
}

template <AtomicOp op, class T>
T atomic(const Space& space, const char* call, const T* at, T operand, T compare, Rank rank, bool fetches) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::byte* const target = space.at(call, at, sizeof(T), rank);
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) != 0) [[unlikely]]
    space.misuse(call, "an atomic operation on an address that is not a multiple of the object's size");
  if (target != nullptr) [[likely]]
    return apply<op>(target, operand, compare);
  using Word = detail::Word<sizeof(T)>;
  const auto word = [](T value) { return static_cast<std::uint64_t>(std::bit_cast<Word>(value)); };
  if (!fetches) {
    space.agent()->update(rank, space.place(at), sizeof(T), op, word(operand));
    return operand;
  }
  return std::bit_cast<T>(
      static_cast<Word>(space.agent()->fetch(rank, space.place(at), sizeof(T), op, word(operand), word(compare))));
}

}  // namespace detail

// The old value, except of kSet, which returns `operand`; with `fetches` false, of peers that are not mapped nothing
// that means anything. `compare` is for kCompareSwap alone.
// Requires: T has 32 or 64 bits, `at` is a multiple of its size; floats: only kFetch, kSet, kSwap.
template <AtomicOp op, class T>
T atomic(const Space& space, const char* call, const T* at, T operand, T compare, Rank rank, bool fetches = true) {
  fetches = fetches && op != AtomicOp::kSet;
  detail::Recording recording(space, fetches ? Event::Kind::kFetch : Event::Kind::kAtomic, at, sizeof(T), rank);
  const bool asks = fetches || (op != AtomicOp::kSet && space.recorder() != nullptr);  // for the value afterwards
  const T old = detail::atomic<op>(space, call, at, operand, compare, rank, asks);
  const T now = detail::after<op>(old, operand, compare);
  recording.holds(&now, sizeof(T));
  return old;
}

// Puts, and then updates the signal: a rank that sees the signal sees the data.
inline void put_signal(const Space& space, const char* call, void* to, const void* from, std::size_t bytes,
                       std::uint64_t* signal, std::uint64_t value, SignalOp op, Rank rank) {
  detail::Recording recording(space, Event::Kind::kPutSignal, signal, bytes, rank);
  if (bytes > 0) detail::put(space, call, to, from, bytes, rank);
  if (op == SignalOp::kSet) {
    detail::atomic<AtomicOp::kSet>(space, call, signal, value, std::uint64_t{0}, rank, false);
    recording.holds(value);
  } else {
    const bool asks = space.recorder() != nullptr;
    recording.holds(value + detail::atomic<AtomicOp::kAdd>(space, call, signal, value, std::uint64_t{0}, rank, asks));
  }
}

}  // namespace weft::pgas
