// A five-point stencil on a torus of cells, spread over a grid of ranks. Before every step each rank puts its edges
// into its neighbours' halos (rows in one piece, columns strided) and signals; it goes on when its four have signalled.
#include <vector>

#include "examples/example.h"

using namespace weft;
using pgas::AtomicOp;
using pgas::Compare;

namespace {

// The same by one rank alone, for comparison.
std::vector<double> reference(std::size_t rows, std::size_t columns, int steps) {
  std::vector<double> now(rows * columns), next(rows * columns);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<double>(i % 17);
  for (int s = 0; s < steps; ++s) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        next[r * columns + c] =
            0.25 * (now[(r + rows - 1) % rows * columns + c] + now[(r + 1) % rows * columns + c] +
                    now[r * columns + (c + columns - 1) % columns] + now[r * columns + (c + 1) % columns]);
    std::swap(now, next);
  }
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::example(argc, argv, [](pgas::World& world, bool small) {
    Rank down = 1;  // ranks from north to south; as square as possible
    for (Rank d = 1; d * d <= world.ranks(); ++d)
      if (world.ranks() % d == 0) down = d;
    const Rank across = world.ranks() / down, y = world.rank() / across, x = world.rank() % across;
    const std::size_t n = small ? 32 : 512, width = n + 2;  // own cells and a halo around them
    const int steps = small ? 20 : 200;
    const auto rank_at = [&](Rank j, Rank i) { return (j + down) % down * across + (i + across) % across; };

    auto grids = world.allocate_array<double>(2 * width * width).value();  // even and odd steps
    auto came = world.allocate_array<std::uint64_t>(4).value();  // steps of the neighbours: north, south, west, east
    std::fill(came.begin(), came.end(), 0);
    const auto columns = n * static_cast<std::size_t>(across), rows = n * static_cast<std::size_t>(down);
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t c = 0; c < n; ++c)
        grids[(r + 1) * width + c + 1] = static_cast<double>(
            ((static_cast<std::size_t>(y) * n + r) * columns + static_cast<std::size_t>(x) * n + c) % 17);

    const double seconds = examples::time_of(
        world,
        [&] {
          for (int s = 0; s < steps; ++s) {
            double* own = &grids[static_cast<std::size_t>(s % 2) * width * width];
            double* next = &grids[static_cast<std::size_t>((s + 1) % 2) * width * width];
            const std::size_t row = n * sizeof(double);
            const auto stride = static_cast<std::ptrdiff_t>(width);
            const Rank north = rank_at(y - 1, x), south = rank_at(y + 1, x), west = rank_at(y, x - 1),
                       east = rank_at(y, x + 1);
            world.put(own + (n + 1) * width + 1, own + width + 1, row, north);  // my first row is below their last
            world.put(own + 1, own + n * width + 1, row, south);
            world.put_strided(own + width + n + 1, own + width + 1, sizeof(double), stride, stride, n, west);
            world.put_strided(own + width, own + width + n, sizeof(double), stride, stride, n, east);
            world.fence();
            // One counter each: a fast neighbour may be a step ahead, and must not be taken for a slow one.
            const std::uint64_t step = static_cast<std::uint64_t>(s) + 1;
            world.atomic(AtomicOp::kSet, &came[1], step, north);
            world.atomic(AtomicOp::kSet, &came[0], step, south);
            world.atomic(AtomicOp::kSet, &came[3], step, west);
            world.atomic(AtomicOp::kSet, &came[2], step, east);
            for (const std::uint64_t& neighbour : came) world.wait_until(&neighbour, Compare::kGreaterEqual, step);
            for (std::size_t r = 1; r <= n; ++r)
              for (std::size_t c = 1; c <= n; ++c)
                next[r * width + c] = 0.25 * (own[(r - 1) * width + c] + own[(r + 1) * width + c] +
                                              own[r * width + c - 1] + own[r * width + c + 1]);
          }
        },
        1);
    const std::vector<double> alone = reference(rows, columns, steps);
    const double* last = &grids[static_cast<std::size_t>(steps % 2) * width * width];
    bool right = true;
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t c = 0; c < n; ++c)
        right =
            right && last[(r + 1) * width + c + 1] ==
                         alone[(static_cast<std::size_t>(y) * n + r) * columns + static_cast<std::size_t>(x) * n + c];
    if (world.rank() == 0)
      fmt::print("{} steps on {} x {} cells, {} x {} ranks: {:.1f} us per step\n", steps, rows, columns, down, across,
                 seconds / steps * 1e6);
    return examples::verdict(world, right);
  });
}
