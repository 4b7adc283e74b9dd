#include "api/calibrate/ucx.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "api/calibrate/cpus.h"
#include "exec/kernels/fold.h"
#include "net/bootstrap/meeting.h"
#include "net/ucx/ucx.h"

namespace weft::calibrate {
namespace {

using Clock = std::chrono::steady_clock;
using net::messages::Endpoint;
using protocol::End;
using protocol::Memory;
using protocol::Operation;

constexpr std::chrono::seconds kLong{20};  // it takes a tenth of a second where nothing else runs
constexpr int kRuns = 5, kTrips = 200, kBlocks = 64;
constexpr Bytes kMessage = 64, kBlock = net::messages::kSlotBytes;

struct Measured {
  double trip = std::numeric_limits<double>::infinity();  // seconds, one way
  double rate = 0;                                        // bytes per second
};

// One of two ranks: what it sends lies in `in`, what comes goes to `out`.
class Side {
 public:
  explicit Side(Endpoint& endpoint)
      : endpoint_(endpoint), in_(kBlock), out_(kBlock), peer_(1 - endpoint.rank()), deadline_(Clock::now() + kLong) {
    endpoint_.begin({.in = in_.data(),
                     .out = out_.data(),
                     .fold = exec::fold_for(DataType::kUint8, ReduceOp::kSum, exec::Stores::kCached)});
  }

  // False: something is wrong with the peer or with UCX.
  bool send(Bytes bytes) {
    const End message{.kind = End::Kind::kMessage, .peer = peer_};
    return carry({.bytes = bytes, .sources = {{.memory = Memory::kIn}}, .destinations = {message}});
  }
  bool receive(Bytes bytes) {
    const End message{.kind = End::Kind::kMessage, .peer = peer_};
    return carry({.bytes = bytes, .sources = {message}, .destinations = {{.memory = Memory::kOut}}});
  }
  // What was sent is UCX's or the peer's, and may be forgotten here.
  bool settle() {
    while (endpoint_.unsettled() >= 0)
      if (endpoint_.failures().failure() || Clock::now() > deadline_) return false;
    return true;
  }

 private:
  bool carry(const Operation& operation) {
    while (!endpoint_.ready(0, operation)) {
      if (endpoint_.failures().failure() || Clock::now() > deadline_) return false;
      if (alone_) sched_yield();
    }
    endpoint_.post(0, operation);
    return true;
  }

  Endpoint& endpoint_;
  std::vector<std::byte> in_, out_;
  Rank peer_;
  Clock::time_point deadline_;
  const bool alone_ = usable_cpus().size() < 2;
};

// Seconds that a rank needs for this.
template <class Work>
std::optional<double> seconds_of(const Work& work) {
  const auto start = Clock::now();
  if (!work()) return std::nullopt;
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Both sides of all runs; rank 0 measures. Nothing: it did not come to an end.
std::optional<Measured> play(Endpoint& endpoint) {
  const bool first = endpoint.rank() == 0;
  Side side(endpoint);
  const auto trips = [&] {
    for (int i = 0; i < kTrips; ++i)
      if (first ? !side.send(kMessage) || !side.receive(kMessage) : !side.receive(kMessage) || !side.send(kMessage))
        return false;
    return true;
  };
  const auto blocks = [&] {
    for (int i = 0; i < kBlocks; ++i)
      if (first ? !side.send(kBlock) : !side.receive(kBlock)) return false;
    return first ? side.receive(kMessage) : side.send(kMessage);
  };
  Measured best;
  for (int run = 0; run < kRuns; ++run) {
    const auto there_and_back = seconds_of(trips), stream = seconds_of(blocks);
    if (!there_and_back || !stream) return std::nullopt;
    best.trip = std::min(best.trip, *there_and_back / (2 * kTrips));
    best.rate = std::max(best.rate, static_cast<double>(kBlock * kBlocks) / *stream);
  }
  return side.settle() ? std::optional(best) : std::nullopt;
}

// A rank's whole life. Rank 0 writes what it measured.
void live(const net::bootstrap::UniqueId& id, Rank rank, bool one_machine, int result) {
  const std::vector<int> cpus = usable_cpus();
  pin_to(cpus[static_cast<std::size_t>(rank) % cpus.size()]);
  auto meeting = net::bootstrap::meet(
      {.id = id, .rank = rank, .ranks = 2, .node = one_machine ? "one" : std::to_string(rank), .timeout = kLong});
  auto context = net::ucx::open_context();
  if (!meeting || !context) return;
  auto world = net::ucx::open(std::move(*context), std::move(*meeting), rank, {.timeout = kLong});
  if (!world) return;
  const auto measured = play((*world)->endpoint);
  if (rank == 0 && measured) (void)!write(result, &*measured, sizeof *measured);
}

std::optional<Measured> between_two(bool one_machine) {
  auto host = net::bootstrap::Host::open(net::link::loopback(), 2);
  int ends[2];
  if (!host || pipe(ends) != 0) return std::nullopt;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < 2; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      const net::bootstrap::UniqueId id = host->id();
      host->forget();
      live(id, rank, one_machine, to.get());
      _exit(0);
    }
    if (child > 0) children.push_back(child);
  }
  to.reset();
  if (children.size() == 2) (void)host->serve(kLong);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  Measured measured;
  if (read(from.get(), &measured, sizeof measured) != sizeof measured) return std::nullopt;
  return measured;
}

}  // namespace

void measure_ucx(Rates& rates) {
  if (!net::ucx::available()) return;
  if (const auto near = between_two(true)) {
    rates.ucx = Duration::seconds(near->trip);
    rates.ucx_connection = BytesPerSecond(near->rate);
  }
  if (const auto across = between_two(false)) {
    rates.ucx_across = Duration::seconds(across->trip);
    rates.ucx_across_connection = BytesPerSecond(across->rate);
  }
}

}  // namespace weft::calibrate
