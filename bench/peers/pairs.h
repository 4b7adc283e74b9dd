// Messages between two ranks, measured alike for every library: latency, rate, and what communicators cost.
//   PROGRAM [--communicators N] [--messages 0]   prints, by rank 0, lines of tab-separated values: measure, bytes,
//   value
// latency: half of a round trip, µs. rate: 64 messages under way at once, then a word back; µs per message.
// communicator_us, communicator_kib: to make one more of the same ranks, and what the process has grown by.
// The median of 15 runs counts; a run is long enough to last some milliseconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace pairs {

inline constexpr int kOutstanding = 64;
inline constexpr std::size_t kSizes[] = {8, 64, 512, 4096, 65536, 1 << 20};
inline constexpr std::size_t kMost = kOutstanding * 65536;  // bytes of a buffer

// A library, as one of two ranks sees it.
class Library {
 public:
  virtual ~Library() = default;
  virtual int rank() const = 0;
  virtual void send(const char* data, std::size_t bytes) = 0;  // to the other rank
  virtual void receive(char* data, std::size_t bytes) = 0;
  // Sends kOutstanding messages of `bytes`, one after the other in memory, all under way at once.
  virtual void send_many(const char* data, std::size_t bytes) = 0;
  virtual void receive_many(char* data, std::size_t bytes) = 0;
  // Makes one more communicator of both ranks and keeps it; false: the library has none.
  virtual bool make_communicator() = 0;
};

using Clock = std::chrono::steady_clock;

inline double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

inline void print(const Library& library, const char* measure, std::size_t bytes, double value) {
  if (library.rank() == 0) std::printf("%s\t%zu\t%.4f\n", measure, bytes, value);
  std::fflush(stdout);
}

// Both ranks call it; rank 0's time counts. `once`: as often as wanted.
inline double median_of_runs(Library& library, const std::function<void()>& once) {
  constexpr double kRun = 4000;  // µs
  int repeats = 1;
  for (;;) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) once();
    // Rank 0 says whether that was long enough, so that both repeat as often.
    char enough = microseconds_since(start) > kRun || repeats >= 1 << 16 ? 1 : 0;
    library.rank() == 0 ? library.send(&enough, 1) : library.receive(&enough, 1);
    if (enough == 1) break;
    repeats *= 2;
  }
  std::vector<double> times;
  for (int run = 0; run < 15; ++run) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) once();
    times.push_back(microseconds_since(start) / repeats);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

inline void measure_messages(Library& library) {
  std::vector<char> mine(kMost, 'a'), others(mine.size());
  for (const std::size_t bytes : kSizes) {
    const auto round = [&] {
      if (library.rank() == 0) {
        library.send(mine.data(), bytes);
        library.receive(others.data(), bytes);
      } else {
        library.receive(others.data(), bytes);
        library.send(mine.data(), bytes);
      }
    };
    print(library, "latency", bytes, median_of_runs(library, round) / 2);
    if (bytes * kOutstanding > mine.size()) continue;
    const auto burst = [&] {
      if (library.rank() == 0) {
        library.send_many(mine.data(), bytes);
        library.receive(others.data(), 8);
      } else {
        library.receive_many(others.data(), bytes);
        library.send(mine.data(), 8);
      }
    };
    print(library, "rate", bytes, median_of_runs(library, burst) / kOutstanding);
    if (others[0] != 'a') std::printf("wrong\t%zu\t1\n", bytes);
  }
}

inline long resident_kib() {
  long kib = 0;
  char line[256];
  std::FILE* status = std::fopen("/proc/self/status", "r");
  while (std::fgets(line, sizeof line, status) != nullptr)
    if (std::sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  std::fclose(status);
  return kib;
}

inline void measure_communicators(Library& library, int count) {
  if (!library.make_communicator()) return;
  const long before = resident_kib();
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) library.make_communicator();
  print(library, "communicator_us", 0, microseconds_since(start) / count);
  print(library, "communicator_kib", 0, static_cast<double>(resident_kib() - before) / count);
}

inline void measure(Library& library, int argc, char** argv) {
  int messages = 1, communicators = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--messages") == 0) messages = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--communicators") == 0) communicators = std::atoi(argv[i + 1]);
  }
  if (messages != 0) measure_messages(library);
  if (communicators > 0) measure_communicators(library, communicators);
}

}  // namespace pairs
