#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/ptx/machine.h"

// The device: one thread that executes what stands in streams, kernels by tests/ptx. Everything here but the
// constructor of Locked is called with the device locked.
namespace weft::host_cuda {

// Called by the device again and again until it says that it is done.
using Operation = std::function<bool()>;
// Makes it: once for what is called, once for each replay of what a graph holds.
using Maker = std::function<Operation()>;

struct Graph {
  struct Node {
    Maker make;
    std::vector<std::size_t> behind;  // nodes
  };
  std::vector<Node> nodes;
};

// The place of a stream or an event in a capture.
struct Captured {
  std::shared_ptr<Graph> graph;       // null: in none
  std::vector<std::size_t> behind{};  // the nodes that what comes next waits for
};

struct Stream {
  int device = 0;
  bool blocking = true;  // with the device's legacy stream
  bool legacy = false;
  bool destroyed = false;
  std::deque<Operation> operations{};
  std::uint64_t queued = 0, ended = 0;
  Captured captured{};
};

struct Event {
  struct Record {
    bool done = false;
    std::chrono::steady_clock::time_point at{};
  };
  std::shared_ptr<Record> last;  // null: never recorded
  Captured captured{};
};

class Engine {
 public:
  // Made when it is first needed, and never destroyed: the device's thread may outlive main.
  static Engine& get();

  // From CUDA's handle, `device` being the thread's; null: there is no such stream.
  Stream* find(cudaStream_t handle, int device);
  Stream* make_stream(int device, bool blocking);
  void destroy(Stream* stream);

  // At the stream's end, or into the graph that it is captured in.
  void enqueue(Stream& stream, Maker maker);
  void record(Event& event, Stream& stream);
  void wait(Stream& stream, const Event& event);
  void leave_capture(const std::shared_ptr<Graph>& graph);  // all streams
  // Waits, without the lock, until it holds. False: the device has failed.
  bool until(const std::function<bool()>& holds);
  bool until_ended(Stream& stream);
  bool until_all_ended(int device);

  // Calls the function in its stream's order, with the device unlocked.
  void call_unlocked(const std::function<void()>& function);

  // Errors of kernels are for good.
  bool failed() const { return failed_; }
  ptx::Machine& machine() { return machine_; }
  ptx::Memory& memory() { return memory_; }

 private:
  friend class Locked;
  Engine();
  void lock_for_caller(std::unique_lock<std::mutex>& lock);
  void work();
  bool poll(Stream& stream);
  void fail();
  std::vector<Stream*> all();
  // Whether a stream has ended this many operations; one that is gone has.
  using Place = std::pair<Stream*, std::uint64_t>;
  bool passed(const std::vector<Place>& places);

  std::mutex mutex_;
  std::condition_variable changed_;               // something has been queued
  std::atomic<int> callers_{0};                   // that wait for the lock
  std::unique_lock<std::mutex>* held_ = nullptr;  // by the thread that works now
  ptx::Memory memory_;
  ptx::Machine machine_;
  std::vector<std::unique_ptr<Stream>> legacy_, per_thread_;  // of each device
  std::set<std::unique_ptr<Stream>> streams_;
  bool failed_ = false;
};

// The device is locked while one lives; callers come before the device's own work.
class Locked {
 public:
  Locked();
  ~Locked();
  Engine* operator->() const { return &engine_; }

 private:
  Engine& engine_;
  std::unique_lock<std::mutex> lock_;
};

// A graph as one operation.
Operation replay(std::shared_ptr<const Graph> graph);

}  // namespace weft::host_cuda
