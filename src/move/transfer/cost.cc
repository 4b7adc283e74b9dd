#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "move/transfer/state.h"
#include "net/bootstrap/unique_id.h"
#include "net/ucx/ucx.h"

// What requests cost: measured, and estimated before they are posted.
namespace weft::transfer {
namespace {

constexpr Bytes kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr Bytes kMost = 16 << 20, kElement = 4 << 10;
constexpr std::int64_t kElements = 1024;
constexpr int kRounds = 5;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string_view name(Path path) {
  constexpr std::string_view kNames[] = {"direct", "shared memory", "process_vm_readv", "gpu memory", "tcp", "ucx",
                                         "file",   "object"};
  const auto at = static_cast<std::size_t>(path);
  return at < std::size(kNames) ? kNames[at] : "unknown";
}

double PathCost::us(std::int64_t elements, std::int64_t bytes) const {
  if (points.empty()) return 0;
  const double more = element_us * static_cast<double>(elements - 1);
  const auto above = std::find_if(points.begin(), points.end(), [&](const Point& p) { return p.bytes >= bytes; });
  if (above == points.begin()) return above->us + more;
  if (above == points.end())
    return points.back().us * static_cast<double>(bytes) / static_cast<double>(points.back().bytes) + more;
  const Point& below = *std::prev(above);
  const double part = static_cast<double>(bytes - below.bytes) / static_cast<double>(above->bytes - below.bytes);
  return below.us + part * (above->us - below.us) + more;
}

// Reads between two agents of this process, which take each other for strangers where the path asks for that.
class Agent::Probe {
 public:
  static Result<Probe> open() {
    std::array<std::uint8_t, 16> random{};
    net::link::fill_random(random);
    const std::string key = net::link::hexadecimal(random);
    const Network offers = net::ucx::available() ? Network::kUcx : Network::kTcp;
    WEFT_TRY(Agent owner,
             Agent::open({.name = "owner", .key = key, .listen = "127.0.0.1:0", .pages = 16, .network = offers}));
    Probe probe(std::move(owner), key);
    WEFT_TRY(probe.shared_, probe.owner_.allocate(kMost));
    WEFT_TRY(probe.plain_, probe.owner_.add_memory(probe.memory_.data(), kMost));
    return probe;
  }

  Result<PathCost> measure(Path path, const std::string& file = "") {
    WEFT_TRY(Agent reader, Agent::open({.name = "reader",
                                        .key = key_,
                                        .pages = 16,
                                        .network = path == Path::kUcx ? Network::kUcx : Network::kTcp,
                                        .only_network = path == Path::kTcp || path == Path::kUcx}));
    reader.state_->meeting.as_strangers = path != Path::kDirect;
    WEFT_TRY(const auto mine, reader.allocate(kMost));
    std::string peer;
    std::uint32_t region = path == Path::kKernel ? plain_.region : shared_.region;
    if (path == Path::kFile) {
      WEFT_TRY(const auto there, reader.add_file(file, 0, kMost));
      region = there.region;
    } else {
      WEFT_TRY(const std::string metadata, owner_.metadata());
      WEFT_TRY(peer, reader.load(metadata));
    }
    PathCost cost;
    const auto request = [&](Bytes bytes, const std::vector<std::uint32_t>& order) -> Result<Request> {
      const auto elements = order.empty() ? 1 : static_cast<std::int64_t>(order.size());
      WEFT_TRY(const auto local, reader.prepare("", std::vector<Rows>{{mine.region, 0, bytes, bytes, elements}}));
      WEFT_TRY(const auto remote,
               reader.prepare(peer, std::vector<Rows>{{region, 0, bytes, bytes, order.empty() ? 1 : kMost / bytes}}));
      return reader.make(Op::kRead, local, remote, {.remote_blocks = order});
    };
    for (const Bytes bytes : kSizes) {
      WEFT_TRY(auto one, request(bytes, {}));
      WEFT_TRY(const Timed timed, time(reader, one, bytes));
      cost.points.push_back({bytes, timed.us});
      cost.error = std::max(cost.error, timed.spread);
    }
    WEFT_TRY(auto many, request(kElement, scattered()));
    WEFT_TRY(const Timed timed, time(reader, many, kElement * kElements));
    cost.element_us = std::max(0.0, timed.us - cost.us(1, kElement * kElements)) / static_cast<double>(kElements - 1);
    return cost;
  }

 private:
  Probe(Agent owner, std::string key) : owner_(std::move(owner)), key_(std::move(key)), memory_(kMost) {}

  // Elements in random order, as the pages of a cache lie.
  static std::vector<std::uint32_t> scattered() {
    std::vector<std::uint32_t> order(kMost / kElement);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    order.resize(kElements);
    return order;
  }

  // The median of some repetitions, and their largest relative distance from it but for one.
  struct Timed {
    double us = 0, spread = 0;
  };
  static Result<Timed> time(Agent& reader, Request& request, Bytes bytes) {
    const auto repetitions = std::clamp<std::int64_t>((Bytes{1} << 20) / bytes, 1, 64);
    std::vector<double> times;
    for (int round = 0; round <= kRounds; ++round) {  // the first brings pages and caches into their usual state
      const double begin = now_us();
      for (std::int64_t i = 0; i < repetitions; ++i) {
        WEFT_CHECK(reader.post(request));
        if (reader.wait(request) != State::kDone) return tl::make_unexpected(request.error());
      }
      if (round > 0) times.push_back((now_us() - begin) / static_cast<double>(repetitions));
    }
    std::sort(times.begin(), times.end());
    const double median = times[kRounds / 2];
    return Timed{median, std::max(1 - times.front() / median, times[kRounds - 2] / median - 1)};
  }

  Agent owner_;
  std::string key_;
  std::vector<std::byte> memory_;
  Registration shared_, plain_;
};

Result<Costs> measure_costs(const std::string& folder) {
  WEFT_TRY(auto probe, Agent::Probe::open());
  Costs costs;
  for (const Path path : {Path::kDirect, Path::kMapped, Path::kKernel, Path::kTcp, Path::kUcx}) {
    if (path == Path::kUcx && !net::ucx::available()) continue;
    auto cost = probe.measure(path);
    // A kernel that forbids copies between processes has one path less.
    if (!cost && cost.error().code != Code::kUnsupported) return tl::make_unexpected(cost.error());
    if (cost) costs.of(path) = std::move(*cost);
  }
  if (folder.empty()) return costs;
  std::string file = folder + "/weft-costs-XXXXXX";
  const UniqueFd made(mkstemp(file.data()));
  if (!made.open()) return bad_input("folder {}: {}", folder, std::strerror(errno));
  const bool room = posix_fallocate(made.get(), 0, kMost) == 0;
  auto cost = room ? probe.measure(Path::kFile, file)
                   : failure(Code::kNoResources, Blame::kInput, "folder {}: no room for {} bytes", folder, kMost);
  unlink(file.c_str());
  if (!cost) return tl::make_unexpected(cost.error());
  costs.of(Path::kFile) = std::move(*cost);
  return costs;
}

namespace {

// The share of a request that moves from or to one remote region.
struct Part {
  const Target* target = nullptr;
  std::int64_t elements = 0;
  Bytes bytes = 0;
};

std::vector<Part> parts_of(const detail::Work& w) {
  std::map<const Target*, Part> parts;
  const auto add = [&](const Target* target, std::int64_t elements, Bytes bytes) {
    Part& part = parts[target];
    part.target = target;
    part.elements += elements;
    part.bytes += bytes;
  };
  const detail::List& list = *w.remote;
  if (w.remote_blocks.empty())
    for (std::size_t i = 0; i < list.rows.size(); ++i)
      add(list.targets[i].get(), list.rows[i].count, list.rows[i].count * list.rows[i].bytes);
  std::size_t row = 0;
  for (const std::uint32_t block : w.remote_blocks) {
    const auto element = list.at(block, row);
    add(element.target, 1, element.bytes);
  }
  std::vector<Part> sorted;
  for (const auto& [target, part] : parts) sorted.push_back(part);
  std::sort(sorted.begin(), sorted.end(),
            [](const Part& a, const Part& b) { return a.target->region < b.target->region; });
  return sorted;
}

}  // namespace

void Agent::set_costs(Costs costs) {
  if (state_ == nullptr) return;
  const std::lock_guard guard(state_->mutex);
  state_->meeting.costs = costs;
  state_->options.costs = std::move(costs);
}

Result<Estimate> Agent::estimate(const Request& request) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr) return bad_input("a request that was never made");
  const auto& local = request.work_->local->targets;
  const bool of_gpu = std::any_of(local.begin(), local.end(), [](const auto& t) { return t->copier != nullptr; });
  if (of_gpu)
    return failure(Code::kUnsupported, Blame::kInput, "the cost of copies from and to a GPU's memory is not known");
  Estimate estimate;
  for (const Part& part : parts_of(*request.work_)) {
    const PathCost& cost = state_->options.costs.of(part.target->path);
    if (!cost.known())
      return failure(Code::kUnsupported, Blame::kInput, "region {}: the cost of path {} is not known: measure_costs()",
                     part.target->region, name(part.target->path));
    estimate.us += cost.us(part.elements, part.bytes);
    estimate.error = std::max(estimate.error, cost.error);
  }
  return estimate;
}

std::string Agent::explain(const Request& request) const {
  if (const Status can = detail::usable(state_); !can) return can.error().message;
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr) return "a request that was never made\n";
  const detail::Work& w = *request.work_;
  std::string text = fmt::format("{} of {} elements, {} B: {}\n", w.op == Op::kRead ? "read" : "write", w.elements,
                                 w.total, w.remote->peer->name);
  for (const Part& part : parts_of(w)) {
    const Costs& costs = state_->options.costs;
    const PathCost& taken = costs.of(part.target->path);
    const double us = taken.known() ? taken.us(part.elements, part.bytes) : 0;
    text += fmt::format("region {}, {} elements, {} B: {}{}\n", part.target->region, part.elements, part.bytes,
                        name(part.target->path), taken.known() ? fmt::format(", {:.1f} us", us) : "");
    for (std::size_t i = 0; i < part.target->why_not.size(); ++i) {
      const auto other = static_cast<Path>(i);
      if (other == part.target->path) continue;
      const std::string& why_not = part.target->why_not[i];
      const PathCost& cost = costs.of(other);
      const double theirs = cost.known() ? cost.us(part.elements, part.bytes) : 0;
      const std::string lost = !why_not.empty() ? why_not
                               : cost.known() && taken.known()
                                   ? fmt::format("{:.1f} us, {:.1f} us more", theirs, theirs - us)
                                   : "it comes later in the usual order, and costs are not known";
      text += fmt::format("  not {}: {}\n", name(other), lost);
    }
  }
  return text;
}

}  // namespace weft::transfer
