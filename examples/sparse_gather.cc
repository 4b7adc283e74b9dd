// Some elements of a peer's array, used K times: read through the pointer each time, or fetch the whole array once and
// read the copy. The documents (N10): get wins from 2-3 uses on, the pointer for sparse and for small data.
#include <numeric>
#include <random>
#include <vector>

#include "examples/example.h"

using namespace weft;

int main(int argc, char** argv) {
  return examples::example(argc, argv, [](pgas::World& world, bool small) {
    const std::size_t count = small ? 1 << 14 : 1 << 20;
    auto array = world.allocate_array<std::uint64_t>(count).value();
    std::iota(array.begin(), array.end(), static_cast<std::uint64_t>(world.rank()) << 32);
    std::vector<std::uint64_t> copy(count);
    const Rank peer = (world.rank() + 1) % world.ranks();
    bool right = true;
    if (world.rank() == 0)
      fmt::print(
          "{} KiB of a peer, by pointer and by get; on GPUs the peer is behind NVLink, here it is the same "
          "memory, so that a copy can only pay through the caches\n  part   uses   pointer (us)   get (us)\n",
          count * 8 >> 10);
    for (const double fraction : {0.01, 0.1, 1.0}) {
      std::vector<std::uint32_t> wanted(static_cast<std::size_t>(static_cast<double>(count) * fraction));
      std::mt19937 random(3);
      for (std::uint32_t& w : wanted) w = static_cast<std::uint32_t>(random() % count);
      for (const int uses : {1, 3, 10}) {
        std::uint64_t by_pointer = 0, by_get = 0, expected = 0;
        const auto sum = [&](const std::uint64_t* from) {
          std::uint64_t total = 0;
          for (int use = 0; use < uses; ++use)
            for (const std::uint32_t w : wanted) total += from[w];
          return total;
        };
        const double pointer = examples::time_of(
            world, [&] { by_pointer = sum(world.pointer(array.data(), peer)); }, 3);
        const double get = examples::time_of(
            world,
            [&] {
              world.get(copy.data(), array.data(), count * 8, peer);
              by_get = sum(copy.data());
            },
            3);
        for (const std::uint32_t w : wanted) expected += (static_cast<std::uint64_t>(peer) << 32) + w;
        expected *= static_cast<std::uint64_t>(uses);
        right = right && by_pointer == expected && by_get == expected;
        if (world.rank() == 0)
          fmt::print("{:>5.0f}% {:>6} {:>14.1f} {:>10.1f}\n", fraction * 100, uses, pointer * 1e6, get * 1e6);
      }
    }
    return examples::verdict(world, right);
  });
}
