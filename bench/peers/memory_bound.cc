// The rate at which two cores of this machine move memory beyond their caches, by plain loads and stores past the cache
// alone: the bound of large collectives between two ranks.
//   c++ -std=c++20 -O3 -march=native bench/peers/memory_bound.cc -o build/peers/memory_bound -pthread
//   build/peers/memory_bound        GB/s of both cores together, read and written: copies, then sums of two blocks
// The two threads are bound to CPUs 0 and 1, and work on blocks of 128 MiB in huge pages. Best of five runs each.
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = std::size_t{128} << 20;
constexpr int kTimes = 2, kRuns = 5;

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
    std::fputs("memory_bound: cannot bind to a CPU\n", stderr), std::exit(2);
}

float* block() {
  void* memory = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("memory_bound"), std::exit(2);
  madvise(memory, kBlock, MADV_HUGEPAGE);
  std::memset(memory, 1, kBlock);
  return static_cast<float*>(memory);
}

void copy(float* to, const float* from, const float*) {
  for (std::size_t i = 0; i < kBlock / sizeof(float); i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
  _mm_sfence();
}

void sum(float* to, const float* a, const float* b) {
  for (std::size_t i = 0; i < kBlock / sizeof(float); i += 8)
    _mm256_stream_ps(to + i, _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i)));
  _mm_sfence();
}

struct Blocks {
  float *to = block(), *a = block(), *b = block();
};

double gb_per_s(void (*work)(float*, const float*, const float*), int operands, Blocks (&of)[2]) {
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::atomic<int> here = 0;
    const auto side = [&](int cpu) {
      bind_to(cpu);
      ++here;
      while (here < 2) _mm_pause();
      const auto start = Clock::now();
      for (int i = 0; i < kTimes; ++i) work(of[cpu].to, of[cpu].a, of[cpu].b);
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    double theirs = 0;
    std::thread other([&] { theirs = side(1); });
    const double own = side(0);
    other.join();
    best = std::max(best, 2.0 * operands * kTimes * static_cast<double>(kBlock) / std::max(own, theirs) / 1e9);
  }
  return best;
}

}  // namespace

int main() {
  Blocks of[2];
  std::printf("copy %.1f\n", gb_per_s(copy, 2, of));
  std::printf("sum %.1f\n", gb_per_s(sum, 3, of));
}
