#include "move/transfer/gpu.h"

#include <algorithm>

#include "net/tcp/crc32c.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

// The calling thread's device, as it was before: it is the application's.
class Using {
 public:
  static Result<Using> device(net::cuda::Device& device, int number) {
    WEFT_TRY(const int before, device.current());
    WEFT_CHECK(device.use(number));
    return Using(&device, before);
  }
  ~Using() {
    if (device_ != nullptr) (void)device_->use(before_);
  }
  Using(Using&& o) noexcept : device_(std::exchange(o.device_, nullptr)), before_(o.before_) {}
  Using& operator=(Using&&) = delete;

 private:
  Using(net::cuda::Device* device, int before) : device_(device), before_(before) {}
  net::cuda::Device* device_;
  int before_;
};

}  // namespace

int gpus() {
  const auto device = net::cuda::cuda_device();
  return device ? (*device)->count().value_or(0) : 0;
}

Result<std::shared_ptr<Gpu>> Gpu::open() {
  WEFT_TRY(auto device, net::cuda::cuda_device());
  return std::make_shared<Gpu>(std::move(device));
}

Result<std::shared_ptr<void>> Gpu::allocate(int gpu, Bytes bytes) {
  WEFT_TRY(const auto use, Using::device(*device_, gpu));
  WEFT_TRY(void* const memory, device_->allocate(bytes));
  const std::shared_ptr<void> owner(memory, [this, gpu](void* m) {
    const auto used = Using::device(*device_, gpu);
    (void)device_->release(m);
  });
  WEFT_CHECK(device_->clear_now(memory, bytes));
  return owner;
}

Status Gpu::check(int gpu, const void* memory) {
  WEFT_TRY(const auto use, Using::device(*device_, gpu));
  return device_->check_pointer(memory, "the memory");
}

GpuRecord Gpu::record_of(int gpu, const void* memory) {
  GpuRecord record{.gpu = device_->identity(gpu).value_or(net::cuda::Identity{})};
  const auto use = Using::device(*device_, gpu);
  if (!use) return record;
  if (const auto shared = device_->share(memory)) {
    record.handle = shared->handle;
    record.offset = shared->offset;
    record.shared = true;
  }
  return record;
}

Result<int> Gpu::number_of(const net::cuda::Identity& gpu) {
  WEFT_TRY(const int count, device_->count());
  for (int number = 0; number < count; ++number) {
    WEFT_TRY(const auto identity, device_->identity(number));
    if (identity == gpu) return number;
  }
  return failure(Code::kUnsupported, Blame::kInput, "its GPU is not visible to this process");
}

Result<Gpu::Opened> Gpu::open_shared(const GpuRecord& record) {
  if (!record.shared) return failure(Code::kUnsupported, Blame::kInput, "its memory cannot be shared");
  WEFT_TRY(const int gpu, number_of(record.gpu));
  const std::lock_guard guard(mutex_);
  std::weak_ptr<void>& known = opened_[record.handle];
  auto memory = known.lock();
  if (memory == nullptr) {
    WEFT_TRY(const auto use, Using::device(*device_, gpu));
    WEFT_TRY(memory, device_->open(record.handle));
    known = memory;
  }
  return Opened{gpu, std::move(memory)};
}

Result<net::cuda::Stream> Gpu::stream_of(int gpu) {
  std::shared_ptr<void>& stream = streams_[gpu];
  if (stream == nullptr) {
    WEFT_TRY(stream, device_->make_stream());
  }
  return stream.get();
}

Status Gpu::copy(int gpu, std::span<const Copy> copies) {
  const std::lock_guard guard(mutex_);
  WEFT_TRY(const auto use, Using::device(*device_, gpu));
  WEFT_TRY(const auto stream, stream_of(gpu));
  Status queued;
  for (const Copy& c : copies) {
    queued = device_->copy(c.to, c.from, c.bytes, stream);
    if (!queued) break;
  }
  const Status done = device_->synchronize(stream);  // also of those that were queued before an error
  return queued ? done : queued;
}

Result<std::uint32_t> Gpu::checksum(int gpu, const std::byte* data, Bytes bytes) {
  constexpr Bytes kPart = 256 << 10;  // it stays in a core's cache
  WEFT_TRY(const auto place, staging(std::min(kPart, bytes)));
  auto* const part = static_cast<std::byte*>(place.get());
  std::uint32_t sum = 0;
  for (Bytes at = 0; at < bytes; at += kPart) {
    const Bytes n = std::min(kPart, bytes - at);
    WEFT_CHECK(copy(gpu, part, data + at, n));
    sum = net::tcp::crc32c(sum, part, static_cast<std::size_t>(n));
  }
  return sum;
}

}  // namespace weft::transfer
