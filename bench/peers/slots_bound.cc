// What two cores of this machine can hand each other through memory that both map, by plain loads and stores alone: the
// latency of one cache line, and messages through slots, stored plainly or past the cache.
//   c++ -std=c++20 -O3 -march=native bench/peers/slots_bound.cc -o build/peers/slots_bound -pthread
//   build/peers/slots_bound --line   only the latency, µs
//   build/peers/slots_bound          a line per size: µs of a message alone, then µs per message with eight under way
// The two threads are bound to CPUs 0 and 1. Run it several times: in a virtual machine the two may be near (one
// last-level cache) or far, and that changes while programs run; the first line says which.
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using Number = std::atomic<unsigned long>;
using Copy = void (*)(char* to, const char* from, std::size_t bytes);

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("slots_bound: cannot bind to a CPU"), std::exit(2);
}

void plain(char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void streamed(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
  _mm_sfence();
}

// Memory that the two share.
struct Shared {
  alignas(4096) Number sent;
  alignas(4096) Number taken;
  alignas(4096) char slots[8][32768];
};

// Runs `first` here and `second` on another thread, on CPUs 0 and 1; seconds until both are done.
template <class First, class Second>
double seconds_of_both(First first, Second second) {
  std::atomic<bool> ready = false;
  std::thread other([&] {
    bind_to(1);
    ready = true;
    second();
  });
  bind_to(0);
  while (!ready) sched_yield();
  const auto start = Clock::now();
  first();
  other.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void await(const Number& number, unsigned long at_least) {
  while (number.load(std::memory_order_acquire) < at_least) _mm_pause();
}

double line_us(Shared& shared) {
  constexpr unsigned long kTrips = 20000;
  shared.sent = shared.taken = 0;
  const double seconds = seconds_of_both(
      [&] {
        for (unsigned long i = 1; i <= kTrips; ++i) {
          shared.sent.store(i, std::memory_order_release);
          await(shared.taken, i);
        }
      },
      [&] {
        for (unsigned long i = 1; i <= kTrips; ++i) {
          await(shared.sent, i);
          shared.taken.store(i, std::memory_order_release);
        }
      });
  return seconds * 1e6 / kTrips / 2;
}

// Microseconds per message of `bytes`, `under_way` of them at once; the receiver always copies plainly.
double message_us(Shared& shared, Copy store, std::size_t bytes, unsigned long under_way, char* from, char* to) {
  constexpr std::size_t kData = 1 << 20;  // both sides' own memory, used in turn
  const unsigned long messages = 40 * kData / bytes;
  shared.sent = shared.taken = 0;
  const double seconds = seconds_of_both(
      [&] {
        for (unsigned long i = 0; i < messages; ++i) {
          if (i >= under_way) await(shared.taken, i - under_way + 1);
          store(shared.slots[i % 8], from + i * bytes % kData, bytes);
          shared.sent.store(i + 1, std::memory_order_release);
        }
        await(shared.taken, messages);
      },
      [&] {
        for (unsigned long i = 0; i < messages; ++i) {
          await(shared.sent, i + 1);
          plain(to + i * bytes % kData, shared.slots[i % 8], bytes);
          shared.taken.store(i + 1, std::memory_order_release);
        }
      });
  return seconds * 1e6 / static_cast<double>(messages);
}

}  // namespace

int main(int argc, char** argv) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("slots_bound"), 2;
  auto& shared = *static_cast<Shared*>(memory);
  if (argc > 1 && std::strcmp(argv[1], "--line") == 0) return std::printf("%.3f\n", line_us(shared)), 0;
  std::memset(shared.slots, 1, sizeof shared.slots);
  auto* from = static_cast<char*>(std::aligned_alloc(4096, 1 << 20));
  auto* to = static_cast<char*>(std::aligned_alloc(4096, 1 << 20));
  std::memset(from, 1, 1 << 20), std::memset(to, 1, 1 << 20);
  std::printf("# a cache line: %.3f us one way\n# bytes  alone: plain streamed  eight: plain streamed\n",
              line_us(shared));
  for (std::size_t bytes = 512; bytes <= 32768; bytes *= 2)
    std::printf("%7zu  %6.2f %6.2f  %6.2f %6.2f\n", bytes, message_us(shared, plain, bytes, 1, from, to),
                message_us(shared, streamed, bytes, 1, from, to), message_us(shared, plain, bytes, 8, from, to),
                message_us(shared, streamed, bytes, 8, from, to));
  std::printf("# a cache line: %.3f us one way\n", line_us(shared));
  std::free(from), std::free(to);
  return 0;
}
