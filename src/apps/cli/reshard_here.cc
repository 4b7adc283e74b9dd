#include "apps/cli/reshard_here.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "move/reshard/meaning.h"
#include "move/reshard/receiver.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/socket.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLimit{120'000};
constexpr int kPages = 16;  // of an agent's table of fenced pages, which this needs none of

// A byte that says where in which tensor it is.
std::byte pattern(std::size_t tensor, std::int64_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(i) * 31 + static_cast<std::size_t>(i >> 12) * 7 + tensor);
}

// Calls for every run of a rank's bytes that has data: where it lies in the rank's memory, tensor, first byte, length.
void for_each_run(const reshard::Layout& layout, Rank rank, const auto& call) {
  const reshard::Memory memory = reshard::memory_of(layout, rank);
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    const std::int64_t e = layout.tensors[t].element_bytes;
    const reshard::Meaning meaning(layout.tensors[t], reshard::holding(layout, layout.tensors[t], rank));
    for (std::int64_t at = 0; at < meaning.elements();) {
      const auto segment = meaning.at(at);
      if (segment.tensor != nullptr)
        call(memory.offsets[t] + at * e, std::hash<std::string>()(*segment.tensor), segment.first * e,
             segment.length * e);
      at += segment.length;
    }
  }
}

bool put(int to, const void* data, std::size_t n) { return write(to, data, n) == static_cast<ssize_t>(n); }
void say(int to, std::uint32_t region, const std::string& text) {
  const auto n = static_cast<std::uint32_t>(text.size());
  if (!put(to, &region, sizeof region) || !put(to, &n, sizeof n) || !put(to, text.data(), n)) _exit(1);
}

// The process that has the memory of all senders, until its pipe ends. Says each rank's region and metadata.
[[noreturn]] void serve(const reshard::Layout& layout, const std::string& key, std::optional<transfer::Network> network,
                        int to_parent, int from_parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<transfer::Agent> agents;
  for (Rank r = 0; r < layout.ranks; ++r) {
    auto agent = transfer::Agent::open({.name = fmt::format("from{}", r),
                                        .key = key,
                                        .listen = network ? "127.0.0.1:0" : "",
                                        .pages = kPages,
                                        .network = network.value_or(transfer::Network::kTcp)});
    if (!agent) say(to_parent, 0, "!" + agent.error().message), _exit(1);
    const auto memory = agent->allocate(reshard::memory_of(layout, r).bytes);
    if (!memory) say(to_parent, 0, "!" + memory.error().message), _exit(1);
    for_each_run(layout, r, [&](std::int64_t at, std::size_t tensor, std::int64_t first, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) memory->data[at + i] = pattern(tensor, first + i);
    });
    const auto metadata = agent->metadata();
    say(to_parent, memory->region, metadata ? "+" + *metadata : "!" + metadata.error().message);
    agents.push_back(std::move(*agent));
  }
  char byte = 0;
  while (read(from_parent, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

// Owns: the process of the senders.
class Senders {
 public:
  Senders(const reshard::Layout& layout, const std::string& key, std::optional<transfer::Network> network) {
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0) return;
    std::fflush(stdout);
    pid_ = fork();
    if (pid_ == 0) {
      close(up[0]);
      close(down[1]);
      serve(layout, key, network, up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    in_ = UniqueFd(up[0]);
    out_ = UniqueFd(down[1]);
  }
  ~Senders() {
    out_.reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Senders(const Senders&) = delete;
  Senders& operator=(const Senders&) = delete;

  struct Said {
    std::uint32_t region = 0;
    std::string metadata;
  };
  Result<Said> receive() const {
    Said said;
    std::uint32_t n = 0;
    if (take(&said.region, sizeof said.region) && take(&n, sizeof n)) said.metadata.resize(n);
    if (said.metadata.empty() || !take(said.metadata.data(), n))
      return failure(Code::kPeerDied, Blame::kOperation, "the senders' process has ended");
    if (said.metadata[0] == '!')
      return failure(Code::kNoResources, Blame::kInput, "the senders' process: {}", said.metadata.substr(1));
    said.metadata.erase(0, 1);
    return said;
  }

 private:
  bool take(void* to, std::size_t n) const {
    for (std::size_t got = 0; got < n;) {
      const ssize_t here = read(in_.get(), static_cast<char*>(to) + got, n - got);
      if (here < 0 && errno == EINTR) continue;
      if (here <= 0) return false;
      got += static_cast<std::size_t>(here);
    }
    return true;
  }
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

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

// Copies as many bytes as each receiver gets, within this process. Returns seconds.
double copy_seconds(std::vector<Target>& targets) {
  std::vector<std::vector<std::byte>> sources;
  for (const Target& t : targets) sources.emplace_back(static_cast<std::size_t>(t.memory.bytes), std::byte{1});
  return in_threads(static_cast<Rank>(targets.size()), [&](Rank r) {
    const auto i = static_cast<std::size_t>(r);
    std::memcpy(targets[i].memory.data, sources[i].data(),
                static_cast<std::size_t>(targets[i].receiver->arrived_bytes()));
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

Result<report::ReshardReport::Here> reshard_here(const reshard::Plan& plan, std::optional<transfer::Network> network,
                                                 bool check) {
  double bytes = 0;
  for (const reshard::Layout* layout : {&plan.from(), &plan.to()})
    for (Rank r = 0; r < layout->ranks; ++r) bytes += static_cast<double>(reshard::memory_of(*layout, r).bytes);
  WEFT_CHECK(fits(bytes, plan.from(), plan.to()));
  std::array<std::uint8_t, 16> random{};
  net::link::fill_random(random);
  const std::string key = net::link::hexadecimal(random);
  const Senders senders(plan.from(), key, network);
  std::vector<Senders::Said> said;
  for (Rank r = 0; r < plan.from().ranks; ++r) {
    WEFT_TRY(auto one, senders.receive());
    said.push_back(std::move(one));
  }
  std::vector<Target> targets;
  report::ReshardReport::Here here;
  for (Rank r = 0; r < plan.to().ranks; ++r) {
    WEFT_TRY(auto agent, transfer::Agent::open({.name = fmt::format("to{}", r),
                                                .key = key,
                                                .pages = kPages,
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
      peers.push_back({std::move(name), s.region});
    }
    if (here.path.empty()) {
      WEFT_TRY(here.path, t.agent.explain(peers.front().name));
      here.path = here.path.substr(here.path.find(": ") + 2);
      here.path = here.path.substr(0, here.path.find('\n'));
    }
    t.receiver.emplace(plan, static_cast<Rank>(&t - targets.data()), t.agent, t.memory, std::move(peers));
  }
  const auto count = static_cast<Rank>(targets.size());
  here.seconds = in_threads(count, [&](Rank r) {
    Target& t = targets[static_cast<std::size_t>(r)];
    t.status = t.receiver->pull(kLimit);
  });
  for (const Target& t : targets) WEFT_CHECK(t.status);
  if (check) here.wrong = 0;
  if (check)
    in_threads(count, [&](Rank r) {
      Target& t = targets[static_cast<std::size_t>(r)];
      for_each_run(plan.to(), r, [&](std::int64_t at, std::size_t tensor, std::int64_t first, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) t.wrong += t.memory.data[at + i] != pattern(tensor, first + i);
      });
    });
  if (check)
    for (const Target& t : targets) here.wrong += t.wrong;
  here.copy_seconds = copy_seconds(targets);
  return here;
}

}  // namespace weft::cli
