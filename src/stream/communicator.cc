#include "base/env.h"
#include "stream/copies.h"
#include "stream/exchange.h"
#include "weft/cuda.h"

namespace weft::cuda {
namespace {

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
  for (Rank r = 0; r < group->ranks(); ++r) all.push_back(Communicator(std::make_shared<stream::Member>(group, r)));
  return all;
}

Rank Communicator::rank() const { return member_->rank(); }
Rank Communicator::ranks() const { return member_->group().ranks(); }

Status Communicator::start(const Request& request, Stream stream) {
  const stream::Call call{.member = member_.get(), .request = request, .stream = stream};
  return stream::start({&call, 1});
}

Status Communicator::start(std::span<const Transfer> transfers, Stream stream) {
  const stream::Exchange exchange{member_.get(), {transfers.begin(), transfers.end()}, stream};
  return stream::start_exchanges({&exchange, 1});
}

Status Communicator::prepare(const Request& request) {
  WEFT_CHECK(member_->prepare(request, stream::By::kKernels));
  return {};
}

Status Communicator::status() const { return member_->group().trouble(member_->rank()); }
Status Communicator::abort() { return member_->group().abort(); }

weft::Communicator::Choice Communicator::last_choice() const {
  if (member_->last() == nullptr) return {};
  const schedule::Plan& plan = member_->last()->plan;
  return {std::string(plan.algorithm->name), std::string(protocol::traits(plan.protocol).name), plan.channels};
}

namespace {

std::vector<stream::Call> calls_of(std::span<const Call> calls) {
  std::vector<stream::Call> own;
  for (const Call& c : calls)
    own.push_back({.member = &c.member(), .request = c.request, .stream = c.stream, .scalar = c.scalar});
  return own;
}

}  // namespace

Status start(std::span<const Call> calls) { return stream::start(calls_of(calls)); }
Status start(std::span<const Exchange> exchanges) {
  std::vector<stream::Exchange> own;
  for (const Exchange& e : exchanges) own.push_back({&e.member(), e.transfers, e.stream});
  return stream::start_exchanges(own);
}
Status start_copies(std::span<const Call> calls) { return stream::start_copies(calls_of(calls)); }

}  // namespace weft::cuda
