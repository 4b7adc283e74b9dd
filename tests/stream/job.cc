#include "tests/stream/job.h"

#include "api/session/request.h"
#include "tests/device/expected.h"

namespace weft::tests {

using schedule::Buffer;

StreamJob::StreamJob(std::vector<int> devices, std::chrono::milliseconds timeout)
    : runtime_(stream::host_runtime(*std::max_element(devices.begin(), devices.end()) + 1)) {
  const auto group = stream::Group::open(runtime_, devices, timeout).value();
  for (Rank r = 0; r < group->ranks(); ++r) {
    members_.push_back(std::make_unique<stream::Member>(group, r));
    streams_.push_back(runtime_->device->make_stream().value());
  }
}

void StreamJob::make_buffers(const Request& request) {
  inputs_.clear(), outputs_.clear();
  for (Rank r = 0; r < ranks(); ++r) {
    const schedule::Layout layout = layout_of(session::task_of(request, r, ranks(), ranks()));
    fill(r, inputs_.emplace_back(static_cast<std::size_t>(layout.buffer_bytes(Buffer::kIn, r))));
    outputs_.emplace_back(static_cast<std::size_t>(layout.buffer_bytes(Buffer::kOut, r)), std::byte{0x55});
  }
}

std::vector<stream::Call> StreamJob::calls(const Request& request) {
  std::vector<stream::Call> all;
  for (Rank r = 0; r < ranks(); ++r) {
    Request own = request;
    own.in = inputs_[static_cast<std::size_t>(r)].data();
    own.out = outputs_[static_cast<std::size_t>(r)].data();
    all.push_back({.member = &member(r), .request = own, .stream = stream(r)});
  }
  return all;
}

std::string StreamJob::compare(const Request& request) const {
  return tests::compare(session::task_of(request, 0, ranks(), ranks()), outputs_);
}

Status StreamJob::wait() {
  for (const auto& s : streams_) WEFT_CHECK(runtime_->device->synchronize(s.get()));
  for (Rank r = 0; r < ranks(); ++r) WEFT_CHECK(group().trouble(r));
  return {};
}

}  // namespace weft::tests
