#include <algorithm>

#include "bench/gpu/commands.h"
#include "bench/gpu/device_side_kernels.h"
#include "bench/gpu/ranks.h"

namespace weft::gpu {
namespace {

// How much a case moves.
struct Sizes {
  int blocks;                  // of a rank
  std::size_t tokens, matrix;  // of a rank; rows and columns of all
  int calls;
  std::uint64_t round_trips;
};
constexpr Sizes kLarge{32, 1024, 4096, 10, 500}, kBrief{2, 24, 128, 2, 5};

constexpr std::size_t kHead = 64;  // words of a heap before its data: counters

// Heaps of all ranks on the current device, and the words that kernels count failures in.
struct Heaps {
  static Result<Heaps> make(const Options& options, std::size_t words) {
    Heaps heaps;
    heaps.timeout = options.timeout;
    std::vector<std::byte*> bases;
    for (Rank r = 0; r < options.ranks; ++r) {
      WEFT_TRY(heaps.memory.emplace_back(), DeviceMemory::make((kHead + words) * 8));
      WEFT_CHECK(checked(cudaMemset(heaps.memory.back().data(), 0, kHead * 8), "cudaMemset"));
      bases.push_back(heaps.memory.back().data());
    }
    WEFT_TRY(heaps.table, DeviceMemory::make(bases.size() * 8));
    WEFT_CHECK(
        checked(cudaMemcpy(heaps.table.data(), bases.data(), bases.size() * 8, cudaMemcpyHostToDevice), "cudaMemcpy"));
    WEFT_TRY(heaps.failed, DeviceMemory::make(4));
    WEFT_CHECK(checked(cudaMemset(heaps.failed.data(), 0, 4), "cudaMemset"));
    return heaps;
  }
  std::uint64_t* words(Rank r) const {
    return reinterpret_cast<std::uint64_t*>(memory[static_cast<std::size_t>(r)].data());
  }
  template <class Work>
  OfRanks<Work> all(const Sizes& sizes) const {
    OfRanks<Work> all{.ranks = static_cast<std::int32_t>(memory.size()),
                      .blocks = sizes.blocks,
                      .failed = reinterpret_cast<std::uint32_t*>(failed.data())};
    for (Rank r = 0; r < all.ranks; ++r)
      all.heap[r] = {reinterpret_cast<std::byte* const*>(table.data()), r, all.ranks,
                     std::chrono::nanoseconds(timeout).count()};
    return all;
  }
  std::vector<DeviceMemory> memory;
  DeviceMemory table, failed;
  std::chrono::seconds timeout{};  // of one wait
};

constexpr int kWarm = 2;  // calls before those that count

// Microseconds of one call, the mean of `calls`; `prepare` makes the next one ready.
template <class Work, class Prepare>
Result<double> time_of(OfRanks<Work>& all, int calls, Prepare&& prepare) {
  double sum = 0;
  cudaEvent_t begin = nullptr, end = nullptr;
  WEFT_CHECK(checked(cudaEventCreate(&begin), "cudaEventCreate"));
  WEFT_CHECK(checked(cudaEventCreate(&end), "cudaEventCreate"));
  for (int call = 0; call < kWarm + calls; ++call) {
    WEFT_CHECK(prepare(static_cast<std::uint64_t>(call) + 1));
    WEFT_CHECK(checked(cudaEventRecord(begin), "cudaEventRecord"));
    WEFT_CHECK(checked(launch(all, nullptr), "launching a kernel"));
    WEFT_CHECK(checked(cudaEventRecord(end), "cudaEventRecord"));
    WEFT_CHECK(checked(cudaEventSynchronize(end), "cudaEventSynchronize"));
    float milliseconds = 0;
    WEFT_CHECK(checked(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime"));
    if (call >= kWarm) sum += milliseconds * 1e3;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::uint32_t failed = 0;
  WEFT_CHECK(checked(cudaMemcpy(&failed, all.failed, 4, cudaMemcpyDeviceToHost), "cudaMemcpy"));
  if (failed != 0) return failure(Code::kTimeout, Blame::kOperation, "{} threads waited too long", failed);
  return sum / calls;
}

template <class T>
Result<DeviceMemory> on_device(const std::vector<T>& values) {
  WEFT_TRY(DeviceMemory memory, DeviceMemory::make(values.size() * sizeof(T)));
  WEFT_CHECK(checked(cudaMemcpy(memory.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
                     "cudaMemcpy"));
  return memory;
}

Result<std::vector<std::uint64_t>> words_at(const void* at, std::size_t count) {
  std::vector<std::uint64_t> words(count);
  WEFT_CHECK(checked(cudaMemcpy(words.data(), at, count * 8, cudaMemcpyDeviceToHost), "cudaMemcpy"));
  return words;
}

// Tokens of 7 KiB (7168 values of fp8), each to one expert.
Status dispatch(const Options& options, const Sizes& sizes) {
  constexpr std::size_t kWords = 896;
  const Rank ranks = options.ranks;
  const std::size_t count = sizes.tokens;
  WEFT_TRY(const Heaps heaps, Heaps::make(options, static_cast<std::size_t>(ranks) * count * kWords));
  auto all = heaps.all<Dispatch>(sizes);
  std::vector<DeviceMemory> kept;
  std::vector<std::vector<std::uint64_t>> expected(static_cast<std::size_t>(ranks));
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<std::uint64_t> tokens(count * kWords);
    std::vector<std::int32_t> route(count);
    for (std::size_t t = 0; t < count; ++t) {
      const std::uint64_t number = static_cast<std::uint64_t>(r) * count + t;
      std::fill_n(tokens.begin() + static_cast<std::ptrdiff_t>(t * kWords), kWords, number);
      route[t] = static_cast<std::int32_t>(number * 2654435761u % 65521 % static_cast<std::uint64_t>(ranks));
      expected[static_cast<std::size_t>(route[t])].push_back(number);
    }
    WEFT_TRY(kept.emplace_back(), on_device(route));
    const auto* const routed = reinterpret_cast<const std::int32_t*>(kept.back().data());
    WEFT_TRY(kept.emplace_back(), on_device(tokens));
    all.work[r] = {.route = routed,
                   .tokens = kept.back().data(),
                   .count = static_cast<std::int32_t>(count),
                   .token_bytes = kWords * 8,
                   .slots = reinterpret_cast<std::byte*>(heaps.words(r) + kHead),
                   .arrived = heaps.words(r),
                   .meetings = heaps.words(r) + 1};
  }
  WEFT_TRY(const double microseconds, time_of(all, sizes.calls, [&](std::uint64_t times) -> Status {
             for (Rank r = 0; r < ranks; ++r) {
               all.work[r].times = times;
               WEFT_CHECK(checked(cudaMemset(heaps.words(r), 0, 8), "cudaMemset"));
             }
             return {};
           }));
  for (Rank r = 0; r < ranks; ++r) {
    auto& wanted = expected[static_cast<std::size_t>(r)];
    WEFT_TRY(const auto got, words_at(heaps.words(r) + kHead, wanted.size() * kWords));
    std::vector<std::uint64_t> numbers;
    for (std::size_t w = 0; w < got.size(); w += kWords) {
      if (got[w] != got[w + kWords - 1]) return failure(Code::kMismatch, Blame::kOperation, "a token is torn");
      numbers.push_back(got[w]);
    }
    std::sort(numbers.begin(), numbers.end());
    if (numbers != wanted) return failure(Code::kMismatch, Blame::kOperation, "rank {} has other tokens", r);
  }
  fmt::print("dispatch   {:>3} ranks, {} tokens of {} B each: {:>9.1f} us\n", ranks, count, kWords * 8, microseconds);
  return {};
}

Status transposition(const Options& options, const Sizes& sizes) {
  const Rank ranks = options.ranks;
  const std::size_t size = sizes.matrix, part = size * size / static_cast<std::size_t>(ranks);
  WEFT_TRY(const Heaps heaps, Heaps::make(options, part));
  auto all = heaps.all<Transpose>(sizes);
  std::vector<DeviceMemory> outputs;
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<std::uint64_t> rows(part);
    for (std::size_t i = 0; i < part; ++i) rows[i] = static_cast<std::size_t>(r) * part + i;
    WEFT_CHECK(
        checked(cudaMemcpy(heaps.words(r) + kHead, rows.data(), part * 8, cudaMemcpyHostToDevice), "cudaMemcpy"));
    WEFT_TRY(outputs.emplace_back(), DeviceMemory::make(part * 8));
    all.work[r] = {.in = heaps.words(r) + kHead,
                   .out = reinterpret_cast<std::uint64_t*>(outputs.back().data()),
                   .size = static_cast<std::int32_t>(size),
                   .meetings = heaps.words(r)};
  }
  WEFT_TRY(const double microseconds, time_of(all, sizes.calls, [&](std::uint64_t times) -> Status {
             for (Rank r = 0; r < ranks; ++r) all.work[r].times = times;
             return {};
           }));
  for (Rank r = 0; r < ranks; ++r) {
    WEFT_TRY(const auto got, words_at(all.work[r].out, part));
    for (std::size_t i = 0; i < part; ++i) {
      const std::size_t at = static_cast<std::size_t>(r) * part + i;
      if (got[i] != at % size * size + at / size)
        return failure(Code::kMismatch, Blame::kOperation, "rank {} element {}: {}", r, i, got[i]);
    }
  }
  fmt::print("transpose  {:>3} ranks, {} x {} of 8 B: {:>9.1f} us, {:.0f} GB/s read and written\n", ranks, size, size,
             microseconds, 16.0 * static_cast<double>(size * size) / microseconds / 1e3);
  return {};
}

// Microseconds from a put by rank 0 to the end of the peer's wait for its signal, and likewise back.
Result<double> hop_of(const Options& options, const Sizes& sizes, Group group, std::size_t bytes) {
  const std::size_t words = bytes / 8;
  Options pair = options;
  pair.ranks = 2;
  WEFT_TRY(const Heaps heaps, Heaps::make(pair, 2 * words));
  auto all = heaps.all<PingPongBy>(sizes);
  all.blocks = 1;
  double times[2] = {};
  for (const std::uint64_t round_trips : {std::uint64_t{1}, 1 + sizes.round_trips}) {  // the difference has no launch
    for (Rank r = 0; r < 2; ++r) {
      std::uint64_t* const own = heaps.words(r) + kHead;
      WEFT_CHECK(checked(cudaMemset(own, 0, 2 * bytes), "cudaMemset"));
      all.work[r] = {{.inbox = own,
                      .outbox = own + words,
                      .bytes = std::int64_t(bytes),
                      .arrived = heaps.words(r),
                      .times = round_trips},
                     group};
    }
    WEFT_TRY(times[round_trips > 1], time_of(all, sizes.calls, [&](std::uint64_t) -> Status {
               for (Rank r = 0; r < 2; ++r) WEFT_CHECK(checked(cudaMemset(heaps.words(r), 0, 8), "cudaMemset"));
               return {};
             }));
    const std::uint64_t calls = static_cast<std::uint64_t>(kWarm + sizes.calls);
    WEFT_TRY(const auto got, words_at(all.work[0].outbox, words));
    for (const std::uint64_t word : got)
      if (word != 2 * round_trips * calls)
        return failure(Code::kMismatch, Blame::kOperation, "a word is {} after {} hops", word, 2 * round_trips * calls);
  }
  return (times[1] - times[0]) / (2.0 * static_cast<double>(sizes.round_trips));
}

Status hops_by_kernels(const Options& options, const Sizes& sizes) {
  fmt::print("# put_signal, wait, and every word counted up; us of a hop between two ranks\n");
  fmt::print("# by         8 B    1 KiB   64 KiB\n");
  for (const auto& [name, group] :
       {std::pair{"thread", Group::kThread}, std::pair{"warp", Group::kWarp}, std::pair{"block", Group::kBlock}}) {
    doing(fmt::format("device-side: hops by a {}", name));
    fmt::print("{:<8}", name);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 10, std::size_t{64} << 10}) {
      if (group == Group::kThread && bytes > 1 << 10) continue;
      WEFT_TRY(const double microseconds, hop_of(options, sizes, group, bytes));
      fmt::print(" {:>8.2f}", microseconds);
    }
    fmt::print("\n");
  }
  return {};
}

}  // namespace

Status device_side(const Options& options) {
  const Sizes& sizes = options.brief ? kBrief : kLarge;
  WEFT_CHECK(hops_by_kernels(options, sizes));
  doing("device-side: tokens to experts");
  WEFT_CHECK(dispatch(options, sizes));
  doing("device-side: transposition");
  return transposition(options, sizes);
}

}  // namespace weft::gpu
