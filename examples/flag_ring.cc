// A ring of producers and consumers: every rank passes blocks to the next through a few slots. A flag says which block
// is in a slot, another which have been taken; nobody calls anything together.
#include "examples/example.h"

using namespace weft;
using pgas::Compare;
using pgas::SignalOp;

int main(int argc, char** argv) {
  return examples::example(argc, argv, [](pgas::World& world, bool small) {
    constexpr std::size_t kSlots = 4, kWords = 512;
    const std::uint64_t blocks = small ? 500 : 20000;
    const Rank next = (world.rank() + 1) % world.ranks(), before = (world.rank() + world.ranks() - 1) % world.ranks();
    auto slots = world.allocate_array<std::uint64_t>(kSlots * kWords).value();
    auto filled = world.allocate_array<std::uint64_t>(1).value();  // blocks that the rank before has put here
    auto taken = world.allocate_array<std::uint64_t>(1).value();   // blocks that the next rank has taken
    filled[0] = taken[0] = 0;
    bool right = true;
    const double seconds = examples::time_of(
        world,
        [&] {
          std::uint64_t block[kWords];
          for (std::uint64_t i = 1; i <= blocks; ++i) {
            if (i > kSlots) world.wait_until(&taken[0], Compare::kGreaterEqual, i - kSlots);
            std::fill_n(block, kWords, i * 1000 + static_cast<std::uint64_t>(world.rank()));
            world.put_signal(&slots[i % kSlots * kWords], block, sizeof block, &filled[0], 1, SignalOp::kAdd, next);
            world.wait_until(&filled[0], Compare::kGreaterEqual, i);
            const std::uint64_t* came = &slots[i % kSlots * kWords];
            const std::uint64_t expected = i * 1000 + static_cast<std::uint64_t>(before);
            for (std::size_t w = 0; w < kWords; ++w) right = right && came[w] == expected;
            world.fetch_add(&taken[0], std::uint64_t{1}, before);
          }
        },
        1);
    if (world.rank() == 0)
      fmt::print("{} blocks of {} B around a ring of {}: {:.2f} us per block, {:.2f} GB/s per rank\n", blocks,
                 kWords * 8, world.ranks(), seconds / static_cast<double>(blocks) * 1e6,
                 static_cast<double>(blocks * kWords * 8) / seconds * 1e-9);
    return examples::verdict(world, right);
  });
}
