#include "apps/cli/bench_transfer.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>

#include "apps/cli/bench_file.h"
#include "apps/cli/bench_one_sided.h"
#include "apps/cli/tiers.h"
#include "base/report/transfer.h"
#include "base/text.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/socket.h"
#include "weft/transfer.h"

namespace weft::cli {
namespace {

using report::TransferRow;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr std::chrono::milliseconds kLongestRound{100};  // beside other work a transfer by a network takes milliseconds
constexpr Bytes kMostBytes = Bytes{4} << 30;

struct Case {
  Bytes block = 0;
  std::int64_t blocks = 1;
};

struct Plan {
  transfer::Op op = transfer::Op::kRead;
  bool plain = false, verify = false, check = false;
  std::optional<transfer::Network> network;  // nothing: the agent's choice
  std::vector<Case> cases;
  Bytes most = 0, page = 0;  // `page` > 0: fenced, in pages of this size
};

Result<Plan> plan_of(const BenchSpec& spec, const TransferSpec& asked) {
  Plan plan;
  if (spec.on.empty())
    for (const auto& [given, option] :
         {std::pair(!spec.conditions.faults.empty(), "--fault"), std::pair(!spec.conditions.loads.empty(), "--load"),
          std::pair(!spec.conditions.beside.empty(), "--beside"),
          std::pair(!spec.conditions.compute.empty(), "--compute"),
          std::pair(!spec.conditions.timeline.empty(), "--timeline"),
          std::pair(spec.conditions.level != "flow", "--level")})
      if (given) return bad_input("bench transfer {}: is for machines named by --on", option);
  if (!spec.forced.algorithm.empty() || !spec.forced.protocol.empty() || spec.forced.channels != 0)
    return bad_input("bench transfer: --algo, --proto and --channels are for collectives");
  if (!spec.sweep.ranks_text.empty() && asked.from.empty())
    return bad_input("bench transfer: --ranks goes with --on and --from");
  if (asked.bounce && asked.from.empty()) return bad_input("--bounce: goes with --from");
  if (spec.on.empty() && !asked.from.empty())
    return bad_input("--from {}: names a tier of a machine given by --on", asked.from);
  if (spec.on.empty() && !asked.stack.empty())
    return bad_input("--stack {}: is simulated, on a machine given by --on", asked.stack);
  if (!asked.stack.empty() && asked.from.empty())
    return bad_input("--stack {}: goes with --from gpu or node", asked.stack);
  if (spec.sweep.op_given && spec.sweep.op_name != "read" && spec.sweep.op_name != "write")
    return bad_input("--op {}: bench transfer has read and write", spec.sweep.op_name);
  WEFT_TRY(plan.network, network_of("bench transfer", spec.transport));
  plan.op = spec.sweep.op_name == "write" ? transfer::Op::kWrite : transfer::Op::kRead;
  plan.plain = spec.sweep.unregistered;
  plan.verify = asked.verify;
  plan.check = spec.sweep.check;
  WEFT_TRY(const Bytes block, parse_message("--block", asked.block.empty() ? "0" : asked.block));
  if (asked.blocks < 0 || asked.blocks > 10'000'000) return bad_input("--blocks {}: 1 to 10000000", asked.blocks);
  if (asked.blocks > 0) {
    if (asked.block.empty()) return bad_input("--blocks {} needs --block, the size of one", asked.blocks);
    if (block == 0) return bad_input("--block {}: a block has at least 1 B", asked.block);
    plan.cases = {{block, asked.blocks}};
  } else {
    WEFT_TRY(const auto sizes, sizes_of(spec.sweep));
    for (const Bytes bytes : sizes) {
      if (block > 0 && bytes > block && bytes % block != 0)
        return bad_input("--block {}: {} B are no whole number of blocks", asked.block, bytes);
      if (bytes > 0) plan.cases.push_back(block == 0 || block > bytes ? Case{bytes, 1} : Case{block, bytes / block});
    }
  }
  for (const Case& c : plan.cases) plan.most = std::max(plan.most, c.block * c.blocks);
  if (plan.most <= 0 || plan.most > kMostBytes)
    return bad_input("bench transfer moves 1 B to {}, not {}", format_bytes(kMostBytes), format_bytes(plan.most));
  if (plan.verify) {
    if (block == 0) return bad_input("--verify needs --block: checksums belong to pages of this size");
    plan.page = block;
    plan.most = (plan.most + block - 1) / block * block;
  }
  return plan;
}

std::byte pattern(Bytes i) { return static_cast<std::byte>(i * 31 + (i >> 12)); }

// The kernel copies page by page, and a processor's loads wait for stores that differ from them in whole pages; most
// arrays of these sizes begin with a page.
constexpr std::size_t kPage = 4096;
std::byte* first_page_of(std::vector<std::byte>& memory) {
  return memory.data() + (kPage - reinterpret_cast<std::uintptr_t>(memory.data()) % kPage) % kPage;
}

// The other process: has the memory, says how to reach it, and ends when its pipe does.
[[noreturn]] void serve(const Plan& plan, const std::string& key, int to_parent, int from_parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto say = [&](const std::string& text) {
    const auto n = static_cast<std::uint32_t>(text.size());
    if (write(to_parent, &n, sizeof n) != sizeof n || write(to_parent, text.data(), n) != static_cast<ssize_t>(n))
      _exit(1);
  };
  auto agent = transfer::Agent::open({.name = "server",
                                      .key = key,
                                      .listen = plan.network ? "127.0.0.1:0" : "",
                                      .network = plan.network.value_or(transfer::Network::kTcp)});
  std::vector<std::byte> plain(plan.plain ? static_cast<std::size_t>(plan.most) + kPage : 0);
  std::byte* const first = first_page_of(plain);
  if (!agent) say("!" + agent.error().message), _exit(1);
  const auto memory =
      plan.plain ? agent->add_memory(first, plan.most, plan.page) : agent->allocate(plan.most, plan.page);
  if (!memory) say("!" + memory.error().message), _exit(1);
  for (Bytes i = 0; i < plan.most; ++i) memory->data[i] = pattern(i);
  std::string generations;
  for (Bytes at = 0; plan.page > 0 && at < plan.most; at += plan.page) {
    const auto page = agent->acquire(*memory, 1);  // pages come in their order
    if (!page || !agent->seal(*memory, *page)) say("!no page"), _exit(1);
    generations.append(reinterpret_cast<const char*>(&page->generation), sizeof page->generation);
  }
  const auto metadata = agent->metadata();
  say(metadata ? "+" + *metadata : "!" + metadata.error().message);
  say("+" + generations);
  char byte = 0;
  while (read(from_parent, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

// Owns: the other process.
class Server {
 public:
  Server(const Plan& plan, const std::string& key) {
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0) return;
    std::fflush(stdout);
    pid_ = fork();
    if (pid_ == 0) {
      close(up[0]);
      close(down[1]);
      serve(plan, key, up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    in_ = UniqueFd(up[0]);
    out_ = UniqueFd(down[1]);
  }
  ~Server() {
    out_.reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Result<std::string> receive() const {
    std::uint32_t n = 0;
    std::string text;
    if (take(&n, sizeof n)) text.resize(n);
    if (text.empty() || !take(text.data(), n))
      return failure(Code::kPeerDied, Blame::kOperation, "the other process has ended");
    if (text[0] == '!') return failure(Code::kNoResources, Blame::kInput, "the other process: {}", text.substr(1));
    return text.substr(1);
  }

 private:
  bool take(void* to, std::size_t n) const {
    for (std::size_t got = 0; got < n;) {
      const ssize_t here = read(in_.get(), static_cast<char*>(to) + got, n - got);
      if (here <= 0) return false;
      got += static_cast<std::size_t>(here);
    }
    return true;
  }
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

template <class F>
double seconds(F&& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// What a case is measured with: the agents' memory, and memory of this process for memcpy.
struct Bench {
  transfer::Agent& agent;
  transfer::Registration mine;
  std::byte* other;  // memory of this process
  const std::string& generations;
  const Plan& plan;
  std::string* explanation = nullptr;  // null: neither predicted nor explained
};

Result<transfer::Request> request_of(Bench& b, const Case& c, const std::vector<std::uint32_t>& order) {
  const auto row = [&](std::uint32_t region) {
    return std::vector<transfer::Rows>{{region, 0, c.block, c.block, c.blocks}};
  };
  WEFT_TRY(const auto local, b.agent.prepare("", row(b.mine.region)));
  WEFT_TRY(const auto remote, b.agent.prepare("server", row(0)));
  transfer::RequestOptions options;
  std::vector<std::uint64_t> generations;
  if (b.plan.page > 0)
    for (const std::uint32_t block : order) {
      std::uint64_t generation = 0;
      std::memcpy(&generation, b.generations.data() + std::size_t{block} * sizeof generation, sizeof generation);
      generations.push_back(generation);
    }
  if (c.blocks > 1 || b.plan.page > 0) options.remote_blocks = order;
  options.generations = generations;
  options.verify = b.plan.verify;
  return b.agent.make(b.plan.op, local, remote, options);
}

Result<TransferRow> measure(Bench& b, const Case& c) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(c.blocks));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));  // as pages of a cache lie
  WEFT_TRY(auto request, request_of(b, c, order));
  TransferRow row{.block = c.block, .blocks = c.blocks};
  if (b.explanation != nullptr) {
    WEFT_TRY(const auto estimate, b.agent.estimate(request));
    row.predicted = Duration::microseconds(estimate.us);
    *b.explanation = b.agent.explain(request);
  }
  const auto most = std::clamp<std::int64_t>((Bytes{4} << 20) / row.bytes(), 1, 2000);
  const auto block = static_cast<std::size_t>(c.block);
  std::vector<double> posts, times, copies;
  for (int round = 0; round < kRounds; ++round) {
    std::int64_t repetitions = 0;
    Clock::duration posting{};
    const auto begin = Clock::now();
    auto now = begin;
    while (repetitions < most && now - begin < kLongestRound) {
      bool good = b.agent.post(request).has_value();
      posting += Clock::now() - now;
      good = good && b.agent.wait(request) == transfer::State::kDone;
      if (!good) return tl::make_unexpected(request.error());
      ++repetitions;
      now = Clock::now();
    }
    const auto count = static_cast<double>(repetitions);
    times.push_back(std::chrono::duration<double>(now - begin).count() / count);
    posts.push_back(std::chrono::duration<double>(posting).count() / count);
    copies.push_back(seconds([&] {
                       for (std::int64_t i = 0; i < repetitions; ++i)
                         for (std::size_t at = 0; at < order.size(); ++at) {
                           std::byte *here = b.mine.data + at * block, *there = b.other + order[at] * block;
                           if (b.plan.op == transfer::Op::kWrite) std::swap(here, there);
                           std::memcpy(here, there, block);
                         }
                     }) /
                     count);
  }
  row.post = Duration::seconds(median(posts));
  row.time = Duration::seconds(median(times));
  row.copy = Duration::seconds(median(copies));
  if (b.plan.check) {  // once more, into memory that holds something else; what was written is read back
    if (b.plan.op == transfer::Op::kWrite)
      for (std::size_t at = 0; at < order.size(); ++at)
        for (std::size_t i = 0; i < block; ++i)
          b.mine.data[at * block + i] = pattern(static_cast<Bytes>(order[at] * block + i));
    if (b.plan.op == transfer::Op::kRead) std::memset(b.mine.data, 0xee, static_cast<std::size_t>(row.bytes()));
    WEFT_CHECK(b.agent.post(request));
    if (b.agent.wait(request) != transfer::State::kDone) return tl::make_unexpected(request.error());
    if (b.plan.op == transfer::Op::kWrite) {
      std::memset(b.mine.data, 0xee, static_cast<std::size_t>(row.bytes()));
      Plan reads = b.plan;
      reads.op = transfer::Op::kRead;
      Bench back{b.agent, b.mine, b.other, b.generations, reads};
      WEFT_TRY(auto reading, request_of(back, c, order));
      WEFT_CHECK(b.agent.post(reading));
      if (b.agent.wait(reading) != transfer::State::kDone) return tl::make_unexpected(reading.error());
    }
    row.errors = 0;
    for (std::size_t at = 0; at < order.size(); ++at)
      for (std::size_t i = 0; i < block; ++i)
        row.errors += b.mine.data[at * block + i] != pattern(static_cast<Bytes>(order[at] * block + i));
  }
  return row;
}

void print(const TransferRow& r) {
  fmt::print("{:>10} {:>9} {:>12} {:>12.3f} {:>12.3f} {:>9.2f} {:>11.0f}%{}\n", r.block, r.blocks, r.bytes(),
             r.post.us(), r.time.us(), r.gb_per_second(), 100 * r.of_copy(),
             r.errors < 0 ? "" : fmt::format(" {:>7}", r.errors));
  std::fflush(stdout);
}

// A list that is contiguous at both sides is one get or put.
Result<int> simulated(const BenchSpec& spec, const TransferSpec& asked, const Plan& plan) {
  if (!spec.transport.empty())
    return bad_input("bench transfer --transport {}: goes over this machine's; with --on the network is the machine's",
                     spec.transport);
  if (!asked.block.empty() || asked.blocks != 0 || plan.verify || plan.plain || plan.check || !spec.transport.empty())
    return bad_input("bench transfer --on {} simulates contiguous lists: without --block, --check and the like",
                     spec.on);
  if (!asked.from.empty()) return bench_tier(spec, asked);
  BenchSpec one = spec;
  one.sweep.collective_name = plan.op == transfer::Op::kRead ? "get" : "put";
  one.sweep.op_name = "sum";
  return bench_one_sided(one);
}

}  // namespace

Result<std::optional<transfer::Network>> network_of(const char* command, const std::string& transport) {
  if (transport == "tcp") return transfer::Network::kTcp;
  if (transport == "ucx") return transfer::Network::kUcx;
  if (transport.empty() || transport == "shm") return std::nullopt;
  return bad_input("--transport {}: {} has shm, tcp and ucx", transport, command);
}

Result<int> bench_transfer(const BenchSpec& spec, const TransferSpec& asked) {
  WEFT_TRY(const Plan plan, plan_of(spec, asked));
  if (!spec.on.empty() && !asked.file.empty()) return bad_input("--file {}: is read here, without --on", asked.file);
  if (!spec.on.empty()) return simulated(spec, asked, plan);
  if (!asked.file.empty()) {
    if (plan.plain || plan.network || plan.verify)
      return bad_input("--file {}: without --unregistered, --transport and --verify", asked.file);
    std::vector<FileCase> cases;
    for (const Case& c : plan.cases) cases.push_back({c.block, c.blocks});
    return bench_file(spec, asked.file, plan.op, cases, plan.most);
  }
  std::array<std::uint8_t, 16> random{};
  net::link::fill_random(random);
  const std::string key = net::link::hexadecimal(random);
  const Server server(plan, key);
  WEFT_TRY(const std::string metadata, server.receive());
  WEFT_TRY(const std::string generations, server.receive());
  transfer::Costs costs;
  if (spec.verbose) {
    WEFT_TRY(costs, transfer::measure_costs());
  }
  WEFT_TRY(auto agent, transfer::Agent::open({.name = "bench",
                                              .key = key,
                                              .network = plan.network.value_or(transfer::Network::kTcp),
                                              .only_network = plan.network.has_value(),
                                              .costs = std::move(costs)}));
  WEFT_TRY(const std::string peer, agent.load(metadata));
  WEFT_TRY(const auto mine, agent.allocate(plan.most));
  std::vector<std::byte> memory(static_cast<std::size_t>(plan.most) + kPage, std::byte{1});
  report::TransferReport report{
      .operation = plan.op == transfer::Op::kRead ? "read" : "write", .plain = plan.plain, .verified = plan.verify};
  WEFT_TRY(report.path, agent.explain(peer));
  while (!report.path.empty() && report.path.back() == '\n') report.path.pop_back();
  report.path = report.path.substr(report.path.find(": ") + 2);
  const bool prints = spec.json != "-";
  if (prints)
    fmt::print(
        "# {} of another process's {} memory here; path: {}\n# {:>8} {:>9} {:>12} {:>12} {:>12} {:>9} {:>12}{}\n",
        report.operation, plan.plain ? "plain" : "registered", report.path, "block (B)", "blocks", "size (B)",
        "post (us)", "time (us)", "GB/s", "of memcpy", plan.check ? "  #wrong" : "");
  std::string explanation;
  Bench bench{agent, mine, first_page_of(memory), generations, plan, spec.verbose ? &explanation : nullptr};
  std::int64_t wrong = 0;
  for (const Case& c : plan.cases) {
    WEFT_TRY(const TransferRow row, measure(bench, c));
    if (prints) print(row);
    if (prints && spec.verbose) fmt::print("  predicted {:.3f} us\n  {}", row.predicted.us(), explanation);
    wrong += std::max<std::int64_t>(row.errors, 0);
    report.rows.push_back(row);
  }
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  return wrong == 0 ? 0 : kBadAnswer;
}

}  // namespace weft::cli
