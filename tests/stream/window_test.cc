// Windows of weft/cuda.h under kernels that use weft/device.h, on the host's threads.

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "exec/device/host_machine.h"
#include "weft/cuda.h"

namespace weft {
namespace {

using cuda::Communicator;
using cuda::Window;
using exec::device::HostBlock;
using exec::device::HostMachine;

std::vector<Communicator> open(std::vector<int> devices) {
  setenv("WEFT_DEVICE", "host", 1);
  return Communicator::open(devices).value();
}

// What examples/device_ring.cu does: every rank puts its numbers to the next one, which waits for them.
bool shift(HostMachine& thread, const device::Heap& heap, int* out, std::uint64_t* arrived, int count) {
  device::OneSided<HostMachine, device::ByBlock> block(thread, heap);
  const Rank next = (heap.rank + 1) % heap.ranks;
  block.put_signal(out + count, out, count * static_cast<std::int64_t>(sizeof(int)), arrived, 1, next);
  return block.wait(arrived, 1);
}

void run(const std::vector<Window>& windows, int count) {
  std::vector<std::unique_ptr<HostBlock>> blocks;
  std::vector<std::thread> threads;
  for (const Window& w : windows) {
    HostBlock& block = *blocks.emplace_back(std::make_unique<HostBlock>(HostBlock::kWarp));
    for (int t = 0; t < HostBlock::kWarp; ++t)
      threads.emplace_back([&block, &w, t, count] {
        HostMachine machine(block, t);
        auto* const arrived = static_cast<std::uint64_t*>(w.data());
        EXPECT_TRUE(shift(machine, w.heap(), reinterpret_cast<int*>(arrived + 2), arrived, count));
      });
  }
  for (std::thread& t : threads) t.join();
}

void check(const std::vector<Window>& windows, int count) {
  const auto numbers = [&](std::size_t r) {
    return reinterpret_cast<int*>(static_cast<std::byte*>(windows[r].data()) + 16);
  };
  for (std::size_t r = 0; r < windows.size(); ++r)
    for (int i = 0; i < count; ++i) numbers(r)[i] = static_cast<int>(r) * 1000 + i;
  run(windows, count);
  for (std::size_t r = 0; r < windows.size(); ++r)
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(numbers(r)[count + i], static_cast<int>((r + windows.size() - 1) % windows.size()) * 1000 + i);
}

TEST(Window, KernelsReachThePeersMemoryOfAllocatedOnes) {
  const auto ranks = open({0, 0, 0});
  const auto windows = Window::allocate(ranks, 16 + 2 * 501 * sizeof(int));
  ASSERT_TRUE(windows) << windows.error().message;
  EXPECT_EQ((*windows)[1].size(), 16 + 2 * 501 * sizeof(int));
  check(*windows, 501);
}

TEST(Window, MayLieOverMemoryOfTheCaller) {
  const auto ranks = open({0, 0});
  struct alignas(16) Memory {
    std::byte bytes[1024];
  };
  std::vector<Memory> memory(2);
  const std::vector<void*> places = {&memory[0], &memory[1]};
  const auto windows = Window::open(ranks, places, sizeof(Memory));
  ASSERT_TRUE(windows) << windows.error().message;
  EXPECT_EQ((*windows)[1].data(), &memory[1]);
  check(*windows, 100);
}

TEST(Window, RefusesWhatIsNotAllRanksOrNotAligned) {
  const auto ranks = open({0, 0});
  std::vector<double> memory(4);
  const auto refused = [&](std::span<const Communicator> some, std::vector<void*> places) {
    const auto windows = Window::open(some, places, 16);
    return windows ? std::string() : windows.error().message;
  };
  EXPECT_EQ(refused({}, {}), "a window of no ranks");
  EXPECT_EQ(refused({&ranks[1], 1}, {memory.data()}), "a window needs all 2 ranks of a communicator, in their order");
  EXPECT_EQ(refused(ranks, {memory.data()}), "a window of 2 ranks needs memory of each, not 1");
  EXPECT_EQ(refused(ranks, {memory.data(), nullptr}), "the window's memory is null");
  EXPECT_EQ(refused(ranks, {memory.data(), reinterpret_cast<std::byte*>(memory.data()) + 4}),
            "the window's memory is not aligned to 16 bytes");
}

}  // namespace
}  // namespace weft
