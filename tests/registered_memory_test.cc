// Memory of the caller's that becomes registered where it is: what it holds stays, calls on it are right at every
// moment, and what cannot be registered is refused by name.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/connected_job.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 1 << 18, kBytes = kCount * sizeof(float);

// Memory of whole pages.
struct Pages {
  explicit Pages(std::size_t size = kBytes) : bytes(size) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Pages() { munmap(data, bytes); }
  Pages(const Pages&) = delete;
  float* floats() const { return static_cast<float*>(data); }
  void* data;
  std::size_t bytes;
};

void fill(float* data, std::size_t count, Rank rank) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(rank * 1000 + static_cast<Rank>(i % 977));
}

// An all_gather of `in` into `out`, right or not.
std::string gathers(Communicator& c, float* in, float* out, std::size_t count) {
  fill(in, count, c.rank());
  if (const Status s = c.all_gather<float>({in, count}, {out, count * static_cast<std::size_t>(c.ranks())}); !s)
    return s.error().message;
  for (Rank r = 0; r < c.ranks(); ++r)
    for (std::size_t i = 0; i < count; ++i)
      if (out[static_cast<std::size_t>(r) * count + i] != static_cast<float>(r * 1000 + static_cast<Rank>(i % 977)))
        return fmt::format("element {} of rank {} is {}", i, r, out[static_cast<std::size_t>(r) * count + i]);
  return "";
}

using Body = std::string (*)(Communicator&);

void run(Rank ranks, const char* transport, Body body) {
  const ConnectOptions options{.transport = transport, .node = std::string(transport) == "shm+tcp" ? "registered" : ""};
  tests::ConnectedJob job(ranks, options,
                          [&](Communicator& c, tests::Report&, tests::NoticeBoard&) { return body(c); });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

std::string wrong(const char* what, bool right) { return right ? "" : what; }

// Before, while and after it is registered, on some ranks and not on others, in windows in which peers load it and not.
std::string keeps_what_it_holds(Communicator& c) {
  const Pages in, out(kBytes * static_cast<std::size_t>(c.ranks()));
  fill(in.floats(), kCount, 7);
  for (int round = 0; round < 4; ++round) {
    auto mine = c.register_memory(in.data, in.bytes);
    if (!mine) return mine.error().message;
    if (in.floats()[kCount - 1] != static_cast<float>(7000 + (kCount - 1) % 977) && round == 0) return "lost its bytes";
    Result<RegisteredMemory> result = RegisteredMemory();
    if ((c.rank() + round) % 3 != 0) result = c.register_memory(out.data, out.bytes);
    if (!result) return result.error().message;
    for (int call = 0; call < 9; ++call)
      if (const auto why = gathers(c, in.floats(), out.floats(), kCount >> call % 3 * 4); !why.empty())
        return fmt::format("round {}, registered, call {}: {}", round, call, why);
    *mine = RegisteredMemory(), *result = RegisteredMemory();
    for (int call = 0; call < 9; ++call)
      if (const auto why = gathers(c, in.floats(), out.floats(), kCount >> call % 3 * 4); !why.empty())
        return fmt::format("round {}, given back, call {}: {}", round, call, why);
  }
  return "";
}

TEST(RegisteredMemory, KeepsWhatItHoldsAndCallsOnItAreRight) {
  for (const char* transport : {"shm", "tcp", "shm+tcp"})
    for (const Rank ranks : {2, 3}) {
      SCOPED_TRACE(fmt::format("{} {}", transport, ranks));
      run(ranks, transport, keeps_what_it_holds);
    }
}

// A call that goes beyond the registered range, one that lies within it, in place, and one of a group made by split().
std::string parts_and_groups(Communicator& c) {
  const std::size_t n = static_cast<std::size_t>(c.ranks());
  const Pages all(2 * n * kBytes);
  auto some = c.register_memory(all.data, n * kBytes);
  if (!some) return some.error().message;
  auto group = c.split(0, -c.rank());
  if (!group) return group.error().message;
  for (int call = 0; call < 6; ++call)
    for (Communicator* const comm : {&c, &*group}) {
      float* const own = all.floats() + static_cast<std::size_t>(comm->rank()) * kCount;
      if (const auto why = gathers(*comm, own, all.floats(), kCount); !why.empty()) return "in place: " + why;
      float* const across = all.floats() + kCount / 2;  // its end is not registered
      if (const auto why = gathers(*comm, across + n * kCount, across, kCount); !why.empty()) return "across: " + why;
    }
  return "";
}

TEST(RegisteredMemory, IsUsedWhereAllOfACallLiesInItAndByGroups) { run(3, "shm", parts_and_groups); }

// What an operation uses is given back at its end, whenever its registration ends.
std::string ends_while_a_call_runs(Communicator& c) {
  const Pages in, out(kBytes * static_cast<std::size_t>(c.ranks()));
  for (int round = 0; round < 8; ++round) {
    std::optional<RegisteredMemory> registered[2];
    for (int i = 0; i < 2; ++i) {
      auto one = i == 0 ? c.register_memory(in.data, in.bytes) : c.register_memory(out.data, out.bytes);
      if (!one) return one.error().message;
      registered[i] = std::move(*one);
    }
    fill(in.floats(), kCount, c.rank());
    auto work = c.start({.collective = Collective::kAllGather,
                         .in = in.data,
                         .out = out.data,
                         .count = kCount,
                         .type = DataType::kFloat32});
    if (!work) return work.error().message;
    registered[0].reset(), registered[1].reset();
    if (const Status done = work->wait(); !done) return done.error().message;
    for (Rank r = 0; r < c.ranks(); ++r)
      if (out.floats()[static_cast<std::size_t>(r) * kCount + 5] != static_cast<float>(r * 1000 + 5))
        return fmt::format("round {}: wrong", round);
  }
  return "";
}

TEST(RegisteredMemory, StaysUntilTheCallsThatUseItHaveEnded) { run(2, "shm", ends_while_a_call_runs); }

std::string large_allocations(Communicator& c) {
  constexpr std::size_t kLarge = std::size_t{40} << 20;  // more than malloc's largest threshold
  auto* const plain = static_cast<float*>(std::malloc(kLarge));
  void* aligned = nullptr;
  if (posix_memalign(&aligned, 64, kLarge) != 0) return "no memory";
  fill(plain, kLarge / 4, 3);
  {
    const auto a = c.register_memory(plain, kLarge), b = c.register_memory(aligned, kLarge);
    if (!a) return a.error().message;
    if (!b) return b.error().message;
    if (!a->shared() || !b->shared()) return "not shared";
    if (plain[kLarge / 4 - 1] != static_cast<float>(3000 + (kLarge / 4 - 1) % 977)) return "lost its bytes";
    const std::size_t count = kLarge / 4 / static_cast<std::size_t>(c.ranks());
    for (int call = 0; call < 3; ++call)
      if (const auto why = gathers(c, plain, static_cast<float*>(aligned), count); !why.empty()) return why;
  }
  plain[0] = 1;
  auto* const grown = static_cast<float*>(std::realloc(plain, 2 * kLarge));
  const bool kept = grown != nullptr && grown[0] == 1;
  std::free(grown);
  std::free(aligned);
  return wrong("realloc lost its bytes", kept);
}

TEST(RegisteredMemory, MayBeALargeAllocationOfMalloc) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's malloc keeps no words before an allocation";
#endif
  run(2, "shm", large_allocations);
}

std::string refuses(Communicator& c) {
  const Pages pages(1 << 16);
  auto* const bytes = static_cast<std::byte*>(pages.data);
  const auto says = [&](void* data, std::size_t size, const char* why) -> std::string {
    const auto got = c.register_memory(data, size);
    if (got) return fmt::format("took what {}", why);
    const std::string& message = got.error().message;
    return wrong(message.c_str(), got.error().code == Code::kInvalidArgument && message.find(why) != std::string::npos);
  };
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* const constant = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int fd = open("/proc/self/exe", O_RDONLY);
  void* const file = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  close(fd);
  const Pages hole(3 * 4096);
  munmap(static_cast<std::byte*>(hole.data) + 4096, 4096);
  alignas(4096) std::byte stack[8192];
  stack[0] = {};
  const auto first = c.register_memory(bytes + 4096, 4096);
  if (!first) return first.error().message;
  std::vector<std::string> all = {
      says(nullptr, 4096, "is null"),
      says(bytes, 0, "0 bytes"),
      says(bytes, ~std::size_t{0}, "bytes at"),
      says(hole.data, hole.bytes, "is not mapped"),
      says(bytes + 100, 4096, "share pages of"),
      says(bytes, 100, "share pages of"),
      says(shared, 4096, "is shared already"),
      says(bytes, 3 * 4096, "is shared already"),
      says(constant, 4096, "cannot be written"),
      says(file, 4096, "belongs to /"),
      says(stack, 4096, "is a stack"),
  };
  munmap(shared, 4096), munmap(constant, 4096), munmap(file, 4096);
  std::string text;
  for (const std::string& one : all) text += one;
  const auto again = c.register_memory(bytes + 4096, 4096);  // what peers reach needs nothing
  return text + wrong("twice", !again);
}

TEST(RegisteredMemory, WhatCannotBeIsRefusedWithItsReason) { run(2, "shm", refuses); }

// A program that frees what is still registered has made a mistake; what comes to lie there is not touched.
std::string freed_too_early(Communicator& c) {
  void* const place = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::optional<RegisteredMemory> registered;
  if (auto one = c.register_memory(place, kBytes)) registered = std::move(*one);
  munmap(place, kBytes);
  void* const other =
      mmap(place, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (other != place) return "";
  std::memset(other, 0x5a, kBytes);
  registered.reset();
  const bool whole = static_cast<const unsigned char*>(other)[kBytes / 2] == 0x5a;
  munmap(other, kBytes);
  return wrong("what was not registered has changed", whole);
}

TEST(RegisteredMemory, OfWhichTheProgramHasFreedTheMemoryTouchesNothing) { run(2, "shm", freed_too_early); }

std::string children(Communicator& c) {
  const Pages in, out(kBytes * static_cast<std::size_t>(c.ranks()));
  std::optional<RegisteredMemory> registered;
  if (auto one = c.register_memory(in.data, in.bytes)) registered = std::move(*one);
  if (const pid_t child = fork(); child == 0) {
    registered.reset();
    _exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  for (int call = 0; call < 4; ++call)
    if (const auto why = gathers(c, in.floats(), out.floats(), kCount); !why.empty()) return why;
  return "";
}

TEST(RegisteredMemory, AForkedChildEndsNothing) { run(2, "shm", children); }

TEST(RegisteredMemory, RanksThatAreThreadsNeedNone) {
  auto comms = Communicator::threads(1);
  ASSERT_TRUE(comms);
  int word = 0;
  const auto registered = comms->front().register_memory(&word, sizeof word);
  ASSERT_TRUE(registered) << registered.error().message;
  EXPECT_FALSE(registered->shared());
  EXPECT_FALSE(comms->front().register_memory(nullptr, 4));
}

}  // namespace
}  // namespace weft
