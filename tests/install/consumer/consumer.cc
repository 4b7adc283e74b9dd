// A program outside of weft's source tree: every rank adds its number, by a call and by a queue.
#include <weft/communicator.h>
#include <weft/queue.h>

#include <cstdio>
#include <vector>

int main() {
  auto joined = weft::Communicator::from_environment();
  if (!joined) return std::fprintf(stderr, "%s\n", joined.error().message.c_str()), 1;
  weft::Communicator world = *joined;
  std::vector<float> x(1000, static_cast<float>(world.rank() + 1)), sum(x.size());
  if (!world.all_reduce<float>(x, sum)) return 1;
  weft::Queue queue(world);
  if (!queue.start({.in = sum.data(), .out = sum.data(), .count = sum.size()}).wait()) return 1;
  const float n = static_cast<float>(world.ranks());
  if (sum.front() != n * n * (n + 1) / 2 || sum.back() != sum.front()) return 1;
  if (world.rank() == 0) std::printf("sum %g on %d ranks\n", sum.front(), world.ranks());
  return 0;
}
