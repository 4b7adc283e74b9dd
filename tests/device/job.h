#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "exec/device/frame.h"
#include "plan/schedule/lower/lower.h"
#include "tests/device/expected.h"

namespace weft::tests {

// Regions, inputs and outputs of all ranks of one process in host memory, and the collectives that they call on them by
// the text of the kernels.
class DeviceJob {
 public:
  explicit DeviceJob(const exec::device::Geometry& geometry);

  // The arithmetic of ranks on their inputs, which begin as pattern().
  struct Arithmetic {
    DataType type = DataType::kInt32;
    ReduceOp op = ReduceOp::kSum;
    std::vector<Scalar> scales = {};  // by rank; empty: none
  };
  // Programs and buffers of all ranks for one collective. Errors: as flatten.
  Status prepare(const schedule::Task& task, const schedule::Plan& plan, const Arithmetic& arithmetic);
  // What was prepared, again at every call. Errors: the first trouble of a block.
  Status run(int threads);
  // "" or the first int32 that is not the sum (or the copy) that the collective promises.
  std::string compare() const { return tests::compare(task_, outputs_); }

  exec::device::Header& header(Rank rank, int strand);
  exec::device::Outgoing& link(Rank rank, Rank peer, int strand);
  std::vector<exec::device::Frame>& frames() { return frames_; }
  std::vector<std::vector<std::byte>>& inputs() { return inputs_; }
  std::vector<std::vector<std::byte>>& outputs() { return outputs_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  exec::device::Geometry geometry_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<std::byte*> regions_;
  std::vector<std::vector<std::byte>> images_, inputs_, outputs_;
  std::vector<exec::device::Frame> frames_;
  schedule::Task task_;
  DataType type_ = DataType::kInt32;
};

}  // namespace weft::tests
