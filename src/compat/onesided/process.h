#pragma once

#include <atomic>
#include <memory>

#include "api/pe.h"

// This namespace has what compat/shmem and compat/nvshmem share: the rank of this process, its
// memory, its waits, and collectives that end the process where their interface has no way to report a failure.
namespace weft::compat::onesided {

class Process {
 public:
  // `init` names the call that starts the library. Ends the process if `pe` cannot make a team of its machine's ranks.
  Process(std::unique_ptr<api::Pe> pe, int thread_level, const char* init);

  const pgas::Space& space() const { return pe->space(); }
  pgas::Idler idler(const char* call) const { return {pe->space(), pe->watch(), call}; }
  // Differs from call to call: where the `any` functions begin to look.
  std::size_t turn() { return turns_.fetch_add(1, std::memory_order_relaxed); }

  // All ranks, and those whose memory is mapped here: the same team where that is all.
  const std::shared_ptr<api::Team>& world() const { return world_; }
  const std::shared_ptr<api::Team>& near() const { return near_ != nullptr ? near_ : world_; }

  // A failed collective ends the process.
  void require(const char* call, const Status& status) const;

  const std::unique_ptr<api::Pe> pe;
  const int thread_level;

 private:
  std::shared_ptr<api::Team> world_, near_;
  std::atomic<std::size_t> turns_{0};
};

// Joins the job that the environment describes; ends the process with one line and status 2 where that fails.
std::unique_ptr<api::Pe> join(const char* call);
// The end of a call before the library's start or after its end.
[[noreturn]] void not_running(const char* call, const char* init, const char* finalize);

// Null: no room, on any PE.
void* allocate(Process& process, const char* call, std::size_t size, std::size_t alignment);
void* allocate_zeros(Process& process, const char* call, std::size_t count, std::size_t size);
// Null: `alignment` is no power of two, too.
void* allocate_aligned(Process& process, const char* call, std::size_t alignment, std::size_t size);
void release(Process& process, const char* call, void* memory);

// The address at which this process loads and stores `dest` of `pe`; null: there is none.
void* address_at(const Process& process, const char* call, const void* dest, int pe);

// The PE of `to` that is member `pe` of `from`; -1: none.
inline int translate(const api::Team& from, int pe, const api::Team& to) {
  return pe < 0 || pe >= from.ranks() ? -1 : to.group().member(from.group().job_rank(pe));
}
// The row and the column of this PE in a grid of rows of at most `width`. Requires: width >= 1.
std::pair<pgas::Group, pgas::Group> row_and_column(const api::Team& team, int width);

// Operands of atomic operations, also of types whose names have two words.
template <class T>
constexpr T kZero{};
template <class T>
constexpr T kOne{1};

// Several words of this process that peers store to. Ends the process where they are not symmetric.
template <class T>
pgas::Watched<T> watched(Process& process, const char* call, const T* at, std::size_t count, const int* status,
                         pgas::Compare compare, const T* against, std::size_t step) {
  process.space().at(call, at, static_cast<Bytes>(pgas::bytes_of(count, sizeof(T))), process.pe->rank());
  return {at, count, status, compare, against, step, process.turn()};
}
template <class T>
void wait_until(Process& process, const char* call, const T* at, pgas::Compare compare, T value) {
  pgas::wait_all(watched(process, call, at, 1, nullptr, compare, &value, 0), process.idler(call));
}

}  // namespace weft::compat::onesided
