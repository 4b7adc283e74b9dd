#include "net/cuda/host_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace weft::net::cuda {
namespace {

// A stream's thread and a worker meet by this.
class Meeting {
 public:
  void reach() {
    const MutexLock guard(mutex_);
    reached_ = true;
    changed_.notify_all();
  }
  void finish() {
    const MutexLock guard(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  void wait_until_finished() {
    MutexLock lock(mutex_);
    lock.wait(changed_, [this]() WEFT_REQUIRES(mutex_) { return finished_; });
  }
  // False: `give_up` said so first.
  bool wait_until_reached(const std::function<bool()>& give_up) {
    MutexLock lock(mutex_);
    while (!lock.wait_for(changed_, std::chrono::milliseconds(5), [this]() WEFT_REQUIRES(mutex_) { return reached_; }))
      if (give_up()) return false;
    return true;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  bool reached_ WEFT_GUARDED_BY(mutex_) = false, finished_ WEFT_GUARDED_BY(mutex_) = false;
};

class HostBaton final : public StreamGate {
 public:
  explicit HostBaton(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}
  Status wait_until_reached(const std::function<bool()>& give_up) override {
    if (meeting_->wait_until_reached(give_up)) return {};
    return failure(Code::kAborted, Blame::kOperation, "given up before its stream came to it");
  }
  void finish() override { meeting_->finish(); }

 private:
  std::shared_ptr<Meeting> meeting_;
};

// How often the event was recorded, and how often its place was reached.
class HostEvent final : public Event {
 public:
  std::uint64_t record() { return ++recorded_; }
  std::uint64_t recorded() const { return recorded_; }
  void reach(std::uint64_t number) {
    const MutexLock guard(mutex_);
    reached_ = std::max(reached_, number);
    changed_.notify_all();
  }
  void wait_for(std::uint64_t number) {
    MutexLock lock(mutex_);
    lock.wait(changed_, [&]() WEFT_REQUIRES(mutex_) { return reached_ >= number; });
  }

 private:
  std::uint64_t recorded_ = 0;  // guarded by the device
  Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t reached_ WEFT_GUARDED_BY(mutex_) = 0;
};

// What the device's user holds; streams keep the inner one.
class SharedEvent final : public Event {
 public:
  const std::shared_ptr<HostEvent> inner = std::make_shared<HostEvent>();
};

thread_local int current_device = 0;

}  // namespace

void HostGraph::replay() const {
  std::map<const Event*, HostEvent> events;
  for (const Step& step : steps_)
    if (step.records != nullptr) events[step.records];
  std::vector<std::thread> running;
  for (const auto& [stream, captured] : streams_)
    running.emplace_back([this, own = stream, &events] {
      std::map<const Event*, std::uint64_t> recorded;  // up to here, in the order of the capture
      for (const Step& step : steps_) {
        if (step.records != nullptr) ++recorded[step.records];
        if (step.stream != own) continue;
        if (step.work) step.work();
        if (step.records != nullptr) events[step.records].reach(recorded[step.records]);
        if (step.waits != nullptr) events[step.waits].wait_for(recorded[step.waits]);
      }
    });
  for (std::thread& t : running) t.join();
}

Result<int> HostDevice::current() { return current_device; }
Status HostDevice::use(int device) {
  if (device < 0 || device >= devices_) return bad_input("device {} of {}", device, devices_);
  current_device = device;
  return {};
}
Result<Identity> HostDevice::identity(int device) { return Identity{static_cast<std::uint64_t>(first_ + device), 0}; }
Status HostDevice::reach(int device, int peer) {
  if (device < devices_ && peer < devices_) return {};
  return bad_input("devices {} and {} of {}", device, peer, devices_);
}
Status HostDevice::check_pointer(const void* memory, const char* what) {
  if (memory == nullptr) return bad_input("{} is null", what);
  return {};
}
Result<std::shared_ptr<void>> HostDevice::pinned(Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(std::max<Bytes>(bytes, 1)) + kPage - 1) / kPage * kPage;
  if (void* memory = std::aligned_alloc(kPage, size)) return std::shared_ptr<void>(memory, std::free);
  return failure(Code::kNoResources, Blame::kOperation, "no memory for {} bytes", bytes);
}
// Copies word by word, as kernels that run meanwhile load and store them.
Status HostDevice::copy_now(void* to, const void* from, Bytes bytes) {
  constexpr Bytes kWord = sizeof(std::uint32_t);
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % kWord == 0;
  Bytes done = 0;
  for (; aligned && done + kWord <= bytes; done += kWord) {
    auto* const word = reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(source) + done);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(target + done))
        .store(std::atomic_ref(*word).load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  std::memcpy(target + done, source + done, static_cast<std::size_t>(bytes - done));
  return {};
}
Status HostDevice::clear_now(void* memory, Bytes bytes) {
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  return {};
}

// Its address is its name.
Result<std::shared_ptr<void>> HostDevice::make_stream() {
  return std::shared_ptr<void>(new char, [this](void* stream) {
    {
      const MutexLock guard(mutex_);
      streams_.erase(stream);
    }
    delete static_cast<char*>(stream);
  });
}

bool HostDevice::keep(HostGraph::Step step) {
  if (!capturing_) return false;
  if (step.waits != nullptr && graph_.events_.contains(step.waits)) graph_.streams_[step.stream] = true;
  if (!graph_.streams_.contains(step.stream)) return false;
  if (step.records != nullptr) graph_.events_[step.records] = true;
  graph_.steps_.push_back(std::move(step));
  return true;
}
Result<bool> HostDevice::captured(Stream stream) {
  const MutexLock guard(mutex_);
  return capturing_ && graph_.streams_.contains(stream);
}
void HostDevice::begin_capture(Stream stream) {
  const MutexLock guard(mutex_);
  capturing_ = true;
  graph_ = {};
  graph_.streams_[stream] = true;
}
HostGraph HostDevice::end_capture() {
  const MutexLock guard(mutex_);
  capturing_ = false;
  return std::move(graph_);
}

Status HostDevice::run(Stream stream, std::function<void()> work) {
  const MutexLock guard(mutex_);
  if (!keep({.stream = stream, .work = work})) streams_[stream].push(std::move(work));
  return {};
}
Result<std::unique_ptr<Event>> HostDevice::make_event() { return std::make_unique<SharedEvent>(); }
Status HostDevice::record_given(void*, Stream) {
  return failure(Code::kUnsupported, Blame::kInput, "the host as the device has no events of CUDA's");
}
Status HostDevice::record(Event& event, Stream stream) {
  const MutexLock guard(mutex_);
  if (keep({.stream = stream, .work = {}, .records = &event})) return {};
  const auto inner = static_cast<SharedEvent&>(event).inner;
  streams_[stream].push([inner, number = inner->record()] { inner->reach(number); });
  return {};
}
Status HostDevice::wait(Event& event, Stream stream) {
  const MutexLock guard(mutex_);
  if (keep({.stream = stream, .work = {}, .waits = &event})) {
    if (graph_.events_.contains(&event)) return {};
    return failure(Code::kUnsupported, Blame::kInput, "a captured stream waits for what is not in its graph");
  }
  const auto inner = static_cast<SharedEvent&>(event).inner;
  streams_[stream].push([inner, number = inner->recorded()] { inner->wait_for(number); });
  return {};
}
Status HostDevice::finish(Event& event) {
  const auto inner = static_cast<SharedEvent&>(event).inner;
  std::uint64_t recorded = 0;
  {
    const MutexLock guard(mutex_);
    recorded = inner->recorded();
  }
  inner->wait_for(recorded);
  return {};
}
Status HostDevice::copy(void* to, const void* from, Bytes bytes, Stream stream) {
  return run(stream, [=] { std::memmove(to, from, static_cast<std::size_t>(bytes)); });
}

Result<std::unique_ptr<StreamGate>> HostDevice::hand_over(Stream stream) {
  const MutexLock guard(mutex_);
  if (capturing_ && graph_.streams_.contains(stream))
    return failure(Code::kUnsupported, Blame::kInput, "work of the host cannot be captured in a graph");
  auto meeting = std::make_shared<Meeting>();
  streams_[stream].push([meeting] {
    meeting->reach();
    meeting->wait_until_finished();
  });
  return std::make_unique<HostBaton>(std::move(meeting));
}
Status HostDevice::synchronize(Stream stream) {
  Meeting end;
  {
    const MutexLock guard(mutex_);
    streams_[stream].push([&end] { end.finish(); });
  }
  end.wait_until_finished();
  return {};
}

}  // namespace weft::net::cuda
