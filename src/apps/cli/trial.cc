#include "apps/cli/trial.h"

#include <algorithm>
#include <chrono>

#include "apps/cli/pattern.h"

namespace weft::cli {

using schedule::Buffer;

Bytes Trial::memory_for(const schedule::Task& task, Rank rank) {
  const schedule::Layout layout = layout_of(task);
  return std::max({layout.buffer_bytes(Buffer::kIn, rank), layout.buffer_bytes(Buffer::kOut, rank), Bytes{64}});
}

Trial::Trial(Communicator& communicator, const Spec& spec, std::byte* in, std::byte* out)
    : comm_(communicator), spec_(spec), layout_(layout_of(spec.task)) {
  const schedule::Task& task = spec.task;
  const Rank self = comm_.rank(), ranks = comm_.ranks();
  if (spec.in_place) {
    const schedule::InPlace at = schedule::in_place(layout_, self);
    out = in + at.out;
    in += at.in;
  }
  Bytes count = task.elements / schedule::message_parts(task.collective, ranks);
  if (schedule::uneven(task.collective)) {
    count = 0;
    const bool pairs = task.collective == Collective::kAllToAllV;
    for (Rank r = 0; r < ranks; ++r) {
      counts_.push_back(
          static_cast<std::size_t>((*task.counts)[static_cast<std::size_t>(pairs ? self * ranks + r : r)]));
      if (pairs)
        receive_counts_.push_back(static_cast<std::size_t>((*task.counts)[static_cast<std::size_t>(r * ranks + self)]));
    }
  }
  if (schedule::routed(task.collective)) table_ = schedule::table_of(schedule::or_shown(task.routes.get(), ranks));
  const bool reduces = schedule::reduces(task.collective);
  request_ = {.collective = task.collective,
              .in = in,
              .out = out,
              .count = static_cast<std::size_t>(count),
              .counts = counts_,
              .receive_counts = receive_counts_,
              .experts = table_.experts,
              .per_token = schedule::routed(task.collective) ? table_.per_token : 0,
              .expert_count = schedule::routed(task.collective) ? ranks : 0,
              .type = spec.type,
              .op = reduces ? spec.op : ReduceOp::kSum,
              .scalar = reduces && spec.op == ReduceOp::kPremulSum ? std::optional(scalar_of(self)) : std::nullopt,
              .root = task.root,
              .reproducible = spec.reproducible,
              .algorithm = spec.algorithm,
              .protocol = spec.protocol,
              .channels = spec.channels};
}

Status Trial::run() {
  with_type(spec_.type, [&](auto sample) {
    using T = decltype(sample);
    const auto n = static_cast<std::size_t>(layout_.buffer_bytes(Buffer::kIn, comm_.rank())) / sizeof(T);
    fill_input(std::span<T>(const_cast<T*>(static_cast<const T*>(request_.in)), n), layout_, comm_.rank());
  });
  return comm_.run(request_);
}

Result<std::int64_t> Trial::count_errors() {
  const std::int64_t mine = with_type(spec_.type, [&](auto sample) {
    using T = decltype(sample);
    const auto n = static_cast<std::size_t>(layout_.buffer_bytes(Buffer::kOut, comm_.rank())) / sizeof(T);
    return wrong_elements(std::span<const T>(static_cast<const T*>(request_.out), n), layout_, comm_.rank(),
                          request_.op);
  });
  std::int64_t all = 0;
  WEFT_CHECK(comm_.all_reduce(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(&all, 1)));
  return all;
}

Result<Duration> Trial::time(std::int64_t n, double run_seconds) {
  constexpr int kRuns = 7;
  if (n == 0) {
    n = 1;
    WEFT_TRY(double once, run_of(1));
    WEFT_TRY(once, run_of(std::clamp<std::int64_t>(static_cast<std::int64_t>(run_seconds / 10 / once), 1, 1000)));
    n = std::clamp<std::int64_t>(static_cast<std::int64_t>(run_seconds / once), 1, 100000);
  }
  std::vector<double> runs;
  for (int i = 0; i < kRuns; ++i) {
    WEFT_TRY(const double seconds, run_of(n));
    runs.push_back(seconds);
  }
  std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
  return Duration::seconds(runs[kRuns / 2]);
}

Status Trial::settle(double seconds) {
  for (std::int64_t n = 1; seconds > 0; n = std::min<std::int64_t>(2 * n, 1000)) {
    WEFT_TRY(const double each, run_of(n));
    seconds -= each * static_cast<double>(n);
  }
  return {};
}

// Seconds per operation; equal on all ranks.
Result<double> Trial::run_of(std::int64_t n) {
  using Clock = std::chrono::steady_clock;
  WEFT_CHECK(comm_.barrier());
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; ++i) WEFT_CHECK(comm_.run(request_));
  const double mine = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(n);
  std::vector<double> all(static_cast<std::size_t>(comm_.ranks()));
  WEFT_CHECK(comm_.all_gather(std::span<const double>(&mine, 1), std::span<double>(all)));
  return *std::max_element(all.begin(), all.end());
}

}  // namespace weft::cli
