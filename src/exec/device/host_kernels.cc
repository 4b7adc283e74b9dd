#include <vector>

#include "exec/device/host_machine.h"
#include "exec/device/host_run.h"
#include "exec/device/kernels.h"
#include "exec/device/run.h"

namespace weft::exec::device {
namespace {

class HostKernels final : public Kernels {
 public:
  explicit HostKernels(InStream in_stream) : in_stream_(std::move(in_stream)) {}

  int threads() const override { return HostBlock::kWarp; }
  // The host runs any number of threads side by side; more only cost time.
  Result<int> resident_blocks(DataType, int) override { return 8; }
  Result<int> resident_exchange_blocks(int) override { return 8; }
  Status launch(std::span<const Frame> ranks, DataType type, int, int threads, void* stream) override {
    return in_stream_(stream, [frames = std::vector<Frame>(ranks.begin(), ranks.end()), type, threads] {
      run_on_host(frames, type, threads);
    });
  }
  Status exchange(const Exchange& ranks, int threads, void* stream) override {
    return in_stream_(stream, [all = std::make_shared<Exchange>(ranks), threads] { run_on_host(*all, threads); });
  }
  Status divide(DataType type, void* data, std::int64_t bytes, std::int32_t divisor, void* stream) override {
    return in_stream_(stream, [=] {
      with_type(type, [&]<class T>(T) {
        if constexpr (std::integral<T>) divide_elements<T>(static_cast<std::byte*>(data), bytes, divisor, 0, 1);
      });
    });
  }

 private:
  InStream in_stream_;
};

}  // namespace

std::unique_ptr<Kernels> host_kernels(InStream in_stream) {
  return std::make_unique<HostKernels>(std::move(in_stream));
}

}  // namespace weft::exec::device
