#include "net/ucx/ucx.h"

#include "net/ucx/worker.h"

namespace weft::net::ucx {

Status available() {
  const auto loaded = library();
  return loaded ? Status{} : tl::make_unexpected(loaded.error());
}

Result<std::shared_ptr<Context>> open_context() { return Context::open(UCP_FEATURE_AM); }

Result<std::unique_ptr<messages::World>> open(std::shared_ptr<Context> context, bootstrap::Meeting meeting, Rank rank,
                                              messages::WaitPolicy::Limits limits) {
  WEFT_TRY(WorkerHandle worker, WorkerHandle::open(std::move(context)));
  std::vector<bool> near;
  for (const auto& record : meeting.ranks)
    near.push_back(record.node == meeting.ranks[static_cast<std::size_t>(rank)].node);
  return std::make_unique<messages::World>(
      capabilities(), std::move(meeting), rank, limits, [&](messages::Receiver& receiver, int epoll) {
        return std::make_unique<Worker>(std::move(worker), rank, std::move(near), limits.timeout, receiver, epoll);
      });
}

}  // namespace weft::net::ucx
