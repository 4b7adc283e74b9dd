// Kernels' text on the host's threads posts puts, and a proxy thread of each rank makes them over the transport of the
// job: `weft run -n 3 -- posts`. Prints "right" on every rank.
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "exec/device/host_machine.h"
#include "exec/device/post_queue.h"
#include "weft/pgas.h"

namespace {

using weft::exec::device::HostBlock;
using weft::exec::device::HostMachine;
using weft::exec::device::post;
using weft::exec::device::PostQueue;

constexpr int kThreads = 8;
constexpr std::uint64_t kEach = 50, kLooks = std::uint64_t{1} << 40;  // more requests than the ring has entries
constexpr std::size_t kWords = 16;                                    // of a message

std::uint64_t word_of(int rank, int thread, std::uint64_t message, std::size_t word) {
  return static_cast<std::uint64_t>(rank) << 40 | static_cast<std::uint64_t>(thread) << 32 | message << 16 | word;
}

// One thread of the kernel: its messages go to the next rank, each with a signal; then it waits until all are there.
void kernel(HostMachine& machine, PostQueue& queue, std::uint64_t* out, std::uint64_t* in, std::uint64_t* arrived,
            int rank, int next) {
  std::uint64_t ticket = 0;
  for (std::uint64_t m = 0; m < kEach; ++m) {
    const std::size_t at = (static_cast<std::size_t>(machine.thread()) * kEach + m) * kWords;
    for (std::size_t w = 0; w < kWords; ++w) out[at + w] = word_of(rank, machine.thread(), m, w);
    ticket = post(machine, queue,
                  {reinterpret_cast<std::byte*>(in + at), reinterpret_cast<const std::byte*>(out + at), kWords * 8,
                   arrived, 1, static_cast<std::uint64_t>(next)},
                  kLooks);
  }
  posted(machine, queue, ticket, kLooks);
}

int run(weft::pgas::World& world) {
  constexpr std::size_t kAll = kThreads * kEach;
  auto in = world.allocate_array<std::uint64_t>(kAll * kWords);
  auto arrived = world.allocate_array<std::uint64_t>(8);
  if (!in || !arrived) return 1;
  (*arrived)[0] = 0;
  if (!world.barrier()) return 1;
  const int rank = world.rank(), ranks = world.ranks(), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  std::vector<std::uint64_t> out(kAll * kWords);
  PostQueue queue;
  HostBlock block(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      HostMachine machine(block, t);
      kernel(machine, queue, out.data(), in->data(), arrived->data(), rank, next);
    });
  std::uint64_t served = 0;
  while (served < kAll) {  // the proxy: this thread, to which the World belongs
    const std::uint64_t now = serve_posts(queue, world, weft::pgas::SignalOp::kAdd);
    served += now;
    if (now == 0) std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  world.wait_until(arrived->data(), weft::pgas::Compare::kEqual, static_cast<std::uint64_t>(kAll));
  for (int t = 0; t < kThreads; ++t)
    for (std::uint64_t m = 0; m < kEach; ++m)
      for (std::size_t w = 0; w < kWords; ++w)
        if ((*in)[(static_cast<std::size_t>(t) * kEach + m) * kWords + w] != word_of(before, t, m, w)) return 1;
  if (!world.barrier()) return 1;
  std::printf("rank %d: %llu posts right\n", rank, static_cast<unsigned long long>(served));
  return 0;
}

}  // namespace

int main() {
  auto world = weft::pgas::World::from_environment();
  if (!world) {
    std::fprintf(stderr, "posts: %s\n", world.error().message.c_str());
    return 1;
  }
  return run(*world);
}
