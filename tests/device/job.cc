#include "tests/device/job.h"

#include <cstring>

#include "exec/device/flatten.h"
#include "exec/device/host_run.h"

namespace weft::tests {

using exec::device::Frame;
using schedule::Buffer;

DeviceJob::DeviceJob(const exec::device::Geometry& geometry) : geometry_(geometry) {
  const auto bytes = static_cast<std::size_t>(geometry.total_bytes() + 4095) / 4096 * 4096;
  for (Rank r = 0; r < geometry.ranks; ++r) {
    memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    std::memset(memory_.back().get(), 0, bytes);
    regions_.push_back(memory_.back().get());
  }
}

exec::device::Header& DeviceJob::header(Rank rank, int strand) {
  return *reinterpret_cast<exec::device::Header*>(regions_[static_cast<std::size_t>(rank)] + geometry_.header(strand));
}

exec::device::Outgoing& DeviceJob::link(Rank rank, Rank peer, int strand) {
  return *reinterpret_cast<exec::device::Outgoing*>(regions_[static_cast<std::size_t>(rank)] +
                                                    geometry_.outgoing(peer, strand));
}

Status DeviceJob::prepare(const schedule::Task& task, const schedule::Plan& plan, const Arithmetic& arithmetic) {
  task_ = task, type_ = arithmetic.type;
  const schedule::Layout layout = layout_of(task);
  images_.clear(), inputs_.clear(), outputs_.clear(), frames_.clear();
  for (Rank r = 0; r < task.ranks; ++r) {
    WEFT_TRY(images_.emplace_back(), exec::device::flatten(schedule::lower(task, plan, r), plan.protocol, geometry_));
    auto& in = inputs_.emplace_back(static_cast<std::size_t>(layout.buffer_bytes(Buffer::kIn, r)));
    outputs_.emplace_back(static_cast<std::size_t>(layout.buffer_bytes(Buffer::kOut, r)));
    fill(r, in);
  }
  for (Rank r = 0; r < task.ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    frames_.push_back({.image = images_[i].data(),
                       .regions = regions_.data(),
                       .geometry = geometry_,
                       .rank = r,
                       .crossing = static_cast<exec::device::Crossing>(plan.protocol),
                       .op = arithmetic.op,
                       .publishes = plan.algorithm->needs.memory(),
                       .scales = !arithmetic.scales.empty(),
                       .scale = arithmetic.scales.empty() ? Scalar{} : arithmetic.scales[i],
                       .in = inputs_[i].data(),
                       .out = outputs_[i].data(),
                       .signature = 0x1234567890abcdef,
                       .timeout_ns = 20'000'000'000});
  }
  return {};
}

Status DeviceJob::run(int threads) {
  exec::device::run_on_host(frames_, type_, threads);
  for (Rank r = 0; r < task_.ranks; ++r)
    for (int s = 0; s < geometry_.strands; ++s)
      if (header(r, s).trouble != exec::device::Trouble::kNone)
        return failure(Code::kTimeout, Blame::kCommunicator, "rank {} strand {}: trouble {} at step {}, peer {}", r, s,
                       static_cast<int>(header(r, s).trouble), header(r, s).step, header(r, s).peer);
  return {};
}

}  // namespace weft::tests
