#pragma once

#include <memory>
#include <vector>

#include "api/stream/start.h"
#include "net/cuda/host_device.h"

namespace weft::tests {

// Ranks of one process on the host as a device, or as several, each with a stream of its own.
class StreamJob {
 public:
  explicit StreamJob(std::vector<int> devices, std::chrono::milliseconds timeout = std::chrono::seconds(20));

  Rank ranks() const { return group().ranks(); }
  stream::Group& group() const { return members_.front()->group(); }
  stream::Member& member(Rank rank) { return *members_[static_cast<std::size_t>(rank)]; }
  net::cuda::HostDevice& device() const { return static_cast<net::cuda::HostDevice&>(group().device()); }
  stream::Stream stream(Rank rank) const { return streams_[static_cast<std::size_t>(rank)].get(); }

  // Inputs as tests::fill makes them, and outputs, of the size that `request` needs.
  void make_buffers(const Request& request);
  std::vector<std::vector<std::byte>>& inputs() { return inputs_; }
  std::vector<std::vector<std::byte>>& outputs() { return outputs_; }
  // Every rank's call of `request` on its buffers, in its stream.
  std::vector<stream::Call> calls(const Request& request);
  // "" or what is wrong with the outputs of int32.
  std::string compare(const Request& request) const;
  // Waits for all streams. Errors: the first rank's trouble.
  Status wait();

 private:
  std::shared_ptr<stream::Runtime> runtime_;
  std::vector<std::unique_ptr<stream::Member>> members_;
  std::vector<std::shared_ptr<void>> streams_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
};

}  // namespace weft::tests
