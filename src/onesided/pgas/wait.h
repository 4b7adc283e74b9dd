#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "onesided/pgas/space.h"
#include "weft/pgas_types.h"

namespace weft::pgas {

// How waits pass the time, and how they learn that they wait in vain. A value.
struct Watch {
  int spins = 2000;  // looks before the first yield; few where ranks outnumber cores
  // Why no peer may ever store again what this rank waits for; empty: none has ended. Asked every 20 ms at most.
  std::function<std::string()> trouble;
};

// Between two looks at memory: spins briefly, then lets others run, then sleeps in small pieces. Peers store without
// ringing a bell, hence the pieces. A wait may last for ever, as long as all ranks live (decision 0062).
class Idler {
 public:
  Idler(const Space& space, const Watch& watch, const char* call)
      : space_(space), watch_(watch), call_(call), began_(space.recorder() != nullptr ? Recorder::now() : Duration()) {}
  Idler(const Space&, Watch&&, const char*) = delete;  // it keeps only their addresses
  void pause() {
    if (++looks_ < watch_.spins) [[likely]]
      relax();
    else
      pause_slowly();
  }
  // The wait is over: for a recording.
  template <class T>
  void found(const T* at, Compare comparison, T against) const {
    if (space_.recorder() == nullptr) [[likely]]
      return;
    space_.recorder()->note({.kind = Event::Kind::kWait,
                             .place = space_.place(at),
                             .bytes = sizeof(T),
                             .valued = true,
                             .value = static_cast<std::uint64_t>(against),
                             .compare = comparison,
                             .begin = began_});
  }

 private:
  using Clock = std::chrono::steady_clock;
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void pause_slowly();

  const Space& space_;
  const Watch& watch_;
  const char* call_;
  Duration began_;
  int looks_ = 0;
  Clock::time_point since_{}, examined_{};
};

template <class T>
bool holds(T value, Compare comparison, T against) {
  switch (comparison) {
    case Compare::kEqual:
      return value == against;
    case Compare::kNotEqual:
      return value != against;
    case Compare::kGreater:
      return value > against;
    case Compare::kGreaterEqual:
      return value >= against;
    case Compare::kLess:
      return value < against;
    case Compare::kLessEqual:
      return value <= against;
  }
  return false;
}

// What peers may be storing right now.
template <class T>
T look(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_acquire);
}

// Several objects of this rank that peers store to. `left_out`: null, or nonzero for those that do not count.
// `against` is one value for all (`step` 0) or one for each (`step` 1).
template <class T>
struct Watched {
  const T* at;
  std::size_t count;
  const int* left_out;
  Compare comparison;
  const T* against;
  std::size_t step;
  std::size_t first = 0;  // where `any` begins to look, so that callers can be fair

  bool counts(std::size_t i) const { return left_out == nullptr || left_out[i] == 0; }
  bool fulfilled(std::size_t i) const { return holds(look(at + i), comparison, against[i * step]); }
  void report(const Idler& idler, std::size_t i) const { idler.found(at + i, comparison, against[i * step]); }
  bool nothing_counts() const {
    for (std::size_t i = 0; i < count; ++i)
      if (counts(i)) return false;
    return true;
  }
};

inline constexpr std::size_t kNone = SIZE_MAX;

template <class T>
bool test_all(const Watched<T>& w) {
  for (std::size_t i = 0; i < w.count; ++i)
    if (w.counts(i) && !w.fulfilled(i)) return false;
  return true;
}
// One that is fulfilled; kNone: none is, or nothing counts.
template <class T>
std::size_t test_any(const Watched<T>& w) {
  for (std::size_t k = 0; k < w.count; ++k) {
    const std::size_t i = (w.first + k) % w.count;
    if (w.counts(i) && w.fulfilled(i)) return i;
  }
  return kNone;
}
// Writes the numbers of those that are fulfilled; returns how many.
template <class T>
std::size_t test_some(const Watched<T>& w, std::size_t* indices) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < w.count; ++i)
    if (w.counts(i) && w.fulfilled(i)) indices[found++] = i;
  return found;
}

template <class T>
void wait_all(const Watched<T>& w, Idler idler) {
  for (std::size_t i = 0; i < w.count; ++i) {
    while (w.counts(i) && !w.fulfilled(i)) idler.pause();
    if (w.counts(i)) w.report(idler, i);
  }
}
template <class T>
std::size_t wait_any(const Watched<T>& w, Idler idler) {
  if (w.nothing_counts()) return kNone;
  for (;; idler.pause())
    if (const std::size_t i = test_any(w); i != kNone) {
      w.report(idler, i);
      return i;
    }
}
template <class T>
std::size_t wait_some(const Watched<T>& w, std::size_t* indices, Idler idler) {
  if (w.nothing_counts()) return 0;
  for (;; idler.pause())
    if (const std::size_t found = test_some(w, indices); found > 0) {
      for (std::size_t k = 0; k < found; ++k) w.report(idler, indices[k]);
      return found;
    }
}

}  // namespace weft::pgas
