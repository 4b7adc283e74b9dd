#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/communicator.h"
#include "weft/pgas_types.h"

namespace weft::api {
class Pe;
class Team;
}  // namespace weft::api

namespace weft::pgas {

// Some ranks of a job that call collectives together, numbered anew. A handle: copies are the same team.
// Thread: one at a time per team; different teams are independent.
class Team {
 public:
  Rank rank() const;
  Rank ranks() const;
  // A member's number in another team; -1: it is not in there.
  Rank translate(Rank member, const Team& to) const;

  // As Communicator::run, by the same schedules. Symmetric memory is reached without intermediate copies.
  Status run(const Request& request);
  // Returns when all members have called it. Says nothing about puts: see World::barrier.
  Status sync();
  // The function is asked as Communicator::set_interrupt says, by this team's collective calls. World::barrier,
  // allocate and free are calls of World::team().
  void set_interrupt(std::function<bool()> interrupted);

 private:
  friend class World;
  explicit Team(std::shared_ptr<api::Team> team) : team_(std::move(team)) {}
  std::shared_ptr<api::Team> team_;
};

// One rank of a job whose ranks read and write each other's memory without the other's help.
//
// Symmetric memory is what allocate() gave: the same call of every rank gives memory at the same place of every rank's
// heap, and an address in one's own stands for the peers' too. In programs started as processes, global and static
// variables are symmetric as well if `share_variables` was asked for.
//
// Order: puts to one peer may be seen in any order, unless fence() stands between them; quiet() completes them. What
// another rank stores is only to be read after a wait, an atomic operation or a barrier.
// Misuse (a rank that there is not, memory that is not symmetric, freeing twice, sizes that differ between ranks, a
// call without a result of a World that was moved from) ends the process with one line that names call, rank and
// address. Thread: one-sided operations and waits from any number of threads; collective ones as Team.
class World {
 public:
  // Joins the job that the environment describes, as Communicator::from_environment; without one: a job of one rank.
  // The heap has WEFT_SYMMETRIC_SIZE bytes of address space. Errors: as there; kUnsupported: ranks that share no
  // memory.
  static Result<World> from_environment(bool share_variables = false);
  // All ranks of a job inside this process, one per thread that the caller starts.
  static Result<std::vector<World>> threads(Rank ranks);

  Rank rank() const;
  Rank ranks() const;

  // Collective. Aligned to a cache line at least. Owns: the caller, until free() or the end of the World.
  // Errors: kNoResources, on all ranks alike; errors of the communicator.
  Result<void*> allocate(std::size_t bytes, std::size_t alignment = 64);
  template <class T>
  Result<std::span<T>> allocate_array(std::size_t count) {
    constexpr std::size_t kMost = ~std::size_t{0};
    Result<void*> memory = allocate(count > kMost / sizeof(T) ? kMost : count * sizeof(T), alignof(T));
    if (!memory) return tl::make_unexpected(memory.error());
    return std::span<T>(static_cast<T*>(*memory), count);
  }
  // Collective: all ranks pass the same block.
  Status free(void* memory);
  // The peer's copy, for loads and stores; null: it cannot be reached so. Stores need the fences of std::atomic.
  template <class T>
  T* pointer(T* symmetric, Rank rank) const {
    return static_cast<T*>(address(symmetric, rank));
  }

  // Loads or stores through pointer(), for the record of a run (weft run --sim, weft replay): from loads() or stores()
  // until the result ends, this rank moves `bytes` at `symmetric` of `rank` (its own memory, too) by instructions of
  // its own. The record then has an operation of these bytes there; what lies in between counts as part of it. Without
  // a record nothing happens. One at a time per thread.
  class Access {
   public:
    Access(Access&&) noexcept;
    Access& operator=(Access&&) noexcept;
    ~Access();

   private:
    friend class World;
    struct Recorded;
    explicit Access(std::unique_ptr<Recorded> recorded);
    std::unique_ptr<Recorded> recorded_;
  };
  [[nodiscard]] Access loads(const void* symmetric, std::size_t bytes, Rank rank) const;
  [[nodiscard]] Access stores(const void* symmetric, std::size_t bytes, Rank rank) const;

  // `to` is symmetric, `from` anything. On return `from` may be changed.
  void put(void* to, const void* from, std::size_t bytes, Rank rank);
  // `from` is symmetric. On return the bytes are there.
  void get(void* to, const void* from, std::size_t bytes, Rank rank);
  template <class T>
  void put(T* to, const T& value, Rank rank) {
    put(to, &value, sizeof(T), rank);
  }
  template <class T>
  T get(const T* from, Rank rank) {
    T value;
    get(&value, from, sizeof(T), rank);
    return value;
  }
  // `count` elements of `element` bytes, strides in elements.
  void put_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                   std::ptrdiff_t from_stride, std::size_t count, Rank rank);
  void get_strided(void* to, const void* from, std::size_t element, std::ptrdiff_t to_stride,
                   std::ptrdiff_t from_stride, std::size_t count, Rank rank);
  // Puts, then updates the signal: a rank that sees the signal sees the data.
  void put_signal(void* to, const void* from, std::size_t bytes, std::uint64_t* signal, std::uint64_t value,
                  SignalOp op, Rank rank);

  // The old value. T: 32 or 64 bits; kAdd, kAnd, kOr, kXor and kCompareSwap: integers.
  template <class T>
  T atomic(AtomicOp op, const T* at, T operand, Rank rank, T compare = {}) {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    static_assert(sizeof(T) == sizeof(Word), "atomic operations are on 32 or 64 bits");
    return std::bit_cast<T>(atomic_word(op, reinterpret_cast<const Word*>(at), std::bit_cast<Word>(operand),
                                        std::bit_cast<Word>(compare), rank));
  }
  template <class T>
  T fetch_add(T* at, T value, Rank rank) {
    return atomic(AtomicOp::kAdd, at, value, rank);
  }

  // A rank that sees what is put afterwards sees what was put before.
  void fence();
  // What was put before is in the peers' memory.
  void quiet();
  // Waits for a peer's store to this rank's own memory. T: integers of 32 or 64 bits. Lasts as long as all ranks live.
  template <class T>
  void wait_until(const T* at, Compare comparison, T value) {
    if constexpr (std::is_signed_v<T>)
      wait_signed(at, sizeof(T), comparison, value);
    else
      wait_unsigned(at, sizeof(T), comparison, value);
  }

  // quiet(), then all ranks meet.
  Status barrier();
  Team team();
  // Every `stride`-th of `size` members from `start` on become a team; all members of `parent` call it. Nothing: this
  // rank is not in it. Errors (bad input): it would reach beyond the parent.
  Result<std::optional<Team>> split(const Team& parent, Rank start, Rank stride, Rank size);

 private:
  explicit World(std::shared_ptr<api::Pe> pe) : pe_(std::move(pe)) {}
  void* address(const void* symmetric, Rank rank) const;
  std::uint32_t atomic_word(AtomicOp op, const std::uint32_t* at, std::uint32_t operand, std::uint32_t compare,
                            Rank rank);
  std::uint64_t atomic_word(AtomicOp op, const std::uint64_t* at, std::uint64_t operand, std::uint64_t compare,
                            Rank rank);
  void wait_signed(const void* at, std::size_t bytes, Compare comparison, std::int64_t value);
  void wait_unsigned(const void* at, std::size_t bytes, Compare comparison, std::uint64_t value);

  std::shared_ptr<api::Pe> pe_;
};

}  // namespace weft::pgas
