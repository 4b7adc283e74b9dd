// The distributed transpose of a matrix whose columns lie in blocks on the ranks, in four ways:
//   collective   all_to_all, then every block is transposed
//   pairwise     round by round every rank sends a block and receives one, and transposes it
//   get          one block after the other is fetched, and transposed
//   pointer      the transpose loads from the peers' memory itself: no copy in between
// A second word names the only way to run: transpose --small pointer. The passes over memory are announced (loads), so
// that `weft run --sim dgx-h100` times them there. On eight H100 the last way is about 30 % ahead of the others, says
// the NVSHMEM case study that N5 of SCOPE.md quotes.
#include "examples/example.h"

using namespace weft;

namespace {

constexpr int kTile = 16;  // a tile's rows and columns stay in the first-level cache

// out(c, r) = in(r, c) of an n x n block; strides in elements.
void transpose(double* out, std::size_t out_stride, const double* in, std::size_t in_stride, std::size_t n) {
  for (std::size_t r0 = 0; r0 < n; r0 += kTile)
    for (std::size_t c0 = 0; c0 < n; c0 += kTile)
      for (std::size_t r = r0; r < std::min(n, r0 + kTile); ++r)
        for (std::size_t c = c0; c < std::min(n, c0 + kTile); ++c) out[c * out_stride + r] = in[r * in_stride + c];
}

double element(std::size_t row, std::size_t column) {
  return static_cast<double>(row) * 1e5 + static_cast<double>(column);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 2 ? argv[2] : "";
  if (only != "" && only != "collective" && only != "pairwise" && only != "get" && only != "pointer") {
    fmt::print(stderr, "'{}' is no way to transpose: collective, pairwise, get, pointer\n", only);
    return 2;
  }
  return examples::example(argc, argv, [&](pgas::World& world, bool small) {
    const auto ranks = static_cast<std::size_t>(world.ranks()), me = static_cast<std::size_t>(world.rank());
    const std::size_t block = small ? 64 : 512, size = block * block;
    // Block b of `in` is rows b * block … of this rank's columns me * block …; of `out` the same of the transpose.
    auto in = world.allocate_array<double>(size * ranks).value();
    auto out = world.allocate_array<double>(size * ranks).value();
    auto box = world.allocate_array<double>(size * ranks).value();
    for (std::size_t b = 0; b < ranks; ++b)
      for (std::size_t r = 0; r < block; ++r)
        for (std::size_t c = 0; c < block; ++c) in[b * size + r * block + c] = element(b * block + r, me * block + c);

    const auto right = [&] {
      for (std::size_t b = 0; b < ranks; ++b)
        for (std::size_t r = 0; r < block; ++r)
          for (std::size_t c = 0; c < block; ++c)
            if (out[b * size + r * block + c] != element(me * block + c, b * block + r)) return false;
      return true;
    };
    // Transposes a block that lies at `from` in the memory of `rank`.
    const auto transpose_of = [&](std::size_t b, const double* from, std::size_t rank) {
      const auto access = world.loads(from, size * sizeof(double), static_cast<Rank>(rank));
      transpose(&out[b * size], block, world.pointer(from, static_cast<Rank>(rank)), block, block);
    };
    pgas::Team team = world.team();
    const std::pair<const char*, std::function<void()>> ways[] = {
        {"collective",
         [&] {
           (void)team.run({.collective = Collective::kAllToAll,
                           .in = in.data(),
                           .out = box.data(),
                           .count = size,
                           .type = DataType::kFloat64});
           for (std::size_t b = 0; b < ranks; ++b) transpose_of(b, &box[b * size], me);
         }},
        {"pairwise",
         [&] {
           for (std::size_t i = 0; i < ranks; ++i) {
             const std::size_t to = (me + i) % ranks, from = (me + ranks - i) % ranks;
             world.put(&box[me * size], &in[to * size], size * sizeof(double), static_cast<Rank>(to));
             (void)world.barrier();
             transpose_of(from, &box[from * size], me);
           }
         }},
        {"get",
         [&] {
           for (std::size_t i = 0; i < ranks; ++i) {
             const std::size_t from = (me + i) % ranks;
             world.get(&box[from * size], &in[me * size], size * sizeof(double), static_cast<Rank>(from));
             transpose_of(from, &box[from * size], me);
           }
         }},
        {"pointer", [&] {
           for (std::size_t i = 0; i < ranks; ++i) {
             const std::size_t from = (me + i) % ranks;
             transpose_of(from, &in[me * size], from);
           }
         }}};
    bool all_right = true;
    if (world.rank() == 0)
      fmt::print(
          "transpose of {0} x {0} doubles on {1} ranks; H100 x 8: all_to_all 7.5 TB/s, pairwise 4-5, get 7.5, "
          "pointer 9.5\n",
          block * ranks, ranks);
    for (const auto& [name, way] : ways) {
      if (!only.empty() && only != name) continue;
      std::fill(out.begin(), out.end(), -1.0);
      const double seconds = examples::time_of(world, way);
      all_right = all_right && right();
      const double bytes = 2.0 * static_cast<double>(size * ranks * ranks) * sizeof(double);  // read and written
      if (world.rank() == 0)
        fmt::print("  {:<11}{:>9.2f} ms {:>8.2f} GB/s\n", name, seconds * 1e3, bytes / seconds * 1e-9);
    }
    return examples::verdict(world, all_right);
  });
}
