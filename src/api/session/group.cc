#include "weft/group.h"

#include <algorithm>
#include <iterator>
#include <thread>

#include "base/result.h"

namespace weft {

Group::Queue& Group::of(Communicator& comm) {
  const auto known = std::find_if(queues_.begin(), queues_.end(), [&](const Queue& q) { return q.comm == &comm; });
  return known != queues_.end() ? *known : queues_.emplace_back(Queue{&comm, {}, {}});
}

Result<std::vector<Work>> Group::start() {
  std::vector<Work> works;
  const std::vector<Queue> queues = std::exchange(queues_, {});
  for (const Queue& queue : queues) {
    if (!queue.transfers.empty()) {
      WEFT_TRY(works.emplace_back(), queue.comm->start(queue.transfers));
    }
    WEFT_TRY(std::vector<Work> more, queue.comm->start(std::span<const Request>(queue.requests)));
    std::move(more.begin(), more.end(), std::back_inserter(works));
  }
  return works;
}

// Waiting for one communicator would keep the others from moving on.
Status Group::run() {
  WEFT_TRY(std::vector<Work> works, start());
  Status first;
  while (!works.empty()) {
    const auto finished = std::remove_if(works.begin(), works.end(), [&](Work& work) {
      const Result<bool> done = work.test();
      if (!done && first) first = tl::make_unexpected(done.error());
      return !done || *done;
    });
    if (finished == works.end()) std::this_thread::yield();
    works.erase(finished, works.end());
  }
  return first;
}

}  // namespace weft
