// A program outside of weft's source tree: every rank adds its number, by a call and by a queue, and keeps a block in a
// store of its own.
#include <weft/communicator.h>
#include <weft/kv.h>
#include <weft/queue.h>

#include <cstdio>
#include <vector>

namespace {

bool store_keeps_a_block() {
  auto agent = weft::transfer::Agent::open({.name = "consumer"});
  if (!agent) return false;
  auto store = weft::kv::Store::open(*agent, {.pages = 4, .page_bytes = 64, .block_tokens = 4});
  const std::vector<weft::kv::Token> prompt{1, 2, 3, 4};
  auto writing = store->begin("tenant", prompt);
  return writing && writing->commit() == 1 && store->match("tenant", prompt).tokens() == 4;
}

}  // namespace

int main() {
  if (!store_keeps_a_block()) return 1;
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
