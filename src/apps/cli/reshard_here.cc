#include "apps/cli/reshard_here.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "apps/cli/reshard_senders.h"
#include "base/text.h"
#include "move/reshard/receiver.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/socket.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{120}, kSaid{10};  // of a wait, and between lines that say whom it is for

// Calls for 0 … n - 1 by a thread per CPU; the seconds that it took.
double in_threads(Rank n, const std::function<void(Rank)>& call) {
  const auto begin = Clock::now();
  std::atomic<Rank> next = 0;
  std::vector<std::jthread> threads;
  const auto workers = std::min<Rank>(n, static_cast<Rank>(std::max(1U, std::thread::hardware_concurrency())));
  for (Rank w = 0; w < workers; ++w)
    threads.emplace_back([&] {
      for (Rank i = next++; i < n; i = next++) call(i);
    });
  threads.clear();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Target {
  transfer::Agent agent;
  transfer::Registration memory;
  std::optional<reshard::Receiver> receiver;
  Status status;
  std::int64_t wrong = 0;
};

// Copies as many bytes as each receiver gets of a whole version, within this process. Returns seconds.
double copy_seconds(const reshard::Plan& plan, std::vector<Target>& targets) {
  std::vector<std::int64_t> bytes(targets.size());
  for (const reshard::PairTotal& p : plan.pairs()) bytes[static_cast<std::size_t>(p.receiver)] += p.bytes;
  std::vector<std::vector<std::byte>> sources;
  for (const Target& t : targets) sources.emplace_back(static_cast<std::size_t>(t.memory.bytes), std::byte{1});
  return in_threads(static_cast<Rank>(targets.size()), [&](Rank r) {
    const auto i = static_cast<std::size_t>(r);
    std::memcpy(targets[i].memory.data, sources[i].data(), static_cast<std::size_t>(bytes[i]));
  });
}

Status fits(double bytes, const reshard::Layout& from, const reshard::Layout& to) {
  if (bytes <= static_cast<double>(kMostReshardHere)) return {};
  return bad_input("{} and {}: have {:.3g} B together; {} run here, --on MACHINE simulates more", from.name, to.name,
                   bytes, format_bytes(kMostReshardHere));
}

}  // namespace

Status check_fits_here(const reshard::Layout& from, const reshard::Layout& to) {
  double bytes = 0;
  for (const reshard::Layout* layout : {&from, &to})
    for (const reshard::Tensor& t : layout->tensors)
      if (t.boxes.empty() || t.boxes.front().shape == t.shape)
        bytes += static_cast<double>(reshard::elements(t)) * static_cast<double>(t.element_bytes);
  return fits(bytes, from, to);
}

namespace {

Status pull_aloud(reshard::Receiver& receiver) {
  for (auto waited = kSaid;; waited += kSaid) {
    Status status = receiver.pull(kSaid);
    if (status || status.error().code != Code::kTimeout || waited >= kLimit) return status;
    fmt::print(stderr, "weft: after {} s: {}\n", waited.count(), status.error().message);
  }
}

// What receivers make of the version that the senders have: seconds until the last one had all of it.
Result<double> pull_all(std::vector<Target>& targets) {
  const double seconds = in_threads(static_cast<Rank>(targets.size()), [&](Rank r) {
    Target& t = targets[static_cast<std::size_t>(r)];
    t.status = pull_aloud(*t.receiver);
  });
  for (const Target& t : targets) WEFT_CHECK(t.status);
  return seconds;
}

Result<std::int64_t> wrong_bytes(const reshard::Plan& plan, const ReshardValues& values, int version,
                                 std::vector<Target>& targets) {
  WEFT_TRY(const auto expected, values.expected(plan.to(), version));
  in_threads(static_cast<Rank>(targets.size()), [&](Rank r) {
    Target& t = targets[static_cast<std::size_t>(r)];
    t.wrong = expected.wrong(plan.to(), r, t.memory.data);
  });
  std::int64_t wrong = 0;
  for (const Target& t : targets) wrong += t.wrong;
  return wrong;
}

// Agents that have loaded the senders', with memory that nothing has arrived in. Says the path.
Result<std::vector<Target>> open_targets(const reshard::Plan& plan, const std::vector<ReshardSenders::Said>& said,
                                         const std::string& key, std::optional<transfer::Network> network,
                                         std::string& path) {
  std::vector<Target> targets;
  for (Rank r = 0; r < plan.to().ranks; ++r) {
    WEFT_TRY(auto agent, transfer::Agent::open({.name = fmt::format("to{}", r),
                                                .key = key,
                                                .pages = kReshardPages,
                                                .network = network.value_or(transfer::Network::kTcp),
                                                .only_network = network.has_value()}));
    WEFT_TRY(const auto memory, agent.allocate(reshard::memory_of(plan.to(), r).bytes));
    std::memset(memory.data, 0xee, static_cast<std::size_t>(memory.bytes));
    targets.push_back({std::move(agent), memory, std::nullopt, {}, 0});
  }
  for (Target& t : targets) {
    std::vector<reshard::Receiver::Peer> peers;
    for (const auto& s : said) {
      WEFT_TRY(std::string name, t.agent.load(s.metadata));
      peers.push_back({std::move(name), s.region, s.table});
    }
    if (path.empty()) {
      WEFT_TRY(path, t.agent.explain(peers.front().name));
      path = path.substr(path.find(": ") + 2);
      path = path.substr(0, path.find('\n'));
    }
    t.receiver.emplace(plan, static_cast<Rank>(&t - targets.data()), t.agent, t.memory, std::move(peers));
  }
  return targets;
}

// Version 2, of which receivers read what has changed.
Result<report::ReshardReport::Changed> pull_changes(const reshard::Plan& plan, const ReshardSenders& senders,
                                                    const ReshardValues& values, const ReshardTrial& trial,
                                                    std::vector<Target>& targets) {
  WEFT_CHECK(senders.next_version());
  for (Target& t : targets) t.receiver->begin(2);
  report::ReshardReport::Changed changed{.share = trial.changed};
  WEFT_TRY(changed.seconds, pull_all(targets));
  for (const Target& t : targets) changed.bytes += t.receiver->arrived_bytes();
  if (trial.check) {
    WEFT_TRY(changed.wrong, wrong_bytes(plan, values, 2, targets));
  }
  return changed;
}

}  // namespace

Result<report::ReshardReport::Here> reshard_here(const reshard::Plan& plan, const ReshardTrial& trial) {
  double bytes = 0;
  for (const reshard::Layout* layout : {&trial.from, &plan.from(), &plan.to()}) {
    if (layout == &plan.from() && trial.converted == nullptr) continue;
    for (Rank r = 0; r < layout->ranks; ++r) bytes += static_cast<double>(reshard::memory_of(*layout, r).bytes);
  }
  WEFT_CHECK(fits(bytes, plan.from(), plan.to()));
  std::array<std::uint8_t, 16> random{};
  net::link::fill_random(random);
  const std::string key = net::link::hexadecimal(random);
  const bool versions = trial.changed > 0;
  const ReshardValues values(trial.from, trial.converted, trial.changed);
  const ReshardSenders senders({trial.from, trial.converted, values, versions, key, trial.network});
  std::vector<ReshardSenders::Said> said;
  report::ReshardReport::Here here;
  for (Rank r = 0; r < plan.from().ranks; ++r) {
    WEFT_TRY(auto one, senders.receive());
    here.convert_seconds += one.convert_seconds;
    said.push_back(std::move(one));
  }
  WEFT_TRY(auto targets, open_targets(plan, said, key, trial.network, here.path));
  if (versions)
    for (Target& t : targets) t.receiver->begin(1);
  WEFT_TRY(here.seconds, pull_all(targets));
  if (trial.check) {
    WEFT_TRY(here.wrong, wrong_bytes(plan, values, 1, targets));
  }
  if (versions) {
    WEFT_TRY(here.changed, pull_changes(plan, senders, values, trial, targets));
  }
  here.copy_seconds = copy_seconds(plan, targets);
  return here;
}

}  // namespace weft::cli
