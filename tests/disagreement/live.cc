#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "api/session/session.h"
#include "net/mixed/mixed.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "net/threads/threads.h"
#include "net/ucx/ucx.h"
#include "tests/communicators.h"
#include "tests/disagreement/case.h"
#include "tests/disagreement/life.h"
#include "tests/processes.h"

namespace weft::disagreement {
namespace {

constexpr std::chrono::seconds kTimeout{3};  // of every wait; a disagreement must be noticed without it

template <class World>
Communicator communicator(std::unique_ptr<World> world, Rank ranks) {
  return Communicator(std::make_shared<session::Session>(std::make_unique<exec::WorldExecutor<World>>(std::move(world)),
                                                         ranks, tests::forcing_chooser()));
}

class Meetings {
 public:
  Meetings(const Case& c) : ranks_(c.ranks), over_(c.over), id_(tests::fresh_id("disagreement")) {
    if (c.over == Over::kThreads) {
      threads_ = tests::thread_communicators(c.ranks, limits());
    } else if (c.over != Over::kShm) {
      host_ = net::bootstrap::Host::open(net::link::loopback(), c.ranks).value();
      serving_ = std::thread([this] { (void)host_->serve(std::chrono::seconds(20)); });
    }
  }
  ~Meetings() {
    if (serving_.joinable()) serving_.join();
  }
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

  Result<Communicator> join(Rank r) {
    if (over_ == Over::kThreads) return std::move(threads_[static_cast<std::size_t>(r)]);
    if (over_ == Over::kShm) {
      WEFT_TRY(
          auto world,
          net::shm::attach({.id = id_, .rank = r, .ranks = ranks_, .heap_bytes = Bytes{1} << 22, .limits = limits()}));
      return communicator(std::move(world), ranks_);
    }
    const std::string node = over_ == Over::kMixed ? fmt::format("{}-{}", id_, r / 2) : "";
    WEFT_TRY(auto meeting, net::bootstrap::meet({.id = host_->id(), .rank = r, .ranks = ranks_, .node = node}));
    const net::messages::WaitPolicy::Limits far{.spins = 1, .timeout = kTimeout};
    if (over_ == Over::kUcx) {
      WEFT_TRY(auto context, net::ucx::open_context());
      WEFT_TRY(auto world, net::ucx::open(std::move(context), std::move(meeting), r, far));
      return communicator(std::move(world), ranks_);
    }
    const auto across = [far](net::bootstrap::Meeting met, Rank rank) -> Result<std::unique_ptr<net::messages::World>> {
      return net::tcp::open(std::move(met), rank, {}, far);
    };
    if (over_ == Over::kMixed) {
      WEFT_TRY(auto world,
               net::mixed::open(std::move(meeting), r, {.name = "shm+tcp", .across = across, .limits = far}));
      return communicator(std::move(world), ranks_);
    }
    WEFT_TRY(auto world, across(std::move(meeting), r));
    return communicator(std::move(world), ranks_);
  }

 private:
  static net::memory::WaitPolicy::Limits limits() { return {.spins = 50, .timeout = kTimeout}; }

  Rank ranks_;
  Over over_;
  std::string id_;
  std::vector<Communicator> threads_;
  std::optional<net::bootstrap::Host> host_;
  std::thread serving_;
};

}  // namespace

Verdict live(const Case& c) {
  std::vector<Life> lives(static_cast<std::size_t>(c.ranks));
  {
    Meetings meetings(c);
    std::vector<std::thread> threads;
    for (Rank r = 0; r < c.ranks; ++r)
      threads.emplace_back([&, r] {
        auto comm = meetings.join(r);
        Life& life = lives[static_cast<std::size_t>(r)];
        if (!comm)
          life.wrong = comm.error().message;
        else
          life = context(c, *comm);
      });
    for (std::thread& t : threads) t.join();
  }
  Verdict v;
  v.wrong = judge(c, lives, v);
  return v;
}

}  // namespace weft::disagreement
