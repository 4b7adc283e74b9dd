#include "tests/host_cuda/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/host_cuda/devices.h"

namespace weft::host_cuda {
namespace {

ptx::Options options() {
  const std::uint64_t seed = static_cast<std::uint64_t>(setting("WEFT_MODEL_SEED", 1));
  const std::size_t threads = static_cast<std::size_t>(gpus() * processors()) * kThreadsOfProcessor;
  return {.seed = seed, .races = setting("WEFT_MODEL_RACES", 0) != 0, .most_threads = threads};
}

}  // namespace

Engine& Engine::get() {
  static Engine& engine = *new Engine;
  return engine;
}

Engine::Engine() : machine_(memory_, options()) {
  for (int device = 0; device < gpus(); ++device) {
    legacy_.push_back(std::make_unique<Stream>(Stream{.device = device, .legacy = true}));
    per_thread_.push_back(std::make_unique<Stream>(Stream{.device = device}));
  }
  std::thread([this] { work(); }).detach();
}

Locked::Locked() : engine_(Engine::get()), lock_(engine_.mutex_, std::defer_lock) { engine_.lock_for_caller(lock_); }
Locked::~Locked() = default;

Stream* Engine::find(cudaStream_t handle, int device) {
  const auto of_device = static_cast<std::size_t>(device);
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy_.at(of_device).get();
  if (handle == cudaStreamPerThread) return per_thread_.at(of_device).get();
  for (const auto& stream : streams_)
    if (stream.get() == reinterpret_cast<Stream*>(handle) && !stream->destroyed) return stream.get();
  return nullptr;
}

Stream* Engine::make_stream(int device, bool blocking) {
  return streams_.insert(std::make_unique<Stream>(Stream{.device = device, .blocking = blocking})).first->get();
}

void Engine::destroy(Stream* stream) {
  stream->destroyed = true;  // its work goes on
  changed_.notify_all();
}

std::vector<Stream*> Engine::all() {
  std::vector<Stream*> all;
  for (const auto* streams : {&legacy_, &per_thread_})
    for (const auto& stream : *streams) all.push_back(stream.get());
  for (const auto& stream : streams_) all.push_back(stream.get());
  return all;
}

void Engine::enqueue(Stream& stream, Maker maker) {
  if (stream.captured.graph != nullptr) {
    Graph& graph = *stream.captured.graph;
    graph.nodes.push_back({std::move(maker), stream.captured.behind});
    stream.captured.behind = {graph.nodes.size() - 1};
    return;
  }
  if (failed_) return;
  // The legacy stream and those that block wait for each other.
  std::vector<Place> before;
  if (stream.blocking)
    for (Stream* other : all())
      if (other != &stream && other->device == stream.device && other->blocking && (stream.legacy || other->legacy))
        if (other->ended != other->queued) before.emplace_back(other, other->queued);
  if (!before.empty()) {
    stream.operations.push_back([this, before] { return passed(before); });
    ++stream.queued;
  }
  stream.operations.push_back(maker());
  ++stream.queued;
  changed_.notify_all();
}

void Engine::record(Event& event, Stream& stream) {
  event.captured = stream.captured;
  if (stream.captured.graph != nullptr) return;
  event.last = std::make_shared<Event::Record>();
  enqueue(stream, [record = event.last] {
    return [record] {
      record->at = std::chrono::steady_clock::now();
      return record->done = true;
    };
  });
}

void Engine::wait(Stream& stream, const Event& event) {
  if (event.captured.graph != nullptr) {
    if (stream.captured.graph == nullptr) stream.captured = {event.captured.graph};
    auto& behind = stream.captured.behind;
    behind.insert(behind.end(), event.captured.behind.begin(), event.captured.behind.end());
    return;
  }
  if (event.last == nullptr) return;
  enqueue(stream, [record = event.last] { return [record] { return record->done; }; });
}

void Engine::leave_capture(const std::shared_ptr<Graph>& graph) {
  for (Stream* stream : all())
    if (stream->captured.graph == graph) stream->captured = {};
}

// Looks again and again: a condition variable would let the device's thread, which is quick to lock again, come first.
bool Engine::until(const std::function<bool()>& holds) {
  std::unique_lock<std::mutex>& lock = *held_;
  while (!failed_ && !holds()) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock_for_caller(lock);
  }
  return !failed_;
}

void Engine::lock_for_caller(std::unique_lock<std::mutex>& lock) {
  ++callers_;
  lock.lock();
  --callers_;
  held_ = &lock;
}

bool Engine::until_ended(Stream& stream) {
  return until([this, before = std::vector<Place>{{&stream, stream.queued}}] { return passed(before); });
}

bool Engine::until_all_ended(int device) {
  std::vector<Place> before;
  for (Stream* stream : all())
    if (stream->device == device) before.emplace_back(stream, stream->queued);
  return until([this, before] { return passed(before); });
}

bool Engine::passed(const std::vector<Place>& places) {
  const auto streams = all();
  return std::all_of(places.begin(), places.end(), [&](const Place& p) {
    return std::find(streams.begin(), streams.end(), p.first) == streams.end() || p.first->ended >= p.second;
  });
}

void Engine::call_unlocked(const std::function<void()>& function) {
  std::unique_lock<std::mutex>& lock = *held_;
  lock.unlock();
  function();
  lock.lock();
  held_ = &lock;
}

// True: something has ended.
bool Engine::poll(Stream& stream) {
  bool any = false;
  while (!stream.operations.empty()) {
    Operation operation = stream.operations.front();  // a copy of its own: an end of the device clears all
    if (!operation()) {
      if (!stream.operations.empty()) stream.operations.front() = std::move(operation);
      break;
    }
    if (stream.operations.empty()) break;
    stream.operations.pop_front();
    ++stream.ended;
    any = true;
  }
  return any;
}

void Engine::fail() {
  std::fprintf(stderr, "host_cuda: %s\n", machine_.fault().c_str());
  failed_ = true;
  for (Stream* stream : all()) {
    stream->operations.clear();
    stream->ended = stream->queued;
  }
}

void Engine::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    held_ = &lock;
    bool ended = false, waits = false;
    for (Stream* stream : all()) {
      ended = poll(*stream) || ended;
      waits = waits || !stream->operations.empty();
    }
    std::erase_if(streams_, [](const auto& s) { return s->destroyed && s->operations.empty(); });
    if (!failed_ && !machine_.idle()) {
      machine_.step();
      if (!machine_.fault().empty()) fail();
      ended = true;
    }
    if (ended) {
      lock.unlock();
      while (callers_ > 0) std::this_thread::yield();
      lock.lock();
    } else if (waits) {  // for a word that the host writes
      changed_.wait_for(lock, std::chrono::microseconds(50));
    } else {
      changed_.wait(lock);
    }
  }
}

Operation replay(std::shared_ptr<const Graph> graph) {
  struct Run {
    std::shared_ptr<const Graph> graph;
    std::vector<Operation> operations;
    std::vector<bool> done;
  };
  auto run = std::make_shared<Run>(
      Run{graph, std::vector<Operation>(graph->nodes.size()), std::vector<bool>(graph->nodes.size())});
  return [run] {
    bool all = true;
    for (std::size_t n = 0; n < run->done.size(); ++n) {
      if (run->done[n]) continue;
      const auto& node = run->graph->nodes[n];
      const bool ready =
          std::all_of(node.behind.begin(), node.behind.end(), [&](std::size_t b) { return run->done[b]; });
      if (ready && !run->operations[n]) run->operations[n] = node.make();
      if (ready && run->operations[n]())
        run->done[n] = true;
      else
        all = false;
    }
    return all;
  };
}

}  // namespace weft::host_cuda
