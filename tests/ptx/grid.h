#pragma once

#include <random>
#include <span>
#include <vector>

#include "tests/ptx/instruction.h"
#include "tests/ptx/races.h"

// What runs: grids of blocks of warps. A warp's lanes are one instruction further together where they stand at the same
// place; where they have parted, those that stand at the least go first, mostly, and all of them in the end.
namespace weft::ptx {

constexpr int kLanes = 32;
using Mask = std::uint32_t;
constexpr Mask kAllLanes = ~Mask{0};

// Calls use(lane) for every lane of the mask.
template <class Use>
inline void for_lanes(Mask mask, Use&& use) {
  if (mask == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) use(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) use(__builtin_ctz(mask));
}

// The state that all grids of a machine share.
struct SimulationHost {
  const Memory& memory;
  const Options options;
  Races races;
  std::mt19937_64 random;
  std::string fault;
  Traffic traffic;
  std::vector<std::pair<Races::Thread, std::string>> first_threads;  // of blocks, to name who was in a race

  void fail(std::string what) {
    if (fault.empty()) fault = std::move(what);
  }
};

struct Grid;
struct Block;

// Registers that nobody touches cost no memory.
class Registers {
 public:
  explicit Registers(std::size_t count);
  Registers(Registers&& o) noexcept : at_(std::exchange(o.at_, nullptr)) {}
  Registers& operator=(Registers&&) = delete;
  ~Registers();
  std::uint64_t* of(std::uint32_t reg) const { return at_ + std::size_t{reg} * kLanes; }

 private:
  std::uint64_t* at_;
};

class Warp {
 public:
  Warp(Block& block, int first_thread, int threads);

  bool can_go_on() const { return !groups_.empty(); }
  bool ended() const { return exited_ == kAllLanes; }
  // Some instructions of the lanes that stand together.
  void run(int instructions);

  // The block's barrier: lanes that wait at it, that will never come to it, and what they say to its vote.
  Mask at_barrier() const { return at_barrier_; }
  Mask exited() const { return exited_; }
  void votes(bool& all, bool& any) const;
  void leave_barrier(bool all, bool any);

 private:
  struct Group {
    std::uint32_t at;
    Mask lanes;
  };
  // A value of each lane; an immediate stands once, for all.
  struct Source {
    const std::uint64_t* at;
    std::size_t stride;
    std::uint64_t operator[](int lane) const { return at[static_cast<std::size_t>(lane) * stride]; }
  };
  Source source(const Operand& operand, std::uint64_t (&room)[kLanes]) const;
  std::uint64_t special(Special which, int lane) const;
  Mask predicate(const Operand& operand, Mask lanes) const;

  void pick();
  void merge();
  void remove(std::size_t group, Mask lanes);
  void park(Mask lanes, std::uint32_t at);  // the lanes' group stops running
  void go_on(Mask lanes);                   // lanes that were parked, behind where they wait
  void branch(Mask taken, std::uint32_t target);
  void meet_warp(const Instruction& in, Mask lanes);
  void try_warp(Mask members);
  void together(Mask members);

  void execute(const Instruction& in, Mask lanes);
  void calculate(const Instruction& in, Mask lanes);
  void convert(const Instruction& in, Mask lanes);
  void widen_pair(const Instruction& in, Mask lanes);
  void narrow_pair(const Instruction& in, Mask lanes);
  void pack(const Instruction& in, Mask lanes);
  void shuffle(const Instruction& in, Mask members, int lane, const std::uint64_t* values);
  void load(const Instruction& in, Mask lanes);
  void store(const Instruction& in, Mask lanes);
  void atomic(const Instruction& in, Mask lanes);
  void multimem(const Instruction& in, Mask lanes);
  void change_space(const Instruction& in, Mask lanes);
  std::byte* place(const Instruction& in, int lane, std::size_t bytes);
  void check(const Instruction& in, int lane, std::uintptr_t at, std::size_t bytes, bool writes);
  void count_traffic(bool loads, bool stores);
  void fail(const Instruction& in, int lane, const std::string& what);
  Races::Thread thread(int lane) const;

  Block& block_;
  const int first_thread_;
  Registers registers_;
  std::vector<std::byte> local_;  // of all lanes
  std::vector<Group> groups_;     // that can go on; the one that runs comes first
  Mask exited_ = 0, at_barrier_ = 0, at_warp_ = 0;
  std::uint32_t waits_at_[kLanes] = {};
  bool keeps_group_ = false;
  std::vector<std::uint64_t> sectors_;  // of memory, that the instruction has touched
  Memory::Range last_range_{0, 0, {}};
  std::uint64_t last_changes_ = 0;
};

struct Block {
  Block(Grid& grid, std::uint64_t index);
  void check_barrier();  // after a lane has come to it or exited
  bool ended() const;

  Grid& grid;
  const Dim at;
  std::vector<std::byte> shared;
  std::vector<Warp> warps;
  Races::Thread first_thread = 0;
};

struct Grid {
  const Kernel& kernel;
  const Dim blocks, threads;
  const std::vector<std::byte> parameters;
  const std::size_t dynamic_shared;
  SimulationHost& around;
  std::uint64_t next = 0, left = 0;  // blocks: to start, that have not ended
  std::vector<std::unique_ptr<Block>> running;
};

}  // namespace weft::ptx
