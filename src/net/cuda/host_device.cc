#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "net/cuda/device.h"
#include "net/cuda/work_queue.h"

namespace weft::net::cuda {
namespace {

// Two flags that a stream's thread and a worker tell each other.
class Meeting {
 public:
  void set(bool Meeting::*which) {
    const std::lock_guard guard(mutex_);
    this->*which = true;
    changed_.notify_all();
  }
  void wait(bool Meeting::*which) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return this->*which; });
  }
  bool wait(bool Meeting::*which, const std::function<bool()>& give_up) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(5), [&] { return this->*which; }))
      if (give_up()) return false;
    return true;
  }
  bool reached = false, finished = false;  // guarded by mutex_

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class HostBaton final : public Baton {
 public:
  explicit HostBaton(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}
  bool wait_until_reached(const std::function<bool()>& give_up) override {
    return meeting_->wait(&Meeting::reached, give_up);
  }
  void finish() override { meeting_->set(&Meeting::finished); }

 private:
  std::shared_ptr<Meeting> meeting_;
};

class HostDevice final : public Device {
 public:
  Result<int> count() override { return 1; }
  Result<int> current() override { return 0; }
  bool host_reaches() const override { return true; }
  Status check_pointer(const void* memory, const char* what) override {
    if (memory == nullptr) return bad_input("{} is null", what);
    return {};
  }
  Result<void*> allocate(Bytes bytes) override {
    constexpr std::size_t kPage = 4096;
    const std::size_t size = (static_cast<std::size_t>(std::max<Bytes>(bytes, 1)) + kPage - 1) / kPage * kPage;
    if (void* memory = std::aligned_alloc(kPage, size)) return memory;
    return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
  }
  Status release(void* memory) override {
    std::free(memory);
    return {};
  }
  Result<std::shared_ptr<void>> pinned(Bytes bytes) override {
    WEFT_TRY(void* const memory, allocate(bytes));
    return std::shared_ptr<void>(memory, std::free);
  }
  Status copy(void* to, const void* from, Bytes bytes, Stream stream) override {
    queue(stream).push([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
    return {};
  }
  Result<std::unique_ptr<Baton>> hand_over(Stream stream) override {
    auto meeting = std::make_shared<Meeting>();
    queue(stream).push([meeting] {
      meeting->set(&Meeting::reached);
      meeting->wait(&Meeting::finished);
    });
    return std::make_unique<HostBaton>(std::move(meeting));
  }
  Status synchronize(Stream stream) override {
    Meeting end;
    queue(stream).push([&end] { end.set(&Meeting::reached); });
    end.wait(&Meeting::reached);
    return {};
  }

 private:
  WorkQueue& queue(Stream stream) {
    const std::lock_guard guard(mutex_);
    return streams_[stream];
  }
  std::mutex mutex_;
  std::map<Stream, WorkQueue> streams_;  // guarded by mutex_; queues themselves are not
};

}  // namespace

std::unique_ptr<Device> host_device() { return std::make_unique<HostDevice>(); }

}  // namespace weft::net::cuda
