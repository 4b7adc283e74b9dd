// A child of fork() that ends what it has inherited leaves its parent's memory, connections and threads alone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"
#include "weft/kv.h"
#include "weft/queue.h"
#include "weft/transfer.h"

namespace weft::tests {
namespace {

// Runs in a forked child; its exit status is not 0 if `ends` returns what is wrong.
template <class Ends>
std::string in_child(Ends ends) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string wrong = ends();
    if (!wrong.empty()) fprintf(stderr, "%s\n", wrong.c_str());
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "the child did not end well";
}

std::string leaves_all(Communicator& comm) {
  constexpr std::size_t kCount = 100000;
  auto memory = comm.allocate(kCount * sizeof(float));
  if (!memory) return memory.error().message;
  auto half = comm.split(0, comm.rank());
  if (!half) return half.error().message;
  const auto data = memory->as<float>();
  std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + 1));
  Queue queue(std::move(*half));
  auto agent = transfer::Agent::open({.name = std::to_string(comm.rank())});
  if (!agent) return agent.error().message;
  auto pages = agent->allocate(1 << 20, 4096);
  if (!pages) return pages.error().message;
  auto store = kv::Store::open(*agent, {.pages = 4, .page_bytes = 4096, .block_tokens = 4});
  if (!store) return store.error().message;
  auto place = MeetingPlace::open(2);
  if (!place) return place.error().message;
  const auto refused = [](const auto& result) {
    return !result && result.error().code == Code::kInvalidArgument &&
           result.error().message.find("forked") != std::string::npos;
  };
  const std::vector<kv::Token> tokens(8, 1);
  auto written = store->begin("tenant", tokens);
  if (!written) return written.error().message;
  std::string wrong = in_child([&]() -> std::string {
    if (!refused(comm.barrier())) return "a call of the child's communicator is not refused";
    if (!refused(agent->metadata()) || !refused(agent->deregister(*pages)) || !refused(agent->notify("", "hello")))
      return "a call of the child's agent is not refused";
    if (!refused(store->begin("tenant", tokens)) || !refused(store->flush()) || !refused(written->commit()))
      return "a call of the child's store is not refused";
    if (store->match("tenant", tokens).tokens() != 0) return "the child's store finds what is its parent's";
    comm.abort("the child ends");
    { const Memory ends = std::move(*memory); }
    { const Queue ends = std::move(queue); }
    { const auto ends = std::move(*store); }
    { const auto ends = std::move(*agent); }
    { const auto ends = std::move(*place); }
    { const Communicator ends = std::move(comm); }
    return "";
  });
  if (!wrong.empty()) return wrong;
  if (const auto committed = written->commit(); !committed || *committed != 2)
    return "the parent's writing has not come through the child's end";
  const auto changed = [&](float value) {
    return std::any_of(data.begin(), data.end(), [&](float x) { return x != value; });
  };
  if (changed(static_cast<float>(comm.rank() + 1))) return "the child has overwritten its parent's memory";
  if (const Status sum = comm.all_reduce(std::span<const float>(data), data); !sum) return sum.error().message;
  if (changed(static_cast<float>(comm.ranks() * (comm.ranks() + 1) / 2))) return "the sum is wrong";
  const auto queued = queue.start([](Communicator& c) { return c.barrier(); });
  if (const Status done = queued.wait(); !done) return done.error().message;
  return "";
}

TEST(ForkedChild, LeavesWhatItInheritedToItsParent) {
  for (const char* const over : {"shm", "tcp", "ucx"}) {
    if (over == std::string("ucx") && !net::ucx::available()) continue;
    SCOPED_TRACE(over);
    ConnectedJob job(2, {.transport = over}, [](Communicator& c, Report&, NoticeBoard&) { return leaves_all(c); });
    for (const std::string& wrong : job.join()) EXPECT_EQ(wrong, "");
  }
}

}  // namespace
}  // namespace weft::tests
