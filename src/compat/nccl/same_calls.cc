#include "compat/nccl/same_calls.h"

#include "plan/protocol/protocol.h"
#include "plan/schedule/element.h"

namespace weft::compat::nccl {

std::shared_ptr<SameCalls> SameCalls::of(const stream::Group& group) {
  static std::mutex mutex;
  static std::map<const stream::Group*, std::weak_ptr<SameCalls>> all;
  const std::lock_guard guard(mutex);
  std::erase_if(all, [](const auto& known) { return known.second.expired(); });
  auto made = all[&group].lock();
  if (!made) all[&group] = made = std::make_shared<SameCalls>(group.ranks());
  return made;
}

std::string SameCalls::Call::text() const {
  return fmt::format("rank {} called {} of {} ({}, {} x {})", rank, schedule::name(collective), count, algorithm,
                     protocol, channels);
}

Status SameCalls::add(Rank rank, const Request& request, const stream::Prepared& prepared) {
  const std::lock_guard guard(mutex_);
  const Call call{prepared.signature,
                  rank,
                  request.collective,
                  request.count,
                  prepared.plan.algorithm->name,
                  protocol::traits(prepared.plan.protocol).name,
                  prepared.plan.channels,
                  0};
  const std::uint64_t number = called_[rank]++;
  const auto first = calls_.try_emplace(number, call).first;
  if (failed_ && first->second.signature != call.signature)
    failed_ = failure(Code::kMismatch, Blame::kCommunicator, "{}, {} (collective #{} of the communicator)",
                      first->second.text(), call.text(), number + 1);
  if (++first->second.came == ranks_) calls_.erase(first);
  return failed_;
}

Status SameCalls::trouble() const {
  const std::lock_guard guard(mutex_);
  return failed_;
}

}  // namespace weft::compat::nccl
