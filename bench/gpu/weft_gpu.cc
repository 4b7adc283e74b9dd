#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstring>

#include "bench/gpu/commands.h"
#include "bench/gpu/ranks.h"
#include "exec/device/kernels.h"

namespace weft::gpu {

namespace {

char at[256] = "weft_gpu: ended before it did anything\n";

void say_and_end(int) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, at, std::strlen(at));
  _exit(1);
}

}  // namespace

void doing(const std::string& what) {
  const std::string line = fmt::format("weft_gpu: ended at {}\n", what);
  line.copy(at, sizeof at - 1);
  at[std::min(line.size(), sizeof at - 1)] = 0;
}

Result<double> copy_rate() {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  constexpr int kTimes = 10;
  WEFT_TRY(const DeviceMemory from, DeviceMemory::make(kBytes));
  WEFT_TRY(const DeviceMemory to, DeviceMemory::make(kBytes));
  cudaEvent_t begin = nullptr, end = nullptr;
  WEFT_CHECK(checked(cudaEventCreate(&begin), "cudaEventCreate"));
  WEFT_CHECK(checked(cudaEventCreate(&end), "cudaEventCreate"));
  float milliseconds = 0;
  for (int pass = 0; pass < 2; ++pass) {  // the first one warms up
    WEFT_CHECK(checked(cudaEventRecord(begin), "cudaEventRecord"));
    for (int i = 0; i < kTimes; ++i)
      WEFT_CHECK(checked(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync"));
    WEFT_CHECK(checked(cudaEventRecord(end), "cudaEventRecord"));
    WEFT_CHECK(checked(cudaEventSynchronize(end), "cudaEventSynchronize"));
    WEFT_CHECK(checked(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime"));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 2.0 * kBytes * kTimes / (milliseconds * 1e-3);
}

Result<int> strands_for(Rank ranks, int threads) {
  WEFT_TRY(const auto kernels, exec::device::cuda_kernels());
  int least = 1 << 20;
  for (const DataType type : {DataType::kInt32, DataType::kFloat32, DataType::kBfloat16}) {
    WEFT_TRY(const int resident, kernels->resident_blocks(type, threads));
    least = std::min(least, resident);
  }
  int strands = 1;
  while (2 * strands * ranks <= least) strands *= 2;
  return strands;
}

namespace {

Status run(const std::string& command, const Options& options) {
  if (command == "messages") return messages(options);
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess)
    return failure(Code::kNotFound, Blame::kProcess, "no CUDA device: {}", cudaGetErrorString(error));
  if (command == "check") return check(options);
  if (command == "collectives") return collectives(options);
  if (command == "streams") return streams(options);
  if (command == "overlap") return overlap(options);
  if (command == "device-side") return device_side(options);
  return command == "hops" ? hops(options) : launches(options);
}

}  // namespace
}  // namespace weft::gpu

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what is done stands in the file, whatever comes next
  std::signal(SIGTERM, weft::gpu::say_and_end);
  weft::gpu::Options options;
  CLI::App app("Checks and times weft's kernels with several ranks on one GPU.");
  std::string command;
  int seconds = static_cast<int>(options.timeout.count());
  app.add_option("command", command, "what to do")
      ->required()
      ->check(
          CLI::IsMember({"check", "collectives", "hops", "launches", "streams", "messages", "overlap", "device-side"}));
  app.add_option("--ranks", options.ranks, "ranks on the GPU")->check(CLI::Range(1, 16));
  app.add_option("--threads", options.threads, "threads of a block")->check(CLI::IsMember({64, 128, 256, 512}));
  app.add_option("--max", options.most_bytes, "largest message, bytes")->check(CLI::Range(8L, 1L << 32));
  app.add_flag("--together", options.together, "one launch for all ranks instead of one for each");
  app.add_option("--timeout", seconds, "of one wait in a kernel, seconds")->check(CLI::Range(1, 600));
  app.add_flag("--brief", options.brief, "check, messages, device-side: a short case");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  options.timeout = std::chrono::seconds(seconds);
  const weft::Status done = weft::gpu::run(command, options);
  if (done) return 0;
  fmt::print(stderr, "weft_gpu: {}\n", done.error().message);
  return done.error().code == weft::Code::kMismatch || done.error().code == weft::Code::kTimeout ? 1 : 2;
}
