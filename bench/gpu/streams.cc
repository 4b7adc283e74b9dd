#include "api/session/request.h"
#include "api/stream/copies.h"
#include "bench/gpu/commands.h"
#include "bench/gpu/device_side_kernels.h"
#include "bench/gpu/ranks.h"
#include "plan/schedule/element.h"
#include "tests/device/expected.h"

namespace weft::gpu {
namespace {

using stream::By;
using stream::Call;

// Ranks on the current device, each with a stream, and buffers for one request.
class Job {
 public:
  static Result<std::unique_ptr<Job>> open(const Options& options) {
    auto job = std::make_unique<Job>();
    WEFT_TRY(const auto runtime, stream::open_runtime("cuda"));
    const std::vector<int> devices(static_cast<std::size_t>(options.ranks), 0);
    WEFT_TRY(job->group_, stream::Group::open(runtime, devices, options.timeout));
    for (Rank r = 0; r < options.ranks; ++r) {
      job->members_.push_back(std::make_unique<stream::Member>(job->group_, r));
      WEFT_TRY(job->streams_.emplace_back(), runtime->device->make_stream());
    }
    return job;
  }

  cudaStream_t stream(Rank r) const { return static_cast<cudaStream_t>(streams_[static_cast<std::size_t>(r)].get()); }
  Rank ranks() const { return group_->ranks(); }

  Result<std::vector<Call>> calls(const Request& request) {
    ins_.clear(), outs_.clear();
    std::vector<Call> all;
    for (Rank r = 0; r < ranks(); ++r) {
      const schedule::Layout layout = layout_of(session::task_of(request, r, ranks(), ranks()));
      std::vector<std::byte> in(static_cast<std::size_t>(layout.buffer_bytes(schedule::Buffer::kIn, r)));
      tests::fill(r, in);
      WEFT_TRY(ins_.emplace_back(), DeviceMemory::make(in.size()));
      WEFT_TRY(outs_.emplace_back(),
               DeviceMemory::make(static_cast<std::size_t>(layout.buffer_bytes(schedule::Buffer::kOut, r))));
      WEFT_CHECK(checked(cudaMemcpy(ins_.back().data(), in.data(), in.size(), cudaMemcpyHostToDevice), "cudaMemcpy"));
      Request own = request;
      own.in = ins_.back().data(), own.out = outs_.back().data();
      all.push_back({.member = members_[static_cast<std::size_t>(r)].get(), .request = own, .stream = stream(r)});
    }
    WEFT_CHECK(settled());
    return all;
  }
  // Errors: trouble on the device, wrong data.
  Status check(const Request& request) {
    WEFT_CHECK(settled());
    std::vector<std::vector<std::byte>> outputs;
    for (Rank r = 0; r < ranks(); ++r) {
      WEFT_CHECK(group_->trouble(r));
      const auto bytes =
          layout_of(session::task_of(request, r, ranks(), ranks())).buffer_bytes(schedule::Buffer::kOut, r);
      auto& out = outputs.emplace_back(static_cast<std::size_t>(bytes));
      void* const memory = outs_[static_cast<std::size_t>(r)].data();
      WEFT_CHECK(checked(cudaMemcpy(out.data(), memory, out.size(), cudaMemcpyDeviceToHost), "cudaMemcpy"));
      WEFT_CHECK(checked(cudaMemset(memory, 0x55, std::max<std::size_t>(out.size(), 1)), "cudaMemset"));
    }
    WEFT_CHECK(settled());
    const std::string wrong = tests::compare(session::task_of(request, 0, ranks(), ranks()), outputs);
    if (wrong.empty()) return {};
    return failure(Code::kMismatch, Blame::kOperation, "{}: {}", schedule::name(request.collective), wrong);
  }

  // All streams behind the first, and the first behind all.
  Status fork() { return order(0, true); }
  Status join() { return order(0, false); }

 private:
  Status order(Rank first, bool forks) {
    for (Rank r = 1; r < ranks(); ++r) {
      WEFT_TRY(const auto event, group_->device().make_event());
      WEFT_CHECK(group_->device().record(*event, stream(forks ? first : r)));
      WEFT_CHECK(group_->device().wait(*event, stream(forks ? r : first)));
    }
    return {};
  }
  std::shared_ptr<stream::Group> group_;
  std::vector<std::unique_ptr<stream::Member>> members_;
  std::vector<std::shared_ptr<void>> streams_;
  std::vector<DeviceMemory> ins_, outs_;
};

Status begin(std::span<const Call> calls, By by) {
  return by == By::kCopies ? stream::start_copies(calls) : stream::start(calls);
}

Status replay(Job& job, const Request& request, By by) {
  WEFT_TRY(const auto calls, job.calls(request));
  WEFT_CHECK(checked(cudaStreamBeginCapture(job.stream(0), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture"));
  WEFT_CHECK(job.fork());
  WEFT_CHECK(begin(calls, by));
  WEFT_CHECK(job.join());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  WEFT_CHECK(checked(cudaStreamEndCapture(job.stream(0), &graph), "cudaStreamEndCapture"));
  WEFT_CHECK(checked(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate"));
  for (int times = 0; times < 3; ++times) {
    WEFT_CHECK(checked(cudaGraphLaunch(ready, job.stream(0)), "cudaGraphLaunch"));
    WEFT_CHECK(job.check(request));
  }
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  return {};
}

// Microseconds by the host's clock around work that ends with the device idle; the mean of five after one.
Result<double> time_of(const std::function<Status()>& work) {
  constexpr int kCalls = 5;
  std::chrono::steady_clock::time_point since;
  for (int call = -1; call < kCalls; ++call) {
    if (call == 0) since = std::chrono::steady_clock::now();
    WEFT_CHECK(work());
    WEFT_CHECK(settled());
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count() / kCalls;
}

}  // namespace

Status streams(const Options& options) {
  WEFT_TRY(const auto job, Job::open(options));
  int right = 0;
  for (const Collective collective : schedule::kCollectives) {
    if (!schedule::alike(collective) || collective == Collective::kBarrier) continue;
    for (const std::size_t count : {std::size_t{7}, std::size_t{1} << 20})
      for (const By by : {By::kKernels, By::kCopies}) {
        if (by == By::kCopies && schedule::reduces(collective)) continue;
        const Request request{.collective = collective, .count = count, .type = DataType::kInt32};
        WEFT_TRY(const auto calls, job->calls(request));
        const char* const means = by == By::kCopies ? "copies" : "kernels";
        doing(fmt::format("{} of {} by {}, called", schedule::name(collective), count, means));
        WEFT_CHECK(begin(calls, by));
        WEFT_CHECK(job->check(request));
        doing(fmt::format("{} of {} by {}, as a graph", schedule::name(collective), count, means));
        WEFT_CHECK(replay(*job, request, by));
        ++right;
      }
  }
  fmt::print("streams {} ranks: {} right, called and as a graph\n", options.ranks, right);
  return {};
}

Status overlap(const Options& options) {
  WEFT_TRY(const auto job, Job::open(options));
  const Request gather{.collective = Collective::kAllGather, .count = std::size_t{16} << 20, .type = DataType::kInt32};
  WEFT_TRY(const auto calls, job->calls(gather));
  WEFT_TRY(const DeviceMemory result, DeviceMemory::make(4));
  cudaStream_t own = nullptr;
  WEFT_CHECK(checked(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "cudaStreamCreate"));
  int processors = 0;
  WEFT_CHECK(checked(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute"));
  const auto compute = [&](int rounds) {
    return checked(launch_compute(reinterpret_cast<float*>(result.data()), processors, rounds, own),
                   "launching a kernel");
  };
  fmt::print("# all_gather of {} MiB on {} ranks beside a kernel that computes on every multiprocessor; us\n",
             gather.count * 4 * static_cast<std::size_t>(options.ranks) >> 20, options.ranks);
  fmt::print("# by         alone  compute alone  both   hidden\n");
  for (const By by : {By::kCopies, By::kKernels}) {
    WEFT_TRY(const double alone, time_of([&] { return begin(calls, by); }));
    constexpr int kRounds = 100'000;
    WEFT_TRY(const double per_round, time_of([&] { return compute(kRounds); }));
    const int rounds = static_cast<int>(kRounds * alone / per_round) + 1;  // about as long as the collective
    WEFT_TRY(const double computing, time_of([&] { return compute(rounds); }));
    WEFT_TRY(const double both, time_of([&]() -> Status {
               WEFT_CHECK(compute(rounds));
               return begin(calls, by);
             }));
    WEFT_CHECK(job->check(gather));
    fmt::print("{:<10} {:>7.1f} {:>14.1f} {:>6.1f} {:>7.0f}%\n", by == By::kCopies ? "copies" : "kernels", alone,
               computing, both, 100 * (alone + computing - both) / std::min(alone, computing));
  }
  cudaStreamDestroy(own);
  return {};
}

}  // namespace weft::gpu
