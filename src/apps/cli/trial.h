#pragma once

#include "apps/cli/common.h"
#include "weft/communicator.h"

namespace weft::cli {

// One collective call that is tried: with known inputs, so that its result can be checked, and many times, so that it
// can be timed. All ranks of the communicator must do the same with their trials.
class Trial {
 public:
  struct Spec {
    schedule::Task task;
    DataType type = DataType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    bool in_place = false, reproducible = false;
    std::string algorithm = {}, protocol = {};
    int channels = 0;
  };
  // Bytes that `in` and `out` must have, each; in place only `in` is used.
  static Bytes memory_for(const schedule::Task& task, Rank rank);
  Trial(Communicator& communicator, const Spec& spec, std::byte* in, std::byte* out);

  // Fills the input and runs once. Errors: Communicator::run.
  Status run();
  // All ranks' wrong elements of the result of run().
  Result<std::int64_t> count_errors();
  // Median over runs of (slowest rank's time for N back-to-back operations) / N. `iterations`: N; 0: as many as take
  // about `run_seconds`.
  Result<Duration> time(std::int64_t iterations, double run_seconds = 0.02);

  // Runs for about that long. The kernel spreads new processes over the cores within a tenth of a second or two; until
  // then three of four may share one of two.
  Status settle(double seconds = 0.2);

  const Request& request() const { return request_; }

 private:
  Result<double> run_of(std::int64_t n);

  Communicator& comm_;
  Spec spec_;
  schedule::Layout layout_;
  std::vector<std::size_t> counts_, receive_counts_;
  schedule::ExpertTable table_;
  Request request_;
};

}  // namespace weft::cli
