#include <algorithm>
#include <cstring>

#include "tests/ptx/grid.h"
#include "tests/ptx/values.h"

namespace weft::ptx {
namespace {

constexpr std::uint64_t kSector = 32;  // bytes that a GPU's memory moves at a time

// Accesses that peers' programs may see are whole: also those of other processes, and of the host's threads.
template <class T>
T load_whole(const std::byte* at, Order order) {
  return __atomic_load_n(reinterpret_cast<const T*>(at),
                         order == Order::kRelaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE);
}
template <class T>
void store_whole(std::byte* at, T value, Order order) {
  __atomic_store_n(reinterpret_cast<T*>(at), value, order == Order::kRelaxed ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);
}

template <class T>
T exchange(std::byte* at, Way way, T value, T other, bool& known) {
  auto* const word = reinterpret_cast<T*>(at);
  T before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  for (;;) {
    T after = before;
    switch (way) {
      case Way::kAdd:
        after = static_cast<T>(static_cast<std::uint64_t>(before) + static_cast<std::uint64_t>(value));
        break;
      case Way::kAnd:
        after = before & value;
        break;
      case Way::kOr:
        after = before | value;
        break;
      case Way::kXor:
        after = before ^ value;
        break;
      case Way::kMin:
        after = std::min(before, value);
        break;
      case Way::kMax:
        after = std::max(before, value);
        break;
      case Way::kExchange:
        after = value;
        break;
      case Way::kCas:
        after = before == value ? other : before;
        break;
      default:
        known = false;
    }
    if (__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return before;
  }
}

template <class T>
T reduced(Way way, T a, T b, bool& known) {
  if (way == Way::kAdd) return static_cast<T>(a + b);
  if constexpr (kIsInteger<T>) {
    if (way == Way::kMin) return std::min(a, b);
    if (way == Way::kMax) return std::max(a, b);
    if (way == Way::kAnd) return static_cast<T>(a & b);
    if (way == Way::kOr) return static_cast<T>(a | b);
    if (way == Way::kXor) return static_cast<T>(a ^ b);
  }
  known = false;
  return a;
}

}  // namespace

void Warp::execute(const Instruction& in, Mask lanes) {
  switch (in.op) {
    case Op::kLoad:
      return load(in, lanes);
    case Op::kStore:
      return store(in, lanes);
    case Op::kAtom:
      return atomic(in, lanes);
    case Op::kMultimemLoad:
    case Op::kMultimemReduce:
    case Op::kMultimemStore:
      return multimem(in, lanes);
    case Op::kCvt:
      return convert(in, lanes);
    case Op::kWidenPair:
      return widen_pair(in, lanes);
    case Op::kNarrowPair:
      return narrow_pair(in, lanes);
    case Op::kPack:
    case Op::kUnpack:
      return pack(in, lanes);
    case Op::kCvta:
    case Op::kCvtaTo:
      return change_space(in, lanes);
    case Op::kActiveMask: {
      std::uint64_t* const to = registers_.of(in.to.at);
      return for_lanes(lanes, [&](int lane) { to[lane] = lanes; });
    }
    case Op::kNanosleep:
      return;
    case Op::kFence:  // it would order what relaxed accesses show; the search for races does not know of that
      return __atomic_thread_fence(__ATOMIC_SEQ_CST);
    case Op::kCall:
      return fail(in, __builtin_ctz(lanes), "a trap, or a call, which the interpreter does not execute:");
    default:
      return calculate(in, lanes);
  }
}

// Null: the kernel has been stopped.
std::byte* Warp::place(const Instruction& in, int lane, std::size_t bytes) {
  const std::uint64_t base = in.a ? registers_.of(in.a.at)[lane] : 0;
  const std::uint64_t at = base + static_cast<std::uint64_t>(in.offset);
  const auto within = [&](const std::byte* begin, std::size_t size, const char* what) -> std::byte* {
    if (at + bytes <= size && at % bytes == 0) return const_cast<std::byte*>(begin) + at;
    fail(in, lane, fmt::format("{} bytes at {} of the {} bytes of {}:", bytes, at, size, what));
    return nullptr;
  };
  switch (in.space) {
    case Space::kShared:
      return within(block_.shared.data(), block_.shared.size(), "shared memory");
    case Space::kLocal: {
      const std::size_t size = block_.grid.kernel.local_bytes;
      return within(local_.data() + size * static_cast<std::size_t>(lane), size, "local memory");
    }
    case Space::kParameter:
      return within(block_.grid.parameters.data(), block_.grid.parameters.size(), "parameters");
    default:
      break;
  }
  if (at % bytes != 0) return fail(in, lane, fmt::format("address {:#x} is not aligned to {}:", at, bytes)), nullptr;
  const Memory& memory = block_.grid.around.memory;
  if (last_changes_ != memory.changes() || at < last_range_.begin || at >= last_range_.end) {
    const auto inside = [&](const std::byte* begin, std::size_t size) {
      const auto first = reinterpret_cast<std::uintptr_t>(begin);
      return in.space == Space::kGeneric && at >= first && at + bytes <= first + size;
    };
    if (inside(block_.shared.data(), block_.shared.size()) || inside(local_.data(), local_.size()) ||
        inside(block_.grid.parameters.data(), block_.grid.parameters.size()))
      return reinterpret_cast<std::byte*>(at);
    const Memory::Range* const range = memory.find(at);
    if (range == nullptr)
      return fail(in, lane, fmt::format("{} bytes at {:#x} are nobody's memory:", bytes, at)), nullptr;
    last_range_ = {range->begin, range->end, {}};
    last_changes_ = memory.changes();
  }
  if (at + bytes > last_range_.end)
    return fail(in, lane, fmt::format("{} bytes at {:#x} go beyond an allocation's end:", bytes, at)), nullptr;
  for (std::uint64_t sector = at / kSector; sector <= (at + bytes - 1) / kSector; ++sector) sectors_.push_back(sector);
  return reinterpret_cast<std::byte*>(at);
}

// Bytes that the lanes of one instruction touch together cross once.
void Warp::count_traffic(bool loads, bool stores) {
  std::sort(sectors_.begin(), sectors_.end());
  const auto count = static_cast<std::uint64_t>(std::unique(sectors_.begin(), sectors_.end()) - sectors_.begin());
  sectors_.clear();
  Traffic& traffic = block_.grid.around.traffic;
  if (loads) traffic.loaded += count * kSector;
  if (stores) traffic.stored += count * kSector;
}

// Looks for a race. Local memory and parameters have none.
void Warp::check(const Instruction& in, int lane, std::uintptr_t at, std::size_t bytes, bool writes) {
  SimulationHost& around = block_.grid.around;
  if (!around.options.races || in.space == Space::kLocal || in.space == Space::kParameter) return;
  const bool strong = in.order != Order::kWeak;
  const Races::Thread self = thread(lane);
  const auto race = writes ? around.races.write(self, at, bytes, strong) : around.races.read(self, at, bytes, strong);
  if (!race) return;
  const auto after = std::upper_bound(around.first_threads.begin(), around.first_threads.end(), race->thread,
                                      [](Races::Thread t, const auto& first) { return t < first.first; });
  const auto& [first, block] = *std::prev(after);
  fail(in, lane,
       fmt::format("race: nothing orders this with what thread {} of {} {} there, {}:", race->thread - first, block,
                   race->wrote ? "wrote" : "read", race->strong ? "relaxed" : "plainly"));
}

void Warp::load(const Instruction& in, Mask lanes) {
  const auto element = static_cast<std::size_t>(size_of(in.type));
  const std::size_t bytes = element * in.width;
  for_lanes(lanes, [&](int lane) {
    const std::byte* const from = place(in, lane, bytes);
    if (from == nullptr) return;
    if (in.order == Order::kAcquire && block_.grid.around.options.races)
      block_.grid.around.races.acquire(thread(lane), reinterpret_cast<std::uintptr_t>(from));
    check(in, lane, reinterpret_cast<std::uintptr_t>(from), bytes, false);
    std::uint64_t values[4];
    for (std::size_t i = 0; i < in.width; ++i)
      with_type(in.type, [&]<class T>(T value) {
        if constexpr (kIsInteger<T>) {
          if (in.order != Order::kWeak)
            value = load_whole<T>(from + i * element, in.order);
          else
            std::memcpy(&value, from + i * element, element);
        } else {
          std::memcpy(&value, from + i * element, element);
        }
        values[i] = put(value);
      });
    for (std::size_t i = 0; i < in.width; ++i)
      if (in.list[i]) registers_.of(in.list[i].at)[lane] = values[i];
  });
  count_traffic(true, false);
}

void Warp::store(const Instruction& in, Mask lanes) {
  const auto element = static_cast<std::size_t>(size_of(in.type));
  const std::size_t bytes = element * in.width;
  std::uint64_t rooms[4][kLanes];
  Source sources[4] = {};
  for (std::size_t i = 0; i < in.width; ++i) sources[i] = source(in.list[i], rooms[i]);
  for_lanes(lanes, [&](int lane) {
    std::byte* const to = place(in, lane, bytes);
    if (to == nullptr) return;
    const auto at = reinterpret_cast<std::uintptr_t>(to);
    check(in, lane, at, bytes, true);
    if (block_.grid.around.options.races) {
      if (in.order == Order::kRelease)
        block_.grid.around.races.release(thread(lane), at, false);
      else
        for (std::size_t i = 0; i < bytes; i += 4) block_.grid.around.races.forget(at + i);
    }
    for (std::size_t i = 0; i < in.width; ++i)
      with_type(in.type, [&]<class T>(T) {
        const T value = get<T>(sources[i][lane]);
        if constexpr (kIsInteger<T>)
          if (in.order != Order::kWeak) return store_whole<T>(to + i * element, value, in.order);
        std::memcpy(to + i * element, &value, element);
      });
  });
  count_traffic(false, true);
}

void Warp::atomic(const Instruction& in, Mask lanes) {
  std::uint64_t room_b[kLanes], room_c[kLanes];
  const Source b = source(in.b, room_b), c = source(in.c, room_c);
  const auto bytes = static_cast<std::size_t>(size_of(in.type));
  bool known = true;
  for_lanes(lanes, [&](int lane) {
    std::byte* const place_of = place(in, lane, bytes);
    if (place_of == nullptr) return;
    const auto at = reinterpret_cast<std::uintptr_t>(place_of);
    check(in, lane, at, bytes, true);
    if (in.order == Order::kBoth && block_.grid.around.options.races) {
      block_.grid.around.races.acquire(thread(lane), at);
      block_.grid.around.races.release(thread(lane), at, true);
    }
    with_type(in.type, [&]<class T>(T) {
      if constexpr (kIsInteger<T> && sizeof(T) >= 4) {
        const T before = exchange<T>(place_of, in.way, get<T>(b[lane]), get<T>(c[lane]), known);
        if (in.to) registers_.of(in.to.at)[lane] = put(before);
      }
    });
  });
  count_traffic(true, true);
  if (!known) fail(in, __builtin_ctz(lanes), "the interpreter does not execute");
}

// What the switch does: it reads all members and hands their sum on, or writes what it is given to all of them.
void Warp::multimem(const Instruction& in, Mask lanes) {
  const auto element = static_cast<std::size_t>(size_of(in.type));
  const std::size_t bytes = element * in.width;
  std::uint64_t rooms[4][kLanes];
  Source sources[4] = {};
  const bool loads = in.op == Op::kMultimemLoad;
  for (std::size_t i = 0; i < in.width && !loads; ++i) sources[i] = source(in.list[i], rooms[i]);
  bool known = true;
  for_lanes(lanes, [&](int lane) {
    const std::uint64_t at = (in.a ? registers_.of(in.a.at)[lane] : 0) + static_cast<std::uint64_t>(in.offset);
    const std::vector<std::byte*> members = block_.grid.around.memory.members_at(at, bytes);
    if (members.empty() || at % bytes != 0)
      return fail(in, lane, fmt::format("{} bytes at {:#x} are no multicast memory, or not aligned:", bytes, at));
    for (std::size_t i = 0; i < in.width; ++i)
      with_type(in.type, [&]<class T>(T) {
        if constexpr (sizeof(T) >= 4) {
          T all{};
          for (std::size_t m = 0; m < members.size(); ++m) {
            std::byte* const place = members[m] + i * element;
            T here;
            std::memcpy(&here, place, element);
            if (loads)
              all = m == 0 ? here : reduced(in.way, all, here, known);
            else if (in.op == Op::kMultimemStore)
              here = get<T>(sources[i][lane]), std::memcpy(place, &here, element);
            else
              here = reduced(in.way, here, get<T>(sources[i][lane]), known), std::memcpy(place, &here, element);
          }
          if (loads && in.list[i]) registers_.of(in.list[i].at)[lane] = put(all);
        }
      });
  });
  Traffic& traffic = block_.grid.around.traffic;  // one crossing, whatever the number of members
  (loads ? traffic.loaded : traffic.stored) += bytes * static_cast<std::uint64_t>(__builtin_popcount(lanes));
  if (!known) fail(in, __builtin_ctz(lanes), "the interpreter does not execute");
}

// Addresses of a space count from its beginning; generic ones are the host's.
void Warp::change_space(const Instruction& in, Mask lanes) {
  std::uint64_t room[kLanes];
  const Source a = source(in.a, room);
  std::uint64_t* const to = registers_.of(in.to.at);
  for_lanes(lanes, [&](int lane) {
    const std::byte* base = nullptr;
    if (in.space == Space::kShared) base = block_.shared.data();
    if (in.space == Space::kParameter) base = block_.grid.parameters.data();
    if (in.space == Space::kLocal)
      base = local_.data() + block_.grid.kernel.local_bytes * static_cast<std::size_t>(lane);
    const auto begin = reinterpret_cast<std::uint64_t>(base);
    to[lane] = in.op == Op::kCvta ? a[lane] + begin : a[lane] - begin;
  });
}

}  // namespace weft::ptx
