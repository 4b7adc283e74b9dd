#include "bench/gpu/ranks.h"

#include "exec/device/flatten.h"

namespace weft::gpu {

using exec::device::Frame;
using exec::device::Header;

Status checked(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  return failure(Code::kSystem, Blame::kProcess, "{}: {}", call, cudaGetErrorString(error));
}

Status settled() { return checked(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

Result<DeviceMemory> DeviceMemory::make(std::size_t bytes) {
  DeviceMemory memory;
  WEFT_CHECK(checked(cudaMalloc(&memory.at_, std::max<std::size_t>(bytes, 256)), "cudaMalloc"));
  return memory;
}

Result<std::unique_ptr<Ranks>> Ranks::open(const exec::device::Geometry& geometry, const Options& options) {
  std::unique_ptr<Ranks> ranks(new Ranks(geometry, options));
  WEFT_TRY(ranks->kernels_, exec::device::cuda_kernels());
  std::vector<std::byte*> addresses;
  const auto bytes = static_cast<std::size_t>(geometry.total_bytes());
  for (Rank r = 0; r < geometry.ranks; ++r) {
    WEFT_TRY(ranks->regions_.emplace_back(), DeviceMemory::make(bytes));
    WEFT_CHECK(checked(cudaMemset(ranks->regions_.back().data(), 0, bytes), "cudaMemset"));
    addresses.push_back(ranks->regions_.back().data());
    WEFT_CHECK(
        checked(cudaStreamCreateWithFlags(&ranks->streams_.emplace_back(), cudaStreamNonBlocking), "cudaStreamCreate"));
    WEFT_CHECK(
        checked(cudaEventCreateWithFlags(&ranks->ends_.emplace_back(), cudaEventDisableTiming), "cudaEventCreate"));
  }
  WEFT_CHECK(checked(cudaEventCreate(&ranks->begin_), "cudaEventCreate"));
  WEFT_CHECK(checked(cudaEventCreate(&ranks->end_), "cudaEventCreate"));
  WEFT_TRY(ranks->table_, DeviceMemory::make(addresses.size() * sizeof(std::byte*)));
  WEFT_CHECK(checked(
      cudaMemcpy(ranks->table_.data(), addresses.data(), addresses.size() * sizeof(std::byte*), cudaMemcpyHostToDevice),
      "cudaMemcpy"));
  WEFT_CHECK(settled());
  return ranks;
}

Ranks::~Ranks() {
  cudaDeviceSynchronize();
  for (cudaStream_t s : streams_) cudaStreamDestroy(s);
  for (cudaEvent_t e : ends_) cudaEventDestroy(e);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
}

Status Ranks::prepare(const schedule::Task& task, const schedule::Plan& plan, DataType type, ReduceOp op) {
  const schedule::Layout layout = layout_of(task);
  std::vector<schedule::Program> programs;
  Bytes in = 0, out = 0;
  for (Rank r = 0; r < task.ranks; ++r) {
    programs.push_back(schedule::lower(task, plan, r));
    in = std::max(in, layout.buffer_bytes(schedule::Buffer::kIn, r));
    out = std::max(out, layout.buffer_bytes(schedule::Buffer::kOut, r));
  }
  return prepare(programs, plan.protocol, plan.algorithm->needs.memory(), type, op, static_cast<std::size_t>(in),
                 static_cast<std::size_t>(out));
}

Status Ranks::prepare(std::span<const schedule::Program> programs, protocol::Protocol protocol, bool publishes,
                      DataType type, ReduceOp op, std::size_t in_bytes, std::size_t out_bytes) {
  type_ = type;
  const auto grow = [&](std::vector<DeviceMemory>& memory, std::size_t& have, std::size_t want) -> Status {
    if (have >= want && memory.size() == programs.size()) return {};
    memory.clear();
    have = std::max(have, want);
    for (std::size_t r = 0; r < programs.size(); ++r) {
      WEFT_TRY(memory.emplace_back(), DeviceMemory::make(have));
    }
    return {};
  };
  WEFT_CHECK(grow(ins_, in_bytes_, in_bytes));
  WEFT_CHECK(grow(outs_, out_bytes_, out_bytes));
  images_.clear(), frames_.clear();
  strands_ = static_cast<int>(programs.front().size());
  for (std::size_t r = 0; r < programs.size(); ++r) {
    WEFT_TRY(const auto image, exec::device::flatten(programs[r], protocol, geometry_));
    WEFT_TRY(images_.emplace_back(), DeviceMemory::make(image.size()));
    WEFT_CHECK(
        checked(cudaMemcpy(images_.back().data(), image.data(), image.size(), cudaMemcpyHostToDevice), "cudaMemcpy"));
    frames_.push_back({.image = images_.back().data(),
                       .regions = reinterpret_cast<std::byte* const*>(table_.data()),
                       .geometry = geometry_,
                       .rank = static_cast<Rank>(r),
                       .crossing = static_cast<exec::device::Crossing>(protocol),
                       .op = op,
                       .publishes = publishes,
                       .in = ins_[r].data(),
                       .out = outs_[r].data(),
                       .signature = 1,
                       .timeout_ns = std::chrono::nanoseconds(options_.timeout).count()});
  }
  WEFT_TRY(const int resident, kernels_->resident_blocks(type, options_.threads));
  if (const int blocks = strands_ * static_cast<int>(frames_.size()); blocks > resident)
    return failure(Code::kUnsupported, Blame::kInput, "{} blocks of {} threads; the GPU holds {} at once", blocks,
                   options_.threads, resident);
  return settled();
}

// The other streams begin after the first one's place, and it goes on when they are done: so all of it can be timed and
// captured by the first stream alone.
Status Ranks::fork() {
  if (options_.together) return {};
  WEFT_CHECK(checked(cudaEventRecord(ends_[0], streams_[0]), "cudaEventRecord"));
  for (std::size_t r = 1; r < streams_.size(); ++r)
    WEFT_CHECK(checked(cudaStreamWaitEvent(streams_[r], ends_[0]), "cudaStreamWaitEvent"));
  return {};
}
Status Ranks::join() {
  if (options_.together) return {};
  for (std::size_t r = 1; r < streams_.size(); ++r) {
    WEFT_CHECK(checked(cudaEventRecord(ends_[r], streams_[r]), "cudaEventRecord"));
    WEFT_CHECK(checked(cudaStreamWaitEvent(streams_[0], ends_[r]), "cudaStreamWaitEvent"));
  }
  return {};
}

Status Ranks::start() {
  if (options_.together) return kernels_->launch(frames_, type_, strands_, options_.threads, streams_[0]);
  for (std::size_t r = 0; r < frames_.size(); ++r)
    WEFT_CHECK(kernels_->launch({&frames_[r], 1}, type_, strands_, options_.threads, streams_[r]));
  return {};
}

Status Ranks::wait() {
  for (cudaStream_t s : streams_) WEFT_CHECK(checked(cudaStreamSynchronize(s), "cudaStreamSynchronize"));
  return check_trouble();
}

Status Ranks::check_trouble() const {
  std::vector<Header> headers(static_cast<std::size_t>(geometry_.strands));
  for (Rank r = 0; r < geometry_.ranks; ++r) {
    WEFT_CHECK(checked(cudaMemcpy(headers.data(), regions_[static_cast<std::size_t>(r)].data() + geometry_.header(0),
                                  headers.size() * sizeof(Header), cudaMemcpyDeviceToHost),
                       "cudaMemcpy"));
    for (std::size_t s = 0; s < headers.size(); ++s)
      if (headers[s].trouble == exec::device::Trouble::kTimeout ||
          headers[s].trouble == exec::device::Trouble::kMismatch)
        return failure(
            Code::kTimeout, Blame::kCommunicator, "rank {} strand {} step {}: {} for rank {}", r, s, headers[s].step,
            headers[s].trouble == exec::device::Trouble::kTimeout ? "waited too long" : "a mismatch", headers[s].peer);
  }
  return {};
}

Result<double> Ranks::time(int calls, const std::function<Status()>& one) {
  for (int warm = 0; warm < 2; ++warm) WEFT_CHECK(one());
  WEFT_CHECK(checked(cudaEventRecord(begin_, streams_[0]), "cudaEventRecord"));
  for (int call = 0; call < calls; ++call) WEFT_CHECK(one());
  WEFT_CHECK(checked(cudaEventRecord(end_, streams_[0]), "cudaEventRecord"));
  WEFT_CHECK(wait());
  float milliseconds = 0;
  WEFT_CHECK(checked(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
  return milliseconds * 1e3 / calls;
}

Result<double> Ranks::time(int calls) {
  return time(calls, [this]() -> Status {
    WEFT_CHECK(fork());
    WEFT_CHECK(start());
    return join();
  });
}

Result<double> Ranks::time_as_graph(int calls) {
  WEFT_CHECK(checked(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture"));
  WEFT_CHECK(fork());
  WEFT_CHECK(start());
  WEFT_CHECK(join());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  WEFT_CHECK(checked(cudaStreamEndCapture(streams_[0], &graph), "cudaStreamEndCapture"));
  WEFT_CHECK(checked(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate"));
  auto microseconds = time(calls, [&] { return checked(cudaGraphLaunch(ready, streams_[0]), "cudaGraphLaunch"); });
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  return microseconds;
}

}  // namespace weft::gpu
