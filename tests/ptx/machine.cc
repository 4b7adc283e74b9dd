#include "tests/ptx/machine.h"

#include <algorithm>
#include <map>

#include "tests/ptx/grid.h"

namespace weft::ptx {
namespace {

Dim place_of(std::uint64_t index, const Dim& in) {
  return {static_cast<std::uint32_t>(index % in.x), static_cast<std::uint32_t>(index / in.x % in.y),
          static_cast<std::uint32_t>(index / in.x / in.y)};
}

}  // namespace

Block::Block(Grid& of, std::uint64_t index)
    : grid(of), at(place_of(index, of.blocks)), shared(of.kernel.shared_bytes + of.dynamic_shared) {
  std::fill(shared.begin(), shared.end(), std::byte{0xa5});  // it begins with what others have left
  const auto threads = static_cast<int>(grid.threads.count());
  for (int first = 0; first < threads; first += kLanes)
    warps.emplace_back(*this, first, std::min(kLanes, threads - first));
  if (!grid.around.options.races) return;
  first_thread = grid.around.races.begin(static_cast<std::size_t>(threads));
  grid.around.first_threads.emplace_back(first_thread, fmt::format("block {} of {}", index, grid.kernel.name));
  grid.around.races.forget_bytes(reinterpret_cast<std::uintptr_t>(shared.data()), shared.size());
}

bool Block::ended() const {
  return std::all_of(warps.begin(), warps.end(), [](const Warp& warp) { return warp.ended(); });
}

void Block::check_barrier() {
  bool all = true, any = false, waits = false;
  for (const Warp& warp : warps) {
    if ((warp.at_barrier() | warp.exited()) != kAllLanes) return;
    waits = waits || warp.at_barrier() != 0;
    warp.votes(all, any);
  }
  if (!waits) return;
  if (grid.around.options.races) {
    std::vector<Races::Thread> threads;
    for (std::size_t w = 0; w < warps.size(); ++w)
      for_lanes(warps[w].at_barrier(), [&](int lane) {
        threads.push_back(first_thread + static_cast<Races::Thread>(w * kLanes) + static_cast<Races::Thread>(lane));
      });
    grid.around.races.meet(threads);
  }
  for (Warp& warp : warps) warp.leave_barrier(all, any);
}

struct Machine::State {
  State(const Memory& memory, const Options& options)
      : around{.memory = memory,
               .options = options,
               .races = {},
               .random = std::mt19937_64(options.seed),
               .fault = {},
               .traffic = {},
               .first_threads = {}} {}

  // Blocks that have room: the grids' turn is their order.
  void admit() {
    for (auto& [id, grid] : grids)
      while (grid->next < grid->blocks.count() && room(*grid)) {
        grid->running.push_back(std::make_unique<Block>(*grid, grid->next++));
        threads += grid->threads.count();
      }
  }
  bool room(const Grid& grid) const {
    return threads == 0 || threads + grid.threads.count() <= around.options.most_threads;
  }
  void end(Grid& grid, std::size_t index) {
    const Block& block = *grid.running[index];
    if (around.options.races) around.races.end(block.first_thread, grid.threads.count());
    threads -= grid.threads.count();
    --grid.left;
    grid.running.erase(grid.running.begin() + static_cast<std::ptrdiff_t>(index));
  }

  SimulationHost around;
  std::map<std::uint64_t, std::unique_ptr<Grid>> grids;
  std::uint64_t last_grid = 0;
  std::size_t threads = 0;  // on the machine
};

Machine::Machine(const Memory& memory, const Options& options) : state_(std::make_unique<State>(memory, options)) {}
Machine::~Machine() = default;

Machine::Number Machine::start(const Kernel& kernel, Dim grid, Dim block, std::span<const std::byte> parameters,
                               std::size_t dynamic_shared) {
  auto made = std::make_unique<Grid>(Grid{kernel,
                                          grid,
                                          block,
                                          {parameters.begin(), parameters.end()},
                                          dynamic_shared,
                                          state_->around,
                                          0,
                                          grid.count(),
                                          {}});
  state_->grids.emplace(++state_->last_grid, std::move(made));
  state_->admit();
  return state_->last_grid;
}

bool Machine::done(Number grid) {
  const auto found = state_->grids.find(grid);
  if (found == state_->grids.end()) return true;
  if (found->second->left > 0) return false;
  state_->grids.erase(found);
  if (state_->grids.empty()) {
    state_->around.races.clear();
    state_->around.first_threads.clear();
  }
  return true;
}

bool Machine::idle() const {
  return std::all_of(state_->grids.begin(), state_->grids.end(), [](const auto& g) { return g.second->left == 0; });
}

void Machine::step() {
  constexpr int kMostInstructions = 64;
  SimulationHost& around = state_->around;
  bool went_on = false;
  for (auto& [id, grid] : state_->grids)
    for (std::size_t b = 0; b < grid->running.size();) {
      Block& block = *grid->running[b];
      for (Warp& warp : block.warps) {
        if (!warp.can_go_on()) continue;
        went_on = true;
        const auto draw = around.random();
        if (draw % 4 != 0) warp.run(1 + static_cast<int>((draw >> 8) % kMostInstructions));
        if (!around.fault.empty()) return;
      }
      if (block.ended())
        state_->end(*grid, b), went_on = true;
      else
        ++b;
    }
  state_->admit();
  if (!went_on && !idle()) around.fail("all threads of all grids wait at barriers that some of them never come to");
}

const Traffic& Machine::traffic() const { return state_->around.traffic; }
const std::string& Machine::fault() const { return state_->around.fault; }

}  // namespace weft::ptx
