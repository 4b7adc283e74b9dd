#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "weft/communicator.h"
#include "weft/device.h"

// Collectives on GPUs, in the order of streams: a call queues work and returns; what was queued before it in its stream
// has ended when it begins, and what is queued behind it begins when its result is there. Kernels carry it out; the
// host takes no part once it is queued, so that streams can be captured in graphs and replayed.
//
// Ranks are parts of one process, each on a device of its own, or several on one. Buffers are device memory of any
// rank's device: peers load and store it where it lies, nothing needs to be registered. (Memory of cudaMallocAsync's
// pools: only if the pool was opened to the peers' devices.)
//
// Without a GPU: with WEFT_DEVICE=host the host is the device, and any distinct pointers are streams.
// Compiled for sm_90; tested on the host's threads, by interpreting its PTX, and on one H200; not yet across GPUs.
namespace weft::stream {
class Member;
class Window;
}  // namespace weft::stream

namespace weft::cuda {

using Stream = void*;  // a cudaStream_t; null is the default one

// One rank. Handles: copies are the same rank.
// Thread: one at a time per rank; ranks may be driven by one thread or by one each.
//
// Ranks wait for each other on the device. So that they can:
// - a rank's call must not be queued behind another rank's in one stream, unless both are in one start(). The default
//   stream counts as one with all that were made without cudaStreamNonBlocking;
// - a rank calls prepare() before its peers begin to wait for it, where its call allocates memory, which CUDA may keep
//   waiting until kernels have ended: an all_to_all in place, or a new shape once a rank's programs fill 1 MiB;
// - all kernels that wait for each other fit on their devices at once, which open() checks for one communicator. Of two
//   that run at the same time, or beside the application's own kernels, the caller must know that they do;
// - CUDA_DEVICE_MAX_CONNECTIONS is at least the number of streams that ranks of one device use.
// Otherwise they wait until the time is up, which breaks the communicator.
class Communicator {
 public:
  // `timeout`: of one wait on the device.
  struct Options {
    std::chrono::milliseconds timeout{30000};
  };
  // One rank for every entry of `devices`, which may name one several times. Errors: kNotFound: no GPU, or built
  // without CUDA; bad input: a device that there is not; kUnsupported: devices that do not reach each other's memory,
  // more ranks on one than fit; kNoResources.
  static Result<std::vector<Communicator>> open(std::span<const int> devices, const Options& options);
  static Result<std::vector<Communicator>> open(std::span<const int> devices) { return open(devices, {}); }

  Rank rank() const;
  Rank ranks() const;

  // Queues a collective. The first of its shape (collective, count, type, operation, root, forced choices) lowers it
  // and places it in device memory, also while the stream is captured; the others only launch. Errors: of the arguments
  // and pointers, before anything is queued; status() reports what happens on the device.
  Status start(const Request& request, Stream stream);
  // Queues sends and receives, all at the same time, in whatever order they are given: they cannot block each other.
  // Both ends must agree on count and type, and messages between two ranks are taken in the order in which they were
  // sent. What a rank sends itself it must receive in the same call. A send may end before its message was received;
  // only what fits into the peer's slots crosses before that. Errors: as of requests.
  Status start(std::span<const Transfer> transfers, Stream stream);
  // What start() would do first, so that no later call does.
  Status prepare(const Request& request);

  // How this rank's operations that have ended went; asks the device, but waits for nothing. Errors: kTimeout,
  // kAborted, kMismatch: blame the communicator, whose later operations all end at once, undone.
  Status status() const;
  // Ends what waits on the devices, on all ranks. Thread: any.
  Status abort();

  // What the last call was done with.
  weft::Communicator::Choice last_choice() const;

 private:
  friend class Window;
  friend struct Call;
  friend struct Exchange;
  explicit Communicator(std::shared_ptr<stream::Member> member) : member_(std::move(member)) {}
  std::shared_ptr<stream::Member> member_;
};

// One rank's part of memory that all ranks have, laid out alike, for kernels of the application that communicate by
// weft/device.h: a symmetric window. Collectives take any device memory, in windows or not.
// Handles: copies are the same window. Requires: kernels that use it have ended before the last of them.
class Window {
 public:
  // Windows of all ranks of a communicator, in their order. `memory`: of each, `bytes` of device memory of any rank's
  // device, aligned to 16 bytes; it stays the caller's. Errors: bad input: a rank that is missing, or memory of the
  // host; kUnsupported: GPUs whose link (PCIe) carries no atomic operations, which signals and barriers are.
  static Result<std::vector<Window>> open(std::span<const Communicator> ranks, std::span<void* const> memory,
                                          std::size_t bytes);
  // Over memory of their own, each on its rank's device, all zero. Errors: likewise; kNoResources.
  static Result<std::vector<Window>> allocate(std::span<const Communicator> ranks, std::size_t bytes);

  void* data() const;
  std::size_t size() const;
  // A parameter for this rank's kernels: device pointers to the peers' memory.
  device::Heap heap() const;

 private:
  explicit Window(std::shared_ptr<stream::Window> window) : window_(std::move(window)) {}
  static Result<std::vector<Window>> as_handles(Result<std::vector<stream::Window>> made);
  std::shared_ptr<stream::Window> window_;
};

// One rank's part in a collective.
struct Call {
  Communicator communicator;
  Request request;
  Stream stream = nullptr;
  const void* scalar = nullptr;  // of kPremulSum, instead of request.scalar: an element in device memory, read then

  stream::Member& member() const { return *communicator.member_; }
};

// Queues calls of several ranks. One launch runs the ranks of one device that name the same stream.
// Errors: as Communicator::start; bad input: ranks in one stream that do not call the same.
Status start(std::span<const Call> calls);

// What one rank sends and receives at the same time.
struct Exchange {
  Communicator communicator;
  std::vector<Transfer> transfers;
  Stream stream = nullptr;

  stream::Member& member() const { return *communicator.member_; }
};

// Queues exchanges of several ranks, one of each. One launch runs the ranks of one device that name the same
// stream. Errors: as Communicator::start; kUnsupported: more than 512 messages, or 16 ranks, in one launch.
Status start(std::span<const Exchange> exchanges);

// Collectives without a kernel: copy engines do it all, and the multiprocessors stay with the application. For
// collectives that reduce nothing. `calls`: one of every rank, each in a stream of its own or not. Errors: as start;
// bad input: a rank that is missing or there twice, ranks that call different things; kUnsupported: a reduction.
Status start_copies(std::span<const Call> calls);

}  // namespace weft::cuda
