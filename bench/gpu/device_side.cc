#include <algorithm>

#include "bench/gpu/commands.h"
#include "bench/gpu/device_side_kernels.h"
#include "bench/gpu/ranks.h"

namespace weft::gpu {
namespace {

constexpr int kBlocks = 32;  // of a rank
constexpr std::int64_t kTimeout = 5'000'000'000;
constexpr std::size_t kHead = 64;  // words of a heap before its data: counters

// Heaps of all ranks on the current device, and the words that kernels count failures in.
struct Heaps {
  static Result<Heaps> make(Rank ranks, std::size_t words) {
    Heaps heaps;
    std::vector<std::byte*> bases;
    for (Rank r = 0; r < ranks; ++r) {
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
  OfRanks<Work> all() const {
    OfRanks<Work> all{.ranks = static_cast<std::int32_t>(memory.size()),
                      .blocks = kBlocks,
                      .failed = reinterpret_cast<std::uint32_t*>(failed.data())};
    for (Rank r = 0; r < all.ranks; ++r)
      all.heap[r] = {reinterpret_cast<std::byte* const*>(table.data()), r, all.ranks, kTimeout};
    return all;
  }
  std::vector<DeviceMemory> memory;
  DeviceMemory table, failed;
};

// Microseconds of one call, the mean of ten; `prepare` makes the next one ready.
template <class Work, class Prepare>
Result<double> time_of(OfRanks<Work>& all, Prepare&& prepare) {
  constexpr int kWarm = 2, kCalls = 10;
  double sum = 0;
  cudaEvent_t begin = nullptr, end = nullptr;
  WEFT_CHECK(checked(cudaEventCreate(&begin), "cudaEventCreate"));
  WEFT_CHECK(checked(cudaEventCreate(&end), "cudaEventCreate"));
  for (int call = 0; call < kWarm + kCalls; ++call) {
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
  return sum / kCalls;
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
Status dispatch(Rank ranks) {
  constexpr std::size_t kTokens = 1024, kWords = 896;
  WEFT_TRY(const Heaps heaps, Heaps::make(ranks, static_cast<std::size_t>(ranks) * kTokens * kWords));
  auto all = heaps.all<Dispatch>();
  std::vector<DeviceMemory> kept;
  std::vector<std::vector<std::uint64_t>> expected(static_cast<std::size_t>(ranks));
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<std::uint64_t> tokens(kTokens * kWords);
    std::vector<std::int32_t> route(kTokens);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::uint64_t number = static_cast<std::uint64_t>(r) * kTokens + t;
      std::fill_n(tokens.begin() + static_cast<std::ptrdiff_t>(t * kWords), kWords, number);
      route[t] = static_cast<std::int32_t>(number * 2654435761u % 65521 % static_cast<std::uint64_t>(ranks));
      expected[static_cast<std::size_t>(route[t])].push_back(number);
    }
    WEFT_TRY(kept.emplace_back(), on_device(route));
    const auto* const routed = reinterpret_cast<const std::int32_t*>(kept.back().data());
    WEFT_TRY(kept.emplace_back(), on_device(tokens));
    all.work[r] = {.route = routed,
                   .tokens = kept.back().data(),
                   .count = kTokens,
                   .token_bytes = kWords * 8,
                   .slots = reinterpret_cast<std::byte*>(heaps.words(r) + kHead),
                   .arrived = heaps.words(r),
                   .meetings = heaps.words(r) + 1};
  }
  WEFT_TRY(const double microseconds, time_of(all, [&](std::uint64_t times) -> Status {
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
  fmt::print("dispatch   {:>3} ranks, {} tokens of {} B each: {:>9.1f} us\n", ranks, kTokens, kWords * 8, microseconds);
  return {};
}

Status transposition(Rank ranks) {
  constexpr std::size_t kSize = 4096;
  const std::size_t part = kSize * kSize / static_cast<std::size_t>(ranks);
  WEFT_TRY(const Heaps heaps, Heaps::make(ranks, part));
  auto all = heaps.all<Transpose>();
  std::vector<DeviceMemory> outputs;
  for (Rank r = 0; r < ranks; ++r) {
    std::vector<std::uint64_t> rows(part);
    for (std::size_t i = 0; i < part; ++i) rows[i] = static_cast<std::size_t>(r) * part + i;
    WEFT_CHECK(
        checked(cudaMemcpy(heaps.words(r) + kHead, rows.data(), part * 8, cudaMemcpyHostToDevice), "cudaMemcpy"));
    WEFT_TRY(outputs.emplace_back(), DeviceMemory::make(part * 8));
    all.work[r] = {.in = heaps.words(r) + kHead,
                   .out = reinterpret_cast<std::uint64_t*>(outputs.back().data()),
                   .size = kSize,
                   .meetings = heaps.words(r)};
  }
  WEFT_TRY(const double microseconds, time_of(all, [&](std::uint64_t times) -> Status {
             for (Rank r = 0; r < ranks; ++r) all.work[r].times = times;
             return {};
           }));
  for (Rank r = 0; r < ranks; ++r) {
    WEFT_TRY(const auto got, words_at(all.work[r].out, part));
    for (std::size_t i = 0; i < part; ++i) {
      const std::size_t at = static_cast<std::size_t>(r) * part + i;
      if (got[i] != at % kSize * kSize + at / kSize)
        return failure(Code::kMismatch, Blame::kOperation, "rank {} element {}: {}", r, i, got[i]);
    }
  }
  fmt::print("transpose  {:>3} ranks, {} x {} of 8 B: {:>9.1f} us, {:.0f} GB/s read and written\n", ranks, kSize, kSize,
             microseconds, 16.0 * kSize * kSize / microseconds / 1e3);
  return {};
}

}  // namespace

Status device_side(const Options& options) {
  doing("device-side: tokens to experts");
  WEFT_CHECK(dispatch(options.ranks));
  doing("device-side: transposition");
  return transposition(options.ranks);
}

}  // namespace weft::gpu
