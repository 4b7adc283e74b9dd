#include <algorithm>
#include <cstring>

#include "bench/gpu/commands.h"
#include "bench/gpu/ranks.h"
#include "exec/device/flatten.h"
#include "exec/kernels/fold.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/element.h"
#include "tests/device/expected.h"

namespace weft::gpu {
namespace {

using protocol::Protocol;

// Small slots, so that messages take several rounds.
exec::device::Geometry small(Rank ranks) {
  return {.ranks = ranks, .strands = 8, .slot_bytes = 4096, .line_slot_bytes = 2048, .scratch_bytes = 64 << 10};
}

Result<std::vector<std::vector<std::byte>>> fetch(const Ranks& ranks, Rank count, std::size_t bytes) {
  std::vector<std::vector<std::byte>> outputs(static_cast<std::size_t>(count), std::vector<std::byte>(bytes));
  for (Rank r = 0; r < count; ++r)
    WEFT_CHECK(
        checked(cudaMemcpy(outputs[static_cast<std::size_t>(r)].data(), ranks.out(r), bytes, cudaMemcpyDeviceToHost),
                "cudaMemcpy"));
  return outputs;
}

// Wrong data is an error like any other: the caller stops at the first.
Status try_one(Ranks& ranks, const schedule::Task& task, const schedule::Plan& plan) {
  WEFT_CHECK(ranks.prepare(task, plan, DataType::kInt32, ReduceOp::kSum));
  const schedule::Layout layout = layout_of(task);
  std::size_t out = 0;
  for (Rank r = 0; r < task.ranks; ++r) {
    std::vector<std::byte> in(static_cast<std::size_t>(layout.buffer_bytes(schedule::Buffer::kIn, r)));
    tests::fill(r, in);
    WEFT_CHECK(checked(cudaMemcpy(ranks.in(r), in.data(), in.size(), cudaMemcpyHostToDevice), "cudaMemcpy"));
    const auto bytes = static_cast<std::size_t>(layout.buffer_bytes(schedule::Buffer::kOut, r));
    WEFT_CHECK(checked(cudaMemset(ranks.out(r), 0x55, bytes), "cudaMemset"));
    out = std::max(out, bytes);
  }
  WEFT_CHECK(checked(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  WEFT_CHECK(ranks.start());
  WEFT_CHECK(ranks.wait());
  WEFT_TRY(const auto outputs, fetch(ranks, task.ranks, out));
  if (const std::string wrong = tests::compare(task, outputs); !wrong.empty())
    return failure(Code::kMismatch, Blame::kOperation, "wrong data: {}", wrong);
  return {};
}

struct Count {
  // One way that does not work says nothing of the others, but a GPU's time is short.
  static constexpr int kMostWrong = 5;

  int right = 0, refused = 0, wrong = 0;

  // Errors: too many.
  Status take(const std::string& what, const Status& done) {
    if (done) return ++right, Status();
    if (done.error().code == Code::kUnsupported) return ++refused, Status();
    fmt::print("{}: {}\n", what, done.error().message);
    if (++wrong < kMostWrong && done.error().code != Code::kSystem) return {};
    return failure(Code::kMismatch, Blame::kOperation, "check: no further, {} right and {} wrong", right, wrong);
  }
};

Status try_algorithm(const schedule::Algorithm& algorithm, Protocol protocol, const Options& options, Count& count) {
  const Rank n = options.ranks;
  auto ranks = Ranks::open(small(n), options);
  for (const Bytes each : options.brief ? std::vector<Bytes>{601} : std::vector<Bytes>{1, 1181, 17501}) {
    const bool barrier = algorithm.collective == Collective::kBarrier;
    const schedule::Task task{.collective = algorithm.collective,
                              .ranks = n,
                              .root = n - 1,
                              .ranks_per_node = n,
                              .elements = barrier ? 0 : each * schedule::message_parts(algorithm.collective, n),
                              .element_bytes = 4};
    const auto plan = make_plan(task, algorithm, protocol, 1, exec::device::capabilities(small(n)), each > 1);
    const auto cut = schedule::cut_of(task, plan);
    const std::string what = fmt::format("{} by {} {} of {} elements each", schedule::name(algorithm.collective),
                                         algorithm.name, protocol::traits(protocol).name, each);
    doing(what);
    if (!ranks) return tl::make_unexpected(ranks.error());
    const Status done = cut.piece > 0 && cut.round == 0
                            ? failure(Code::kUnsupported, Blame::kInput, "slots are too small")
                            : try_one(**ranks, task, plan);
    const int wrong = count.wrong;
    WEFT_CHECK(count.take(what, done));
    if (count.wrong > wrong) ranks = Ranks::open(small(n), options);  // these have given up for good
  }
  return {};
}

// Bits of the host's kernels for every type and operation.
Status try_arithmetic(const Options& options, Count& count) {
  constexpr std::size_t kElements = 20011;
  const Rank n = options.ranks;
  WEFT_TRY(const auto ranks, Ranks::open(small(n), options));
  WEFT_TRY(const auto* algorithm, collectives::find_algorithm(Collective::kAllReduce, "two_shot"));
  for (int t = 0; t < kDataTypes; ++t)
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kXor}) {
      const auto type = static_cast<DataType>(t);
      if (!applies(type, op)) continue;
      const schedule::Task task{.ranks = n, .elements = kElements, .element_bytes = size_of(type)};
      const auto plan = make_plan(task, *algorithm, Protocol::kDirect, 1, exec::device::capabilities(small(n)), true);
      const std::string what = fmt::format("{} of {}", schedule::name(op), schedule::name(type));
      doing(what);
      WEFT_CHECK(ranks->prepare(task, plan, type, op));
      const std::size_t bytes = kElements * static_cast<std::size_t>(size_of(type));
      std::vector<std::vector<std::byte>> inputs(static_cast<std::size_t>(n), std::vector<std::byte>(bytes));
      std::vector<const std::byte*> sources;
      for (Rank r = 0; r < n; ++r) {
        auto& in = inputs[static_cast<std::size_t>(r)];
        const auto size = static_cast<std::size_t>(size_of(type));
        for (std::size_t i = 0; i < bytes; ++i) {  // floats: exponents in the middle of their range
          const auto bits = static_cast<std::uint8_t>(i * 37 + static_cast<std::size_t>(r) * 11);
          in[i] = is_float(type) && i % size == size - 1 ? std::byte((bits & 0x83) | 0x38) : std::byte{bits};
        }
        sources.push_back(in.data());
        WEFT_CHECK(checked(cudaMemcpy(ranks->in(r), in.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy"));
      }
      WEFT_CHECK(checked(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
      WEFT_CHECK(ranks->start());
      WEFT_CHECK(ranks->wait());
      WEFT_TRY(const auto outputs, fetch(*ranks, n, bytes));
      std::vector<std::byte> expected(bytes);
      std::byte* const out = expected.data();
      exec::fold_for(type, op)(&out, 1, sources.data(), n, static_cast<Bytes>(bytes), nullptr);
      const bool same = std::all_of(outputs.begin(), outputs.end(), [&](const auto& got) { return got == expected; });
      WEFT_CHECK(count.take(
          what, same ? Status() : failure(Code::kMismatch, Blame::kOperation, "not the bits of the host's kernels")));
    }
  return {};
}

}  // namespace

Status check(const Options& options) {
  Count count;
  for (const schedule::Algorithm& algorithm : collectives::algorithms()) {
    if (options.brief && algorithm.name != "ring" && algorithm.name != "two_shot") continue;
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128, Protocol::kDirect})
      if (schedule::fits(algorithm, protocol)) WEFT_CHECK(try_algorithm(algorithm, protocol, options, count));
  }
  if (!options.brief) WEFT_CHECK(try_arithmetic(options, count));
  fmt::print("check {} ranks: {} right, {} that kernels refuse, {} wrong\n", options.ranks, count.right, count.refused,
             count.wrong);
  return count.wrong == 0 ? Status() : failure(Code::kMismatch, Blame::kOperation, "check: {} wrong", count.wrong);
}

}  // namespace weft::gpu
