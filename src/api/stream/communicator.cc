#include "api/stream/copies.h"
#include "api/stream/exchange.h"
#include "api/stream/window.h"
#include "base/env.h"
#include "base/forks.h"
#include "weft/cuda.h"

namespace weft::cuda {
namespace {

tl::unexpected<Error> no_communicator() { return bad_input("the communicator is empty: it was moved from"); }

// Streams and memory are the process's, whatever communicators use them.
Result<std::shared_ptr<stream::Runtime>> runtime() {
  static const auto opened = []() -> Result<std::shared_ptr<stream::Runtime>> {
    WEFT_TRY(const env::Settings settings, env::read());
    return stream::open_runtime(settings.device);
  }();
  return opened;
}

}  // namespace

Result<std::vector<Communicator>> Communicator::open(std::span<const int> devices, const Options& options) {
  WEFT_TRY(const auto used, runtime());
  WEFT_TRY(const auto group, stream::Group::open(used, devices, options.timeout));
  std::vector<Communicator> all;
  for (Rank r = 0; r < group->ranks(); ++r) all.push_back(Communicator(make_owned<stream::Member>(group, r)));
  return all;
}

Rank Communicator::rank() const { return member_ ? member_->rank() : -1; }
Rank Communicator::ranks() const { return member_ ? member_->group().ranks() : 0; }

Status Communicator::start(const Request& request, Stream stream) {
  if (!member_) return no_communicator();
  const stream::Call call{.member = member_.get(), .request = request, .stream = stream};
  return stream::start({&call, 1});
}

Status Communicator::start(std::span<const Transfer> transfers, Stream stream) {
  if (!member_) return no_communicator();
  const stream::Exchange exchange{member_.get(), {transfers.begin(), transfers.end()}, stream};
  return stream::start_exchanges({&exchange, 1});
}

Status Communicator::prepare(const Request& request) {
  if (!member_) return no_communicator();
  WEFT_CHECK(member_->prepare(request, stream::By::kKernels));
  return {};
}

Status Communicator::status() const {
  return member_ ? member_->group().trouble(member_->rank()) : Status(no_communicator());
}
Status Communicator::abort() { return member_ ? member_->group().abort() : Status(no_communicator()); }

weft::Communicator::Choice Communicator::last_choice() const {
  if (!member_ || member_->last() == nullptr) return {};
  const schedule::Plan& plan = member_->last()->plan;
  return {std::string(plan.algorithm->name), std::string(protocol::traits(plan.protocol).name), plan.channels};
}

namespace {

// Errors (bad input): not all ranks of one communicator, in their order.
Status check_all_there(std::span<const Communicator> ranks) {
  if (ranks.empty()) return bad_input("a window of no ranks");
  for (const Communicator& c : ranks)
    if (c.ranks() == 0) return no_communicator();
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks.size() != static_cast<std::size_t>(ranks[r].ranks()) || ranks[r].rank() != static_cast<Rank>(r))
      return bad_input("a window needs all {} ranks of a communicator, in their order", ranks[0].ranks());
  return {};
}

}  // namespace

Result<std::vector<Window>> Window::as_handles(Result<std::vector<stream::Window>> made) {
  if (!made) return tl::make_unexpected(made.error());
  std::vector<Window> all;
  for (stream::Window& w : *made) all.push_back(Window(make_owned<stream::Window>(std::move(w))));
  return all;
}
Result<std::vector<Window>> Window::open(std::span<const Communicator> ranks, std::span<void* const> memory,
                                         std::size_t bytes) {
  WEFT_CHECK(check_all_there(ranks));
  return as_handles(stream::Window::over(ranks[0].member_->shared_group(), memory, static_cast<Bytes>(bytes)));
}
Result<std::vector<Window>> Window::allocate(std::span<const Communicator> ranks, std::size_t bytes) {
  WEFT_CHECK(check_all_there(ranks));
  return as_handles(stream::Window::allocate(ranks[0].member_->shared_group(), static_cast<Bytes>(bytes)));
}
void* Window::data() const { return window_ ? window_->data() : nullptr; }
std::size_t Window::size() const { return window_ ? static_cast<std::size_t>(window_->size()) : 0; }
device::Heap Window::heap() const { return window_ ? window_->heap() : device::Heap(); }

namespace {

// Errors (bad input): a part of an empty communicator.
template <class Part>
Status check_parts(std::span<const Part> parts) {
  for (const Part& part : parts)
    if (part.communicator.ranks() == 0) return no_communicator();
  return {};
}

std::vector<stream::Call> calls_of(std::span<const Call> calls) {
  std::vector<stream::Call> own;
  for (const Call& c : calls)
    own.push_back({.member = &c.member(), .request = c.request, .stream = c.stream, .scalar = c.scalar});
  return own;
}

}  // namespace

Status start(std::span<const Call> calls) {
  WEFT_CHECK(check_parts(calls));
  return stream::start(calls_of(calls));
}
Status start(std::span<const Exchange> exchanges) {
  WEFT_CHECK(check_parts(exchanges));
  std::vector<stream::Exchange> own;
  for (const Exchange& e : exchanges) own.push_back({&e.member(), e.transfers, e.stream});
  return stream::start_exchanges(own);
}
Status start_copies(std::span<const Call> calls) {
  WEFT_CHECK(check_parts(calls));
  return stream::start_copies(calls_of(calls));
}

}  // namespace weft::cuda
