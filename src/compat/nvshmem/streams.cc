#include "compat/nvshmem/streams.h"

#include <dlfcn.h>
#include <future>
#include <vector>

#include "base/result.h"

namespace weft::compat::nvshmem {

Streams::Streams() {
  if (auto device = net::cuda::cuda_device())
    device_ = std::move(*device);
  else if (dlsym(RTLD_DEFAULT, "cudaStreamSynchronize") != nullptr)
    trouble_ =
        failure(Code::kUnsupported, Blame::kProcess,
                "the program's streams are CUDA's, and they would not wait for this: {}", device.error().message);
}

net::cuda::WorkQueue& Streams::queue(cudaStream_t stream) {
  const MutexLock guard(mutex_);
  auto& queue = queues_[stream];
  if (queue == nullptr) queue = std::make_unique<net::cuda::WorkQueue>();
  return *queue;
}

Status Streams::push(cudaStream_t stream, std::function<void()> work) {
  WEFT_CHECK(trouble_);
  if (device_ == nullptr) {
    if (!has(stream))
      return bad_input("{} is no stream: there is no CUDA here, and nobody made it", static_cast<void*>(stream));
    queue(stream).push(std::move(work));
    return {};
  }
  WEFT_TRY(std::shared_ptr<net::cuda::StreamGate> gate, device_->hand_over(stream));
  queue(stream).push([gate = std::move(gate), work = std::move(work)] {
    if (gate->wait_until_reached([] { return false; })) work();
    gate->finish();
  });
  return {};
}

void Streams::wait(cudaStream_t stream) {
  std::promise<void> reached;
  queue(stream).push([&] { reached.set_value(); });
  reached.get_future().wait();
}

void Streams::wait_for_all() {
  std::vector<cudaStream_t> all;
  {
    const MutexLock guard(mutex_);
    for (const auto& [stream, queue] : queues_) all.push_back(stream);
  }
  for (cudaStream_t stream : all) wait(stream);
}

cudaStream_t Streams::make() {
  auto queue = std::make_unique<net::cuda::WorkQueue>();
  const MutexLock guard(mutex_);
  const auto stream = reinterpret_cast<cudaStream_t>(queue.get());  // no other stream has this value
  queues_[stream] = std::move(queue);
  made_.insert(stream);
  return stream;
}

bool Streams::has(cudaStream_t stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return true;  // the default stream: null, legacy, per thread
  const MutexLock guard(mutex_);
  return queues_.contains(stream);
}

bool Streams::end(cudaStream_t stream) {
  std::unique_ptr<net::cuda::WorkQueue> ending;  // its end waits for its work, outside the lock
  const MutexLock guard(mutex_);
  if (made_.erase(stream) == 0) return false;
  ending = std::move(queues_[stream]);
  queues_.erase(stream);
  return true;
}

}  // namespace weft::compat::nvshmem
